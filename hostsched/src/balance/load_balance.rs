//! One balancing attempt of one CPU in one domain (`load_balance`, 3.4).
use super::CpuIdle;
use super::pull::{LbEnv, NR_MIGRATE_BREAK};
use super::stats::{Ask, Verdict};
use crate::rq::RunQueues;
use crate::sched::Sched;
use crate::topology::{CpuId, CpuSet};
use crate::trace::Trace;

/// Longest interval when all tasks are pinned elsewhere, in ms (`MAX_PINNED_INTERVAL`).
const MAX_PINNED_INTERVAL: u64 = 512;

/// What an attempt came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Balanced {
    /// Tasks that moved here.
    pub(super) moved: u32,
    /// This CPU is the one to balance this domain.
    pub(super) ours: bool,
}

enum End {
    /// Went through, with or without tasks moved.
    Done { moved: u32, active: bool },
    /// Nothing to balance.
    OutBalanced,
    /// The running task of the busiest CPU may not come here.
    OutOnePinned,
}

impl<Q: RunQueues, T: Trace> Sched<'_, Q, T> {
    /// Tries to pull load to `cpu` from the busiest CPU of its domain `at`.
    pub(super) fn load_balance(&mut self, cpu: CpuId, at: usize, idle: CpuIdle) -> Balanced {
        let host = self.cx.host;
        let sd = &host.domains().of(cpu)[at];
        let (interval_ms, nr_balance_failed) =
            self.rqs.with(cpu, |rq| (rq.sd[at].balance_interval, rq.sd[at].nr_balance_failed));
        let mut env = LbEnv {
            idle,
            load_move: 0,
            examined: 0,
            pause_at: NR_MIGRATE_BREAK,
            examine_max: 0,
            all_pinned: false,
            need_break: false,
            nr_balance_failed,
            cache_nice_tries: sd.params.cache_nice_tries,
            pushed: false,
        };
        let mut without_pinned: Option<CpuSet> = None;
        let mut ours = true;
        let end = loop {
            let cpus = without_pinned.as_ref().unwrap_or(host.online());
            let ask = Ask { host, cpu, at, sd, idle, cpus, interval_ms };
            let (group, imbalance) = match ask.find_busiest_group() {
                Verdict::Pull(group, imbalance) => (group, imbalance),
                Verdict::Balanced => break End::OutBalanced,
                Verdict::NotOurs => {
                    ours = false;
                    break End::OutBalanced;
                }
            };
            let Some(busiest) = ask.find_busiest_queue(group, imbalance).filter(|b| *b != cpu) else {
                break End::OutBalanced;
            };
            let mut moved = 0;
            if host.nr_running(busiest) > 1 {
                env.all_pinned = true;
                env.load_move = imbalance.cast_signed();
                env.examine_max = host.config().sysctls.nr_migrate.min(host.nr_running(busiest));
                moved = self.pull(cpu, busiest, &mut env);
                if env.all_pinned {
                    let left = without_pinned.get_or_insert_with(|| host.online().clone());
                    left.remove(busiest);
                    if left.is_empty() {
                        break End::OutBalanced;
                    }
                    if host.config().switches.redo_resets_loop {
                        (env.examined, env.pause_at) = (0, NR_MIGRATE_BREAK);
                    }
                    continue;
                }
            }
            break self.after_pull(cpu, at, busiest, moved, &mut env);
        };
        self.rqs.with(cpu, |rq| {
            let state = &mut rq.sd[at];
            let (kind, stats) = (idle as usize, &mut state.stats);
            stats.lb_count[kind] += 1;
            match end {
                End::Done { moved: 0, .. } | End::OutOnePinned => stats.lb_failed[kind] += 1,
                End::Done { moved, .. } => stats.lb_gained[kind] += u64::from(moved),
                End::OutBalanced => stats.lb_balanced[kind] += 1,
            }
            let (min, max) = (u64::from(sd.params.min_interval_ms), u64::from(sd.params.max_interval_ms));
            match end {
                End::Done { active: false, .. } => state.balance_interval = min,
                End::Done { active: true, .. } => {
                    if state.balance_interval < max {
                        state.balance_interval *= 2;
                    }
                }
                End::OutBalanced | End::OutOnePinned => {
                    if matches!(end, End::OutBalanced) {
                        state.nr_balance_failed = 0;
                    }
                    let pinned = env.all_pinned && state.balance_interval < MAX_PINNED_INTERVAL;
                    if pinned || state.balance_interval < max {
                        state.balance_interval *= 2;
                    }
                }
            }
        });
        let moved = if let End::Done { moved, .. } = end { moved } else { 0 };
        Balanced { moved, ours }
    }

    /// Pulls with both queues in hand, pausing every so many tasks.
    fn pull(&mut self, cpu: CpuId, busiest: CpuId, env: &mut LbEnv) -> u32 {
        let mut moved = 0;
        loop {
            let cx = &mut self.cx;
            moved += self.rqs.with_two(cpu, busiest, |here, there| {
                if env.examined == 0 {
                    there.update_h_load();
                }
                there.move_tasks(cx, here, env)
            });
            if !std::mem::take(&mut env.need_break) {
                return moved;
            }
        }
    }

    /// Counts failures, and asks the busiest CPU's stopper for help after too many.
    fn after_pull(&mut self, cpu: CpuId, at: usize, busiest: CpuId, moved: u32, env: &mut LbEnv) -> End {
        let periodic = env.idle != CpuIdle::NewlyIdle;
        let failed = self.rqs.with(cpu, |rq| {
            let state = &mut rq.sd[at];
            if moved != 0 {
                state.nr_balance_failed = 0;
            } else if periodic {
                state.nr_balance_failed += 1;
            }
            state.nr_balance_failed
        });
        if moved != 0 || !periodic || failed <= env.cache_nice_tries + 2 {
            return End::Done { moved, active: false };
        }
        let Some(active) = self.start_active_balance(cpu, busiest) else {
            env.all_pinned = true;
            return End::OutOnePinned;
        };
        self.rqs.with(cpu, |rq| rq.sd[at].nr_balance_failed = env.cache_nice_tries + 1);
        End::Done { moved, active }
    }
}
