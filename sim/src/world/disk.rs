//! One disk that all VMs share: each access takes the same time, first come, first served.
//!
//! A thread that asks sleeps; when its access is done, an interrupt goes to the vCPU that it asked from. The host's part of the
//! work (an exit to submit, an interrupt to complete) is charged to the guest that causes it.
//!
//! Not modelled: seeks, merging and reordering of requests, the host's page cache, I/O threads that need a CPU of their own.
use super::{Alarm, World};
use crate::ids::{ThreadId, VcpuId};

/// The disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    /// It is busy until then.
    free_at: u64,
    /// Accesses under way.
    pub(crate) waiting: u64,
}

impl World {
    /// The current thread asks the disk, and sleeps until it answers.
    pub(super) fn ask_disk(&mut self, v: VcpuId, thread: ThreadId) {
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.busy_until = vcpu.busy_until.max(self.now) + self.costs.io_submit;
        self.disk.free_at = self.disk.free_at.max(vcpu.busy_until) + u64::from(self.params.disk_us) * 1000;
        self.disk.waiting += 1;
        self.alarms.push(self.disk.free_at, Alarm::Disk(thread));
        if self.measuring() {
            self.stats.counters.exits += 1;
            self.stats.counters.disk_accesses += 1;
            let _ = self.stats.disk_wait.record(self.disk.free_at - self.now);
        }
        self.block(v);
    }

    /// The disk has answered a thread.
    pub(super) fn disk_done(&mut self, thread: ThreadId) {
        self.disk.waiting -= 1;
        self.wake_by_device(thread);
    }
}
