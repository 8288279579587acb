//! What a kernel would complain about in a topology.
//!
//! The checks of `sched_domain_debug_one` (Linux 3.4) that a description can fail, plus two of later kernels: a child
//! must lie in its parent ("arch topology borken", 5.x), and a scheduler's cache domain must be a cache.

use super::{CpuId, CpuSet, Level};

/// One complaint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A domain reaches beyond the one above it.
    #[error(
        "CPU {cpu}: the {child} domain {child_span} is not inside the {parent} domain {parent_span}, as it must be"
    )]
    ChildNotInParent {
        /// A CPU that sees it.
        cpu: CpuId,
        /// The lower level.
        child: Level,
        /// Its span.
        child_span: CpuSet,
        /// The upper level.
        parent: Level,
        /// Its span.
        parent_span: CpuSet,
    },
    /// A group has CPUs that its domain has not ("groups don't span domain->span").
    #[error("CPU {cpu}: group {group} of the {level} domain {span} holds CPU {outside}, which is outside the domain")]
    GroupLeavesDomain {
        /// A CPU that sees it.
        cpu: CpuId,
        /// The level.
        level: Level,
        /// Its span.
        span: CpuSet,
        /// The group.
        group: CpuSet,
        /// The first CPU too many.
        outside: CpuId,
    },
    /// A domain for CPUs that share a cache holds some that do not.
    #[error("CPU {cpu}: the MC domain {span} holds CPUs beyond its last-level cache {llc}; it must be a part of it")]
    McBeyondCache {
        /// The CPU.
        cpu: CpuId,
        /// What the scheduler takes for the cache.
        span: CpuSet,
        /// The cache.
        llc: CpuSet,
    },
}

/// Why domains were not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broken topology with {n} fault(s), the first: {first}", n = .more + 1)]
pub struct BrokenTopology {
    /// The first complaint.
    pub first: Broken,
    /// How many more there are.
    pub more: usize,
}
