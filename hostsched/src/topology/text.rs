//! Machines as text: the short form for regular machines, the long form for any, and one normal form of each machine.
//!
//! **Short form**: `2s:4c:2t`, see `regular.rs`.
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
use super::regular::Regular;
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
pub(super) struct Piece<'a> {
    pub(super) whole: &'a str,
    /// Offset of `text` in `whole`, in bytes.
    pub(super) offset: usize,
    pub(super) text: &'a str,
}

impl<'a> Piece<'a> {
    fn shown(&self) -> String {
        self.whole.chars().take(80).collect()
    }

    fn position(&self) -> usize {
        self.whole[..self.offset].chars().count() + 1
    }

    pub(super) fn expected(&self, wanted: &'static str) -> TextError {
        let found = if self.text.is_empty() { "nothing".into() } else { self.text.chars().take(20).collect() };
        TextError::Expected { text: self.shown(), wanted, position: self.position(), found }
    }

    /// The pieces between separators.
    pub(super) fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
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

    pub(super) fn number(self, wanted: &'static str, max: u32) -> Result<u32, TextError> {
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

/// Nodes of these numbers, all equally far from each other.
pub(super) fn default_nodes(ids: &[u32]) -> Vec<Node> {
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
