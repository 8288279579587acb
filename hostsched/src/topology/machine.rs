//! What a machine is made of: which CPUs share a core, a cache, a package, a node. No scheduling here.
//!
//! Every level is a partition of the CPUs, kept as one small label a CPU. Labels are dense and ordered by the first
//! CPU that bears them, whatever numbers the firmware gave, so two descriptions of the same machine are equal. Nodes
//! alone keep their numbers: distances and `nr_node_ids` are by number, and numbers may be sparse (0, 1, 33, 72).
//!
//! Offline CPUs stay in the description and out of [`Machine::online`].

use std::collections::BTreeMap;

use super::{CPUS_MAX, CpuId, CpuSet};

/// One logical CPU and the label of each thing it is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// The core; its CPUs are SMT siblings (`topology_thread_cpumask`).
    pub core: u32,
    /// Its rank among the threads of the core, from 0.
    pub thread: u32,
    /// The last-level cache.
    pub llc: u32,
    /// What the scheduler takes for the last-level cache (`cpu_coregroup_mask`). Equal to `llc` on a sane machine;
    /// Linux 3.4-rc gave all CPUs of a Q6600 one, and that is a published regression.
    pub mc: u32,
    /// The package (socket).
    pub package: u32,
    /// Number of the NUMA node.
    pub node: u32,
}

/// A NUMA node, with or without CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its number; below [`NODES_MAX`], not necessarily dense.
    pub id: u32,
    /// Distance to each node, in the order of [`Machine::nodes`]; 10 is local (ACPI SLIT).
    pub distance: Vec<u32>,
}

/// Node numbers lie below this (x86 `NODES_SHIFT` 10).
pub const NODES_MAX: u32 = 1024;

/// `LOCAL_DISTANCE` and `REMOTE_DISTANCE` of `include/linux/topology.h`: what a kernel assumes without a SLIT.
pub const LOCAL_DISTANCE: u32 = 10;
/// See [`LOCAL_DISTANCE`].
pub const REMOTE_DISTANCE: u32 = 20;

/// A whole machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    cpus: Vec<Cpu>,
    nodes: Vec<Node>,
    online: CpuSet,
}

/// Why a description is not a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Nothing to schedule on.
    #[error("the topology has no online CPU; at least one is needed")]
    Empty,
    /// A CPU number that no kernel has.
    #[error("CPU {0} is out of range; CPU numbers lie below {CPUS_MAX}")]
    CpuRange(CpuId),
    /// A CPU that is described more than once.
    #[error("CPU {0} is described twice; describe each CPU once")]
    CpuTwice(CpuId),
    /// A node number that no kernel has.
    #[error("node {0} is out of range; node numbers lie below {NODES_MAX}")]
    NodeRange(u32),
    /// A node that is described more than once.
    #[error("node {0} is described twice; describe each node once")]
    NodeTwice(u32),
    /// A CPU on a node that does not exist.
    #[error("CPU {cpu} is on node {node}, which is not among the nodes; add the node or correct the CPU")]
    NodeMissing {
        /// The CPU.
        cpu: CpuId,
        /// Its node.
        node: u32,
    },
    /// A distance row of another length than the number of nodes.
    #[error("node {node} has {given} distances; it needs {wanted}, one for each node")]
    DistanceCount {
        /// The node.
        node: u32,
        /// Distances in its row.
        given: usize,
        /// Number of nodes.
        wanted: usize,
    },
    /// An offline mark on a CPU that is not described.
    #[error("CPU {0} is marked offline but not described; describe it or drop the mark")]
    OfflineUnknown(CpuId),
}

impl Machine {
    /// Checks a description and brings it into the one form that equal machines share.
    ///
    /// `cpus` may come in any order with any labels (`thread` is recomputed); `offline` must be among them.
    ///
    /// # Errors
    /// One sentence that names the CPU or node and what would be right.
    pub fn new(mut cpus: Vec<Cpu>, mut nodes: Vec<Node>, offline: &CpuSet) -> Result<Self, MachineError> {
        cpus.sort_unstable_by_key(|cpu| cpu.id);
        if let Some(cpu) = cpus.iter().find(|cpu| cpu.id.0 >= CPUS_MAX) {
            return Err(MachineError::CpuRange(cpu.id));
        }
        if let Some(pair) = cpus.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(MachineError::CpuTwice(pair[0].id));
        }
        sort_nodes(&mut nodes)?;
        if let Some(cpu) = cpus.iter().find(|cpu| nodes.binary_search_by_key(&cpu.node, |node| node.id).is_err()) {
            return Err(MachineError::NodeMissing { cpu: cpu.id, node: cpu.node });
        }
        let known: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
        if let Some(cpu) = offline.and_not(&known).first() {
            return Err(MachineError::OfflineUnknown(cpu));
        }
        let online = known.and_not(offline);
        if online.is_empty() {
            return Err(MachineError::Empty);
        }
        relabel(&mut cpus, |cpu| &mut cpu.core);
        relabel(&mut cpus, |cpu| &mut cpu.llc);
        relabel(&mut cpus, |cpu| &mut cpu.mc);
        relabel(&mut cpus, |cpu| &mut cpu.package);
        let mut threads = vec![0; cpus.len()];
        for cpu in &mut cpus {
            let count: &mut u32 = &mut threads[cpu.core as usize];
            cpu.thread = *count;
            *count += 1;
        }
        Ok(Self { cpus, nodes, online })
    }

    /// All described CPUs, ascending.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// One CPU, if it exists.
    #[must_use]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &self.cpus[at])
    }

    /// All nodes, ascending, those without CPUs too.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The CPUs that are online.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Slots that an array indexed by CPU number needs (`nr_cpu_ids`).
    #[must_use]
    pub fn cpu_slots(&self) -> usize {
        self.cpus.last().map_or(0, |cpu| cpu.id.index() + 1)
    }

    /// The kernel's `nr_node_ids`: highest node number + 1.
    #[must_use]
    pub fn nr_node_ids(&self) -> u32 {
        self.nodes.last().map_or(1, |node| node.id + 1)
    }

    /// Distance between two nodes by number; the remote default where one is unknown.
    #[must_use]
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        let at = |id| self.nodes.binary_search_by_key(&id, |node: &Node| node.id).ok();
        at(from).zip(at(to)).map_or(REMOTE_DISTANCE, |(from, to)| self.nodes[from].distance[to])
    }

    /// The CPUs of `among` by label, for `label` one of the fields of [`Cpu`]; ascending by label.
    #[must_use]
    pub fn partition(&self, among: &CpuSet, label: impl Fn(&Cpu) -> u32) -> BTreeMap<u32, CpuSet> {
        let mut parts: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for cpu in self.cpus.iter().filter(|cpu| among.contains(cpu.id)) {
            parts.entry(label(cpu)).or_default().insert(cpu.id);
        }
        parts
    }
}

/// The distance rows of `count` nodes that are all equally far from each other.
#[must_use]
pub fn uniform_distances(count: usize) -> Vec<Vec<u32>> {
    let row = |from| (0..count).map(|to| if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE }).collect();
    (0..count).map(row).collect()
}

/// Orders nodes by number, their distance rows with them.
fn sort_nodes(nodes: &mut Vec<Node>) -> Result<(), MachineError> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| nodes[*at].id);
    for node in nodes.iter() {
        if node.id >= NODES_MAX {
            return Err(MachineError::NodeRange(node.id));
        }
        if node.distance.len() != nodes.len() {
            let (given, wanted) = (node.distance.len(), nodes.len());
            return Err(MachineError::DistanceCount { node: node.id, given, wanted });
        }
    }
    if let Some(pair) = order.windows(2).find(|pair| nodes[pair[0]].id == nodes[pair[1]].id) {
        return Err(MachineError::NodeTwice(nodes[pair[0]].id));
    }
    *nodes = order
        .iter()
        .map(|at| Node { id: nodes[*at].id, distance: order.iter().map(|to| nodes[*at].distance[*to]).collect() })
        .collect();
    Ok(())
}

/// Renumbers one label densely, in the order of the first CPU that bears it. `cpus` ascends.
fn relabel(cpus: &mut [Cpu], label: impl Fn(&mut Cpu) -> &mut u32) {
    let mut dense: BTreeMap<u32, u32> = BTreeMap::new();
    let mut next = 0;
    for cpu in cpus {
        let label = label(cpu);
        *label = *dense.entry(*label).or_insert_with(|| {
            next += 1;
            next - 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(id: u32, core: u32, node: u32) -> Cpu {
        Cpu { id: CpuId(id), core, thread: 9, llc: core, mc: core, package: 7, node }
    }

    fn nodes(ids: &[u32]) -> Vec<Node> {
        ids.iter().zip(uniform_distances(ids.len())).map(|(id, distance)| Node { id: *id, distance }).collect()
    }

    #[test]
    fn labels_and_order_of_the_input_do_not_matter() {
        let a = Machine::new(vec![cpu(0, 5, 0), cpu(1, 2, 0), cpu(2, 5, 0)], nodes(&[0]), &CpuSet::new()).unwrap();
        let b = Machine::new(vec![cpu(2, 0, 0), cpu(1, 1, 0), cpu(0, 0, 0)], nodes(&[0]), &CpuSet::new()).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.cpus().iter().map(|c| (c.core, c.thread)).collect::<Vec<_>>(), [(0, 0), (1, 0), (0, 1)]);
    }

    #[test]
    fn distances_follow_their_nodes_when_these_are_sorted() {
        let given = vec![Node { id: 33, distance: vec![10, 16] }, Node { id: 1, distance: vec![22, 10] }];
        let machine = Machine::new(vec![cpu(0, 0, 33)], given, &CpuSet::new()).unwrap();
        assert_eq!((machine.distance(33, 1), machine.distance(1, 33)), (16, 22));
        assert_eq!(machine.nr_node_ids(), 34);
    }

    #[test]
    fn errors_name_the_thing_and_the_remedy() {
        let offline = CpuSet::of(CpuId(4));
        for (cpus, given, offline, want) in [
            (vec![], nodes(&[0]), CpuSet::new(), "no online CPU"),
            (vec![cpu(CPUS_MAX, 0, 0)], nodes(&[0]), CpuSet::new(), "CPU 8192 is out of range"),
            (vec![cpu(3, 0, 0), cpu(3, 1, 0)], nodes(&[0]), CpuSet::new(), "CPU 3 is described twice"),
            (vec![cpu(3, 0, 2)], nodes(&[0]), CpuSet::new(), "CPU 3 is on node 2"),
            (vec![cpu(3, 0, 0)], nodes(&[0, 0]), CpuSet::new(), "node 0 is described twice"),
            (vec![cpu(3, 0, 0)], nodes(&[0, NODES_MAX]), CpuSet::new(), "node 1024 is out of range"),
            (vec![cpu(3, 0, 0)], nodes(&[0]), offline, "CPU 4 is marked offline"),
        ] {
            let error = Machine::new(cpus, given, &offline).unwrap_err().to_string();
            assert!(error.contains(want), "got '{error}', wanted '{want}'");
        }
    }
}
