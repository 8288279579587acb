//! The short form of regular machines: counts from the outside in, separated by `:`.
//!
//! ```text
//!   2s:4c:2t       2 packages (sockets), 4 cores in each, 2 threads in each core; one LLC a package
//!   1s:2l:2c       1 package with 2 last-level caches of 2 cores each
//!   4n:1s:10c:2t   4 NUMA nodes of one package each
//!   4s:2n:6c       4 packages of two nodes each; one LLC a node
//! ```
//!
//! `s` and `n` may be left out (1) and come in either order, then `l`, `c`, `t`. CPUs are numbered along the text, so
//! that siblings are neighbours (0-1, 2-3, ...). Nodes have distance 10 to themselves and 20 to each other.

use std::fmt;

use super::text::{Piece, default_nodes};
use super::{CPUS_MAX, Cpu, CpuId, CpuSet, Machine, MachineError, NODES_MAX, TextError};

/// Counts of the short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Regular {
    packages: u32,
    nodes: u32,
    /// Nodes lie within packages, not packages within nodes.
    nodes_inside: bool,
    llcs: u32,
    cores: u32,
    threads: u32,
}

impl Regular {
    pub(super) fn parse(text: Piece<'_>) -> Result<Self, TextError> {
        let mut regular = Self { packages: 1, nodes: 1, nodes_inside: false, llcs: 1, cores: 0, threads: 1 };
        let mut letters = String::new();
        let mut cpus = 1;
        for piece in text.split(':') {
            const WANTED: &str = "a count and one of s, n, l, c, t, as in 2s:4c:2t, or a preset such as e5620";
            let letter = piece.text.chars().last().filter(|c| "snlct".contains(*c)).ok_or(piece.expected(WANTED))?;
            let digits = Piece { text: &piece.text[..piece.text.len() - 1], ..piece };
            let count = digits
                .number(WANTED, CPUS_MAX)
                .and_then(|n| if n == 0 { Err(piece.expected(WANTED)) } else { Ok(n) })?;
            cpus *= count;
            if cpus > CPUS_MAX {
                return Err(piece.expected("at most 8192 CPUs in all"));
            }
            letters.push(letter);
            if !ORDERS.iter().any(|order| is_subsequence(&letters, order)) {
                return Err(piece.expected("each of s or n, l, c, t at most once and in this order"));
            }
            match letter {
                's' => regular.packages = count,
                'n' => (regular.nodes, regular.nodes_inside) = (count, letters.contains('s')),
                'l' => regular.llcs = count,
                'c' => regular.cores = count,
                _ => regular.threads = count,
            }
        }
        if regular.nodes > NODES_MAX || regular.nodes_inside && regular.nodes * regular.packages > NODES_MAX {
            return Err(text.expected("at most 1024 nodes in all"));
        }
        if regular.cores == 0 { Err(text.expected("a count of cores, as in 1s:4c")) } else { Ok(regular) }
    }

    pub(super) fn machine(self) -> Result<Machine, MachineError> {
        let per_core = self.threads;
        let per_llc = per_core * self.cores;
        let inner = per_llc * self.llcs;
        let outer = inner * if self.nodes_inside { self.nodes } else { self.packages };
        let (per_package, per_node) = if self.nodes_inside { (outer, inner) } else { (inner, outer) };
        let count = inner * self.packages * self.nodes;
        let cpus = (0..count).map(|id| Cpu {
            id: CpuId(id),
            core: id / per_core,
            thread: id % per_core,
            llc: id / per_llc,
            mc: id / per_llc,
            package: id / per_package,
            node: id / per_node,
        });
        Machine::new(cpus.collect(), default_nodes(&(0..count / per_node).collect::<Vec<_>>()), &CpuSet::new())
    }

    /// The counts of a machine, if the short form can say all of it.
    pub(super) fn of(machine: &Machine) -> Option<Self> {
        let count = |label: fn(&Cpu) -> u32| u32::try_from(machine.partition(machine.online(), label).len()).ok();
        let (cores, llcs) = (count(|cpu| cpu.core)?, count(|cpu| cpu.llc)?);
        let (packages, nodes) = (count(|cpu| cpu.package)?, count(|cpu| cpu.node)?);
        let nodes_inside = nodes > packages;
        let inner = packages.max(nodes);
        let regular = Self {
            packages: if nodes_inside { packages } else { packages / nodes },
            nodes: if nodes_inside { nodes / packages } else { nodes },
            nodes_inside,
            llcs: llcs / inner,
            cores: cores / llcs,
            threads: machine.online().weight() / cores,
        };
        let whole = regular.packages > 0 && regular.llcs > 0 && regular.cores > 0;
        (whole && regular.machine().as_ref() == Ok(machine)).then_some(regular)
    }
}

/// The orders in which the short form's letters may come.
const ORDERS: [&str; 2] = ["snlct", "nslct"];

fn is_subsequence(letters: &str, order: &str) -> bool {
    let mut order = order.chars();
    letters.chars().all(|letter| order.any(|next| next == letter))
}

impl fmt::Display for Regular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (packages, nodes) = (self.packages, self.nodes);
        match (nodes, self.nodes_inside) {
            (1, _) => write!(f, "{packages}s")?,
            (_, true) => write!(f, "{packages}s:{nodes}n")?,
            (_, false) => write!(f, "{nodes}n:{packages}s")?,
        }
        for (count, letter) in [(self.llcs, 'l'), (self.threads, 't')] {
            if letter == 't' {
                write!(f, ":{}c", self.cores)?;
            }
            if count > 1 {
                write!(f, ":{count}{letter}")?;
            }
        }
        Ok(())
    }
}
