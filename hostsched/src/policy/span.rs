//! Which CPUs form a gang, and who leads them.
//!
//! Units: CPUs. Problem: the posted series counts the CPUs of each domain on the pick path until it has a leader, keeps
//! that leader when its CPU goes away, and fixes the size at 8. Approach: [`elect`] does it once, when the host is made
//! and after every hotplug, into one [`Role`] a CPU; a pick then reads one table entry.
//!
//! The *span* of a CPU is its smallest `sched_domain` with at least `gang_cpus` CPUs, else the whole host. CPUs with the
//! same span form one gang; its leader is the first of them.
//!
//! ```text
//!   gang_cpus = 8        PKG  0 ........ 7   8 ....... 15     two spans, leaders 0 and 8
//!                        MC   0..3   4..7    8..11  12..15
//!   CPU 0 goes off line: PKG  1 ........ 7 is too small, so CPUs 1-7 take the next domain, 1-15;
//!                        CPUs 8-15 still have theirs: leaders 1 (for 1-7) and 8
//! ```
//! Property: every on-line CPU is in exactly one span and has exactly one leader, which is on line. Where domains of one
//! level overlap or differ in size (a NUMA ring, the hotplug above) a span holds those CPUs alone that look out on the
//! same domain; the posted series leaves some of them without a leader there.
use crate::topology::{CpuId, CpuSet, SchedDomains};

/// CPUs that run a gang together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Sends the requests.
    pub leader: CpuId,
    /// All its CPUs, the leader included.
    pub cpus: CpuSet,
    /// CPUs of the domain that the span was made from.
    pub(super) domain: CpuSet,
    /// Those who get the requests, ascending.
    pub(super) fellows: Vec<CpuId>,
}

/// What a CPU is in its gang.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// Off line.
    #[default]
    None,
    /// First CPU of that span.
    Leader(usize),
    /// Another CPU of that span.
    Fellow(usize),
}

impl Role {
    /// The span that the CPU belongs to.
    #[inline]
    pub(super) fn span(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Leader(s) | Self::Fellow(s) => Some(s),
        }
    }
}

/// The spans of the CPUs that are on line, by ascending leader.
#[must_use]
pub fn elect(domains: &SchedDomains, gang_cpus: u32) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for cpu in domains.cpu_map().iter() {
        let domain = domains.gang_span(cpu, gang_cpus);
        if let Some(span) = spans.iter_mut().find(|s| s.domain == *domain) {
            span.cpus.insert(cpu);
            span.fellows.push(cpu);
        } else {
            spans.push(Span { leader: cpu, cpus: CpuSet::of(cpu), domain: domain.clone(), fellows: Vec::new() });
        }
    }
    spans
}

/// The role of each of `slots` CPU numbers.
pub(super) fn roles(spans: &[Span], slots: usize) -> Vec<Role> {
    let mut roles = vec![Role::None; slots];
    for (i, span) in spans.iter().enumerate() {
        roles[span.leader.index()] = Role::Leader(i);
        for fellow in &span.fellows {
            roles[fellow.index()] = Role::Fellow(i);
        }
    }
    roles
}
