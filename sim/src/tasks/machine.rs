//! A host's description: what scheduling decisions cost there, each number with its unit and where it comes from.
//!
//! The form is that of [`crate::machine`]; the costs are others. Those of *placement* (idle exit, lines to fetch) act on
//! whatever task is placed so; those of *operations* (a send, a system call) are the same wherever it runs.
use std::collections::BTreeMap;

use serde::Deserialize;

use hostsched::topology::Machine as Topology;

use crate::machine::{CostEntry, CostInfo, MachineError, costs, read_costs};

costs! { HostCosts, HOST_COSTS;
    /// Timer interrupts a second.
    hz: "Hz",
    /// Highest clock frequency; all times below are for it.
    cpu_clock: "MHz",
    /// Lowest clock frequency, for a governor that uses it.
    cpu_clock_min: "MHz",
    /// Between two looks of such a governor at a CPU's load.
    clock_sample: "ns",
    /// From one task to another, or from idle to a task: schedule, switch, first misses.
    context_switch: "ns",
    /// Entering and leaving the kernel.
    syscall: "ns",
    /// `try_to_wake_up` on the waker's CPU.
    wakeup: "ns",
    /// From the waker's write or interrupt until the other CPU acts on it, its idle exit apart.
    ipi_deliver: "ns",
    /// Handling an interrupt on a busy CPU.
    ipi_handler: "ns",
    /// Timer tick on a busy CPU.
    tick: "ns",
    /// Distance of the ticks of neighbouring CPUs.
    tick_skew: "ns",
    /// Of 1,000 ticks, how many give work to the CPU's kernel thread.
    noise: "per mille",
    /// How long that work takes.
    noise_time: "ns",
    /// Leaving the lightest idle state, C1.
    c1_exit: "ns",
    /// Predicted idle time from which C3 is used; 0 if the CPU has none.
    c3_residency: "ns",
    /// Leaving it.
    c3_exit: "ns",
    /// Predicted idle time from which C6 is used; 0 if the CPU has none.
    c6_residency: "ns",
    /// Leaving it.
    c6_exit: "ns",
    /// Slow-down while the core's other thread is busy.
    smt_slowdown: "per mille",
    /// What a core's own caches hold.
    private_cache: "KiB",
    /// What a last-level cache holds.
    llc_size: "KiB",
    /// Fetching a line that another core of the same last-level cache wrote last.
    line_llc: "ns",
    /// Fetching a line that a core of another last-level cache of the same package wrote last.
    line_package: "ns",
    /// Fetching a line that a core of another package wrote last.
    line_far: "ns",
    /// Copying data that is near.
    kb_copy: "ns per KiB",
    /// More, if another core of the same last-level cache wrote it.
    kb_llc: "ns per KiB",
    /// More, if a core of another last-level cache of the same package wrote it as a message.
    kb_package: "ns per KiB",
    /// More, if it comes from memory or a core of another package wrote it.
    kb_far: "ns per KiB",
    /// Moving data over a package's way out: its front-side bus, or its links to other packages; 0 if that never is a
    /// bottleneck.
    kb_bus: "ns per KiB",
    /// Reading data from a memory; 0 if that never is a bottleneck.
    kb_memory: "ns per KiB",
    /// Writing it there.
    kb_write_back: "ns per KiB",
    /// Sending a TCP segment over loopback, the receiver's protocol work included, without copying.
    tcp_send: "ns",
    /// Receiving it, without copying.
    tcp_recv: "ns",
    /// Sending a UDP datagram over loopback, without copying.
    udp_send: "ns",
    /// Receiving it, without copying.
    udp_recv: "ns",
    /// Writing to or reading from a pipe, without copying.
    pipe_op: "ns",
    /// A futex call that sleeps or wakes.
    futex: "ns",
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    topology: String,
    topology_source: String,
    #[serde(default)]
    broken_groups: bool,
    cost: BTreeMap<String, CostEntry>,
}

/// A host for tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMachine {
    /// Short name.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// Its CPUs and caches.
    pub topology: Topology,
    /// Where the topology comes from.
    pub topology_source: String,
    /// Its scheduling domains contradict its caches, and are loaded all the same.
    pub broken_groups: bool,
    /// What things cost.
    pub costs: HostCosts,
    /// Where each cost comes from, by name.
    pub sources: BTreeMap<String, String>,
}

impl HostMachine {
    /// Reads a description.
    ///
    /// # Errors
    /// One sentence that names the machine, the cost and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, MachineError> {
        let File { name, title, topology, topology_source, broken_groups, cost } = toml::from_str(text)?;
        let topology = topology.parse();
        let topology = topology.map_err(|source| MachineError::Topology { name: name.clone(), source })?;
        let mut costs = HostCosts::default();
        let set = |id: &str, value| costs.get_mut(id).into_iter().for_each(|cost| *cost = value);
        let sources = read_costs(&name, cost, HOST_COSTS, range, set)?;
        Ok(Self { name, title, topology, topology_source, broken_groups, costs, sources })
    }
}

/// Bounds that keep a run finite; far beyond any real machine.
fn range(info: &CostInfo) -> (u64, u64) {
    match (info.id, info.unit) {
        ("hz", _) => (100, 1000),
        ("noise", _) => (0, 1000),
        (_, "MHz") => (1, 100_000),
        ("private_cache" | "llc_size", _) => (1, 1 << 20),
        ("clock_sample", _) => (100_000, 10_000_000_000),
        ("context_switch" | "syscall" | "noise_time", _) => (1, 10_000_000_000),
        (_, "per mille") => (0, 100_000),
        _ => (0, 100_000_000),
    }
}
