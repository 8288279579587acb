//! The driver, the run directory and the page, with an engine that answers at once and always the same.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hdrhistogram::Histogram;
use plan::{
    Control, Engine, EngineError, Failure, HistogramSummary, Inject, Mode, RunPlan, RunRecord, RunStatus, VmRecord,
    WorkloadParams, metric,
};
use vmmlab::driver::{self, Job, Observer, Outcome};
use vmmlab::exit::Exit;
use vmmlab::experiment::{Experiment, Metrics, in_band};
use vmmlab::host::Fingerprint;
use vmmlab::interrupt::Stop;
use vmmlab::recording::{Context, Recording};
use vmmlab::result::ResultFile;
use vmmlab::store::Store;
use vmmlab::table;

/// What happens in run number `at`.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Nothing,
    Fail {
        at: usize,
    },
    Break {
        at: usize,
    },
    /// A first Ctrl-C.
    Interrupt {
        at: usize,
    },
    /// A second one.
    Abort {
        at: usize,
    },
}

/// Modes by their rate in the formula; a list of its own, so that new modes do not change the pages.
const FORMULA: &[&str] = &["base", "pin", "gang-next", "gang", "ple", "gang-ple", "pvflush"];

/// Answers from a formula: the mode decides the rate, the block's seed shifts all modes alike.
struct Fake {
    event: Event,
    runs: AtomicUsize,
    stop: Stop,
}

impl Engine for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn run(&self, plan: &RunPlan, control: &Control) -> Result<RunRecord, EngineError> {
        let at = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut record = RunRecord::empty(plan);
        let block_noise = 1.0 + f64::from(u32::try_from(plan.seed % 1000).unwrap()) / 5000.0;
        let mode = FORMULA.iter().position(|name| in_band(&plan.mode, plan.vms) == *name).unwrap_or(0);
        let mode = u32::try_from(mode).unwrap();
        record.duration_ns = plan.duration_ns;
        record.records_per_s = 1000.0 * f64::from(mode + 1) * block_noise + f64::from(plan.block * (mode + 1));
        record.vms = (0..plan.vms)
            .map(|vm| VmRecord {
                records: 1,
                records_per_s: record.records_per_s / f64::from(plan.vms),
                cpu_ns: 950 + 100 * u64::from(vm),
                entitled_ns: 1000,
                stale_reads: 0,
                soft_stale_reads: 0,
                vcpu_records: vec![1; 8],
            })
            .collect();
        for (name, value) in [
            (metric::FLUSHES, 10_000),
            (metric::FLUSH_IPIS, 70_000),
            (metric::SWITCHES, 24_000 + u64::from(mode) * 100_000),
            (metric::GUEST_KICKS, u64::from(mode)),
        ] {
            record.counters.insert(name.into(), value);
        }
        let mut wait = Histogram::new(3).unwrap();
        for ns in [36_000, 1_240_000, 48_000_000] {
            wait.record(ns).unwrap();
        }
        for name in [metric::FLUSH_WAIT, metric::RUNQUEUE_WAIT] {
            record.histograms.insert(name.into(), HistogramSummary::of(&wait));
        }
        record.guest_profile.insert("flush_wait_busy".into(), 0.612);
        record.gang_coverage = plan.axes.host_policy.is_gang().then_some(0.123);
        record.startup_ns = 41_200_000;
        record.foreign_cpu_ns = 123_000_000;
        record.settings.insert("sched_latency_ns".into(), 12_000_000);
        record.settings.insert("sched_min_granularity_ns".into(), 1_500_000);
        if plan.axes.host_policy.is_gang() {
            record.notices.push(format!("A gang of 8 vCPUs does not fit: coverage 0.1{}", plan.block));
        }
        match self.event {
            Event::Fail { at: failing } if at == failing => {
                record.status = RunStatus::Failed;
                record.soft_stale_reads = 3;
                let message = "VM 1 read 3 stale translations after its flush had completed".into();
                record.failures = vec![Failure { check: "soft-stale-read".into(), message }];
            }
            Event::Break { at: breaking } if at == breaking => {
                return Err(EngineError::Internal { what: "Cannot create VM 3".into(), source: None });
            }
            Event::Interrupt { at: stopping } if at == stopping => self.stop.after_block(),
            Event::Abort { at: stopping } if at == stopping => {
                control.abort();
                record.status = RunStatus::Partial;
            }
            _ => {}
        }
        Ok(record)
    }
}

struct Silent;

impl Observer for Silent {
    fn run_done(&mut self, _: &Experiment, _: &RunRecord) {}
    fn block_done(&mut self, _: Job, _: &Experiment, _: &[RunRecord]) {}
}

fn experiment(modes: &[Mode], blocks: u32) -> Experiment {
    let params = WorkloadParams { search_passes: 4, ..WorkloadParams::default() };
    let plan = |mode: &Mode| RunPlan { params: params.clone(), ..RunPlan::sample(*mode) };
    let plans = modes.iter().map(plan).collect();
    Experiment { name: "run".into(), plans, blocks, seed: 42, simulated: None, metrics: Metrics::default() }
}

fn open(store: Store, experiment: &Experiment) -> Recording {
    let context = Context {
        command: "vmmlab run --vms 2 --mode base,gang,pvflush,ple --seed 42".into(),
        started: "2026-01-02T03:04:05Z".into(),
        host: Fingerprint { kvm: Some("VMX".into()), ..Fingerprint::default() },
    };
    Recording::open("fake", experiment.clone(), context, store).unwrap()
}

fn run(dir: &Path, experiment: &Experiment, event: Event) -> Outcome {
    let store = Store::create(Some(dir), "run", "20260102T030405Z", "0123456789").unwrap();
    let stop = Stop::default();
    let engine = Fake { event, runs: AtomicUsize::new(0), stop: stop.clone() };
    driver::run(&engine, open(store, experiment), 1, &stop, &mut Silent).unwrap()
}

fn page(outcome: &Outcome) -> String {
    let styled = table::render(&outcome.result, "vmmlab-runs/run/x/result.json");
    anstream::adapter::strip_str(&styled).to_string()
}

const FOUR: &[Mode] = &[Mode::Base, Mode::Gang, Mode::PvFlush, Mode::Ple];

#[test]
fn a_whole_experiment_is_on_disk_as_it_was_run() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("out");
    let outcome = run(&dir, &experiment(FOUR, 6), Event::Nothing);
    assert_eq!((outcome.exit(), outcome.result.status), (Exit::Ok, RunStatus::Ok));

    let read: ResultFile = serde_json::from_str(&fs::read_to_string(dir.join("result.json")).unwrap()).unwrap();
    assert_eq!(read, outcome.result);
    assert_eq!((read.schema.as_str(), read.seed, read.runs.len()), ("vmmlab.result/1", 42, 24));
    let order: Vec<_> = read.runs[..8].iter().map(|run| run.mode.as_str()).collect();
    assert_eq!(order, ["base", "gang", "pvflush", "ple", "ple", "pvflush", "gang", "base"]);

    let block: Vec<RunRecord> =
        serde_json::from_str(&fs::read_to_string(dir.join("blocks/0005.json")).unwrap()).unwrap();
    assert!(block.iter().all(|run| run.histograms[metric::FLUSH_WAIT].hdr_v2_hex.is_some()), "raw data is kept whole");
    assert!(dir.join("manifest.json").is_file() && dir.join("environment.json").is_file());
}

#[test]
fn the_json_has_the_names_that_scripts_rely_on() {
    let root = tempfile::tempdir().unwrap();
    let outcome = run(&root.path().join("out"), &experiment(&[Mode::Base, Mode::Gang], 1), Event::Nothing);
    let json = serde_json::to_value(&outcome.result).unwrap();
    assert_eq!(json["schema"], "vmmlab.result/1");
    assert!(json["engine"].is_string() && json["seed"].is_u64());
    let run = &json["runs"][0];
    for name in ["mode", "block", "duration_ns", "records_per_s", "stale_reads", "soft_stale_reads", "counters"] {
        assert!(!run[name].is_null(), "{name}");
    }
    assert!(run["gang_coverage"].is_null() && json["runs"][1]["gang_coverage"].is_f64());
    assert!(run["vms"][0]["records_per_s"].is_f64());
    for name in ["p50_ns", "p99_ns", "max_ns", "count"] {
        assert!(run["histograms"]["flush_wait"][name].is_u64(), "{name}");
    }
}

#[test]
fn the_page_of_a_whole_experiment() {
    let root = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(page(&run(&root.path().join("out"), &experiment(FOUR, 6), Event::Nothing)));
}

/// `--vms 1,4`.
fn two_bands(modes: &[Mode], blocks: u32) -> Experiment {
    let mut both = experiment(modes, blocks);
    let of = |vms, plan: &RunPlan| RunPlan { vms, mode: format!("{}+vms={vms}", plan.mode), ..plan.clone() };
    both.plans = [1, 4].iter().flat_map(|vms| both.plans.iter().map(|plan| of(*vms, plan))).collect();
    both
}

#[test]
fn the_page_of_two_numbers_of_vms() {
    let root = tempfile::tempdir().unwrap();
    let outcome = run(&root.path().join("out"), &two_bands(&[Mode::Base, Mode::PvFlush], 6), Event::Nothing);
    insta::assert_snapshot!(page(&outcome));
    insta::assert_snapshot!(table::mail(&outcome.result));
}

#[test]
fn modes_are_compared_with_those_of_as_many_vms_and_a_vm_with_a_vm_alone() {
    let root = tempfile::tempdir().unwrap();
    let outcome = run(&root.path().join("out"), &two_bands(&[Mode::Base, Mode::PvFlush], 6), Event::Nothing);
    let against = |mode: &str| {
        let row = outcome.result.summary.iter().find(|row| row.mode == mode).unwrap();
        (row.vms, row.change.as_ref().map(|change| change.against.as_str()), row.scaling)
    };
    assert_eq!(against("base+vms=1"), (1, None, Some(1.0)));
    assert_eq!(against("pvflush+vms=1"), (1, Some("base+vms=1"), Some(1.0)));
    assert_eq!(against("base+vms=4"), (4, None, Some(0.25)));
    assert_eq!(against("pvflush+vms=4"), (4, Some("base+vms=4"), Some(0.25)));
    let csv = table::result_csv(&outcome.result);
    assert!(csv.contains("pvflush+vms=4,5,") && csv.contains("vm_share_max,share,1.25"), "{csv}");
}

#[test]
fn a_failed_run_comes_first_and_does_not_hide_the_others() {
    let root = tempfile::tempdir().unwrap();
    let outcome = run(&root.path().join("out"), &experiment(FOUR, 6), Event::Fail { at: 2 });
    assert_eq!((outcome.exit(), outcome.result.runs.len()), (Exit::Failed, 24));
    let page = page(&outcome);
    assert!(page.starts_with("FAILED   pvflush block 0: soft-stale-read: VM 1 read 3 stale"), "{page}");
    let pvflush = outcome.result.summary.iter().find(|row| row.mode == "pvflush").unwrap();
    assert_eq!(pvflush.blocks, 5);
    assert_eq!(pvflush.change.as_ref().unwrap().interval_percent, None, "five blocks give no interval");
}

#[test]
fn an_injected_fault_that_no_check_sees_fails_the_run() {
    let root = tempfile::tempdir().unwrap();
    let mut faulty = experiment(&[Mode::Base], 1);
    faulty.plans[0].inject = Some(Inject::LostFlush);
    let outcome = run(&root.path().join("out"), &faulty, Event::Nothing);
    assert_eq!(outcome.exit(), Exit::Failed);
    assert!(page(&outcome).starts_with("FAILED   base block 0: inject: --inject lost-flush was caught by no check"));
}

#[test]
fn a_first_ctrl_c_finishes_the_block_and_marks_the_result() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("out");
    let outcome = run(&dir, &experiment(FOUR, 6), Event::Interrupt { at: 5 });
    assert_eq!((outcome.exit(), outcome.result.status), (Exit::Interrupted, RunStatus::Partial));
    assert!(page(&outcome).starts_with("PARTIAL  stopped before its end: 8 of 24 runs are whole"));
    let read: ResultFile = serde_json::from_str(&fs::read_to_string(dir.join("result.json")).unwrap()).unwrap();
    assert_eq!((read.status, read.runs.len()), (RunStatus::Partial, 8));
    assert!(read.runs.iter().all(|run| run.status == RunStatus::Ok), "whole runs only");
}

#[test]
fn a_second_ctrl_c_ends_the_run_and_keeps_what_it_had() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("out");
    let outcome = run(&dir, &experiment(FOUR, 6), Event::Abort { at: 5 });
    assert_eq!((outcome.exit(), outcome.result.status), (Exit::Interrupted, RunStatus::Partial));
    assert!(page(&outcome).starts_with("PARTIAL  stopped before its end: 5 of 24 runs are whole"));
    let read: ResultFile = serde_json::from_str(&fs::read_to_string(dir.join("result.json")).unwrap()).unwrap();
    assert_eq!((read.status, read.runs.len()), (RunStatus::Partial, 6));
}

#[test]
fn blocks_that_are_there_are_not_run_again_and_damaged_ones_are() {
    let root = tempfile::tempdir().unwrap();
    let [whole, resumed] = ["whole", "resumed"].map(|name| root.path().join(name));
    let asked = experiment(FOUR, 6);
    run(&whole, &asked, Event::Nothing);
    run(&resumed, &asked, Event::Abort { at: 13 });
    // Block 3 was cut by the abort; block 1 loses its end, as in a power cut on a file system without order.
    let block_1 = fs::read(resumed.join("blocks/0001.json")).unwrap();
    fs::write(resumed.join("blocks/0001.json"), &block_1[..block_1.len() / 2]).unwrap();
    let again = open(Store::open(&resumed), &asked);
    let there: Vec<_> = (0..6).filter(|block| again.has(*block)).collect();
    assert_eq!(there, [0, 2]);
    let engine = Fake { event: Event::Nothing, runs: AtomicUsize::new(0), stop: Stop::default() };
    let outcome = driver::run(&engine, again, 3, &Stop::default(), &mut Silent).unwrap();
    assert_eq!((outcome.exit(), engine.runs.into_inner()), (Exit::Ok, 16));
    for file in ["result.json", "blocks/0001.json", "blocks/0003.json"] {
        assert_eq!(fs::read(whole.join(file)).unwrap(), fs::read(resumed.join(file)).unwrap(), "{file}");
    }
}

#[test]
fn a_broken_engine_keeps_what_was_measured_before() {
    let root = tempfile::tempdir().unwrap();
    let outcome = run(&root.path().join("out"), &experiment(FOUR, 6), Event::Break { at: 4 });
    assert!(matches!(outcome.error, Some(EngineError::Internal { .. })));
    assert_eq!((outcome.result.runs.len(), outcome.result.status), (4, RunStatus::Partial));
}

#[test]
fn pages_are_at_most_100_columns_wide() {
    let root = tempfile::tempdir().unwrap();
    let mut wide = experiment(Mode::ALL, 6);
    for plan in &mut wide.plans {
        plan.mode.push_str("+host-policy=gang-next+flush=hypercall+spin=ple+pin=yes");
    }
    for (name, experiment, event) in
        [("a", wide, Event::Nothing), ("b", two_bands(Mode::ALL, 3), Event::Fail { at: 0 })]
    {
        let page = page(&run(&root.path().join(name), &experiment, event));
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }
}
