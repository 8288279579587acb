//! The command line as a user meets it: the binary, its two streams, its exit code.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn vmmlab(directory: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("vmmlab").unwrap().current_dir(directory).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A CPU that no machine of these tests has.
const NO_SUCH_CPU: &str = "8191";

#[test]
fn bad_input_is_answered_on_stderr_with_exit_code_2_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let occupied = root.path().join("occupied");
    fs::create_dir(&occupied).unwrap();
    fs::write(occupied.join("file"), "x").unwrap();
    for (arguments, wants) in [
        (&["--vms", "0"][..], &["--vms 0", "1 to 256"][..]),
        (&["--vms", "1000000"], &["--vms 1000000", "1 to 256"]),
        (&["--vcpus", "65"], &["--vcpus 65", "1 to 64"]),
        (&["--vcpus", "many"], &["'many' for '--vcpus", "whole number"]),
        (&["--blocks", "0"], &["--blocks 0", "1 to 1000"]),
        (&["--pcpus", NO_SUCH_CPU], &["--pcpus 8191: CPU 8191 is not there", "it may use CPUs"]),
        (&["--pcpus", "0,0"], &["'0,0'", "position 3"]),
        (&["--mode", "pvflsh"], &["'pvflsh'", "did you mean 'pvflush'?"]),
        (&["--mode", ""], &["''", "base, pin, gang-next"]),
        (&["--duration", "100ms"], &["--duration 100ms", "--warmup of 500ms"]),
        (&["--duration", "0s", "--warmup", "0s"], &["--duration 0ns", "1ms to 24h"]),
        (&["--out", "/proc/vmmlab/x"], &["--out /proc/vmmlab/x", "name a new directory"]),
        (&["--out", "occupied"], &["--out occupied", "exists and is not empty", "name a new directory"]),
        (&["--flush", "ipi", "--spin", "halt"], &["--flush ipi", "--spin halt", "'busy' or 'ple'"]),
        (&["--hz", "0"], &["--hz 0", "10 to 10000"]),
        (&["--nonsense"], &["--nonsense"]),
    ] {
        let output = vmmlab(root.path(), &[&["run"], arguments].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["occupied"]);
}

#[test]
fn a_limit_that_is_too_low_is_named_with_the_way_to_raise_it() {
    let root = tempfile::tempdir().unwrap();
    let script = format!("ulimit -n 100; exec '{}' run --vms 8 --vcpus 8", env!("CARGO_BIN_EXE_vmmlab"));
    let output = Command::new("sh").current_dir(root.path()).args(["-c", &script]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("--vms 8 x --vcpus 8 need about 152 open files") && stderr.contains("ulimit -n"),
        "{stderr}"
    );
}

#[test]
fn short_help_is_one_screen() {
    let root = tempfile::tempdir().unwrap();
    for arguments in [&["-h"][..], &["run", "-h"], &["doctor", "-h"], &["gang", "-h"]] {
        let output = vmmlab(root.path(), arguments);
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(help.lines().count() <= 45, "{arguments:?}: {} lines", help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn the_examples_of_the_help_are_plans_that_can_be_made() {
    let root = tempfile::tempdir().unwrap();
    let help = text(&vmmlab(root.path(), &["run", "--help"]).stdout);
    let examples: Vec<&str> = help.lines().filter_map(|line| line.trim().strip_prefix("vmmlab run ")).collect();
    assert!(examples.len() >= 5, "{help}");
    for example in examples {
        let arguments: Vec<&str> = ["run", "--dry-run"].into_iter().chain(example.split(' ')).collect();
        let output = vmmlab(root.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{example}: {}", text(&output.stderr));
    }
}

#[test]
fn a_dry_run_says_the_order_the_time_and_the_seed_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), &["run", "--dry-run", "--mode", "base,gang", "--blocks", "2", "--seed", "7"]);
    let page = text(&output.stdout);
    assert!(page.contains("2 modes x 2 blocks, about 15s; seed 7"), "{page}");
    assert!(page.contains("block 0: base gang\nblock 1: gang base\n"), "{page}");
    assert!(page.ends_with("again    vmmlab run --mode base,gang --blocks 2 --seed 7\n"), "{page}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn the_lists_name_every_mode_and_workload() {
    let root = tempfile::tempdir().unwrap();
    let page = text(&vmmlab(root.path(), &["list"]).stdout);
    for name in plan::Mode::ALL.iter().map(|m| m.name()).chain(plan::Workload::ALL.iter().map(|w| w.name())) {
        assert!(page.contains(&format!("\n  {name} ")), "{name}: {page}");
    }
    let machines: Vec<&str> = vmmlab::simulator::names().collect();
    let presets: Vec<&str> = hostsched::topology::PRESETS.iter().map(|preset| preset.name).collect();
    for name in machines.iter().chain(&presets) {
        assert!(page.contains(&format!("\n  {name} ")), "{name}: {page}");
        let kind = if presets.contains(name) { "--topology" } else { "--machine" };
        let output = vmmlab(root.path(), &["run", "--engine", "sim", kind, name, "--vms", "1", "--dry-run"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    }
    for line in page.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn doctor_answers_with_0_or_4_and_names_each_topic() {
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), &["doctor", "--format", "json"]);
    assert!(matches!(output.status.code(), Some(0 | 4)));
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let topics: Vec<&str> = findings.iter().filter_map(|f| f["topic"].as_str()).collect();
    assert_eq!(topics, ["host", "CPUs", "KVM", "PLE", "cgroups", "files", "signals", "noise"]);
    let page = text(&vmmlab(root.path(), &["doctor"]).stdout);
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn the_simulator_gives_the_same_bytes_again() {
    let root = tempfile::tempdir().unwrap();
    let run = |out: &str| {
        let args = "run --engine sim --topology 1s:4c --vms 2 --vcpus 4 --mode base,pvflush --duration 100ms --warmup 10ms \
                    --blocks 1 --seed 3 --out";
        let output = vmmlab(root.path(), &args.split_whitespace().chain([out]).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        fs::read(root.path().join(out).join("blocks/0000.json")).unwrap()
    };
    assert_eq!(run("a"), run("b"));
}

#[test]
fn a_topology_is_for_the_simulator_and_must_be_one() {
    let root = tempfile::tempdir().unwrap();
    for (args, why) in [
        (["run", "--engine", "kvm", "--topology", "1s:2c"], "add --engine sim"),
        (["run", "--engine", "sim", "--topology", "1s:x"], "--topology"),
    ] {
        let output = vmmlab(root.path(), &args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "no run directory is left");
}

#[test]
fn a_gang_must_be_a_cgroup() {
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), &["gang", "set", ".", "on"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no cgroup v2 directory"));
}
