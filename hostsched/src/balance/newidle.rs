//! A CPU that runs out of work looks for some before it idles (`idle_balance`, 3.4), unless it is usually idle for less
//! time than a migration costs.
use super::CpuIdle;
use crate::ids::Nanos;
use crate::rq::RunQueues;
use crate::sched::Sched;
use crate::topology::{CpuId, SdFlags};
use crate::trace::Trace;

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Pulls from the lowest domain that has something.
    pub(crate) fn idle_balance(&mut self, cpu: CpuId) {
        let host = self.cx.host;
        let config = host.config();
        let cx = &mut self.cx;
        let worth_it = self.rqs.with(cpu, |rq| {
            rq.idle_stamp = rq.clock;
            let worth_it = config.switches.newidle_always || rq.avg_idle >= config.sysctls.migration_cost.0;
            if worth_it {
                rq.update_shares(cx);
            }
            worth_it
        });
        let prompt = config.switches.idle_next_balance;
        if !worth_it && !prompt {
            return;
        }
        let jiffies = host.jiffies();
        let mut next_balance = jiffies + config.hz();
        let mut pulled = false;
        for (at, sd) in host.domains().of(cpu).iter().enumerate() {
            if !sd.params.flags.contains(SdFlags::LOAD_BALANCE) {
                continue;
            }
            if worth_it && sd.params.flags.contains(SdFlags::BALANCE_NEWIDLE) {
                pulled = self.load_balance(cpu, at, CpuIdle::NewlyIdle).moved != 0;
            }
            let due = self.rqs.with(cpu, |rq| {
                if pulled {
                    rq.idle_stamp = Nanos(0);
                }
                rq.sd[at].last_balance + config.ms_to_jiffies(rq.sd[at].balance_interval)
            });
            next_balance = next_balance.min(due);
            if pulled {
                break;
            }
        }
        self.rqs.with(cpu, |rq| {
            if pulled || jiffies > rq.next_balance || prompt && rq.next_balance > next_balance {
                rq.next_balance = next_balance;
            }
        });
    }
}
