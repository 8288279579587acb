//! `vmmlab swarm` and `--event-log` as a user meets them.
use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn vmmlab(directory: &Path, arguments: &str) -> Output {
    let arguments = arguments.split_whitespace();
    Command::cargo_bin("vmmlab").unwrap().current_dir(directory).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_holds_says_so_and_what_does_not_gives_the_command_that_shows_it_again() {
    let root = tempfile::tempdir().unwrap();
    let good = vmmlab(root.path(), "swarm --seed 1 --cases 3");
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(text(&good.stdout).starts_with("3 of 3 cases hold: "), "{good:?}");

    let bad = vmmlab(root.path(), "swarm --seed 1 --cases 40 --inject lost-flush");
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let said = text(&bad.stdout);
    let again = said.lines().filter_map(|line| line.strip_prefix("  again    vmmlab "));
    let failures = said.lines().filter(|line| line.starts_with("FAILED   "));
    let mut replayed = 0;
    for (failure, command) in failures.zip(again) {
        let replay = vmmlab(root.path(), command);
        assert_eq!(replay.status.code(), Some(1), "{command}: {replay:?}");
        assert_eq!(text(&replay.stdout).lines().next(), Some(failure), "{command}");
        replayed += 1;
    }
    assert!(replayed > 1, "{said}");
}

#[test]
fn a_case_is_logged_event_by_event() {
    let root = tempfile::tempdir().unwrap();
    let log = |name: &str| {
        let done = vmmlab(root.path(), &format!("swarm --seed 5 --cases 1 --event-log {name}"));
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        fs::read_to_string(root.path().join(name)).unwrap()
    };
    let one = log("one");
    assert!(one.starts_with("# time(ns) CPU event\n") && one.lines().count() > 100);
    assert!(one == log("two"), "equal seeds give equal logs");
    let again = vmmlab(root.path(), "swarm --seed 5 --cases 1 --event-log one");
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(text(&again.stderr).contains("--event-log one: cannot create it"), "{again:?}");
}

#[test]
fn the_runs_of_an_experiment_are_logged_one_after_the_other() {
    let root = tempfile::tempdir().unwrap();
    let common = "run --vms 2 --vcpus 2 --mode base,pvflush --blocks 2 --duration 20ms --warmup 1ms --seed 7 --out";
    let done = vmmlab(root.path(), &format!("{common} a --engine sim --topology 1s:2c --event-log log"));
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let log = fs::read_to_string(root.path().join("log")).unwrap();
    let runs: Vec<_> = log.lines().filter_map(|line| line.strip_prefix("# run: mode ")).collect();
    let order = ["base, block 0", "pvflush, block 0", "pvflush, block 1", "base, block 1"];
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().zip(order).all(|(run, begins)| run.starts_with(begins)), "{runs:?}");
    assert!(!text(&done.stdout).contains("--event-log"), "the command to run again names no file that is there");
    let kvm = vmmlab(root.path(), &format!("{common} b --engine kvm --event-log more"));
    assert_eq!(kvm.status.code(), Some(2), "{kvm:?}");
    assert!(text(&kvm.stderr).contains("add --engine sim"), "{kvm:?}");
}

#[test]
fn the_manual_has_the_legend_of_the_log() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulator.md");
    let page = fs::read_to_string(page).unwrap();
    for (event, meaning) in sim::LEGEND {
        let row = format!("| `{event}` | {meaning} |");
        assert!(page.contains(&row), "docs/simulator.md lacks: {row}");
    }
}

#[test]
fn faults_of_the_command_line_come_up_and_are_told() {
    let root = tempfile::tempdir().unwrap();
    let asked = "run --engine sim --topology 1s:4c --vms 2 --vcpus 4 --mode gang --blocks 1 --duration 100ms --warmup 10ms --seed 1 \
                 --fault 20ms:cpu-off=1,60ms:cpu-on=1,70ms:vcpu-killed=1.3,80ms:cpu-on=2 --out out";
    let done = vmmlab(root.path(), asked);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let json = fs::read_to_string(root.path().join("out/result.json")).unwrap();
    for told in [
        "\"fault: CPU 1 off line at 20ms\"",
        "\"fault: CPU 1 on line at 60ms\"",
        "\"fault: vCPU 3 of VM 1 killed at 70ms\"",
        "\"refused fault: CPU 2 on line at 80ms\"",
        "\"80ms:cpu-on=2\"",
    ] {
        assert!(json.contains(told), "{told}");
    }
    for (given, want) in [
        ("--engine sim --fault 1ms:cpu-of=1", "one of cpu-off, cpu-on, group-gone, vcpu-killed"),
        ("--engine sim --fault 1:cpu-off=1", "'1' is no time"),
        ("--engine sim --topology 1s:4c --fault 1ms:cpu-off=99", "there is no CPU 99 among 4, from 0"),
        ("--engine kvm --fault 1ms:cpu-off=1", "--fault describes the host to simulate"),
    ] {
        let refused = vmmlab(root.path(), &format!("run --dry-run {given}"));
        assert_eq!(refused.status.code(), Some(2), "{given}");
        assert!(text(&refused.stderr).contains(want), "{given}: {refused:?}");
    }
}
