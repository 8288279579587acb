//! The guest's scheduler between its vCPUs: threads that sleep and are woken, and that move to where nothing runs.
//!
//! ```text
//!   wake      to the run queue of the vCPU that it had last; an idle one is sent a reschedule interrupt
//!   fork      to the vCPU with the fewest runnable threads, from the parent's on (find_idlest_group, 2.6.32)
//!   new idle  a vCPU that runs out of threads takes one from the longest queue          (idle_balance)
//!   tick      a vCPU with a thread in line wakes a halted sibling, which then does that (the idle load balancer's work)
//! ```
//! A guest of that time sees one flat domain of single-core sockets: nothing looks for an idle sibling at wake-up. A slice
//! is the guest's `sched_latency` (24 ms at 8 vCPUs) by the runnable threads, at least `sched_min_granularity` (3 ms). A
//! woken thread that slept preempts one that has used its tick (sleeper credit), looked at when the tick comes.
//!
//! Threads of `ebizzy` and `flush` stay where they are: two a vCPU, always runnable, are balanced by nature.
//!
//! Properties: a sleeping thread is on one wait queue and on no run queue; wake-ups are first come first served.
use hostsched::CpuId;

use super::World;
use crate::ids::{ThreadId, VcpuId};
use crate::vcpu::{Phase, Place};

/// A wait queue's number in its VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitId(pub(crate) u32);

/// Ticks of `sched_latency` and `sched_min_granularity` at 8 vCPUs and HZ = 1000.
const LATENCY_TICKS: u32 = 24;
const MIN_GRANULARITY_TICKS: u32 = 3;

/// Ticks that a thread runs while others wait behind it.
pub(super) fn slice_ticks(waiting: usize) -> u32 {
    // A thread that is alone keeps the slice of two: another may come.
    let runnable = u32::try_from(waiting + 1).unwrap_or(u32::MAX).max(2);
    (LATENCY_TICKS / runnable).max(MIN_GRANULARITY_TICKS)
}

impl World {
    /// The current thread sleeps until somebody wakes it.
    pub(super) fn sleep_on(&mut self, v: VcpuId, thread: ThreadId, queue: WaitId) {
        let vm = self.vcpus[v.i()].vm;
        self.vms[vm].waits[queue.0 as usize].push_back(thread);
        self.block(v);
    }

    /// Wakes the first `most` sleepers of a queue.
    pub(super) fn wake_sleepers(&mut self, cpu: CpuId, v: VcpuId, queue: WaitId, most: u32) {
        for _ in 0..most {
            let Some(thread) = self.next_sleeper(v, queue) else { return };
            self.wake_thread(thread, cpu);
            self.preempt_soon(thread);
        }
    }

    /// A process forks and runs: the first sleeper of a queue, on the vCPU that has least to do.
    pub(super) fn fork(&mut self, cpu: CpuId, v: VcpuId, queue: WaitId) {
        let Some(thread) = self.next_sleeper(v, queue) else { return };
        self.threads[thread.i()].vcpu = self.idlest(v);
        self.wake_thread(thread, cpu);
    }

    /// Takes a sleeper off its queue and charges the waker for it.
    fn next_sleeper(&mut self, v: VcpuId, queue: WaitId) -> Option<ThreadId> {
        let vcpu = &mut self.vcpus[v.i()];
        let thread = self.vms[vcpu.vm].waits[queue.0 as usize].pop_front()?;
        vcpu.busy_until = vcpu.busy_until.max(self.now) + self.costs.guest_wake;
        Some(thread)
    }

    /// A woken thread does not wait longer than to the next tick behind one that has run for a while.
    fn preempt_soon(&mut self, thread: ThreadId) {
        let vcpu = &mut self.vcpus[self.threads[thread.i()].vcpu.i()];
        vcpu.slice = vcpu.slice.min(1);
    }

    /// The device of a sleeping thread is done: an interrupt to the vCPU that asked it.
    pub(super) fn wake_by_device(&mut self, thread: ThreadId) {
        let v = self.threads[thread.i()].vcpu;
        self.vcpus[v.i()].queue.push_back(thread);
        self.preempt_soon(thread);
        let vcpu = &mut self.vcpus[v.i()];
        match vcpu.place {
            Place::Guest(cpu) if vcpu.phase == Phase::Idle => self.send_resched_irq(v, cpu),
            Place::Guest(cpu) if vcpu.irqs_on => {
                self.stats.counters.exits += u64::from(self.measuring());
                self.delay_guest(cpu, self.costs.exit + self.costs.ipi_handler);
            }
            Place::Halted => {
                vcpu.resched_irq = true;
                if vcpu.irqs_on {
                    self.wake_vcpu(v, None);
                }
            }
            _ => vcpu.resched_irq = true,
        }
    }

    /// Runnable threads of a vCPU.
    fn load(&self, u: VcpuId) -> usize {
        let vcpu = &self.vcpus[u.i()];
        vcpu.queue.len() + usize::from(vcpu.thread.is_some())
    }

    /// The vCPU of the VM with the fewest runnable threads, in ring order from `v` on.
    fn idlest(&self, v: VcpuId) -> VcpuId {
        self.siblings(v).min_by_key(|u| self.load(*u)).unwrap_or(v)
    }

    /// The vCPUs of a VM in ring order, `v` first.
    fn siblings(&self, v: VcpuId) -> impl Iterator<Item = VcpuId> + use<> {
        let (all, before) = (self.vcpus_of(self.vcpus[v.i()].vm), self.vcpus_of(self.vcpus[v.i()].vm));
        all.skip_while(move |u| *u != v).chain(before.take_while(move |u| *u != v))
    }

    /// `idle_balance`: takes a thread from the vCPU with the longest line. False if none has one in line.
    pub(super) fn pull_thread(&mut self, v: VcpuId) -> bool {
        if !self.guest_balances {
            return false;
        }
        let crowded = self.siblings(v).skip(1).filter(|u| self.load(*u) > 1 && !self.vcpus[u.i()].queue.is_empty());
        let Some(busiest) = crowded.max_by_key(|u| (self.load(*u), std::cmp::Reverse(u.0))) else { return false };
        let Some(thread) = self.vcpus[busiest.i()].queue.pop_back() else { return false };
        self.stats.counters.guest_migrations += u64::from(self.measuring());
        self.threads[thread.i()].vcpu = v;
        self.vcpus[v.i()].queue.push_back(thread);
        true
    }

    /// At a tick: threads are in line here and a sibling halts.
    pub(super) fn nohz_kick(&mut self, cpu: CpuId, v: VcpuId) {
        if !self.guest_balances || self.vcpus[v.i()].queue.is_empty() || self.load(v) < 2 {
            return;
        }
        let halts = |u: &VcpuId| {
            let vcpu = &self.vcpus[u.i()];
            vcpu.place == Place::Halted && vcpu.phase == Phase::Idle && vcpu.queue.is_empty()
        };
        if let Some(idle) = self.siblings(v).skip(1).find(halts) {
            self.delay_guest(cpu, self.costs.ipi_send);
            self.send_resched_irq(idle, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_the_latency_by_the_runnable_and_never_below_the_granularity() {
        assert_eq!([0, 1, 2, 3, 7, 40].map(slice_ticks), [12, 12, 8, 6, 3, 3]);
    }
}
