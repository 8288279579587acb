//! `vmmlab trace summary`: what a trace adds up to, as tables, as CSV, or as the [`document`].

mod document;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use trace::summary::{Summary, THREADS_MAX, Times};

use super::print;
use crate::exit::{Error, Exit};

pub use document::SUMMARY_SCHEMA;
pub(crate) use document::SummaryDocument;
use document::json;

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
}
