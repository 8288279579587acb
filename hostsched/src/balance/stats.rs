//! Which group of a domain is the busiest, and which CPU of that group (`update_sd_lb_stats`, `find_busiest_queue`, 3.4).
use super::CpuIdle;
use super::imbalance::Imbalance;
use super::power::{SCALE, capacity_of};
use crate::config::{BusiestPick, IdleImbalance};
use crate::host::Host;
use crate::topology::{CpuId, CpuSet, SchedDomain, SchedGroup, SdFlags};

/// The question: may `cpu` pull in its domain `at`?
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) host: &'a Host,
    pub(crate) cpu: CpuId,
    pub(crate) at: usize,
    pub(crate) sd: &'a SchedDomain,
    pub(crate) idle: CpuIdle,
    /// The CPUs to consider.
    pub(crate) cpus: &'a CpuSet,
    /// The domain's present interval.
    pub(crate) interval_ms: u64,
}

/// The answer.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
    /// Another CPU of the group balances at this level and above.
    NotOurs,
    /// Nothing to do.
    Balanced,
    /// Pull so much load from that group.
    Pull(&'a SchedGroup, u64),
}

/// Figures of one group (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug, Default)]
struct SgStats {
    avg_load: u64,
    group_load: u64,
    sum_nr_running: u64,
    sum_weighted_load: u64,
    group_capacity: u64,
    idle_cpus: u64,
    group_imb: bool,
    has_capacity: bool,
}

/// Figures of the domain (`struct sd_lb_stats`).
#[derive(Debug, Default)]
struct SdStats<'a> {
    total_load: u64,
    total_pwr: u64,
    this: SgStats,
    this_power: u64,
    busiest: Option<(&'a SchedGroup, SgStats)>,
}

impl<'a> Ask<'a> {
    /// `find_busiest_group` (3.4).
    pub(crate) fn find_busiest_group(self) -> Verdict<'a> {
        let Some(sds) = self.update_sd_lb_stats() else { return Verdict::NotOurs };
        let Some((group, busiest)) = sds.busiest.filter(|(_, b)| b.sum_nr_running != 0) else {
            return Verdict::Balanced;
        };
        let avg_load = SCALE * sds.total_load / sds.total_pwr;
        let this = &sds.this;
        let forced = busiest.group_imb || self.idle == CpuIdle::NewlyIdle && this.has_capacity && !busiest.has_capacity;
        if !forced {
            if this.avg_load >= busiest.avg_load || this.avg_load >= avg_load {
                return Verdict::Balanced;
            }
            let balanced = if self.idle == CpuIdle::Idle {
                this.idle_cpus <= busiest.idle_cpus + self.idle_threshold()
                    && busiest.sum_nr_running <= u64::from(group.group_weight)
            } else {
                100 * busiest.avg_load <= u64::from(self.sd.params.imbalance_pct) * this.avg_load
            };
            if balanced {
                return Verdict::Balanced;
            }
        }
        let imbalance = Imbalance {
            max_load: busiest.avg_load,
            busiest_load_per_task: busiest.sum_weighted_load,
            busiest_nr_running: busiest.sum_nr_running,
            busiest_capacity: busiest.group_capacity,
            busiest_power: self.host.group_power(group),
            group_imb: busiest.group_imb,
            this_load: this.avg_load,
            this_load_per_task: this.sum_weighted_load,
            this_nr_running: this.sum_nr_running,
            this_power: sds.this_power,
            avg_load,
            cpu_load_per_task: self.host.load_per_task(self.cpu),
        };
        Verdict::Pull(group, imbalance.calculate())
    }

    /// See [`IdleImbalance`].
    fn idle_threshold(&self) -> u64 {
        let two = self.host.config().switches.idle_imbalance == IdleImbalance::TwoOnTwoCpuLlc
            && self.host.domains().sd_llc(self.cpu).is_some_and(|llc| llc.span_weight == 2);
        if two { 2 } else { 1 }
    }

    /// Sums up the groups; `None` if another CPU is to balance this domain (`update_sd_lb_stats`, 3.4).
    fn update_sd_lb_stats(&self) -> Option<SdStats<'a>> {
        let child = self.at.checked_sub(1).map(|c| &self.host.domains().of(self.cpu)[c]);
        let prefer_sibling = child.is_some_and(|c| c.params.flags.contains(SdFlags::PREFER_SIBLING));
        let params = &self.sd.params;
        let idx = match self.idle {
            CpuIdle::NotIdle => params.busy_idx,
            CpuIdle::NewlyIdle => params.newidle_idx,
            CpuIdle::Idle => params.idle_idx,
        };
        let mut sds = SdStats::default();
        for group in self.sd.groups() {
            let local = group.cpus.contains(self.cpu);
            let mut sgs = self.update_sg_lb_stats(group, local, idx)?;
            sds.total_load += sgs.group_load;
            sds.total_pwr += self.host.group_power(group);
            if prefer_sibling && !local && sds.this.has_capacity {
                sgs.group_capacity = sgs.group_capacity.min(1);
            }
            if local {
                sds.this = sgs;
                sds.this_power = self.host.group_power(group);
            } else if self.is_busier(sds.busiest.as_ref().map(|(_, b)| b), &sgs) {
                sds.busiest = Some((group, sgs));
            }
        }
        Some(sds)
    }

    /// True if the group is busier than the busiest so far (`update_sd_pick_busiest`).
    fn is_busier(&self, busiest: Option<&SgStats>, sgs: &SgStats) -> bool {
        let over = sgs.sum_nr_running > sgs.group_capacity;
        let max_load = busiest.map_or(0, |b| b.avg_load);
        match self.host.config().switches.busiest_pick {
            BusiestPick::V3_4 => sgs.avg_load > max_load && (over || sgs.group_imb),
            BusiestPick::V3_18 => {
                let class = |s: &SgStats| u8::from(s.group_imb).max(2 * u8::from(s.sum_nr_running > s.group_capacity));
                let (new, old) = (class(sgs), busiest.map_or(0, class));
                new > old || new == old && sgs.avg_load > max_load
            }
        }
    }

    /// Sums up the CPUs of a group (`update_sg_lb_stats`, 3.4); `None` if it is the local group and another CPU is to
    /// balance: its first idle one, else its first.
    fn update_sg_lb_stats(&self, group: &SchedGroup, local: bool, idx: u8) -> Option<SgStats> {
        let host = self.host;
        let mut sgs = SgStats::default();
        let mut balance_cpu = group.first;
        let (mut max_load, mut min_load, mut max_nr_running) = (0, u64::MAX, 0);
        for cpu in group.cpus.iter_and(self.cpus) {
            let nr_running = u64::from(host.nr_running(cpu));
            let idle = host.is_idle(cpu);
            let load = if local {
                if idle && sgs.idle_cpus == 0 {
                    balance_cpu = cpu;
                }
                host.target_load(cpu, idx)
            } else {
                let load = host.source_load(cpu, idx);
                if load > max_load {
                    (max_load, max_nr_running) = (load, nr_running);
                }
                min_load = min_load.min(load);
                load
            };
            sgs.group_load += load;
            sgs.sum_nr_running += nr_running;
            sgs.sum_weighted_load += host.load(cpu);
            sgs.idle_cpus += u64::from(idle);
        }
        if local {
            if self.idle != CpuIdle::NewlyIdle {
                if balance_cpu != self.cpu {
                    return None;
                }
                host.update_group_power(self.cpu, self.at, self.interval_ms);
            } else if host.group_power_due(group) {
                host.update_group_power(self.cpu, self.at, self.interval_ms);
            }
        }
        let power = host.group_power(group);
        sgs.avg_load = sgs.group_load * SCALE / power;
        let per_task = sgs.sum_weighted_load.checked_div(sgs.sum_nr_running).unwrap_or(0);
        sgs.group_imb = max_load.wrapping_sub(min_load) >= per_task && max_nr_running > 1;
        sgs.group_capacity = match capacity_of(power) {
            0 => host.fix_small_capacity(self.sd, group),
            c => c,
        };
        sgs.has_capacity = sgs.group_capacity > sgs.sum_nr_running;
        Some(sgs)
    }

    /// The CPU of the group with the most load for its power (`find_busiest_queue`, 3.4).
    pub(crate) fn find_busiest_queue(self, group: &SchedGroup, imbalance: u64) -> Option<CpuId> {
        let host = self.host;
        let mut busiest = None;
        let mut max_load = 0;
        for cpu in group.cpus.iter_and(self.cpus) {
            let power = host.power(cpu);
            let capacity = match capacity_of(power) {
                0 => host.fix_small_capacity(self.sd, group),
                c => c,
            };
            let load = host.load(cpu);
            if capacity != 0 && host.nr_running(cpu) == 1 && load > imbalance {
                continue;
            }
            let scaled = load * SCALE / power;
            if scaled > max_load {
                (max_load, busiest) = (scaled, Some(cpu));
            }
        }
        busiest
    }
}
