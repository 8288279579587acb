//! The summary of a trace as a JSON document, `vmmlab.trace-summary/1`: the fields' descriptions are the schema's.

use schemars::JsonSchema;
use serde::Serialize;
use trace::summary::{OfCpu, OfThread, Summary};

/// The schema of the JSON.
pub const SUMMARY_SCHEMA: &str = "vmmlab.trace-summary/1";

/// What a trace holds, added up.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SummaryDocument<'a> {
    /// Always `vmmlab.trace-summary/1`.
    schema: &'static str,
    /// Events that were read.
    events: u64,
    /// Time of the first; `null` without any.
    first_ns: Option<u64>,
    /// Time of the last.
    last_ns: Option<u64>,
    /// Threads, longest runtime first.
    threads: Vec<JsonThread<'a>>,
    /// CPUs, by number.
    cpus: Vec<JsonCpu>,
    /// Exits of guests by reason.
    exits: &'a std::collections::BTreeMap<String, u64>,
    /// Events that are earlier than the one before them on the same CPU.
    unsorted: u64,
    /// Events that the recorder says that it lost.
    lost: u64,
    /// Lines that could not be read.
    damaged: u64,
    /// The first of them.
    damaged_first: Vec<JsonDamage>,
    /// Events of threads, CPUs or reasons beyond those that are told apart.
    left_out: u64,
}

/// A thread.
#[derive(Serialize, JsonSchema)]
struct JsonThread<'a> {
    /// Its name.
    comm: &'a str,
    /// Its number.
    pid: u32,
    /// Time that it had a CPU.
    runtime_ns: u64,
    /// Times that it got one.
    switches: u64,
    /// Times that it lost one although it could have gone on.
    preempted: u64,
    /// Times that it was woken.
    wakeups: u64,
    /// Times that it got another CPU than before.
    migrations: u64,
    /// Returns of KVM_RUN.
    exits: u64,
    /// Waits for a CPU.
    waits: u64,
    /// All of them together.
    wait_total_ns: u64,
    /// The longest.
    wait_max_ns: u64,
    /// TLB flushes that it waited for.
    flushes: u64,
    /// All of these waits together.
    flush_total_ns: u64,
    /// The longest.
    flush_max_ns: u64,
}

/// A CPU.
#[derive(Serialize, JsonSchema)]
struct JsonCpu {
    /// Its number.
    cpu: u32,
    /// Times that it went from one thread to another.
    switches: u64,
    /// Time with a thread.
    busy_ns: u64,
    /// Time without.
    idle_ns: u64,
}

/// A line that could not be read.
#[derive(Serialize, JsonSchema)]
struct JsonDamage {
    /// Its number, from 1.
    line: u64,
    /// What is wrong with it.
    why: String,
}

impl<'a> From<&'a OfThread> for JsonThread<'a> {
    fn from(t: &'a OfThread) -> Self {
        Self {
            comm: &t.comm,
            pid: t.pid,
            runtime_ns: t.runtime_ns,
            switches: t.switches,
            preempted: t.preempted,
            wakeups: t.wakeups,
            migrations: t.migrations,
            exits: t.exits,
            waits: t.wait.count,
            wait_total_ns: t.wait.total_ns,
            wait_max_ns: t.wait.max_ns,
            flushes: t.flush.count,
            flush_total_ns: t.flush.total_ns,
            flush_max_ns: t.flush.max_ns,
        }
    }
}

impl From<&OfCpu> for JsonCpu {
    fn from(c: &OfCpu) -> Self {
        Self { cpu: c.cpu, switches: c.switches, busy_ns: c.busy_ns, idle_ns: c.idle_ns }
    }
}

/// The document as text.
pub(super) fn json(summary: &Summary) -> String {
    let json = SummaryDocument {
        schema: SUMMARY_SCHEMA,
        events: summary.events,
        first_ns: summary.span_ns.map(|(first, _)| first),
        last_ns: summary.span_ns.map(|(_, last)| last),
        threads: summary.threads.iter().map(JsonThread::from).collect(),
        cpus: summary.cpus.iter().map(JsonCpu::from).collect(),
        exits: &summary.exits,
        unsorted: summary.unsorted,
        lost: summary.lost,
        damaged: summary.damaged,
        damaged_first: summary
            .damages
            .iter()
            .map(|(line, why)| JsonDamage { line: *line, why: why.to_string() })
            .collect(),
        left_out: summary.left_out,
    };
    // Plain data with string keys: it cannot fail to serialize.
    format!("{}\n", serde_json::to_string_pretty(&json).unwrap_or_default())
}
