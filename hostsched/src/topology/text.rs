//! Machines as text: the short form for regular machines, the long form for any, and one normal form of each machine.
//!
//! **Short form**: counts from the outside in, separated by `:`.
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
//!
//! **Long form**: parts separated by `:`, sets of CPUs by `/`; what is left out is as the right column says.
//!
//! ```text
//!   pkg=0-3/4-7       packages                                      (needed)
//!   smt=0-1/2-3/...   cores                                         every CPU its own
//!   llc=0-3/4-7       last-level caches                             as pkg
//!   mc=0-3/4-7        what the scheduler takes for the LLC          as llc
//!   node0=0-3         CPUs of a node; none: memory only             node 0 has all
//!   dist=10,21/21,10  a row for each node, in the order of numbers  10 and 20
//!   offline=5         CPUs that are described but off               none
//! ```
//!
//! The **normal form**, which `Display` prints, is the short form where that says everything, else the long form with
//! all defaults left out. Equal machines print equally, and reading it back gives the machine again.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::machine::{Node, uniform_distances};
use super::{CPUS_MAX, Cpu, CpuId, CpuSet, Machine, MachineError, NODES_MAX, preset};

/// Why a text is not a machine; positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Something else stands where this should.
    #[error("topology '{text}': expected {wanted} at position {position}, found '{found}'")]
    Expected {
        /// The text, at most its first 80 characters.
        text: String,
        /// What would be right.
        wanted: &'static str,
        /// Where.
        position: usize,
        /// What stands there.
        found: String,
    },
    /// A CPU in two sets of a part, or twice in a set.
    #[error("topology '{text}': CPU {cpu} at position {position} was named before in this part; name it once")]
    CpuTwice {
        /// The text, at most its first 80 characters.
        text: String,
        /// The CPU.
        cpu: CpuId,
        /// Where.
        position: usize,
    },
    /// A part that forgets a CPU.
    #[error("topology '{text}': '{part}' does not say where CPU {cpu} belongs; name it there or take it out of 'pkg'")]
    CpuMissing {
        /// The text, at most its first 80 characters.
        text: String,
        /// The part.
        part: &'static str,
        /// The CPU.
        cpu: CpuId,
    },
    /// Readable, but no machine.
    #[error("topology '{text}': {source}")]
    Machine {
        /// The text, at most its first 80 characters.
        text: String,
        /// Why.
        source: MachineError,
    },
}

/// A text and a place in it, for errors.
#[derive(Clone, Copy)]
struct Piece<'a> {
    whole: &'a str,
    /// Offset of `text` in `whole`, in bytes.
    offset: usize,
    text: &'a str,
}

impl<'a> Piece<'a> {
    fn shown(&self) -> String {
        self.whole.chars().take(80).collect()
    }

    fn position(&self) -> usize {
        self.whole[..self.offset].chars().count() + 1
    }

    fn expected(&self, wanted: &'static str) -> TextError {
        let found = if self.text.is_empty() { "nothing".into() } else { self.text.chars().take(20).collect() };
        TextError::Expected { text: self.shown(), wanted, position: self.position(), found }
    }

    /// The pieces between separators.
    fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut offset = self.offset;
        self.text.split(separator).map(move |text| {
            let piece = Piece { whole: self.whole, offset, text };
            offset += text.len() + separator.len_utf8();
            piece
        })
    }

    fn split_once(self, separator: char) -> Option<(Piece<'a>, Piece<'a>)> {
        let (left, right) = self.text.split_once(separator)?;
        let offset = self.offset + left.len() + separator.len_utf8();
        Some((Piece { text: left, ..self }, Piece { text: right, offset, ..self }))
    }

    fn number(self, wanted: &'static str, max: u32) -> Result<u32, TextError> {
        let digits = self.text.bytes().all(|byte| byte.is_ascii_digit());
        self.text.parse().ok().filter(|n| digits && *n <= max).ok_or_else(|| self.expected(wanted))
    }

    /// A list of CPUs, `0-3,8`; `seen` holds those named before and gets these.
    fn cpus(self, seen: &mut CpuSet) -> Result<CpuSet, TextError> {
        const WANTED: &str = "a CPU list such as 0-3,8 with CPUs below 8192";
        let mut set = CpuSet::new();
        for item in self.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let range = (first.number(WANTED, CPUS_MAX - 1)?, last.number(WANTED, CPUS_MAX - 1)?);
            if range.1 < range.0 {
                return Err(item.expected("a range that runs upwards"));
            }
            for cpu in (range.0..=range.1).map(CpuId) {
                if !seen.insert(cpu) {
                    return Err(TextError::CpuTwice { text: self.shown(), cpu, position: item.position() });
                }
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// Sets of CPUs, `0-3/4-7`.
    fn partition(self) -> Result<Vec<CpuSet>, TextError> {
        let mut seen = CpuSet::new();
        self.split('/').map(|set| set.cpus(&mut seen)).collect()
    }
}

/// Counts of the short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Regular {
    packages: u32,
    nodes: u32,
    /// Nodes lie within packages, not packages within nodes.
    nodes_inside: bool,
    llcs: u32,
    cores: u32,
    threads: u32,
}

impl Regular {
    fn parse(text: Piece<'_>) -> Result<Self, TextError> {
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

    fn machine(self) -> Result<Machine, MachineError> {
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
    fn of(machine: &Machine) -> Option<Self> {
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

/// Nodes of these numbers, all equally far from each other.
fn default_nodes(ids: &[u32]) -> Vec<Node> {
    ids.iter().zip(uniform_distances(ids.len())).map(|(id, distance)| Node { id: *id, distance }).collect()
}

/// The parts of the long form as they were read.
#[derive(Default)]
struct Long {
    pkg: Option<Vec<CpuSet>>,
    smt: Option<Vec<CpuSet>>,
    llc: Option<Vec<CpuSet>>,
    mc: Option<Vec<CpuSet>>,
    nodes: BTreeMap<u32, CpuSet>,
    dist: Option<Vec<Vec<u32>>>,
    offline: CpuSet,
}

impl Long {
    fn parse(text: Piece<'_>) -> Result<Self, TextError> {
        const WANTED: &str = "one of pkg, smt, llc, mc, nodeN, dist, offline followed by '=', each once";
        let mut long = Self::default();
        let mut on_nodes = CpuSet::new();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(':') {
            let (key, value) = part.split_once('=').ok_or_else(|| part.expected(WANTED))?;
            if seen.contains(&key.text) {
                return Err(key.expected(WANTED));
            }
            seen.push(key.text);
            match key.text {
                "pkg" => long.pkg = Some(value.partition()?),
                "smt" => long.smt = Some(value.partition()?),
                "llc" => long.llc = Some(value.partition()?),
                "mc" => long.mc = Some(value.partition()?),
                "offline" => long.offline = value.cpus(&mut CpuSet::new())?,
                "dist" => {
                    let distance = |piece: Piece<'_>| piece.number("a node distance below 65536", 0xffff);
                    let row = |row: Piece<'_>| row.split(',').map(distance).collect();
                    long.dist = Some(value.split('/').map(row).collect::<Result<_, _>>()?);
                }
                _ => {
                    let id = key.text.strip_prefix("node").ok_or_else(|| key.expected(WANTED))?;
                    let id = Piece { text: id, offset: key.offset + 4, ..key };
                    let id = id.number("a node number below 1024", NODES_MAX - 1)?;
                    let cpus = if value.text.is_empty() { CpuSet::new() } else { value.cpus(&mut on_nodes)? };
                    if long.nodes.insert(id, cpus).is_some() {
                        return Err(key.expected(WANTED));
                    }
                }
            }
        }
        Ok(long)
    }

    fn machine(mut self, text: Piece<'_>) -> Result<Machine, TextError> {
        let pkg = self.pkg.take().ok_or_else(|| text.expected("a part 'pkg=...' with the packages"))?;
        let all = pkg.iter().fold(CpuSet::new(), |all, set| all.or(set));
        let smt = self.smt.take().unwrap_or_else(|| all.iter().map(CpuSet::of).collect());
        let llc = self.llc.take().unwrap_or_else(|| pkg.clone());
        let mc = self.mc.take().unwrap_or_else(|| llc.clone());
        if self.nodes.is_empty() {
            self.nodes.insert(0, all.clone());
        }
        let (ids, spans): (Vec<u32>, Vec<CpuSet>) = self.nodes.into_iter().unzip();
        let label = |part: &'static str, sets: &[CpuSet]| -> Result<BTreeMap<CpuId, u32>, TextError> {
            let mut labels = BTreeMap::new();
            for (label, set) in (0..).zip(sets) {
                labels.extend(set.iter().map(|cpu| (cpu, label)));
            }
            match all.iter().find(|cpu| !labels.contains_key(cpu)) {
                Some(cpu) => Err(TextError::CpuMissing { text: text.shown(), part, cpu }),
                None if labels.len() == all.weight() as usize => Ok(labels),
                None => Err(text.expected("every CPU in 'pkg'")),
            }
        };
        let (core, llc, mc) = (label("smt", &smt)?, label("llc", &llc)?, label("mc", &mc)?);
        let (package, node) = (label("pkg", &pkg)?, label("node", &spans)?);
        let cpu = |id: CpuId| Cpu {
            id,
            core: core[&id],
            thread: 0,
            llc: llc[&id],
            mc: mc[&id],
            package: package[&id],
            node: ids[node[&id] as usize],
        };
        let mut nodes = default_nodes(&ids);
        if let Some(rows) = self.dist {
            if rows.len() != nodes.len() {
                return Err(text.expected("as many distance rows as nodes"));
            }
            nodes.iter_mut().zip(rows).for_each(|(node, row)| node.distance = row);
        }
        Machine::new(all.iter().map(cpu).collect(), nodes, &self.offline)
            .map_err(|source| TextError::Machine { text: text.shown(), source })
    }
}

impl FromStr for Machine {
    type Err = TextError;

    /// Reads a preset's name, the short form or the long form.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let piece = Piece { whole: text, offset: 0, text };
        if text.contains('=') {
            return Long::parse(piece)?.machine(piece);
        }
        if let Some(preset) = preset(text) {
            return preset.topology.parse();
        }
        let machine = Regular::parse(piece)?.machine();
        machine.map_err(|source| TextError::Machine { text: piece.shown(), source })
    }
}

impl fmt::Display for Machine {
    /// The normal form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(regular) = Regular::of(self) {
            return write!(f, "{regular}");
        }
        let all: CpuSet = self.cpus().iter().map(|cpu| cpu.id).collect();
        let sets = |label: fn(&Cpu) -> u32| -> Vec<CpuSet> { self.partition(&all, label).into_values().collect() };
        let (pkg, smt) = (sets(|cpu| cpu.package), sets(|cpu| cpu.core));
        let (llc, mc) = (sets(|cpu| cpu.llc), sets(|cpu| cpu.mc));
        let joined = |sets: &[CpuSet]| sets.iter().map(CpuSet::to_string).collect::<Vec<_>>().join("/");
        write!(f, "pkg={}", joined(&pkg))?;
        if smt.len() < self.cpus().len() {
            write!(f, ":smt={}", joined(&smt))?;
        }
        if llc != pkg {
            write!(f, ":llc={}", joined(&llc))?;
        }
        if mc != llc {
            write!(f, ":mc={}", joined(&mc))?;
        }
        if self.nodes().len() > 1 || self.nodes()[0].id != 0 {
            let on_node = self.partition(&all, |cpu| cpu.node);
            for node in self.nodes() {
                write!(f, ":node{}={}", node.id, on_node.get(&node.id).cloned().unwrap_or_default())?;
            }
        }
        let rows: Vec<&Vec<u32>> = self.nodes().iter().map(|node| &node.distance).collect();
        if !rows.iter().copied().eq(&uniform_distances(rows.len())) {
            let row = |row: &&Vec<u32>| row.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            write!(f, ":dist={}", rows.iter().map(row).collect::<Vec<_>>().join("/"))?;
        }
        let offline = all.and_not(self.online());
        if offline.is_empty() { Ok(()) } else { write!(f, ":offline={offline}") }
    }
}
