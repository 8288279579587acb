//! mmap_sem: many readers or one writer, first come first served; who must wait sleeps (`lib/rwsem.c`, 2.6.32).
//!
//! Property: a reader that comes after a waiting writer waits behind it, so one reader that its host has preempted holds up
//! every thread of the VM as soon as one of them wants to write.
use hostsched::CpuId;

use super::World;
use crate::ids::{ThreadId, VcpuId};
use crate::vcpu::RwSem;

impl World {
    fn sem(&mut self, v: VcpuId) -> &mut RwSem {
        &mut self.vms[self.vcpus[v.i()].vm].mmap_sem
    }

    /// False if the thread must wait; it has the semaphore when it is woken.
    pub(super) fn down_read(&mut self, v: VcpuId, thread: ThreadId) -> bool {
        let sem = self.sem(v);
        let free = !sem.writer && sem.waiters.is_empty();
        if free {
            sem.readers += 1;
        } else {
            sem.waiters.push_back((thread, false));
        }
        free
    }

    /// False if the thread must wait; it has the semaphore when it is woken.
    pub(super) fn down_write(&mut self, v: VcpuId, thread: ThreadId) -> bool {
        let sem = self.sem(v);
        let free = !sem.writer && sem.readers == 0 && sem.waiters.is_empty();
        if free {
            sem.writer = true;
        } else {
            sem.waiters.push_back((thread, true));
        }
        free
    }

    pub(super) fn up_read(&mut self, cpu: CpuId, v: VcpuId) {
        let sem = self.sem(v);
        sem.readers -= 1;
        if sem.readers == 0 {
            self.grant(cpu, v);
        }
    }

    pub(super) fn up_write(&mut self, cpu: CpuId, v: VcpuId) {
        self.sem(v).writer = false;
        self.grant(cpu, v);
    }

    /// Gives the semaphore to the first waiter, or to all readers up to the first writer.
    fn grant(&mut self, cpu: CpuId, v: VcpuId) {
        loop {
            let sem = self.sem(v);
            let Some((thread, write)) = sem.waiters.front().copied() else { return };
            if sem.writer || write && sem.readers != 0 {
                return;
            }
            sem.waiters.pop_front();
            sem.writer = write;
            sem.readers += u32::from(!write);
            self.wake_thread(thread, cpu);
        }
    }
}
