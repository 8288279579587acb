//! A guest thread that sleeps for a time, and how late it goes on after that.
//!
//! The timer is the host's, as for a vCPU that halts: an interrupt when the time is over, which wakes the vCPU if it halts.
use super::{Alarm, World};
use crate::ids::{ThreadId, VcpuId};

impl World {
    /// The current thread sleeps for `ns`.
    pub(super) fn nap(&mut self, v: VcpuId, thread: ThreadId, ns: u64) {
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.busy_until = vcpu.busy_until.max(self.now) + self.costs.io_submit;
        self.nap_due = vcpu.busy_until + ns;
        self.alarms.push(self.nap_due, Alarm::Nap(thread));
        self.stats.counters.exits += u64::from(self.measuring());
        self.block(v);
    }

    /// Its time is over.
    pub(super) fn nap_over(&mut self, thread: ThreadId) {
        self.wake_by_device(thread);
    }

    /// It goes on, after its guest's interrupt handler and switch.
    pub(super) fn awake(&mut self, v: VcpuId) {
        if self.measuring() {
            let goes_on = self.vcpus[v.i()].busy_until.max(self.now);
            let _ = self.stats.neighbour_wake.record(goes_on - self.nap_due);
        }
    }
}
