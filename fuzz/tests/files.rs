//! What files of earlier runs can say: results, their histograms, traces.

use std::collections::BTreeSet;

use fuzz::{Documents, Scratch, Script, committed, mutate, target};
use plan::HistogramSummary;
use serde_json::{Value, json};
use trace::summary::Summary;
use trace::timeline::{Timeline, Window};
use vmmlab::compare::{Request, compare};
use vmmlab::report::{Traces, report};
use vmmlab::result::ResultFile;

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A small result of the simulator, with a whole histogram in its first run.
fn result() -> Value {
    let mut result: Value =
        serde_json::from_str(&committed("results/workloads/0001-workload=ebizzy.json")).expect("JSON");
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("digits");
    [5, 70_000, 1 << 30].iter().for_each(|ns| histogram.record(*ns).expect("a histogram that grows"));
    if let Some(runs) = result["runs"].as_array_mut() {
        runs.truncate(2);
    }
    result["runs"][0]["histograms"]["flush_wait"] =
        serde_json::to_value(HistogramSummary::of(&histogram)).expect("JSON");
    result
}

/// The same result with more blocks: enough for verdicts.
fn long_result() -> Value {
    let mut result = result();
    let runs = result["runs"].as_array().cloned().unwrap_or_default();
    let block = |block: u64| runs.iter().take(2).map(move |run| (block, run.clone()));
    let all = (0..7).flat_map(block).map(|(block, mut run)| {
        run["block"] = json!(block);
        run["seed"] = json!(block + 1);
        run["records_per_s"] = json!(1000.0 + f64::from(u32::try_from(block).unwrap_or(0)) * 7.0);
        run
    });
    result["runs"] = all.collect();
    result["experiment"]["blocks"] = json!(7);
    result
}

/// What results are read from, and what they are compared with.
struct Results {
    scratch: Scratch,
    documents: Documents,
    other: ResultFile,
}

fn results() -> Results {
    let scratch = Scratch::default();
    let whole = scratch.write("result.json", result().to_string().as_bytes());
    assert!(vmmlab::result::read(&whole).is_ok(), "the undamaged result is read");
    let other = serde_json::from_value(long_result()).expect("a result");
    // The long one takes five times as long: one in four.
    let documents = Documents::new(vec![result(), result(), result(), long_result()]);
    Results { scratch, documents, other }
}

/// A result is read, summed up, shown in every text form, and compared: with itself, half with half, and with a whole one.
fn judge(state: &Results, input: &[u8]) {
    let Results { scratch, documents, other } = state;
    let mut script = Script::new(input);
    let path = scratch.write("result.json", &documents.damaged(&mut script));
    let Ok(mut read) = vmmlab::result::read(&path) else { return };
    read.summarize();
    let _ = vmmlab::table::render(&read, "result.json");
    match script.byte() % 4 {
        0 => drop(vmmlab::table::mail(&read)),
        1 => drop(vmmlab::table::result_csv(&read)),
        2 => drop(vmmlab::table::result_markdown(&read)),
        _ => {}
    }
    let (base, new) = (None, None);
    let ignore = ["engine", "host", "kernel", "kvm", "topology", "guest", "experiment"];
    let ignore: BTreeSet<_> = ignore.iter().map(|aspect| aspect.parse().expect("an aspect")).collect();
    let request = Request { base, new, ignore, aa: script.one_in(4) };
    let pair = [("old", &read), ("new", other)];
    let files = if script.one_in(2) || request.aa { &pair[..1] } else { &pair };
    if let Ok(comparison) = compare(files, &request) {
        let _ = vmmlab::table::comparison_csv(&comparison);
        let _ = vmmlab::table::comparison_markdown(&comparison);
        for metric in comparison.metrics.iter().take(3) {
            let _ = vmmlab::table::explain(&comparison, &metric.id);
        }
    }
}

target!(result_json, results(), |state, input| judge(state, input));

/// Everything that a report is made of: a result with its blocks, a comparison, a reproduction.
struct Reports {
    scratch: Scratch,
    results: Documents,
    blocks: Documents,
    others: Documents,
}

fn reports() -> Reports {
    let one: ResultFile = serde_json::from_value(long_result()).expect("a result");
    let compared = compare(&[("one", &one)], &Request::default()).expect("it can be compared");
    let compared = serde_json::to_value(compared).expect("JSON");
    let mut reproduced: Value = serde_json::from_str(&committed("results/gang-cfs.json")).expect("JSON");
    let reproduced = reproduced["reproduction"].take();
    Reports {
        scratch: Scratch::default(),
        results: Documents::new(vec![result()]),
        blocks: Documents::new(vec![result()["runs"].clone()]),
        others: Documents::new(vec![compared, reproduced]),
    }
}

fn page(state: &Reports, input: &[u8]) {
    let mut script = Script::new(input);
    let traces = Traces { paths: &[], window: None };
    let page = if script.one_in(2) {
        let other = state.scratch.write("other.json", &state.others.damaged(&mut script));
        report(&other, &traces)
    } else {
        // Either of both files is damaged.
        let (result, blocks) = if script.one_in(2) {
            (state.results.damaged(&mut script), state.blocks.damaged(&mut Script::new(&[])))
        } else {
            (state.results.damaged(&mut Script::new(&[])), state.blocks.damaged(&mut script))
        };
        state.scratch.write("run/result.json", &result);
        state.scratch.write("run/blocks/0000.json", &blocks);
        report(&state.scratch.dir().join("run"), &traces)
    };
    if let Ok(page) = page {
        assert!(!page.contains("<script"), "a page has no scripts, whatever a result says");
        assert!(page.len() < 32 << 20);
    }
}

target!(report_json, reports(), |state, input| page(state, input));

/// An encoded histogram that is damaged is none, or one that can be asked.
fn decode(state: &[Vec<u8>], input: &[u8]) {
    let mut script = Script::new(input);
    let mut hex = script.pick(state).clone();
    for _ in 0..=script.below(4) {
        let at = script.below(hex.len().min(96));
        hex[at] = *script.pick(b"0123456789abcdefg");
    }
    hex.truncate(if script.one_in(4) { script.below(hex.len() + 1) } else { hex.len() });
    let hdr_v2_hex = Some(String::from_utf8_lossy(&hex).into_owned());
    let summary: HistogramSummary =
        serde_json::from_value(json!({"p50_ns": 0, "p99_ns": 0, "max_ns": 0, "count": 0, "hdr_v2_hex": hdr_v2_hex}))
            .expect("JSON");
    if let Some(histogram) = summary.whole() {
        let _ = (histogram.value_at_quantile(0.5), histogram.max(), histogram.iter_recorded().count());
    }
}

fn encoded() -> Vec<Vec<u8>> {
    let some = |values: &[u64]| {
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("digits");
        values.iter().for_each(|value| histogram.record(*value).expect("a histogram that grows"));
        HistogramSummary::of(&histogram).hdr_v2_hex.unwrap_or_default().into_bytes()
    };
    vec![some(&[1, 2, 3]), some(&[5, 70_000, 70_001, 1 << 40]), some(&[1_000_000; 300])]
}

target!(histogram_hex, encoded(), |state, input| decode(state, input));

// ── Traces ──────────────────────────────────────────────────────────────────────────────────────────────────────────

#[path = "../../trace/tests/sample/mod.rs"]
mod sample;

const TRACES: &[&str] = &[
    "     swapper     0 [001] 9246430.572061: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> \
     next_comm=a b next_pid=7 next_prio=120\n  CPU 1/KVM-77 (77) [003] d.h. 5.100000: kvm_exit: reason EXTERNAL_INTERRUPT rip \
     0xffff info 0 0\n CPU:3 [LOST 12 EVENTS]\n x-1 [000] 1.5: kvm_entry: vcpu 0\n",
    "# tracer: nop\n  <idle>-0 [000] d... 12.000001: ipi_raise: target_mask=00000000,00000003 (Rescheduling interrupts)\n \
     vcpu0.0-11 [000] 12.1: tracing_mark_write: B|11|flush\n vcpu0.0-11 [000] 12.2: tracing_mark_write: E|11\n",
];
const TRACE_WORDS: &[&str] = &[
    " [000] ",
    "1.5: ",
    "sched_switch: ",
    "sched_wakeup: comm=x pid=1 prio=120 target_cpu=001",
    "prev_comm=",
    " prev_pid=",
    " prev_state=",
    " ==> ",
    "next_comm=",
    " next_pid=",
    "kvm_entry: vcpu 3",
    "kvm_exit: reason HLT",
    "tracing_mark_write: B|1|flush",
    "E|1",
    "[LOST 5 EVENTS]",
    "CPU:1",
    "18446744073709551616.999999999: ",
    "\n",
    "target_cpu=4294967295",
    "ipi_raise: target_mask=",
];

fn traces() -> Vec<Vec<u8>> {
    let mut ours = Vec::new();
    trace::ftrace::write(&sample::sample(), &mut ours).expect("memory");
    TRACES.iter().map(|text| text.as_bytes().to_vec()).chain([ours]).collect()
}

target!(trace_text, traces(), |documents, input| {
    let mut script = Script::new(input);
    let text = if script.one_in(16) { input.to_vec() } else { mutate(documents, TRACE_WORDS, &mut script) };
    let summary = Summary::read(text.as_slice()).expect("memory");
    assert!(summary.damages.len() <= text.len());
    let window = Window { skip_ns: script.number(), len_ns: script.number(), items_max: script.below(50) };
    let timeline = Timeline::read(text.as_slice(), window).expect("memory");
    assert!(timeline.runs.len() <= window.items_max && timeline.arrows.len() <= window.items_max);
});
