//! Power of CPUs and groups (`update_cpu_power`, `update_group_power`, 3.4): 1024 for a CPU that is alone on its core,
//! 1178 / n for one of n threads. Frequency, real-time load and steal do not lower it here.
use std::sync::atomic::Ordering::Relaxed;

use crate::host::Host;
use crate::topology::{CpuId, SCHED_POWER_SCALE, SchedDomain, SchedGroup, SdFlags};

/// `SCHED_POWER_SCALE` as a load is.
pub(crate) const SCALE: u64 = SCHED_POWER_SCALE as u64;

impl Host {
    /// `group->sgp->power`.
    #[inline]
    pub(crate) fn group_power(&self, group: &SchedGroup) -> u64 {
        self.sgps[group.sgp.index()].power.load(Relaxed)
    }

    /// Brings the power of the CPU's own group in a domain up to date. `at` is the domain's place in the CPU's list.
    pub(crate) fn update_group_power(&self, cpu: CpuId, at: usize, interval_ms: u64) {
        let domains = self.domains().of(cpu);
        let sd = &domains[at];
        let own = &self.sgps[sd.local_group().sgp.index()];
        let interval = self.config().ms_to_jiffies(interval_ms).clamp(1, self.max_load_balance_interval());
        own.next_update.store(self.jiffies() + interval, Relaxed);
        let power = match at.checked_sub(1) {
            Some(child) => domains[child].groups().map(|g| self.group_power(g)).sum(),
            None => {
                let power = cpu_power(sd);
                own.power_orig.store(power, Relaxed);
                self.cpu(cpu).power.store(power, Relaxed);
                power
            }
        };
        own.power.store(power, Relaxed);
    }

    /// True if the power of the CPU's own group is due for an update.
    pub(crate) fn group_power_due(&self, group: &SchedGroup) -> bool {
        self.jiffies() >= self.sgps[group.sgp.index()].next_update.load(Relaxed)
    }

    /// Capacity of a weak group of siblings: one, if about 90 % of its power is left (`fix_small_capacity`, 3.4).
    pub(crate) fn fix_small_capacity(&self, sd: &SchedDomain, group: &SchedGroup) -> u64 {
        let sgp = &self.sgps[group.sgp.index()];
        let siblings = sd.params.flags.contains(SdFlags::SHARE_CPUPOWER);
        u64::from(siblings && sgp.power.load(Relaxed) * 32 > sgp.power_orig.load(Relaxed) * 29)
    }

    /// Longest interval between two balances, in jiffies (`update_max_interval`, 3.4): a tenth of a second per CPU.
    pub(crate) fn max_load_balance_interval(&self) -> u64 {
        (self.config().hz() * u64::from(self.online().weight()) / 10).max(1)
    }
}

/// Power of a CPU in its lowest domain.
fn cpu_power(sd: &SchedDomain) -> u64 {
    if sd.params.flags.contains(SdFlags::SHARE_CPUPOWER) && sd.span_weight > 1 {
        u64::from(sd.params.smt_gain / sd.span_weight).max(1)
    } else {
        SCALE
    }
}

/// `DIV_ROUND_CLOSEST(power, SCHED_POWER_SCALE)`: tasks that so much power is for.
#[inline]
pub(crate) fn capacity_of(power: u64) -> u64 {
    (power + SCALE / 2) / SCALE
}
