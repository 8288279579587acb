//! Load balancing: moving queued tasks from busy CPUs to idle or less busy ones (3.4, `load_balance` and around it).
//!
//! Units: loads are sums of weights; `avg_load` is load per 1024 of power; intervals are ms in the domains, jiffies in
//! comparisons. Problem: decide from cheap, stale figures whether moving a task helps, without two CPUs doing it twice.
//! Approach: each CPU *pulls*. From its lowest domain up it compares its own group with the others of the domain:
//!
//! ```text
//!   find_busiest_group   stats.rs      sums per group ──► the busiest, if any
//!   calculate_imbalance  imbalance.rs  how much load to move
//!   find_busiest_queue   stats.rs      the CPU to take it from
//!   move_tasks           pull.rs       from the tail of its newest-first list: allowed here? cache-cold?
//!   need_active_balance  active.rs     it keeps failing: have the busiest CPU's stopper push its running task
//! ```
//! When: at the tick, if a domain's interval has passed (`periodic.rs`); when a CPU runs out of work (`newidle.rs`).
//!
//! Glossary: *capacity*: tasks that a group has power for; *imbalanced*: a group whose CPUs differ by more than a task;
//! *all pinned*: no task of the busiest CPU may run here; *failed*: an imbalance was seen and nothing could be moved.
//!
//! Properties: a task never moves to a CPU outside its affinity; at most `nr_migrate` tasks are examined in a pass; a
//! pass takes at most two queues at a time.
mod active;
mod hotplug;
mod imbalance;
mod load_balance;
mod newidle;
mod periodic;
mod power;
mod pull;
mod shares;
mod stats;

pub use hotplug::HotplugError;
pub(crate) use power::SCALE;

use std::sync::atomic::Ordering::Relaxed;

use crate::config::LbBias;
use crate::host::Host;
use crate::topology::CpuId;

/// Why a CPU balances (`enum cpu_idle_type`), in the order of the counters in [`DomainStats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuIdle {
    /// It was idle at its tick.
    Idle,
    /// It was busy at its tick.
    NotIdle,
    /// It just ran out of work.
    NewlyIdle,
}

/// What a CPU remembers about one of its domains (the changing part of `struct sched_domain`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SdState {
    /// Jiffy of the last periodic balance.
    pub(crate) last_balance: u64,
    /// In ms; doubles while there is nothing to do.
    pub(crate) balance_interval: u64,
    /// Periodic balances in a row that moved nothing.
    pub(crate) nr_balance_failed: u32,
    pub(crate) stats: DomainStats,
}

/// Counters of one CPU's domain, as in `/proc/schedstat` (3.4). Triples are by [`CpuIdle`]: idle, busy, newly idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DomainStats {
    /// Attempts to balance.
    pub lb_count: [u64; 3],
    /// Attempts that found balance, or another CPU in charge.
    pub lb_balanced: [u64; 3],
    /// Attempts that saw an imbalance and moved nothing.
    pub lb_failed: [u64; 3],
    /// Tasks pulled.
    pub lb_gained: [u64; 3],
    /// Pushes by the stopper of another CPU to this one, and what became of them.
    pub alb_count: u64,
    /// Those that moved a task.
    pub alb_pushed: u64,
}

impl SdState {
    /// The state of a CPU's fresh domains.
    pub(crate) fn for_cpu(host: &Host, cpu: CpuId) -> Vec<Self> {
        let fresh = |sd: &crate::topology::SchedDomain| Self {
            last_balance: host.jiffies(),
            balance_interval: sd.params.balance_interval_ms.into(),
            nr_balance_failed: 0,
            stats: DomainStats::default(),
        };
        host.domains().of(cpu).iter().map(fresh).collect()
    }
}

impl Host {
    /// Load of a CPU now (`weighted_cpuload`).
    #[inline]
    pub(crate) fn load(&self, cpu: CpuId) -> u64 {
        self.cpu(cpu).load.load(Relaxed)
    }

    /// `rq->cpu_power`.
    #[inline]
    pub(crate) fn power(&self, cpu: CpuId) -> u64 {
        self.cpu(cpu).power.load(Relaxed)
    }

    /// Load of a CPU from which tasks might be taken, guessed low (`source_load`, 3.4).
    #[inline]
    pub(crate) fn source_load(&self, cpu: CpuId, idx: u8) -> u64 {
        self.biased_load(cpu, idx, u64::min)
    }

    /// Load of a CPU to which tasks might go, guessed high (`target_load`, 3.4).
    #[inline]
    pub(crate) fn target_load(&self, cpu: CpuId, idx: u8) -> u64 {
        self.biased_load(cpu, idx, u64::max)
    }

    #[inline]
    fn biased_load(&self, cpu: CpuId, idx: u8, bias: impl Fn(u64, u64) -> u64) -> u64 {
        let now = self.load(cpu);
        let Some(i) = usize::from(idx).checked_sub(1) else { return now };
        let history = || self.cpu(cpu).cpu_load[i].load(Relaxed);
        match self.config().switches.lb_bias {
            LbBias::MinMax => bias(history(), now),
            LbBias::Averaged => u64::midpoint(history(), now),
            LbBias::Off => now,
        }
    }

    /// Load of a CPU per task (`cpu_avg_load_per_task`).
    pub(crate) fn load_per_task(&self, cpu: CpuId) -> u64 {
        self.load(cpu).checked_div(self.nr_running(cpu).into()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::host::Limits;
    use crate::topology::BuildOptions;

    #[test]
    fn sources_are_guessed_low_and_targets_high_unless_told_otherwise() {
        let guesses = |lb_bias, now: u64, history: u64| {
            let mut config = Config::for_cpus(1);
            config.switches.lb_bias = lb_bias;
            let limits = Limits { tasks: 1, groups: 1 };
            let machine = "1s:1c".parse().expect("machine");
            let host = Host::new(config, machine, BuildOptions::default(), limits).expect("host");
            let cpu = CpuId(0);
            host.cpu(cpu).load.store(now, Relaxed);
            host.cpu(cpu).cpu_load[1].store(history, Relaxed);
            assert_eq!((host.source_load(cpu, 0), host.target_load(cpu, 0)), (now, now), "index 0 is the load now");
            (host.source_load(cpu, 2), host.target_load(cpu, 2))
        };
        assert_eq!(guesses(LbBias::MinMax, 3072, 1024), (1024, 3072));
        assert_eq!(guesses(LbBias::MinMax, 0, 1024), (0, 1024));
        assert_eq!(guesses(LbBias::Averaged, 3072, 1024), (2048, 2048));
        assert_eq!(guesses(LbBias::Off, 3072, 1024), (3072, 3072));
    }
}
