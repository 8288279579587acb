//! Scheduling domains as the scheduler reads them: for each CPU a stack of [`SchedDomain`]s, lowest first, and in each
//! a ring of groups that starts with the CPU's own.
//!
//! Two packages of two cores with two threads, seen from CPU 2 (`>` marks the local group):
//!
//! ```text
//!   index 2  CPU      span 0-7   groups  >0-3   4-7         power 2356 each
//!   index 1  MC       span 0-3   groups  >2-3   0-1         power 1178 each
//!   index 0  SIBLING  span 2-3   groups  >2     3           power  589 each
//! ```
//!
//! Spans and rings are shared between the domains that have the same; a [`SchedDomain`] adds only what is its CPU's
//! own. Kernel names: `struct sched_domain`, `struct sched_group`, `struct sched_group_power` of Linux 3.4.

use std::sync::Arc;

use super::check::Broken;
use super::level::{Level, SdParams};
use super::{CpuId, CpuSet};

/// Power of a CPU that is alone on its core (`SCHED_POWER_SCALE`).
pub const SCHED_POWER_SCALE: u32 = 1024;

/// Which `sched_group_power` a group uses; dense, so that a scheduler can keep what it learns in an array.
///
/// A group and its power are shared by all CPUs of the group at one level, and by overlapping groups with the same
/// first CPU, as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SgpId(pub u32);

impl SgpId {
    /// Place in arrays of [`SchedDomains::sgp_slots`] entries.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A balancing group: the CPUs of one child domain, or one CPU at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedGroup {
    /// Its CPUs (`sched_group_cpus`).
    pub cpus: CpuSet,
    /// Its lowest CPU (`group_first_cpu`).
    pub first: CpuId,
    /// Number of its CPUs.
    pub group_weight: u32,
    /// Its power record.
    pub sgp: SgpId,
}

/// One domain of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedDomain {
    /// The kind.
    pub level: Level,
    /// The CPUs that it covers.
    pub span: Arc<CpuSet>,
    /// Number of CPUs in `span`.
    pub span_weight: u32,
    /// Flags and balancing numbers.
    pub params: SdParams,
    /// The CPU that `select_idle_sibling` in its `buddy` form asks at this level; `None` above the last-level cache.
    pub idle_buddy: Option<CpuId>,
    /// The ring, in the order of the groups' first CPUs.
    pub(super) ring: Arc<[SchedGroup]>,
    /// Which of `ring` holds this CPU.
    pub(super) local: usize,
}

impl SchedDomain {
    /// The group of the domain's own CPU (`sd->groups`).
    #[inline]
    #[must_use]
    pub fn local_group(&self) -> &SchedGroup {
        &self.ring[self.local]
    }

    /// All groups in ring order, the local one first: the kernel's walk from `sd->groups` along `next`.
    #[inline]
    pub fn groups(&self) -> impl Iterator<Item = &SchedGroup> + Clone {
        self.ring[self.local..].iter().chain(&self.ring[..self.local])
    }

    /// Number of groups.
    #[inline]
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.ring.len()
    }
}

/// What one CPU sees.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuDomains {
    /// Lowest first.
    pub(super) domains: Vec<SchedDomain>,
    /// Place in `domains` of the last-level cache's (`sd_llc`).
    pub(super) llc: Option<usize>,
}

/// The domains of all CPUs that take part.
#[derive(Debug, Clone)]
pub struct SchedDomains {
    pub(super) cpu_map: CpuSet,
    /// One slot a CPU number.
    pub(super) by_cpu: Vec<CpuDomains>,
    /// Initial power of each [`SgpId`].
    pub(super) power: Vec<u32>,
    pub(super) broken: Vec<Broken>,
}

impl SchedDomains {
    /// The CPUs that take part: the online ones at the time of the build.
    #[inline]
    #[must_use]
    pub fn cpu_map(&self) -> &CpuSet {
        &self.cpu_map
    }

    /// The domains of `cpu`, lowest first (`for_each_domain`); none on a host of one CPU and for CPUs that are off.
    /// The child of the domain at place i is the one at i - 1.
    #[inline]
    #[must_use]
    pub fn of(&self, cpu: CpuId) -> &[SchedDomain] {
        self.by_cpu.get(cpu.index()).map_or(&[], |cpu| &cpu.domains)
    }

    /// Place of `sd_llc` in [`Self::of`]: the highest domain whose CPUs share a cache.
    #[inline]
    #[must_use]
    pub fn llc_index(&self, cpu: CpuId) -> Option<usize> {
        self.by_cpu.get(cpu.index()).and_then(|cpu| cpu.llc)
    }

    /// The kernel's `sd_llc`.
    #[inline]
    #[must_use]
    pub fn sd_llc(&self, cpu: CpuId) -> Option<&SchedDomain> {
        self.llc_index(cpu).map(|at| &self.of(cpu)[at])
    }

    /// The kernel's `sd_llc_id`: the first CPU of the last-level cache, or the CPU itself.
    #[inline]
    #[must_use]
    pub fn sd_llc_id(&self, cpu: CpuId) -> CpuId {
        self.sd_llc(cpu).and_then(|sd| sd.span.first()).unwrap_or(cpu)
    }

    /// The kernel's `cpus_share_cache`.
    #[inline]
    #[must_use]
    pub fn cpus_share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.sd_llc_id(a) == self.sd_llc_id(b)
    }

    /// The gang span of `cpu`: the smallest of its domains with at least `gang_cpus` CPUs, or the whole host where
    /// none is that large (then the span has fewer than asked, which the caller should tell). Its first CPU leads.
    #[must_use]
    pub fn gang_span(&self, cpu: CpuId, gang_cpus: u32) -> &CpuSet {
        let fits = |sd: &&SchedDomain| sd.span_weight >= gang_cpus;
        self.of(cpu).iter().find(fits).map_or(&self.cpu_map, |sd| &sd.span)
    }

    /// Power of a group as `init_sched_groups_power` leaves it.
    #[must_use]
    pub fn initial_power(&self, sgp: SgpId) -> u32 {
        self.power[sgp.index()]
    }

    /// Number of power records.
    #[must_use]
    pub fn sgp_slots(&self) -> usize {
        self.power.len()
    }

    /// What a kernel would have complained about; empty unless it was asked to load such a topology.
    #[must_use]
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// Changes the numbers of every domain by its level and the number of its CPUs, say to those of another kernel (2.6.27: `wake_idx` 1 at MC and CPU).
    pub fn tune(&mut self, mut change: impl FnMut(&mut SdParams, Level, u32)) {
        for sd in self.by_cpu.iter_mut().flat_map(|cpu| &mut cpu.domains) {
            change(&mut sd.params, sd.level, sd.span_weight);
        }
    }
}
