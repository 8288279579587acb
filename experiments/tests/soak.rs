//! `vmmlab soak` as a user meets it.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::kvm;
use vmmlab::soak::Summary;

fn command(directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmmlab"));
    command.current_dir(directory).args(arguments.split_whitespace());
    command
}

fn vmmlab(directory: &Path, arguments: &str) -> Output {
    command(directory, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_holds_is_summed_up_with_what_was_covered() {
    let root = tempfile::tempdir().unwrap();
    let asked = "soak --for 60s --plans 40 --seed 1 --engine sim";
    let json = vmmlab(root.path(), &format!("{asked} --format json"));
    assert_eq!(json.status.code(), Some(0), "{json:?}");
    let summary: Summary = serde_json::from_slice(&json.stdout).unwrap();
    // Walks of real page tables (`gup`) are drawn, too, and not simulated.
    let runs = summary.engines["sim"];
    assert_eq!((summary.plans, summary.stale_reads), (40, 0));
    assert!((30..40).contains(&runs), "{runs} runs");
    assert!(summary.flushes > 0 && summary.records > 0 && summary.modes.len() > 6 && summary.workloads.len() > 6);
    let page = vmmlab(root.path(), asked);
    assert!(text(&page.stdout).contains(&format!("40 plans, {runs} runs in")), "{page:?}");
    assert!(text(&page.stdout).contains(": everything held\n"), "{page:?}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "a soak writes no files");
}

#[test]
fn a_fault_that_was_put_in_is_found_and_the_command_that_is_printed_finds_it_again() {
    let root = tempfile::tempdir().unwrap();
    let bad = vmmlab(root.path(), "soak --for 60s --plans 30 --seed 1 --engine sim --inject lost-flush");
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    let said = text(&bad.stdout);
    let failure = said.lines().find(|line| line.starts_with("FAILED   ")).unwrap_or_else(|| panic!("{said}"));
    assert!(failure.contains("stale-read: "), "{failure}");
    let after = |prefix: &str| said.lines().find_map(|line| line.strip_prefix(prefix)).unwrap().to_owned();
    let again = vmmlab(root.path(), &after("  again    vmmlab "));
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert_eq!(text(&again.stdout).lines().next(), Some(failure));
    let run = vmmlab(root.path(), &after("  as a run vmmlab "));
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(text(&run.stdout).contains("stale-read"), "{run:?}");
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let root = tempfile::tempdir().unwrap();
    let mut soak = command(root.path(), "soak --for 10m --seed 1 --engine sim");
    let mut soak = soak.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(soak.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.starts_with("soaking for "), "{first}");
    kill_process(Pid::from_child(&soak), Signal::INT).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("interrupted"), "{rest}");
    let output = soak.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let page = text(&output.stdout);
    assert!(page.starts_with("PARTIAL  interrupted\n") && page.contains("everything held"), "{page}");
}

#[test]
fn real_guests_are_soaked_where_there_are_some() {
    if !kvm("real_guests_are_soaked_where_there_are_some") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), "soak --for 60s --plans 8 --seed 1 --format json");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary: Summary = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary.engines["kvm"], summary.engines["sim"], summary.stale_reads), (8, 8, 0));
    assert!(summary.kicks > 0, "{summary:?}");
}

#[test]
fn nonsense_is_answered_with_what_would_be_right() {
    let root = tempfile::tempdir().unwrap();
    for (arguments, wants) in [
        ("soak --for 1ms", ["--for 1ms", "1s to 168h"]),
        ("soak --for 30", ["'30' for '--for", "3s, 500ms"]),
        ("soak --plans 0", ["'0' for '--plans", "1.."]),
        ("soak --engine ksm", ["'ksm' for '--engine", "kvm"]),
    ] {
        let output = vmmlab(root.path(), arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{arguments}: {stderr}");
    }
}
