//! Traces from the command line, in the simulator: recorded, named, read back, and in agreement with the result.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn vmmlab(directory: &Path, arguments: &str) -> Output {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    Command::cargo_bin("vmmlab").unwrap().current_dir(directory).args(arguments).output().unwrap()
}

fn ok(directory: &Path, arguments: &str) -> String {
    let output = vmmlab(directory, arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Two VMs of two vCPUs on two CPUs.
const RUN: &str =
    "run --engine sim --topology 1s:2c --vms 2 --vcpus 2 --seed 1 --blocks 2 --warmup 20ms --duration 200ms";

#[test]
fn a_traced_run_writes_a_file_a_mode_that_agrees_with_the_result() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    ok(dir, &format!("{RUN} --mode base,pvflush --out run --trace t.txt --trace t.pftrace"));
    let result: Value = serde_json::from_str(&fs::read_to_string(dir.join("run/result.json")).unwrap()).unwrap();
    for run in result["runs"].as_array().unwrap() {
        let mode = run["mode"].as_str().unwrap();
        let notices = run["notices"].as_array().unwrap().iter().filter(|n| n.as_str().unwrap().starts_with("trace t-"));
        // The first block only.
        assert_eq!(notices.count(), if run["block"] == 0 { 2 } else { 0 }, "{mode}: {run}");
        if run["block"] != 0 {
            continue;
        }
        assert!(fs::metadata(dir.join(format!("t-{mode}.pftrace"))).unwrap().len() > 10_000);
        let summary = ok(dir, &format!("trace summary --format json t-{mode}.txt"));
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert_eq!((&summary["damaged"], &summary["unsorted"], &summary["lost"]), (&0.into(), &0.into(), &0.into()));
        let threads = summary["threads"].as_array().unwrap();
        let sum = |name: &str| threads.iter().map(|thread| thread[name].as_u64().unwrap()).sum::<u64>();
        let counted = |name: &str| run["counters"][name].as_u64().unwrap();
        // Both ends of a flush must lie in the trace, and one a vCPU may not.
        let (flushes, counted_flushes) = (sum("flushes"), counted("flushes"));
        assert!((counted_flushes - 4..=counted_flushes).contains(&flushes), "{mode}: {flushes} of {counted_flushes}");
        // Two CPUs for 200 ms, but for what is cut off at both ends.
        let busy: u64 = summary["cpus"].as_array().unwrap().iter().map(|cpu| cpu["busy_ns"].as_u64().unwrap()).sum();
        assert_eq!(busy, sum("runtime_ns"), "{mode}");
        assert!((300_000_000..=400_000_000).contains(&busy), "{mode}: {busy}");
        let names: Vec<&str> = threads.iter().map(|thread| thread["comm"].as_str().unwrap()).collect();
        assert!(["vcpu0.0", "vcpu0.1", "vcpu1.0", "vcpu1.1"].iter().all(|name| names.contains(name)), "{names:?}");
    }
    assert!(!dir.join("t.txt").exists(), "with two modes no file has the bare name");
}

#[test]
fn a_trace_is_bounded_reproducible_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    for name in ["a", "b"] {
        ok(dir, &format!("{RUN} --mode gang --out {name} --trace {name}.txt --trace-block 1 --trace-max-events 2000"));
    }
    ok(dir, &format!("{RUN} --mode gang --out plain"));
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("a.txt"), read("b.txt"));
    assert_eq!(read("a.txt").lines().filter(|line| !line.starts_with('#')).count(), 2000);
    let head = read("a.txt").lines().find(|line| line.contains("entries-in-buffer")).unwrap().to_owned();
    assert!(head.starts_with("# entries-in-buffer/entries-written: 2000/"), "{head}");
    let digests = |name: &str| {
        let result: Value = serde_json::from_str(&read(&format!("{name}/result.json"))).unwrap();
        let runs = result["runs"].as_array().unwrap();
        runs.iter().map(|run| run["counters"]["sim_digest"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(digests("a"), digests("plain"));
}

#[test]
fn what_cannot_be_traced_or_read_is_said_before_anything_runs() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    for (arguments, wants) in [
        (format!("{RUN} --trace t.json"), "--trace t.json: the name ends in neither"),
        (format!("{RUN} --trace t.txt --trace-block 2"), "--trace-block 2 is out of range: the run has blocks 0 to 1"),
        (format!("{RUN} --trace t.txt --trace-max-events 1"), "1 is not in 1000..=100000000"),
        ("trace summary absent.txt".into(), "cannot read the trace absent.txt"),
        ("export hlog .".into(), ". is no run directory"),
    ] {
        let output = vmmlab(dir, &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.contains(wants), "{arguments}: {stderr}");
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn damaged_lines_are_named_and_the_rest_is_added_up() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("t"), " a-1 [000] 1.0: sched_switch: nonsense\n a-1 [000] 2.0: kvm_exit: reason HLT\n")
        .unwrap();
    let output = vmmlab(root.path(), "trace summary t");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert_eq!(stderr, "notice: t:1: its field ==> cannot be read\n");
    assert!(stdout.contains("HLT") && stdout.contains("note: 1 lines could not be read"), "{stdout}");
}

#[test]
fn a_result_is_exported_as_an_interval_log() {
    let root = tempfile::tempdir().unwrap();
    ok(root.path(), &format!("{RUN} --mode base,gang --out run"));
    let log = ok(root.path(), "export hlog run");
    let tags: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("Tag=")?.split(',').next()).collect();
    assert_eq!(tags, ["base", "gang", "gang", "base"]);
    ok(root.path(), "export hlog run --histogram runqueue_wait -o r.hlog");
    assert!(fs::read_to_string(root.path().join("r.hlog")).unwrap().starts_with('#'));
}
