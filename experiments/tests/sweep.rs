//! `vmmlab sweep`, `--shard`, `--resume` and `vmmlab merge`, as a cluster uses them: processes, signals, directories.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plan::RunStatus;
use rustix::process::{Pid, Signal, kill_process};
use vmmlab::result::ResultFile;
use vmmlab::sweep::SweepFile;

/// Four points of three blocks; a run is over in a moment.
const SMALL: &str = r#"
name = "small"
title = "A sweep for tests"
[run]
engine = "sim"
mode = ["base", "pvflush"]
topology = "1s:2c"
vcpus = 2
blocks = 3
duration = "30ms"
warmup = "5ms"
seed = 7
[axes]
vms = [1, 2]
slice = ["1ms", "2ms"]
[metrics]
primary = ["records_per_s"]
margin_percent = 2
"#;

fn vmmlab(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmmlab"));
    command.current_dir(directory).args(arguments.split_whitespace());
    command
}

fn output(directory: &Path, arguments: &str) -> Output {
    vmmlab(directory, arguments).output().unwrap()
}

fn good(directory: &Path, arguments: &str) -> String {
    let output = output(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(file: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("x.toml"), file).unwrap();
    root
}

/// Every file below `points/`, and `sweep.json`, by name; without the lines that say when it began.
fn contents(sweep: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![sweep.join("points"), sweep.join("sweep.json")];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let kept: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("\"started\":")).collect();
            found.insert(path.strip_prefix(sweep).unwrap().to_owned(), kept.join("\n"));
        }
    }
    found
}

/// Those of the points: what was run, however it was asked for.
fn points(sweep: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    contents(sweep).into_iter().filter(|(name, _)| name.starts_with("points"))
}

#[track_caller]
fn assert_same(a: &Path, b: &Path) {
    let [a, b] = [a, b].map(contents);
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, text) in &a {
        assert!(*text == b[name], "{} differs", name.display());
    }
}

#[test]
fn shares_run_by_xargs_join_to_the_undivided_sweep() {
    let root = scratch(SMALL);
    good(root.path(), "sweep x.toml --out whole --jobs 1");
    let script = format!(
        "printf '%s\\n' 1 2 3 4 5 | xargs -P 2 -I K '{0}' sweep x.toml --shard K/5 --out shares/K && \
         '{0}' merge shares/* --out all",
        env!("CARGO_BIN_EXE_vmmlab")
    );
    let joined = Command::new("sh").current_dir(root.path()).args(["-c", &script]).output().unwrap();
    assert_eq!(joined.status.code(), Some(0), "{}", text(&joined.stderr));
    assert_same(&root.path().join("whole"), &root.path().join("all"));
    let share: SweepFile = read(&root.path().join("shares/1/sweep.json"));
    assert_eq!((share.status, share.shard.as_str()), (RunStatus::Partial, "1/5"), "a share says that it is one");
    let page = text(&joined.stdout);
    assert!(page.contains("slice 1ms, vms 2") && page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn the_number_of_threads_does_not_reach_the_results_and_each_point_can_be_asked_for_alone() {
    let root = scratch(SMALL);
    good(root.path(), "sweep x.toml --out one --jobs 1");
    good(root.path(), "sweep x.toml --out many --jobs 7");
    assert_same(&root.path().join("one"), &root.path().join("many"));
    let point: ResultFile = read(&root.path().join("one/points/0003-slice=2ms,vms=2/result.json"));
    let alone = point.command.strip_prefix("vmmlab ").unwrap();
    good(root.path(), &format!("{alone} --out alone"));
    let alone: ResultFile = read(&root.path().join("alone/result.json"));
    assert_eq!(alone.runs, point.runs);
    assert_eq!(alone.experiment_digest, point.experiment_digest, "it is the same question");
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Waits until `count` blocks of the sweep in `dir` are on disk; answers them in no order.
fn wait_for_blocks(child: &mut Child, dir: &Path, count: usize) -> Vec<PathBuf> {
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        let points = fs::read_dir(dir.join("points")).into_iter().flatten().flatten();
        let blocks = points.flat_map(|point| fs::read_dir(point.path().join("blocks")).into_iter().flatten().flatten());
        let whole = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
        let found: Vec<_> = blocks.map(|block| block.path()).filter(whole).collect();
        if found.len() >= count {
            return found;
        }
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < limit, "it did not get that far");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a sweep and lets it come to its third block.
fn started(root: &Path, duration: &str) -> (Child, Vec<PathBuf>) {
    let arguments = format!("sweep x.toml --out cut --jobs 1 --set duration={duration}");
    let mut child = vmmlab(root, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let blocks = wait_for_blocks(&mut child, &root.join("cut"), 2);
    (child, blocks)
}

/// Starts a sweep that will not end by itself, and lets its first run begin.
fn endless(root: &Path) -> Child {
    let mut child = vmmlab(root, "sweep x.toml --out cut --jobs 1 --set duration=24h")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    while !root.join("cut/points/0003-slice=2ms,vms=2/environment.json").exists() {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < limit, "it did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    child
}

#[test]
fn a_sweep_goes_on_after_kill_9_and_damage() {
    let root = scratch(SMALL);
    good(root.path(), "sweep x.toml --out whole --set duration=300ms");
    let (mut child, blocks) = started(root.path(), "300ms");
    child.kill().unwrap();
    child.wait().unwrap();
    // One block loses its end, as when the power fails; another one must be left as it is.
    let bytes = fs::read(&blocks[0]).unwrap();
    fs::write(&blocks[0], &bytes[..bytes.len() - 100]).unwrap();
    let inode = fs::metadata(&blocks[1]).unwrap().ino();
    let again = output(root.path(), "sweep --resume cut");
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(fs::metadata(&blocks[1]).unwrap().ino(), inode, "a whole block was run again");
    assert!(text(&again.stderr).contains(" are there"), "{}", text(&again.stderr));
    assert!(points(&root.path().join("whole")).eq(points(&root.path().join("cut"))), "the results differ");
}

#[test]
fn a_first_signal_finishes_the_block_and_the_rest_can_be_resumed() {
    for signal in [Signal::INT, Signal::TERM] {
        let root = scratch(SMALL);
        let (child, _) = started(root.path(), "300ms");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(output.stdout.starts_with(b"PARTIAL  "), "{}", text(&output.stdout));
        let sweep: SweepFile = read(&root.path().join("cut/sweep.json"));
        assert_eq!(sweep.status, RunStatus::Partial);
        let runs: usize = sweep.points.iter().map(|point| point.runs).sum();
        assert!(runs >= 4 && runs.is_multiple_of(2), "{runs} runs are not whole blocks");
        good(root.path(), "sweep --resume cut");
        let sweep: SweepFile = read(&root.path().join("cut/sweep.json"));
        assert_eq!(sweep.status, RunStatus::Ok);
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once_and_keeps_what_was_measured() {
    let root = scratch(SMALL);
    let mut child = endless(root.path());
    let id = Pid::from_child(&child);
    kill_process(id, Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the first one lets the block go on");
    let asked = Instant::now();
    kill_process(id, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    // A second and the printing; the host may be busy.
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let point: ResultFile = read(&root.path().join("cut/points/0000-slice=1ms,vms=1/result.json"));
    assert_eq!((point.status, point.runs[0].status), (RunStatus::Partial, RunStatus::Partial));
}

#[test]
fn what_does_not_belong_together_is_not_joined() {
    let root = scratch(SMALL);
    for share in ["1/3 --out a", "2/3 --out b", "2/3 --seed 8 --out other"] {
        good(root.path(), &format!("sweep x.toml --shard {share}"));
    }
    for (arguments, wants) in [
        ("a b --out all", &["4 blocks are in none of the directories", "--partial"][..]),
        ("a other --out all", &["not shares of one sweep", "seed of points/"]),
        ("a absent --out all", &["cannot read absent/manifest.json"]),
        ("a --partial --out b", &["--out b", "exists and is not empty"]),
    ] {
        let output = output(root.path(), &format!("merge {arguments}"));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{arguments}: {stderr}");
    }
    assert!(!root.path().join("all").exists());
    let page = good(root.path(), "merge a b --partial --out all");
    assert!(page.starts_with("PARTIAL  16 runs at 4 of 4 points are here: blocks are missing"), "{page}");
    good(root.path(), "sweep --resume all");
    good(root.path(), "sweep x.toml --out whole");
    assert!(points(&root.path().join("whole")).eq(points(&root.path().join("all"))), "the results differ");
}

#[test]
fn a_block_that_differs_between_shares_is_named() {
    let root = scratch(SMALL);
    good(root.path(), "sweep x.toml --out a");
    good(root.path(), "sweep x.toml --out b");
    good(root.path(), "merge a b --out same");
    let path = root.path().join("b/points/0001-slice=1ms,vms=2/blocks/0002.json");
    let damaged = fs::read_to_string(&path).unwrap().replacen("\"startup_ns\": ", "\"startup_ns\": 1", 1);
    fs::write(&path, damaged).unwrap();
    let output = output(root.path(), "merge a b --out all");
    let want = "block 2 of points/0001-slice=1ms,vms=2 is in a and in b, and they differ";
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains(want), "{}", text(&output.stderr));
}

#[test]
fn two_processes_do_not_write_one_directory() {
    let root = scratch(SMALL);
    let mut child = endless(root.path());
    let output = output(root.path(), "sweep --resume cut");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("another vmmlab is at it"), "{}", text(&output.stderr));
}

#[test]
fn mistakes_are_answered_before_anything_is_made() {
    let root = scratch("name = \"x\"\n[run]\nvmz = 3\n");
    fs::write(root.path().join("y.toml"), SMALL.replace("seed = 7", "")).unwrap();
    fs::write(root.path().join("z.toml"), SMALL.replace("\"1s:2c\"", "\"1s:2x\"")).unwrap();
    for (arguments, wants) in [
        ("sweep x.toml", &["x.toml: [run] vmz = 3", "did you mean 'vms'?"][..]),
        ("sweep absent.toml", &["cannot read absent.toml"]),
        ("sweep y.toml --shard 1/2", &["--shard needs a seed"]),
        ("sweep z.toml", &["z.toml: --topology"]),
        ("sweep y.toml --shard 3/2", &["'3/2'", "as in 2/8"]),
        ("sweep y.toml --set vms", &["OPTION=VALUE"]),
        ("sweep y.toml --set vms=0 --engine sim", &["--vms 0", "1 to 256"]),
        ("sweep --resume absent", &["absent/manifest.json"]),
        ("sweep", &["FILE.toml"]),
    ] {
        let output = output(root.path(), arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{arguments}: {stderr}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3, "only the three files are there");
}

#[test]
fn the_experiment_files_of_the_repository_can_be_planned() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in fs::read_dir(files).unwrap() {
        let path = entry.unwrap().path();
        let is_experiment = fs::read_to_string(&path).is_ok_and(|text| text.contains("\n[run]"));
        if is_experiment && path.extension().is_some_and(|extension| extension == "toml") {
            let root = tempfile::tempdir().unwrap();
            let page = good(root.path(), &format!("sweep {} --dry-run", path.display()));
            assert!(page.contains("a dry run: nothing is started") && page.contains("\npoint "), "{page}");
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
            count += 1;
        }
    }
    assert!(count >= 2, "{count} experiment files");
}
