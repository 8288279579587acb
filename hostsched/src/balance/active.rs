//! Active balancing: the busiest CPU's stopper pushes one task, so that also one that runs can be moved (3.4).
use super::CpuIdle;
use super::pull::LbEnv;
use crate::rq::RunQueues;
use crate::sched::Sched;
use crate::stopper::StopWork;
use crate::topology::{CpuId, SdFlags};
use crate::trace::Trace;

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Wakes the stopper of `busiest` to push a task to `cpu`. `None` if the task that runs there may not come here,
    /// else whether it was not already about to push.
    pub(super) fn start_active_balance(&mut self, cpu: CpuId, busiest: CpuId) -> Option<bool> {
        let cx = &mut self.cx;
        self.rqs.with(busiest, |rq| {
            let running = rq.current().map(|_| rq.curr)?;
            if !rq.task(running).affinity.contains(cpu) {
                return None;
            }
            let start = !std::mem::replace(&mut rq.active_balance, true);
            if start {
                rq.stop_work.push_back(StopWork::ActiveBalance { push_cpu: cpu });
                rq.wake_stopper(cx, cpu);
            }
            Some(start)
        })
    }

    /// The stopper's side: pushes one task from `busiest` to `push_cpu` (`active_load_balance_cpu_stop`, 3.4).
    pub(crate) fn active_load_balance(&mut self, busiest: CpuId, push_cpu: CpuId) {
        let host = self.cx.host;
        let balances = |sd: &crate::topology::SchedDomain| {
            sd.params.flags.contains(SdFlags::LOAD_BALANCE) && sd.span.contains(busiest)
        };
        let domains = host.domains().of(push_cpu);
        let cx = &mut self.cx;
        if busiest != push_cpu
            && let Some(at) = domains.iter().position(balances)
        {
            self.rqs.with_two(busiest, push_cpu, |from, to| {
                // The stopper counts as one.
                if from.nr_running <= 1 {
                    return;
                }
                let mut env = LbEnv {
                    idle: CpuIdle::Idle,
                    load_move: 0,
                    examined: 0,
                    pause_at: 0,
                    examine_max: 0,
                    all_pinned: false,
                    need_break: false,
                    nr_balance_failed: to.sd[at].nr_balance_failed,
                    cache_nice_tries: domains[at].params.cache_nice_tries,
                    pushed: true,
                };
                let pushed = from.move_one_task(cx, to, &mut env);
                let stats = &mut to.sd[at].stats;
                stats.alb_count += 1;
                stats.alb_pushed += u64::from(pushed);
            });
        }
        self.rqs.with(busiest, |rq| rq.active_balance = false);
    }
}
