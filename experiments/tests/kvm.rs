//! `vmmlab run` with real guests. Where KVM cannot be used each test says so by name and is skipped, unless
//! `VMMLAB_REQUIRE_KVM=1`. Nothing here depends on how fast the host is.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plan::{Mode, RunRecord, RunStatus, metric};
use rustix::process::{Pid, Signal, kill_process};
use support::kvm;
use vmmlab::result::ResultFile;

fn command(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmmlab"));
    command.current_dir(directory).arg("run").args(arguments.split_whitespace());
    command
}

fn run(directory: &Path, arguments: &str) -> Output {
    command(directory, arguments).output().unwrap()
}

fn result(path: &Path) -> ResultFile {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// What must hold after every run, whatever it measured.
fn check(run: &RunRecord) {
    let name = &run.mode;
    assert_eq!((run.stale_reads, run.soft_stale_reads), (0, 0), "{name}");
    let counter = |id: &str| run.counters.get(id).copied().unwrap_or_else(|| panic!("{name} lacks {id}"));
    let [sent, consumed, coalesced] =
        [metric::KICKS_SENT, metric::KICKS_CONSUMED, metric::KICKS_COALESCED].map(counter);
    assert_eq!(sent, consumed + coalesced, "{name}: kicks at rest");
    assert!(counter(metric::FLUSHES) > 0, "{name} did not flush");
    assert!(run.records_per_s > 0.0 && run.vms.iter().all(|vm| vm.records > 0), "{name}: a VM did nothing");
    let sum: f64 = run.vms.iter().map(|vm| vm.records_per_s).sum();
    assert!((sum - run.records_per_s).abs() <= 1e-6 * sum, "{name}: the sum of the VMs");
    for id in [metric::FLUSH_WAIT, metric::IPI_DELIVERY, metric::RUNQUEUE_WAIT, metric::DISPATCH] {
        assert!(run.histograms.contains_key(id), "{name} lacks the histogram {id}");
    }
    assert_eq!(run.gang_coverage.is_some(), run.axes.host_policy.is_gang(), "{name}: gang coverage");
}

#[test]
fn every_mode_runs_and_its_result_holds() {
    if !kvm("every_mode_runs_and_its_result_holds") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let modes = Mode::ALL.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(",");
    let arguments =
        format!("--mode {modes} --vms 2 --vcpus 2 --blocks 1 --duration 400ms --warmup 100ms --format json --out out");
    let output = run(root.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: ResultFile = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, result(&root.path().join("out/result.json")));
    assert_eq!((printed.schema.as_str(), printed.engine.as_str()), ("vmmlab.result/1", "kvm"));
    assert_eq!(printed.runs.len(), Mode::ALL.len());
    for run in &printed.runs {
        check(run);
        assert!(run.counters[metric::IN_RUN_MAX] <= 1, "{}: two threads of one CPU in KVM_RUN", run.mode);
    }
    assert!(printed.host.guest_digest.is_some() && printed.host.kvm.is_some());
}

#[test]
fn the_kernels_scheduler_runs_the_same_guests() {
    if !kvm("the_kernels_scheduler_runs_the_same_guests") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let arguments =
        "--sched host --mode base,pvflush --vms 2 --vcpus 2 --blocks 1 --duration 400ms --warmup 100ms --out out";
    let output = run(root.path(), arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let result = result(&root.path().join("out/result.json"));
    assert!(result.runs.iter().all(|run| run.records_per_s > 0.0 && run.stale_reads + run.soft_stale_reads == 0));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("host scheduler") && page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn a_lost_flush_is_caught_printed_first_and_kept() {
    if !kvm("a_lost_flush_is_caught_printed_first_and_kept") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let arguments =
        "--mode pvflush --inject lost-flush --vms 1 --vcpus 4 --blocks 1 --duration 1s --warmup 100ms --out out";
    let output = run(root.path(), arguments);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.starts_with(b"FAILED   pvflush block 0: "), "{}", String::from_utf8_lossy(&output.stdout));
    let result = result(&root.path().join("out/result.json"));
    assert_eq!(result.status, RunStatus::Failed);
    assert!(result.runs[0].stale_reads + result.runs[0].soft_stale_reads > 0);
}

/// Starts a long experiment and waits until its first run is under way.
fn start_long(directory: &Path, duration: &str) -> Child {
    let arguments =
        format!("--mode base,pvflush --vms 2 --vcpus 2 --blocks 50 --duration {duration} --warmup 0ns --out out");
    let mut child = command(directory, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(20);
    while !directory.join("out/environment.json").exists() {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < limit, "it did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_first_signal_finishes_the_block_with_130_a_marked_partial_result_and_nothing_left() {
    if !kvm("a_first_signal_finishes_the_block_with_130_a_marked_partial_result_and_nothing_left") {
        return;
    }
    for which in [Signal::INT, Signal::TERM] {
        let root = tempfile::tempdir().unwrap();
        let child = start_long(root.path(), "1s");
        let id = child.id();
        signal(&child, which);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.starts_with(b"PARTIAL  "), "{}", String::from_utf8_lossy(&output.stdout));
        let result = result(&root.path().join("out/result.json"));
        assert_eq!(result.status, RunStatus::Partial);
        let runs = result.runs.len();
        assert!(runs > 0 && runs.is_multiple_of(2) && runs < 100, "{runs} runs are not whole blocks");
        assert!(result.runs.iter().all(|run| run.status == RunStatus::Ok));
        assert_eq!(cgroups_of(id), Vec::<std::path::PathBuf>::new());
    }
}

/// Directories that process `id` has made in any cgroup hierarchy.
fn cgroups_of(id: u32) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(directory) = todo.pop() {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name().to_string_lossy().starts_with(&format!("vmmlab-{id}-")) {
                found.push(entry.path());
            }
            todo.push(entry.path());
        }
    }
    found
}

#[test]
fn a_second_signal_does_not_wait_for_the_block_and_leaves_nothing() {
    if !kvm("a_second_signal_does_not_wait_for_the_block_and_leaves_nothing") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut child = start_long(root.path(), "60s");
    let id = child.id();
    signal(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the first one lets the block go on");
    let asked = Instant::now();
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    // A second and the printing; the host may be busy.
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.starts_with(b"PARTIAL  "), "{}", String::from_utf8_lossy(&output.stdout));
    let result = result(&root.path().join("out/result.json"));
    assert_eq!((result.status, result.runs.len()), (RunStatus::Partial, 1));
    assert_eq!(result.runs[0].status, RunStatus::Partial);
    assert_eq!(cgroups_of(id), Vec::<std::path::PathBuf>::new());
}
