//! A machine's description: what things cost there, each number with its unit and where it comes from.
//!
//! ```text
//!   name = "nonple"
//!   topology = "2s:4c"
//!   ple = false
//!   [cost]
//!   exit = { value = 1500, unit = "ns", source = "assumed: Nehalem round trip" }
//! ```
//! A source begins with `published`, `measured`, `assumed` or `fitted`. Every machine gives every cost: nothing is
//! defaulted, so that a description is complete and two of them can be compared line by line. No cost belongs to a mode:
//! the tests show that each acts under at least two.
use std::collections::BTreeMap;

use serde::Deserialize;

use hostsched::topology::{Machine as Topology, TextError};

/// One cost as data: what tables and the sensitivity page need to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostInfo {
    /// Its name in the description.
    pub id: &'static str,
    /// The unit that the description must give.
    pub unit: &'static str,
    /// What it is.
    pub text: &'static str,
}

/// Declares a machine's costs: fields, table and access by name come from this one list.
macro_rules! costs {
    ($name:ident, $table:ident; $($(#[doc = $text:literal])+ $id:ident: $unit:literal,)+) => {
        /// What things cost on a machine; each field says what it is, the table beside it the unit.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[doc = $text])+ pub $id: u64,)+
        }
        /// Every cost.
        pub const $table: &[$crate::machine::CostInfo] = &[$($crate::machine::CostInfo {
            id: stringify!($id),
            unit: $unit,
            text: concat!($($text),+),
        },)+];
        impl $name {
            /// The cost of that name, to change it.
            pub fn get_mut(&mut self, id: &str) -> Option<&mut u64> {
                match id { $(stringify!($id) => Some(&mut self.$id),)+ _ => None }
            }
            /// The cost of that name.
            #[must_use]
            pub fn get(&self, id: &str) -> Option<u64> {
                match id { $(stringify!($id) => Some(self.$id),)+ _ => None }
            }
        }
    };
}
pub(crate) use costs;

costs! { Costs, COSTS;
    /// Clock frequency, for what the plan gives in cycles.
    cpu_clock: "MHz",
    /// From one vCPU thread to another: save, switch, load, first misses. Paid to the end, whoever wants the CPU meanwhile.
    context_switch: "ns",
    /// From guest to host and back.
    exit: "ns",
    /// The host's timer tick.
    tick: "ns",
    /// Distance of the ticks of neighbouring CPUs.
    tick_skew: "ns",
    /// Of 1,000 ticks, how many give work to the CPU's kernel thread.
    noise: "per mille",
    /// How long that work takes.
    noise_time: "ns",
    /// Sending an interrupt to any number of CPUs or vCPUs: the write and its exit.
    ipi_send: "ns",
    /// From there until the receiver handles it.
    ipi_deliver: "ns",
    /// Handling it, end-of-interrupt included.
    ipi_handler: "ns",
    /// From the HLT exit until the thread sleeps; the same again from its wake-up until it can be picked.
    halt: "ns",
    /// A call from guest to host that does little.
    hypercall: "ns",
    /// Dropping all translations of a vCPU.
    tlb_flush: "ns",
    /// The guest's timer interrupt, its exits included.
    guest_tick: "ns",
    /// From one guest thread to another.
    guest_switch: "ns",
    /// One turn of a bounded spin loop.
    spin_turn: "ns",
    /// Between two disturbances of a pause loop that make it longer than `ple_gap`: the exit's window starts anew.
    pause_gap: "cycles",
    /// What `kvm_vcpu_on_spin` takes beside the exit.
    on_spin: "ns",
    /// Slow-down of work for each sibling vCPU that has a CPU, in workloads without locks of their own: shared lines,
    /// page-allocator and tree locks.
    contention: "per mille",
    /// Slow-down of work whose lines have all left the last-level cache.
    cache_penalty: "per mille",
    /// Work of others on the same last-level cache after which half of a VM's lines are gone.
    cache_half_life: "ns",
    /// Faulting in and clearing a page.
    page_touch: "ns",
    /// Copying a page.
    page_copy: "ns",
    /// Searching a page once.
    page_search: "ns",
    /// Unmapping and freeing a page.
    page_unmap: "ns",
    /// Of 1,000 records of ebizzy, how many take mmap_sem for write (the arena grows).
    mmap_write: "per mille",
    /// From the release of a spinlock until the first in line sees it: its cache line goes over.
    lock_transfer: "ns",
    /// What a short section under a kernel spinlock takes: a queue, a page list, a name look-up.
    lock_hold: "ns",
    /// Waking a guest thread (`try_to_wake_up`), without the interrupt to an idle vCPU.
    guest_wake: "ns",
    /// Handing a request to the disk, its exit included.
    io_submit: "ns",
}

/// A cost in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostEntry {
    value: u64,
    unit: String,
    source: String,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    topology: String,
    topology_source: String,
    ple: bool,
    cost: BTreeMap<String, CostEntry>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Short name.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// Its CPUs and caches.
    pub topology: Topology,
    /// Where the topology comes from.
    pub topology_source: String,
    /// Its processors leave the guest when a pause loop lasts (pause-loop exiting).
    pub ple: bool,
    /// What things cost.
    pub costs: Costs,
    /// Where each cost comes from, by name.
    pub sources: BTreeMap<String, String>,
}

/// Why a text is not a machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Not TOML, or not of this form.
    #[error("the machine description cannot be read")]
    Toml(#[from] toml::de::Error),
    /// The topology is wrong.
    #[error("machine '{name}'")]
    Topology {
        /// Which machine.
        name: String,
        /// Why.
        #[source]
        source: TextError,
    },
    /// A cost that is not there.
    #[error("machine '{name}' gives no cost '{id}' ({unit}): every machine gives every cost")]
    Missing {
        /// Which machine.
        name: String,
        /// Which cost.
        id: &'static str,
        /// Its unit.
        unit: &'static str,
    },
    /// A cost that nobody reads.
    #[error("machine '{name}' gives a cost '{id}' that does not exist")]
    Unknown {
        /// Which machine.
        name: String,
        /// Which cost.
        id: String,
    },
    /// Another unit than the one it has.
    #[error("machine '{name}': cost '{id}' is given in '{given}', it counts '{wanted}'")]
    Unit {
        /// Which machine.
        name: String,
        /// Which cost.
        id: &'static str,
        /// The unit that was given.
        given: String,
        /// The right one.
        wanted: &'static str,
    },
    /// A number from nowhere.
    #[error(
        "machine '{name}': the source of cost '{id}' is '{given}'; begin it with published, measured, assumed or fitted"
    )]
    Source {
        /// Which machine.
        name: String,
        /// Which cost.
        id: &'static str,
        /// The source that was given.
        given: String,
    },
    /// Out of any sense.
    #[error("machine '{name}': cost '{id}' is {value}; it takes {min} to {max}")]
    Range {
        /// Which machine.
        name: String,
        /// Which cost.
        id: &'static str,
        /// The value.
        value: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
}

impl Machine {
    /// Reads a description.
    ///
    /// # Errors
    /// One sentence that names the machine, the cost and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, MachineError> {
        let mut file: File = toml::from_str(text)?;
        let name = file.name;
        let topology = file.topology.parse();
        let topology = topology.map_err(|source| MachineError::Topology { name: name.clone(), source })?;
        let mut costs = Costs::default();
        let set = |id: &str, value| costs.get_mut(id).into_iter().for_each(|cost| *cost = value);
        let sources = read_costs(&name, std::mem::take(&mut file.cost), COSTS, range, set)?;
        let File { title, topology_source, ple, .. } = file;
        Ok(Self { name, title, topology, topology_source, ple, costs, sources })
    }

    /// The costs that a fit has chosen.
    pub fn fitted(&self) -> impl Iterator<Item = &'static str> + '_ {
        COSTS.iter().map(|info| info.id).filter(|id| self.sources.get(*id).is_some_and(|s| s.starts_with("fitted")))
    }
}

/// Takes the costs of `infos` out of a description's entries and returns where each comes from.
pub(crate) fn read_costs(
    machine: &str,
    mut entries: BTreeMap<String, CostEntry>,
    infos: &[CostInfo],
    range: fn(&CostInfo) -> (u64, u64),
    mut set: impl FnMut(&str, u64),
) -> Result<BTreeMap<String, String>, MachineError> {
    let name = || machine.to_owned();
    let mut sources = BTreeMap::new();
    for info in infos {
        let CostInfo { id, unit, .. } = *info;
        let entry = entries.remove(id);
        let entry = entry.ok_or_else(|| MachineError::Missing { name: name(), id, unit })?;
        if entry.unit != unit {
            return Err(MachineError::Unit { name: name(), id, given: entry.unit, wanted: unit });
        }
        if !["published", "measured", "assumed", "fitted"].iter().any(|word| entry.source.starts_with(word)) {
            return Err(MachineError::Source { name: name(), id, given: entry.source });
        }
        let (min, max) = range(info);
        if !(min..=max).contains(&entry.value) {
            return Err(MachineError::Range { name: name(), id, value: entry.value, min, max });
        }
        set(id, entry.value);
        sources.insert(id.to_owned(), entry.source);
    }
    if let Some((id, _)) = entries.pop_first() {
        return Err(MachineError::Unknown { name: name(), id });
    }
    Ok(sources)
}

/// Bounds that keep a run finite; far beyond any real machine.
pub(crate) fn range(info: &CostInfo) -> (u64, u64) {
    match (info.id, info.unit) {
        ("noise" | "mmap_write", _) => (0, 1000),
        ("cpu_clock", _) => (1, 100_000),
        ("spin_turn" | "tlb_flush" | "page_touch" | "lock_hold", _) => (1, 1_000_000),
        ("pause_gap", _) => (1, 1_000_000_000),
        ("cache_half_life", _) => (1, 10_000_000_000),
        (_, "per mille") => (0, 100_000),
        _ => (0, 100_000_000),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const NONPLE: &str = include_str!("../../experiments/machines/nonple.toml");

    /// The machine of most tests.
    pub(crate) fn nonple() -> Machine {
        Machine::from_toml(NONPLE).unwrap()
    }

    fn error(text: &str) -> String {
        Machine::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn every_cost_needs_its_unit_and_its_source() {
        let line = NONPLE.lines().find(|line| line.starts_with("exit ")).unwrap();
        let with = |new: &str| error(&NONPLE.replace(line, new));
        assert!(with("").contains("gives no cost 'exit' (ns)"));
        assert!(with("exit = { value = 1, unit = \"us\", source = \"assumed\" }").contains("it counts 'ns'"));
        assert!(with("exit = { value = 1, unit = \"ns\", source = \"guess\" }").contains("begin it with published"));
        assert!(
            with(&format!("{line}\nexti = {{ value = 1, unit = \"ns\", source = \"assumed\" }}")).contains("'exti'")
        );
    }

    #[test]
    fn a_cost_is_found_by_its_name() {
        let mut machine = nonple();
        for info in COSTS {
            *machine.costs.get_mut(info.id).unwrap() += 1;
            assert_eq!(machine.costs.get(info.id), nonple().costs.get(info.id).map(|v| v + 1), "{}", info.id);
        }
        assert_eq!(machine.costs.get("nothing"), None);
    }
}
