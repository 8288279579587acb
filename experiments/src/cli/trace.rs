//! `vmmlab trace summary`: what a trace adds up to. Options of `vmmlab run` that record one.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use trace::Limits;
use trace::summary::{OfCpu, OfThread, Summary, THREADS_MAX, Times};

use super::print;
use crate::exit::{Error, Exit};
use crate::traced::Request;

/// Options of `vmmlab run` that record traces.
#[derive(Debug, Clone, Args)]
pub struct TraceOptions {
    /// Record one block: FILE.pftrace (Perfetto) or FILE.txt (ftrace); repeatable
    ///
    /// With several modes each gets a file of its own, FILE-MODE.txt. Open .pftrace at ui.perfetto.dev; .txt is read by
    /// `vmmlab trace summary`, `vmmlab report`, and tools for trace-cmd and perf.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Vec<PathBuf>,
    /// Block to record, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Output", hide_short_help = true)]
    pub trace_block: u32,
    /// Events to keep, from the start of the measured time; 24 bytes each [1000 to 100000000]
    #[arg(
        long, value_name = "N", default_value_t = Limits::EVENTS_DEFAULT as u64, help_heading = "Output", hide_short_help = true,
        value_parser = clap::value_parser!(u64).range(1_000..=100_000_000)
    )]
    pub trace_max_events: u64,
}

impl TraceOptions {
    /// What is to be recorded of an experiment of so many modes and blocks; `None` if nothing is.
    ///
    /// # Errors
    /// A file name without a known ending, or a block that the experiment does not have.
    pub fn request(&self, modes: usize, blocks: u32) -> Result<Option<Request>, Error> {
        if self.trace.is_empty() {
            return Ok(None);
        }
        if self.trace_block >= blocks {
            let (block, last) = (self.trace_block, blocks.saturating_sub(1));
            return Err(Error::Usage(format!("--trace-block {block} is out of range: the run has blocks 0 to {last}")));
        }
        let events_max = usize::try_from(self.trace_max_events).unwrap_or(usize::MAX);
        Request::new(&self.trace, self.trace_block, events_max, modes).map(Some)
    }
}

/// Options of `vmmlab trace`.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// What to do
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What can be done with a trace.
#[derive(Debug, Clone, Subcommand)]
pub enum TraceCommand {
    /// Add up runtimes, switches and waits by thread and CPU
    ///
    /// Reads ftrace text (trace-cmd report, the kernel's trace file, --trace FILE.txt) and perf sched script. Lines that
    /// cannot be read are counted, and the first ones named on stderr.
    Summary(SummaryArgs),
}

/// Options of `vmmlab trace summary`.
#[derive(Debug, Clone, Args)]
pub struct SummaryArgs {
    /// Trace to read; - for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What is printed
    #[arg(long, value_name = "table|json|csv", value_enum, default_value = "table", hide_possible_values = true)]
    pub format: SummaryFormat,
    /// Threads in the table, those that ran longest; json and csv have all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

/// How a summary is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// tables of at most 100 columns
    Table,
    /// everything, schema vmmlab.trace-summary/1
    Json,
    /// one row a thread and one a CPU
    Csv,
}

pub(super) fn trace(args: &TraceArgs) -> Result<Exit, Error> {
    let TraceCommand::Summary(args) = &args.command;
    let summary = if args.file == Path::new("-") {
        Summary::read(io::stdin().lock())
    } else {
        open(&args.file).and_then(Summary::read)
    };
    let unreadable = |error| Error::Usage(format!("cannot read the trace {}: {error}", args.file.display()));
    let summary = summary.map_err(unreadable)?;
    for (number, damage) in &summary.damages {
        anstream::eprintln!("notice: {}:{number}: {damage}", args.file.display());
    }
    print(&match args.format {
        SummaryFormat::Table => table(&summary, args.top),
        SummaryFormat::Json => json(&summary),
        SummaryFormat::Csv => csv(&summary),
    })?;
    Ok(Exit::Ok)
}

fn open(path: &Path) -> io::Result<impl BufRead + use<>> {
    Ok(BufReader::with_capacity(1 << 18, File::open(path)?))
}

/// Milliseconds with three digits.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

fn table(summary: &Summary, top: usize) -> String {
    let (first, last) = summary.span_ns.unwrap_or((0, 0));
    let mut page = format!(
        "{} events in {} ms, {} threads, {} CPUs; times in ms\n\n",
        summary.events,
        ms(last - first),
        summary.threads.len(),
        summary.cpus.len()
    );
    let width = summary.threads.iter().take(top).map(|thread| thread.comm.chars().count()).max().unwrap_or(0);
    let width = width.clamp(6, 16);
    page.push_str(&format!(
        "{:<width$} {:>7} {:>12} {:>8} {:>8} {:>7} {:>6} {:>9} {:>9}\n",
        "thread", "pid", "runtime", "switches", "preempts", "wakeups", "moves", "wait mean", "wait max"
    ));
    for t in summary.threads.iter().take(top) {
        page.push_str(&format!(
            "{:<width$.width$} {:>7} {:>12} {:>8} {:>8} {:>7} {:>6} {:>9} {:>9}\n",
            clean(&t.comm),
            t.pid,
            ms(t.runtime_ns),
            t.switches,
            t.preempted,
            t.wakeups,
            t.migrations,
            ms(t.wait.mean_ns()),
            ms(t.wait.max_ns)
        ));
    }
    if summary.threads.len() > top {
        page.push_str(&format!("... and {} threads more: --top\n", summary.threads.len() - top));
    }
    page.push_str(&format!("\n{:<6} {:>12} {:>12} {:>9}\n", "CPU", "busy", "idle", "switches"));
    for cpu in &summary.cpus {
        page.push_str(&format!("{:<6} {:>12} {:>12} {:>9}\n", cpu.cpu, ms(cpu.busy_ns), ms(cpu.idle_ns), cpu.switches));
    }
    flushes(summary, &mut page);
    if !summary.exits.is_empty() {
        page.push_str(&format!("\n{:<24} {:>9}\n", "exit from guest mode", "count"));
        let mut exits: Vec<_> = summary.exits.iter().collect();
        exits.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), reason.as_str()));
        for (reason, count) in exits.iter().take(top) {
            page.push_str(&format!("{:<24.24} {count:>9}\n", clean(reason)));
        }
    }
    notes(summary, &mut page);
    page
}

/// Waits for flushes, all threads together.
fn flushes(summary: &Summary, page: &mut String) {
    let all = summary.threads.iter().fold(Times::default(), |sum, thread| Times {
        count: sum.count + thread.flush.count,
        total_ns: sum.total_ns.saturating_add(thread.flush.total_ns),
        max_ns: sum.max_ns.max(thread.flush.max_ns),
    });
    if all.count > 0 {
        let (mean, max) = (ms(all.mean_ns()), ms(all.max_ns));
        page.push_str(&format!("\n{} waits for a flush: {mean} ms at the mean, {max} ms at most\n", all.count));
    }
}

fn notes(summary: &Summary, page: &mut String) {
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            page.push_str(&format!("\nnote: {count} {text}\n"));
        }
    };
    note(summary.damaged, "lines could not be read and were left out");
    note(summary.unsorted, "events are earlier than the one before them on their CPU: times near them are too short");
    note(summary.lost, "events were lost by the tracer: times near them are wrong");
    note(summary.left_out, &format!("events were left out: more than {THREADS_MAX} threads, or too many CPUs"));
}

/// A name without what could move the cursor: it comes from a file.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

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

fn json(summary: &Summary) -> String {
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

/// Tidy: one row a thread or CPU; columns that have no meaning for it are empty.
fn csv(summary: &Summary) -> String {
    let mut rows = String::from(
        "kind,name,id,runtime_ns,idle_ns,switches,preempted,wakeups,migrations,exits,waits,wait_total_ns,wait_max_ns,\
         flushes,flush_total_ns,flush_max_ns\n",
    );
    for t in &summary.threads {
        let (wait, flush) = (t.wait, t.flush);
        let counts = [t.switches, t.preempted, t.wakeups, t.migrations, t.exits];
        let times = [wait.count, wait.total_ns, wait.max_ns, flush.count, flush.total_ns, flush.max_ns];
        let numbers: Vec<String> = counts.iter().chain(&times).map(u64::to_string).collect();
        rows.push_str(&format!("thread,{},{},{},,{}\n", csv_field(&t.comm), t.pid, t.runtime_ns, numbers.join(",")));
    }
    for c in &summary.cpus {
        rows.push_str(&format!("cpu,CPU {0},{0},{1},{2},{3},,,,,,,,,,\n", c.cpu, c.busy_ns, c.idle_ns, c.switches));
    }
    rows
}

/// A field as RFC 4180 wants it.
fn csv_field(text: &str) -> String {
    let text = clean(text);
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Summary {
        let text = "\
            a,\"x\x1b-1 [0] 2.0: sched_wakeup: comm=a,\"x\x1b pid=1 prio=120 target_cpu=000\n\
            b-2 [0] 3.0: sched_switch: b:2 [120] R ==> a,\"x\x1b:1 [120]\n\
            a,\"x\x1b-1 [0] 3.5: kvm_exit: reason HLT rip 0x0 info 0 0\n\
            rubbish\n\
            a,\"x\x1b-1 [0] 5.0: sched_switch: a,\"x\x1b:1 [120] S ==> b:2 [120]\n";
        Summary::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_table_has_threads_cpus_exits_and_notes() {
        let page = table(&sample(), 1);
        for line in [
            "4 events in 3000.000 ms, 2 threads, 1 CPUs; times in ms",
            "a,\"x?        1     2000.000        1        0       1      0  1000.000  1000.000",
            "... and 1 threads more: --top",
            "0          2000.000        0.000         2",
            "HLT                              1",
            "note: 1 lines could not be read and were left out",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    }

    #[test]
    fn csv_and_json_have_the_same_numbers() {
        let summary = sample();
        let json: serde_json::Value = serde_json::from_str(&json(&summary)).unwrap();
        assert_eq!(json["schema"], SUMMARY_SCHEMA);
        assert_eq!(json["damaged_first"][0]["line"], 4);
        let text = csv(&summary);
        let rows: Vec<&str> = text.lines().collect();
        let head: Vec<&str> = rows[0].split(',').collect();
        assert!(rows[1].starts_with("thread,\"a,\"\"x?\",1,2000000000,,"), "{text}");
        for row in &rows[1..] {
            // No field of ours but the quoted name holds a comma.
            let fields: Vec<&str> = row.rsplitn(head.len() - 1, ',').collect();
            let of = |name: &str| fields[head.len() - 1 - head.iter().position(|h| *h == name).unwrap()];
            if row.starts_with("thread") {
                let pid: u64 = of("id").parse().unwrap();
                let thread = json["threads"].as_array().unwrap().iter().find(|t| t["pid"] == pid).unwrap();
                for name in ["runtime_ns", "switches", "wait_total_ns", "exits", "flush_max_ns"] {
                    assert_eq!(thread[name].as_u64().unwrap().to_string(), of(name), "{name}: {row}");
                }
            } else {
                assert_eq!(json["cpus"][0]["busy_ns"].as_u64().unwrap().to_string(), of("runtime_ns"));
            }
        }
    }

    #[test]
    fn a_block_that_is_not_there_is_refused() {
        let options = |block| TraceOptions { trace: vec!["a.txt".into()], trace_block: block, trace_max_events: 1000 };
        assert!(options(5).request(1, 6).unwrap().is_some());
        let error = options(6).request(1, 6).unwrap_err().to_string();
        assert_eq!(error, "--trace-block 6 is out of range: the run has blocks 0 to 5");
    }
}
