//! Moving tasks between CPUs.
use crate::host::Host;
use crate::ids::Nanos;
use crate::rq::{Rq, RunQueues};
use crate::sched::Sched;
use crate::topology::CpuId;
use crate::trace::Trace;

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// The CPU is about to idle.
    pub(crate) fn idle_balance(&mut self, cpu: CpuId) {
        self.rqs.with(cpu, |rq| rq.idle_stamp = rq.clock);
    }

    /// Periodic balance.
    pub(crate) fn run_rebalance(&mut self, cpu: CpuId) {
        let now = self.cx.now;
        self.rqs.with(cpu, |rq| rq.update_rq_clock(now));
    }

    /// Pushes one task away.
    pub(crate) fn active_load_balance(&mut self, cpu: CpuId, push_cpu: CpuId) {
        debug_assert_ne!(cpu, push_cpu);
    }
}

impl Rq {
    /// True if balancing is due.
    pub(crate) fn trigger_load_balance(&mut self, _host: &Host) -> bool {
        self.idle_stamp == Nanos(u64::MAX)
    }
}
