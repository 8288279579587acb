//! From a machine to scheduling domains: `build_sched_domains` of Linux 3.4, step by step.
//!
//! 1. For each CPU, its masks at each level, bottom-up, until one covers all CPUs (`build_sched_domain`).
//! 2. Checks: what a kernel would complain about is refused, or kept as a list.
//! 3. Groups: one for each child domain, in a ring (`build_sched_groups`, `build_overlap_sched_groups`).
//! 4. Power: from the highest CPU to the lowest, bottom-up (`init_sched_groups_power`, `update_group_power`).
//! 5. Domains that decide nothing are dropped (`cpu_attach_domain`, `sd_degenerate`, `sd_parent_degenerate`).
//! 6. The last-level cache's domain and the buddies (`update_top_cache_domain`).
//!
//! CPU hotplug is a new build with another set of online CPUs, as in the kernel (`partition_sched_domains`).
//!
//! Two CPUs with the same label at a level have the same span there, so spans and rings are made once a label and
//! shared: time and memory grow with CPUs times levels, not with the square of CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::buddy::buddy_group;
use super::check::{Broken, BrokenTopology};
use super::domain::{CpuDomains, SCHED_POWER_SCALE, SchedDomain, SchedDomains, SchedGroup, SgpId};
use super::level::{Level, SdFlags, SdParams};
use super::{Cpu, CpuId, CpuSet, Machine};

/// How NUMA levels are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumaLevels {
    /// Linux 3.4: NODE (16 nearest nodes) and ALLNODES.
    #[default]
    Nearest16,
    /// Linux 3.5 and later: one level for each distance (`sched_init_numa`).
    ByDistance,
}

/// Choices of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildOptions {
    /// How NUMA levels are made.
    pub numa: NumaLevels,
    /// Load what a kernel would complain about; [`SchedDomains::broken`] then lists it.
    pub allow_broken: bool,
}

/// `SD_NODES_PER_DOMAIN`: nodes in a NODE domain.
const NODES_PER_DOMAIN: usize = 16;

/// One level of the machine: for each label the CPUs that bear it.
struct LevelMasks {
    level: Level,
    label: fn(&Cpu) -> u32,
    spans: BTreeMap<u32, Arc<CpuSet>>,
}

/// A domain before its groups exist: place in the list of levels, and the label there.
#[derive(Clone, Copy)]
struct Proto {
    at: usize,
    label: u32,
}

/// Builds the domains of the CPUs in `active`, which the machine must describe; others are left out.
///
/// # Errors
/// What a kernel would complain about, unless `options.allow_broken`.
pub fn build_sched_domains(
    machine: &Machine,
    active: &CpuSet,
    options: BuildOptions,
) -> Result<SchedDomains, BrokenTopology> {
    let described: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    let cpu_map = active.and(&described);
    let levels = level_masks(machine, &cpu_map, options.numa);
    let mut builder = Builder { machine, cpu_map: &cpu_map, levels, stacks: Vec::new(), sgps: BTreeMap::new() };
    builder.stack_domains();
    let rings = builder.all_rings();
    let broken = builder.complaints(&rings);
    if let (Some(first), false) = (broken.first(), options.allow_broken) {
        return Err(BrokenTopology { first: first.clone(), more: broken.len() - 1 });
    }
    let power = builder.group_power(&rings);
    let by_cpu = (0..machine.cpu_slots()).map(|slot| builder.attach(slot, &rings)).collect();
    Ok(SchedDomains { cpu_map, by_cpu, power, broken })
}

/// The rings of groups by level and label.
type Rings = BTreeMap<(usize, u32), Arc<[SchedGroup]>>;

struct Builder<'a> {
    machine: &'a Machine,
    cpu_map: &'a CpuSet,
    levels: Vec<LevelMasks>,
    /// One slot a CPU number, lowest domain first; empty for CPUs outside `cpu_map`.
    stacks: Vec<Vec<Proto>>,
    /// Power records by level and first CPU.
    sgps: BTreeMap<(usize, CpuId), SgpId>,
}

impl Builder<'_> {
    fn span(&self, proto: Proto) -> &Arc<CpuSet> {
        &self.levels[proto.at].spans[&proto.label]
    }

    /// Step 1: stack the levels of each CPU up to the first that covers all CPUs.
    fn stack_domains(&mut self) {
        self.stacks = vec![Vec::new(); self.machine.cpu_slots()];
        for cpu in self.machine.cpus().iter().filter(|cpu| self.cpu_map.contains(cpu.id)) {
            let mut stack = Vec::new();
            for (at, masks) in self.levels.iter().enumerate() {
                let proto = Proto { at, label: (masks.label)(cpu) };
                stack.push(proto);
                if **self.span(proto) == *self.cpu_map {
                    break;
                }
            }
            self.stacks[cpu.id.index()] = stack;
        }
    }

    /// Step 3: the groups of every domain that some CPU has.
    fn all_rings(&mut self) -> Rings {
        let mut rings = Rings::new();
        for cpu in self.cpu_map {
            for place in 0..self.stacks[cpu.index()].len() {
                let proto = self.stacks[cpu.index()][place];
                rings.entry((proto.at, proto.label)).or_insert_with(|| {
                    self.group_cpus(proto).into_iter().map(|cpus| self.group(proto.at, cpus)).collect()
                });
            }
        }
        rings
    }

    /// The CPUs of each group, in ring order.
    fn group_cpus(&self, proto: Proto) -> Vec<CpuSet> {
        let overlap = SdParams::init(self.levels[proto.at].level, 0, 0).flags.contains(SdFlags::OVERLAP);
        if overlap { self.overlapping_groups(proto) } else { self.disjoint_groups(proto) }
    }

    /// The child domain of `cpu` at level `at`; none at the bottom, and for a CPU whose stack ends below.
    fn child_span(&self, cpu: CpuId, at: usize) -> Option<&Arc<CpuSet>> {
        let stack = &self.stacks[cpu.index()];
        stack.get(at)?;
        at.checked_sub(1).map(|child| self.span(stack[child]))
    }

    /// `build_sched_groups`: CPUs whose child domains start with the same CPU are one group.
    fn disjoint_groups(&self, proto: Proto) -> Vec<CpuSet> {
        let mut place: BTreeMap<CpuId, usize> = BTreeMap::new();
        let mut groups: Vec<CpuSet> = Vec::new();
        for cpu in self.span(proto).iter() {
            let key = self.child_span(cpu, proto.at).and_then(|child| child.first()).unwrap_or(cpu);
            let at = *place.entry(key).or_insert(groups.len());
            if at == groups.len() {
                groups.push(CpuSet::new());
            }
            groups[at].insert(cpu);
        }
        groups
    }

    /// `build_overlap_sched_groups`: the child domain of each CPU that no earlier group covers.
    fn overlapping_groups(&self, proto: Proto) -> Vec<CpuSet> {
        let mut covered = CpuSet::new();
        let mut groups: Vec<CpuSet> = Vec::new();
        for cpu in self.span(proto).iter() {
            if !covered.contains(cpu) {
                let group = self.child_span(cpu, proto.at).map_or_else(|| CpuSet::of(cpu), |child| (**child).clone());
                covered = covered.or(&group);
                groups.push(group);
            }
        }
        groups
    }

    fn group(&mut self, at: usize, cpus: CpuSet) -> SchedGroup {
        let first = cpus.first().unwrap_or_default();
        let next = SgpId(u32::try_from(self.sgps.len()).unwrap_or(u32::MAX));
        let sgp = *self.sgps.entry((at, first)).or_insert(next);
        SchedGroup { first, group_weight: cpus.weight(), sgp, cpus }
    }

    /// Which group of the ring is the CPU's own: the last that holds it, as in `build_overlap_sched_groups`.
    fn local(ring: &[SchedGroup], cpu: CpuId) -> usize {
        ring.iter().rposition(|group| group.cpus.contains(cpu)).unwrap_or(0)
    }

    /// Step 2, once a domain and not once a CPU.
    fn complaints(&self, rings: &Rings) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut seen = BTreeSet::new();
        for cpu in self.machine.cpus().iter().filter(|cpu| self.cpu_map.contains(cpu.id)) {
            let stack = &self.stacks[cpu.id.index()];
            for (place, proto) in stack.iter().enumerate() {
                let (level, span) = (self.levels[proto.at].level, self.span(*proto));
                let parent = stack.get(place + 1);
                let (label, parent_label) = (proto.label, parent.map(|parent| parent.label));
                if !seen.insert((proto.at, label, parent_label)) {
                    continue;
                }
                if let Some(parent) = parent.filter(|parent| !span.is_subset(self.span(**parent))) {
                    broken.push(Broken::ChildNotInParent {
                        cpu: cpu.id,
                        child: level,
                        child_span: CpuSet::clone(span),
                        parent: self.levels[parent.at].level,
                        parent_span: CpuSet::clone(self.span(*parent)),
                    });
                }
                let leaving = rings[&(proto.at, label)].iter().find(|group| !group.cpus.is_subset(span));
                if let Some(group) = leaving {
                    let outside = group.cpus.and_not(span).first().unwrap_or_default();
                    let (span, group) = (CpuSet::clone(span), group.cpus.clone());
                    broken.push(Broken::GroupLeavesDomain { cpu: cpu.id, level, span, group, outside });
                }
            }
        }
        broken.extend(self.false_caches());
        broken
    }

    /// MC domains that are not caches.
    fn false_caches(&self) -> Vec<Broken> {
        let llcs = self.machine.partition(self.cpu_map, |cpu| cpu.llc);
        let mcs = self.machine.partition(self.cpu_map, |cpu| cpu.mc);
        let mut broken = Vec::new();
        for span in mcs.values() {
            let first = span.first().and_then(|cpu| self.machine.cpu(cpu));
            if let Some(cpu) = first.filter(|cpu| !span.is_subset(&llcs[&cpu.llc])) {
                broken.push(Broken::McBeyondCache { cpu: cpu.id, span: span.clone(), llc: llcs[&cpu.llc].clone() });
            }
        }
        broken
    }

    /// Step 4: a CPU alone has 1024, a thread its share of the core's, a group the sum of its child's groups.
    fn group_power(&self, rings: &Rings) -> Vec<u32> {
        let mut power = vec![0; self.sgps.len()];
        for cpu in (0..self.stacks.len()).rev().map(|slot| CpuId(u32::try_from(slot).unwrap_or(u32::MAX))) {
            let mut child: Option<&[SchedGroup]> = None;
            for proto in &self.stacks[cpu.index()] {
                let ring = &rings[&(proto.at, proto.label)];
                let group = &ring[Self::local(ring, cpu)];
                if group.first == cpu {
                    power[group.sgp.index()] = match child {
                        None => self.cpu_power(*proto),
                        Some(child) => child.iter().map(|group| power[group.sgp.index()]).sum(),
                    };
                }
                child = Some(ring);
            }
        }
        // A broken topology may leave a group that no CPU calls its own; the balancer divides by power.
        power.iter_mut().for_each(|power| *power = (*power).max(1));
        power
    }

    /// `update_cpu_power` without real-time load.
    fn cpu_power(&self, proto: Proto) -> u32 {
        let weight = self.span(proto).weight();
        let params = SdParams::init(self.levels[proto.at].level, weight, self.cpu_map.weight());
        if params.flags.contains(SdFlags::SHARE_CPUPOWER) && weight > 1 {
            (params.smt_gain / weight).max(1)
        } else {
            SCHED_POWER_SCALE
        }
    }

    /// Steps 5 and 6 for one CPU slot.
    fn attach(&self, slot: usize, rings: &Rings) -> CpuDomains {
        let cpu = CpuId(u32::try_from(slot).unwrap_or(u32::MAX));
        let mut domains: Vec<SchedDomain> = Vec::new();
        for proto in &self.stacks[slot] {
            let sd = self.domain(*proto, cpu, rings);
            match domains.last() {
                Some(child) if sd_parent_degenerate(child, &sd, self.machine.nr_node_ids()) => {}
                _ => domains.push(sd),
            }
        }
        if domains.first().is_some_and(sd_degenerate) {
            domains.remove(0);
        }
        let sharing = |sd: &SchedDomain| sd.params.flags.contains(SdFlags::SHARE_PKG_RESOURCES);
        // `highest_flag_domain`: up to the first domain without the flag.
        let llc = domains.iter().take_while(|sd| sharing(sd)).count().checked_sub(1);
        for sd in domains.iter_mut().take(llc.map_or(0, |at| at + 1)) {
            sd.idle_buddy = Some(sd.ring[buddy_group(sd.local, sd.ring.len())].first);
        }
        CpuDomains { domains, llc }
    }

    fn domain(&self, proto: Proto, cpu: CpuId, rings: &Rings) -> SchedDomain {
        let level = self.levels[proto.at].level;
        let span = Arc::clone(self.span(proto));
        let span_weight = span.weight();
        let ring = Arc::clone(&rings[&(proto.at, proto.label)]);
        let params = SdParams::init(level, span_weight, self.cpu_map.weight());
        let local = Self::local(&ring, cpu);
        SchedDomain { level, span, span_weight, params, idle_buddy: None, ring, local }
    }
}

/// Flags that mean nothing with a single group.
const NEED_GROUPS: SdFlags = SdFlags::LOAD_BALANCE
    .union(SdFlags::BALANCE_NEWIDLE)
    .union(SdFlags::BALANCE_FORK)
    .union(SdFlags::BALANCE_EXEC)
    .union(SdFlags::SHARE_CPUPOWER)
    .union(SdFlags::SHARE_PKG_RESOURCES);

/// `sd_degenerate`: one CPU, or one group and nothing that works without groups.
fn sd_degenerate(sd: &SchedDomain) -> bool {
    sd.span_weight == 1 || (sd.ring.len() < 2 && !sd.params.flags.contains(SdFlags::WAKE_AFFINE))
}

/// `sd_parent_degenerate`: the parent adds no CPU and no meaningful flag to its child.
fn sd_parent_degenerate(sd: &SchedDomain, parent: &SchedDomain, nr_node_ids: u32) -> bool {
    if sd_degenerate(parent) {
        return true;
    }
    if sd.span != parent.span {
        return false;
    }
    let mut flags = parent.params.flags;
    if parent.ring.len() < 2 {
        flags = flags.without(NEED_GROUPS);
        if nr_node_ids == 1 {
            flags = flags.without(SdFlags::SERIALIZE);
        }
    }
    sd.params.flags.contains(flags)
}

/// The machine's levels, bottom-up: `default_topology` of Linux 3.4 on x86 with SMT, MC and NUMA configured.
fn level_masks(machine: &Machine, cpu_map: &CpuSet, numa: NumaLevels) -> Vec<LevelMasks> {
    let level = |level, label: fn(&Cpu) -> u32, spans: BTreeMap<u32, CpuSet>| LevelMasks {
        level,
        label,
        spans: spans.into_iter().map(|(label, span)| (label, Arc::new(span))).collect(),
    };
    let simple = |kind, label: fn(&Cpu) -> u32| level(kind, label, machine.partition(cpu_map, label));
    let mut levels =
        vec![simple(Level::Smt, |cpu| cpu.core), simple(Level::Mc, |cpu| cpu.mc), simple(Level::Pkg, |cpu| cpu.node)];
    let nodes = machine.partition(cpu_map, |cpu| cpu.node);
    let of_nodes = |pick: &dyn Fn(u32) -> Vec<u32>| -> BTreeMap<u32, CpuSet> {
        let span = |node| pick(node).iter().fold(CpuSet::new(), |span, node| span.or(&nodes[node]));
        nodes.keys().map(|node| (*node, span(*node))).collect()
    };
    match numa {
        NumaLevels::Nearest16 => {
            let nearest = |node| nearest_nodes(machine, &nodes, node);
            levels.push(level(Level::Node, |cpu| cpu.node, of_nodes(&nearest)));
            levels.push(simple(Level::AllNodes, |_| 0));
        }
        NumaLevels::ByDistance => {
            let mut distances: Vec<u32> =
                nodes.keys().flat_map(|a| nodes.keys().map(|b| machine.distance(*a, *b))).collect();
            distances.sort_unstable();
            distances.dedup();
            // The smallest distance is the node itself, which PKG already is.
            for distance in distances.into_iter().skip(1) {
                let within = |node| {
                    nodes.keys().copied().filter(|to| *to == node || machine.distance(node, *to) <= distance).collect()
                };
                levels.push(level(Level::Numa { distance }, |cpu| cpu.node, of_nodes(&within)));
            }
        }
    }
    levels
}

/// `sched_domain_node_span`: a node and its nearest ones that have CPUs, ties in the order of numbers from the node on.
fn nearest_nodes(machine: &Machine, nodes: &BTreeMap<u32, CpuSet>, node: u32) -> Vec<u32> {
    let mut others: Vec<u32> = nodes.range(node + 1..).chain(nodes.range(..node)).map(|(id, _)| *id).collect();
    others.sort_by_key(|to| machine.distance(node, *to));
    std::iter::once(node).chain(others.into_iter().take(NODES_PER_DOMAIN - 1)).collect()
}
