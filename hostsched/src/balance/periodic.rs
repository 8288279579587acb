//! Balancing at the tick (`trigger_load_balance`, `rebalance_domains`, 3.4).
use super::CpuIdle;
use crate::rq::{Rq, RunQueues};
use crate::sched::Sched;
use crate::topology::{CpuId, SdFlags};
use crate::trace::Trace;

impl Rq {
    /// Notes whether the CPU is idle; true if some domain is due.
    #[inline]
    pub(crate) fn trigger_load_balance(&mut self, jiffies: u64) -> bool {
        self.idle_at_tick = self.curr.is_nil() && self.nr_running == 0 && self.wake_list.is_empty();
        jiffies >= self.next_balance && !self.sd.is_empty()
    }
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Balances every domain whose interval has passed, the lowest first (`run_rebalance_domains`).
    pub(crate) fn run_rebalance(&mut self, cpu: CpuId) {
        let host = self.cx.host;
        let config = host.config();
        let jiffies = host.jiffies();
        let cx = &mut self.cx;
        let mut idle = self.rqs.with(cpu, |rq| {
            rq.update_shares(cx);
            if rq.idle_at_tick { CpuIdle::Idle } else { CpuIdle::NotIdle }
        });
        let mut next_balance = jiffies + 60 * config.hz();
        for (at, sd) in host.domains().of(cpu).iter().enumerate() {
            if !sd.params.flags.contains(SdFlags::LOAD_BALANCE) {
                continue;
            }
            let (interval_ms, last_balance) =
                self.rqs.with(cpu, |rq| (rq.sd[at].balance_interval, rq.sd[at].last_balance));
            let busy = if idle == CpuIdle::Idle { 1 } else { u64::from(sd.params.busy_factor) };
            let interval = config.ms_to_jiffies(interval_ms * busy).clamp(1, host.max_load_balance_interval());
            let serialize = sd.params.flags.contains(SdFlags::SERIALIZE);
            let mut last = last_balance;
            let mut ours = true;
            if jiffies >= last_balance + interval && (!serialize || host.try_balancing()) {
                let balanced = self.load_balance(cpu, at, idle);
                if serialize {
                    host.end_balancing();
                }
                if balanced.moved != 0 {
                    idle = CpuIdle::NotIdle;
                }
                ours = balanced.ours;
                last = jiffies;
                self.rqs.with(cpu, |rq| rq.sd[at].last_balance = jiffies);
            }
            next_balance = next_balance.min(last + interval);
            if !ours {
                break;
            }
        }
        self.rqs.with(cpu, |rq| rq.next_balance = next_balance);
    }
}
