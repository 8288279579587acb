//! Settings by the names that the kernel gives them, as writes to its files set them.
//!
//! ```text
//!   /proc/sys/kernel/sched_latency_ns              Config::set_sysctls
//!   /sys/kernel/debug/sched_features               Config::set_feature
//! ```
//! Names that 3.4 or its neighbours have and that cannot act here are taken and change nothing.

use super::{Config, LbBias};
use crate::ids::Nanos;

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
