//! The knobs: sysctls, `sched_features`, and the switches that select what other kernels did.
//!
//! Units: nanoseconds for times, milliseconds for balance intervals (as in `struct sched_domain`). Everything defaults to
//! Linux 3.4.113 as it boots on the given number of CPUs; a switch names each earlier or later behaviour.
//!
//! Worked example: 8 CPUs. The factor is 1 + ilog2(8) = 4, so latency = 24 ms, minimum granularity = 3 ms, wake-up
//! granularity = 4 ms. At 2 CPUs the factor is 2 (12 / 1.5 / 2 ms). From 8 CPUs on it stays 4.
use crate::ids::Nanos;

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

/// How a wake-up looks for an idle CPU near its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleSibling {
    /// Walks the groups of the last-level-cache domain downwards (3.4, `select_idle_sibling`).
    #[default]
    Traverse,
    /// Takes the first idle CPU of each domain, the lowest domain first, and stops at the one that spans the waker and the
    /// task's CPU (3.0): on SMT the sibling of the waker.
    FirstIdle,
    /// Looks only at the cross-wired partner of the target (in the tree before 3.6, reverted).
    Buddy,
    /// Stays on the target.
    Off,
}

/// How the load history biases the comparison of a source with a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LbBias {
    /// Source: the smaller of history and now; target: the larger (`LB_BIAS` on, 3.4).
    #[default]
    MinMax,
    /// Both: the mean of history and now.
    Averaged,
    /// Both: now (`LB_BIAS` off).
    Off,
}

/// Which group of a domain counts as the busiest (`update_sd_pick_busiest`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BusiestPick {
    /// The one with the highest load among those that are over capacity or imbalanced (3.4).
    #[default]
    V3_4,
    /// Overloaded before imbalanced before any other, then the highest load (3.18 and later).
    V3_18,
}

/// How many more idle CPUs than the busiest group the local one needs before an idle CPU pulls (`find_busiest_group`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleImbalance {
    /// More than one (3.4).
    #[default]
    One,
    /// More than two where the last-level cache has two CPUs.
    TwoOnTwoCpuLlc,
}

/// Flags and intervals with which the domains start (`sd_init`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SdInit {
    /// The `SD_*_INIT` tables of 3.4.
    #[default]
    V3_4,
    /// 3.16's: intervals by the number of CPUs; below the package, groups are no longer emptied into idle siblings
    /// (`SD_PREFER_SIBLING` is off at MC).
    V3_16,
    /// 2.6.27's: wake-ups and forks read a tick of history, going idle reads two in the package domain, groups are never
    /// emptied into idle siblings, nodes draw no wake-ups.
    V2_6_27,
}

/// Run-time tunables and features with which the kernel boots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tunables {
    /// 3.4's.
    #[default]
    V3_4,
    /// 2.6.27's: times several times longer and growing with every doubling of the CPUs, sleepers credited with a whole
    /// latency, the task woken last goes next, a remote wake-up takes the other queue's lock at once.
    V2_6_27,
}

/// What counts as the load of a task, a group or a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoadTracking {
    /// The weight of what is queued now; a group's part by an average of its queues' weights (3.4).
    #[default]
    PerQueue,
    /// Each entity's weight times the part of the time that it was runnable lately (3.8 to 4.2).
    PerEntity,
}

/// The load-history indices of the domains where they differ from the topology's own (`sched_domain.busy_idx` ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadIdx {
    /// `busy_idx`: periodic balance of a busy CPU.
    pub busy: Option<u8>,
    /// `idle_idx`: periodic balance of an idle CPU.
    pub idle: Option<u8>,
    /// `newidle_idx`: balance of a CPU that just ran out of work.
    pub newidle: Option<u8>,
    /// `wake_idx`: wake-affine.
    pub wake: Option<u8>,
    /// `forkexec_idx`: fork and exec balance.
    pub forkexec: Option<u8>,
}

/// Behaviour of other kernels, by name; every default is 3.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    /// Search for an idle CPU on wake-up.
    pub idle_sibling: IdleSibling,
    /// Use of the load history.
    pub lb_bias: LbBias,
    /// Choice of the busiest group.
    pub busiest_pick: BusiestPick,
    /// Idle-CPU threshold of an idle CPU's balance.
    pub idle_imbalance: IdleImbalance,
    /// What the domains start with.
    pub sd_init: SdInit,
    /// What counts as load. Run queues keep what was set when they were made.
    pub load_tracking: LoadTracking,
    /// What the kernel boots with.
    pub tunables: Tunables,
    /// Overrides of the domains' history indices.
    pub load_idx: LoadIdx,
    /// 3.4 forgets to restart its count of examined tasks when it retries without an all-pinned CPU, so a CPU may stay
    /// idle for ever; true repairs that (as 3.5 did). Off by default: the golden schedules have the bug.
    pub redo_resets_loop: bool,
    /// A CPU that goes idle balances after an idle CPU's interval (3.16). In 3.4 it keeps the time that it set while it was
    /// busy, up to 100 ms a CPU of the host ahead, unless it pulls something at once; there, NOHZ hides that.
    pub idle_next_balance: bool,
    /// A CPU that runs out of work always looks for some, however short it usually is idle (before 2.6.33).
    pub newidle_always: bool,
}

impl Switches {
    /// 2.6.27 on a machine without SMT: its `wake_idle` looked for an idle CPU among the threads of a core only. What of it
    /// is not here: its group balancing, and `find_busiest_group` before idle CPUs were counted.
    #[must_use]
    pub fn v2_6_27() -> Self {
        Self {
            idle_sibling: IdleSibling::Off,
            sd_init: SdInit::V2_6_27,
            tunables: Tunables::V2_6_27,
            newidle_always: true,
            redo_resets_loop: true,
            ..Self::default()
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

/// Why a setting is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingError {
    /// No sysctl of that name.
    #[error("there is no sysctl '{0}': names are those of /proc/sys/kernel, such as sched_latency_ns")]
    Sysctl(String),
    /// No feature of that name.
    #[error("there is no scheduler feature '{0}': names are those of sched_features, such as LAST_BUDDY")]
    Feature(String),
    /// A value that the sysctl cannot have.
    #[error("{name} cannot be {value}: it must be {wanted}")]
    Value {
        /// The sysctl.
        name: String,
        /// The value.
        value: i64,
        /// What it may be.
        wanted: &'static str,
    },
}

/// Features of 3.4 that exist and change nothing here: no high-resolution tick, no architecture hooks, no mutexes, no
/// real-time class; `AFFINE_WAKEUPS` is not read by 3.4 and `FORCE_SD_OVERLAP` only at boot.
const INERT_FEATURES: [&str; 8] = [
    "AFFINE_WAKEUPS",
    "ARCH_POWER",
    "HRTICK",
    "DOUBLE_TICK",
    "OWNER_SPIN",
    "NONTASK_POWER",
    "FORCE_SD_OVERLAP",
    "RT_RUNTIME_SHARE",
];

impl Config {
    /// Sets sysctls by name, as writes to `/proc/sys/kernel` do. Latency and minimum granularity also set `nr_latency`.
    ///
    /// # Errors
    /// An unknown name, a value out of range. Earlier settings stay.
    pub fn set_sysctls<'a>(
        &mut self,
        online_cpus: u32,
        settings: impl IntoIterator<Item = (&'a str, i64)>,
    ) -> Result<(), SettingError> {
        let nr_latency = self.sysctls.nr_latency;
        let mut stretches = false;
        for (name, value) in settings {
            let refuse = |wanted| SettingError::Value { name: name.to_owned(), value, wanted };
            let unsigned = u64::try_from(value).map_err(|_| refuse("0 or more"));
            let positive = unsigned.clone().and_then(|v| if v == 0 { Err(refuse("above 0")) } else { Ok(Nanos(v)) });
            let s = &mut self.sysctls;
            match name {
                "sched_latency_ns" => s.latency = positive?,
                "sched_min_granularity_ns" => s.min_granularity = positive?,
                "sched_wakeup_granularity_ns" => s.wakeup_granularity = Nanos(unsigned?),
                "sched_child_runs_first" => s.child_runs_first = unsigned? != 0,
                "sched_migration_cost_ns" if value == -1 => s.migration_cost = Nanos(u64::MAX),
                "sched_migration_cost_ns" => s.migration_cost = Nanos(unsigned?),
                "sched_nr_migrate" => s.nr_migrate = u32::try_from(value).map_err(|_| refuse("from 0 to 2^32 - 1"))?,
                "sched_shares_window" | "sched_shares_window_ns" | "sched_shares_ratelimit_ns" => {
                    s.shares_window = positive?;
                }
                // 2.6.32 had these; 3.4 has nothing that they could change.
                "sched_compat_yield" | "sched_shares_thresh" => {}
                _ => return Err(SettingError::Sysctl(name.to_owned())),
            }
            stretches |= matches!(name, "sched_latency_ns" | "sched_min_granularity_ns");
        }
        self.sysctls.written(online_cpus);
        if !stretches {
            self.sysctls.nr_latency = nr_latency;
        }
        Ok(())
    }

    /// Sets a feature by its kernel name (`/sys/kernel/debug/sched_features`).
    ///
    /// # Errors
    /// An unknown name.
    pub fn set_feature(&mut self, name: &str, on: bool) -> Result<(), SettingError> {
        let f = &mut self.features;
        match name {
            "GENTLE_FAIR_SLEEPERS" => f.gentle_fair_sleepers = on,
            "START_DEBIT" => f.start_debit = on,
            "NEXT_BUDDY" => f.next_buddy = on,
            "LAST_BUDDY" => f.last_buddy = on,
            "CACHE_HOT_BUDDY" => f.cache_hot_buddy = on,
            "TTWU_QUEUE" => f.ttwu_queue = on,
            "LB_MIN" => f.lb_min = on,
            "LB_BIAS" => self.switches.lb_bias = if on { LbBias::MinMax } else { LbBias::Off },
            _ if INERT_FEATURES.contains(&name) => {}
            _ => return Err(SettingError::Feature(name.to_owned())),
        }
        Ok(())
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
