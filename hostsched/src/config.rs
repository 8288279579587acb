//! The knobs: sysctls, `sched_features`, and the switches that select what other kernels did (`switches`). They are fields
//! of [`Config`]; who has the kernel's names for them sets them by these (`named`).
//!
//! Units: nanoseconds for times, milliseconds for balance intervals (as in `struct sched_domain`). Everything defaults to
//! Linux 3.4.113 as it boots on the given number of CPUs; a switch names each earlier or later behaviour.
//!
//! Worked example: 8 CPUs. The factor is 1 + ilog2(8) = 4, so latency = 24 ms, minimum granularity = 3 ms, wake-up
//! granularity = 4 ms. At 2 CPUs the factor is 2 (12 / 1.5 / 2 ms). From 8 CPUs on it stays 4.

mod named;
mod switches;

use crate::ids::Nanos;

pub use named::SettingError;
pub use switches::{
    BusiestPick, IdleImbalance, IdleSibling, LbBias, LoadIdx, LoadTracking, SdInit, Switches, Tunables,
};

/// `/proc/sys/kernel/sched_*` (kernel 3.4), in nanoseconds unless the name says otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sysctls {
    /// Period in which every runnable entity runs once (`sched_latency_ns`).
    pub latency: Nanos,
    /// No tick preemption before this much runtime; the period stretches to `nr_running` times it.
    pub min_granularity: Nanos,
    /// Lead in virtual time that a waking entity needs to preempt.
    pub wakeup_granularity: Nanos,
    /// Entities that fit into one latency period (`sched_nr_latency`); above it the period stretches.
    pub nr_latency: u64,
    /// A fork lets the child run first (`sched_child_runs_first`).
    pub child_runs_first: bool,
    /// A task that ran within this time is cache-hot; also the idle time below which no new-idle balance is tried.
    /// `u64::MAX` is the kernel's -1: always hot.
    pub migration_cost: Nanos,
    /// Tasks examined in one balance pass (`sched_nr_migrate`).
    pub nr_migrate: u32,
    /// Window over which a group's load is averaged for its shares (`sched_shares_window`).
    pub shares_window: Nanos,
    /// The three scaled values at factor 1, from which a CPU that goes on- or off-line derives them again.
    normalized: [Nanos; 3],
}

impl Sysctls {
    /// What `sched_init_granularity` sets on that many CPUs (kernel 3.4, `SCHED_TUNABLESCALING_LOG`).
    #[must_use]
    pub fn for_cpus(online_cpus: u32) -> Self {
        let mut s = Self {
            latency: Nanos(0),
            min_granularity: Nanos(0),
            wakeup_granularity: Nanos(0),
            nr_latency: 8,
            child_runs_first: false,
            migration_cost: Nanos(500_000),
            nr_migrate: 32,
            shares_window: Nanos(10_000_000),
            normalized: [Nanos(6_000_000), Nanos(750_000), Nanos(1_000_000)],
        };
        s.rescale(online_cpus);
        s
    }

    /// What 2.6.27 sets on that many CPUs (`sched_init_granularity`; figures of 2.6.26): the factor has no bound, the first
    /// two times have (200 ms).
    fn v2_6_27(online_cpus: u32) -> Self {
        let factor = 1 + u64::from(online_cpus.max(1).ilog2());
        let bounded = |ns: u64| Nanos((ns * factor).min(200_000_000));
        Self {
            latency: bounded(20_000_000),
            min_granularity: bounded(4_000_000),
            wakeup_granularity: Nanos(10_000_000 * factor),
            nr_latency: 5,
            child_runs_first: true,
            ..Self::for_cpus(online_cpus)
        }
    }

    /// `1 + ilog2(min(cpus, 8))` (`get_update_sysctl_factor`).
    #[must_use]
    pub fn factor(online_cpus: u32) -> u64 {
        1 + u64::from(online_cpus.clamp(1, 8).ilog2())
    }

    /// Scales the three granularities to a number of on-line CPUs (`update_sysctl`).
    pub fn rescale(&mut self, online_cpus: u32) {
        let f = Self::factor(online_cpus);
        let [latency, min_granularity, wakeup_granularity] = self.normalized.map(|n| Nanos(n.0 * f));
        (self.latency, self.min_granularity, self.wakeup_granularity) = (latency, min_granularity, wakeup_granularity);
    }

    /// Makes values written by hand the base of later rescaling (`sched_proc_update_handler`): also recomputes
    /// `nr_latency` = ceil(latency / minimum granularity).
    pub fn written(&mut self, online_cpus: u32) {
        let f = Self::factor(online_cpus);
        self.nr_latency = self.latency.0.div_ceil(self.min_granularity.0.max(1));
        self.normalized = [self.latency, self.min_granularity, self.wakeup_granularity].map(|n| Nanos(n.0 / f));
    }
}

/// `sched_features` of 3.4 that change a schedule. Those that cannot act here (`HRTICK`, `ARCH_POWER` without an
/// architecture, `OWNER_SPIN`, ...) are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// A sleeper gets half a latency of credit, not a whole one.
    pub gentle_fair_sleepers: bool,
    /// A new task starts one slice behind.
    pub start_debit: bool,
    /// Every wake-up nominates the woken task as `next`, on a queue with at least `nr_latency` entities.
    pub next_buddy: bool,
    /// Wake-up preemption nominates the preempted task as `last`.
    pub last_buddy: bool,
    /// `next` and `last` buddies count as cache-hot.
    pub cache_hot_buddy: bool,
    /// A wake-up for a CPU that shares no cache is queued there and done by its IPI.
    pub ttwu_queue: bool,
    /// Balancing leaves tasks with a load below 16 alone until it has failed once.
    pub lb_min: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            gentle_fair_sleepers: true,
            start_debit: true,
            next_buddy: false,
            last_buddy: true,
            cache_hot_buddy: true,
            ttwu_queue: true,
            lb_min: false,
        }
    }
}

/// Everything that can be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Length of a tick (`TICK_NSEC`): 10^9 / HZ.
    pub tick: Nanos,
    /// Run-time tunables.
    pub sysctls: Sysctls,
    /// `sched_features`.
    pub features: Features,
    /// Behaviour of other kernels.
    pub switches: Switches,
    /// `CONFIG_PREEMPT`: a new-idle balance stops after the first task that it pulled.
    pub preempt: bool,
    /// The instant at which the host starts: `jiffies` has its start value, and ticks follow by whole tick lengths. At
    /// least 1 s, so that no history reaches below zero.
    pub epoch: Nanos,
}

/// `jiffies` at [`Config::epoch`]. Any value does; this one matches the golden schedules.
pub(crate) const INITIAL_JIFFIES: u64 = 100_000;

impl Config {
    /// Linux 3.4 as it boots on that many CPUs, at HZ = 1000.
    #[must_use]
    pub fn for_cpus(online_cpus: u32) -> Self {
        Self {
            tick: Nanos(1_000_000),
            sysctls: Sysctls::for_cpus(online_cpus),
            features: Features::default(),
            switches: Switches::default(),
            preempt: false,
            epoch: Nanos(1_000_000_000),
        }
    }

    /// Sets the switches, and everything else to what their kernel boots with on that many CPUs.
    pub fn boot(&mut self, switches: Switches, online_cpus: u32) {
        self.switches = switches;
        if switches.tunables == Tunables::V2_6_27 {
            self.sysctls = Sysctls::v2_6_27(online_cpus);
            self.features.gentle_fair_sleepers = false;
            self.features.next_buddy = true;
            self.features.last_buddy = false;
            self.features.ttwu_queue = false;
        }
    }

    /// `msecs_to_jiffies`: rounded up.
    #[must_use]
    pub fn ms_to_jiffies(&self, ms: u64) -> u64 {
        (ms * self.hz()).div_ceil(1000)
    }

    /// Jiffies of one second (HZ).
    #[must_use]
    pub fn hz(&self) -> u64 {
        1_000_000_000 / self.tick.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_granularities_scale_with_the_logarithm_of_the_cpus() {
        let at = |n| {
            let s = Sysctls::for_cpus(n);
            (s.latency.0, s.min_granularity.0, s.wakeup_granularity.0)
        };
        assert_eq!(at(1), (6_000_000, 750_000, 1_000_000));
        assert_eq!(at(2), (12_000_000, 1_500_000, 2_000_000));
        assert_eq!(at(8), (24_000_000, 3_000_000, 4_000_000));
        assert_eq!(at(8), at(128));
    }

    #[test]
    fn in_2_6_27_times_were_longer_and_grew_on() {
        let at = |n| {
            let mut config = Config::for_cpus(n);
            config.boot(Switches::v2_6_27(), n);
            let s = &config.sysctls;
            (s.latency.0 / 1_000_000, s.min_granularity.0 / 1_000_000, s.wakeup_granularity.0 / 1_000_000)
        };
        assert_eq!([at(8), at(16)], [(80, 16, 40), (100, 20, 50)]);
        assert_eq!(at(1 << 12), (200, 52, 130));
    }

    #[test]
    fn written_values_survive_a_hotplug_cycle() {
        let mut s = Sysctls::for_cpus(8);
        s.latency = Nanos(40_000_000);
        s.written(8);
        assert_eq!(s.nr_latency, 14);
        s.rescale(2);
        assert_eq!(s.latency.0, 20_000_000);
        s.rescale(8);
        assert_eq!(s.latency.0, 40_000_000);
    }

    #[test]
    fn milliseconds_round_up_to_jiffies() {
        let c = Config { tick: Nanos(4_000_000), ..Config::for_cpus(1) };
        assert_eq!((c.ms_to_jiffies(1), c.ms_to_jiffies(4), c.ms_to_jiffies(5), c.hz()), (1, 1, 2, 250));
        let c = Config { tick: Nanos(1_000_000_000 / 300), ..c };
        assert_eq!((c.ms_to_jiffies(10), c.ms_to_jiffies(11), c.hz()), (3, 4, 300));
    }
}
