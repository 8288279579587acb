//! `vmmlab report` as a user meets it: pages from whole, partial, old and broken results.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A clock that stands still: results carry the time at which they began.
const STARTED: &str = "2026-01-02T03:04:05Z";

fn vmmlab(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmmlab"));
    command.current_dir(directory).args(arguments.split_whitespace()).output().unwrap()
}

/// Runs the simulator into `directory/run`.
fn run(directory: &Path, arguments: &str) -> PathBuf {
    let output = vmmlab(directory, &format!("run --engine sim --seed 7 --out run {arguments}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = directory.join("run");
    edit(&run, |result| result["started"] = json!(STARTED));
    run
}

fn edit(run: &Path, change: impl FnOnce(&mut Value)) {
    let path = run.join("result.json");
    let mut result: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut result);
    fs::write(path, serde_json::to_vec(&result).unwrap()).unwrap();
}

fn page(directory: &Path, arguments: &str) -> String {
    let output = vmmlab(directory, &format!("report {arguments}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const SMALL: &str = "--topology 1s:2c --vms 2 --vcpus 2 --duration 60ms --warmup 10ms";

#[test]
fn the_example_of_the_manual_is_what_the_program_makes_of_its_result() {
    let root = tempfile::tempdir().unwrap();
    let asked = "--topology 1s:4c --vms 4 --vcpus 4 --mode base,gang,pvflush --blocks 8 --duration 300ms --warmup 50ms";
    run(root.path(), &format!("{asked} --trace trace.txt"));
    let page = page(root.path(), "run --trace trace-base.txt --trace trace-pvflush.txt --window 25ms..45ms");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/example-report.html");
    if std::env::var_os("VMMLAB_UPDATE_EXAMPLE").is_some() {
        fs::write(&example, &page).unwrap();
    }
    assert!(page.len() < 300_000, "the example has {} bytes", page.len());
    let committed = fs::read_to_string(&example).unwrap();
    let again = "VMMLAB_UPDATE_EXAMPLE=1 cargo test -p vmmlab --test report writes it again";
    if digest(&committed) != digest(&page) {
        // The simulator answers otherwise than when the example was made; that is for results/check to judge.
        println!("docs/example-report.html is of an older simulator: only its structure is compared. {again}");
        assert_eq!(headings(&committed), headings(&page), "{again}");
        return;
    }
    let differs = committed.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(
        committed == page,
        "docs/example-report.html is no longer what the program makes of the same result. If that is meant, {again}. The first \
         difference: {differs:?}"
    );
}

/// SHA-256 of the result that a page was made of.
fn digest(page: &str) -> &str {
    let (_, rest) = page.split_once("<dt>this result, SHA-256</dt><dd>").expect("a page names its result");
    rest.split('<').next().unwrap()
}

/// Sections, headings and captions.
fn headings(page: &str) -> Vec<&str> {
    page.lines().filter(|line| ["<h2", "<h3", "<caption"].iter().any(|tag| line.starts_with(tag))).collect()
}

#[test]
fn the_commands_of_the_manual_make_what_they_say() {
    let root = tempfile::tempdir().unwrap();
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reading-a-report.md");
    let manual = fs::read_to_string(manual).unwrap();
    let fenced = manual.split("```").nth(1).unwrap();
    let directory = Path::new(env!("CARGO_BIN_EXE_vmmlab")).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    for line in fenced.lines().filter(|line| line.starts_with("vmmlab ")) {
        let mut shell = Command::new("sh");
        let output = shell.current_dir(root.path()).env("PATH", &path).args(["-c", line]).output().unwrap();
        // compare answers 1 or 3 by what it found.
        let codes = if line.contains("compare") { &[0, 1, 3][..] } else { &[0] };
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{line}: {output:?}");
    }
    for page in ["report.html", "compare.html"] {
        let page = fs::read_to_string(root.path().join(page)).unwrap();
        assert!(page.contains("<h2 id=\"verdict-h\">") && page.ends_with("</html>\n"), "{page}");
    }
}

#[test]
fn nothing_is_fetched_and_nothing_runs() {
    let example =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/example-report.html")).unwrap();
    for forbidden in ["<script", "<link", "<img", "<iframe", "@import", "http://", "https://", " onload", " src="] {
        assert!(!example.contains(forbidden), "the page has {forbidden}");
    }
    assert!(example.contains("default-src 'none'"));
}

#[test]
fn a_result_alone_is_reported_without_its_histograms_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    let run = run(root.path(), &format!("{SMALL} --mode base,pvflush --blocks 2"));
    let whole = page(root.path(), "run");
    assert!(
        whole.contains("Flush wait")
            && whole.contains("no verdict is possible: it takes 6 good blocks a side and there are 2"),
        "{whole}"
    );
    fs::copy(run.join("result.json"), root.path().join("alone.json")).unwrap();
    let alone = page(root.path(), "alone.json");
    assert!(alone.contains("Whole histograms are missing") && alone.contains("no whole histogram to draw"));
    fs::write(run.join("blocks/0001.json"), "[{\"mode\": 1}]").unwrap();
    assert!(page(root.path(), "run").contains("cannot be read for block 1"));
}

#[test]
fn one_mode_is_compared_with_nothing() {
    let root = tempfile::tempdir().unwrap();
    run(root.path(), &format!("{SMALL} --mode base --blocks 1"));
    let page = page(root.path(), "run");
    assert!(
        page.contains("only one mode, so nothing is compared")
            && page.contains("Nothing is compared: it takes two modes"),
        "{page}"
    );
}

#[test]
fn failures_come_first_and_a_partial_result_says_how_much_is_there() {
    let root = tempfile::tempdir().unwrap();
    let run = run(root.path(), &format!("{SMALL} --mode base,pvflush --blocks 2"));
    edit(&run, |result| {
        result["runs"][0]["status"] = json!("failed");
        result["runs"][0]["failures"] = json!([{"check": "stale-read", "message": "VM 1 read 3 stale translations"}]);
        result["runs"].as_array_mut().unwrap().pop();
    });
    let page = page(root.path(), "run");
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("the page lacks: {text}"));
    assert!(at("VM 1 read 3 stale translations") < at("Stopped before its end: 3 of 4 runs"));
    assert!(at("Stopped before its end") < at("id=\"verdict\""));
    at("1 runs failed their own checks");
}

#[test]
fn unknown_fields_are_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let run = run(root.path(), &format!("{SMALL} --mode base --blocks 1"));
    let known = |page: &str| page.replace(digest(page), "digest");
    let before = known(&page(root.path(), "run"));
    edit(&run, |result| {
        result["added_later"] = json!({"x": [1]});
        result["runs"][0]["added_later"] = json!(null);
    });
    assert_eq!(known(&page(root.path(), "run")), before);
}

#[test]
fn what_is_no_result_is_refused_with_a_sentence() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("empty")).unwrap();
    fs::write(root.path().join("other.json"), "{\"schema\": \"vmmlab.result/2\"}").unwrap();
    fs::write(root.path().join("none.json"), "{}").unwrap();
    fs::write(root.path().join("cut.json"), "{\"schema\": \"vmmlab.resu").unwrap();
    fs::write(root.path().join("short.json"), "{\"schema\": \"vmmlab.result/1\"}").unwrap();
    for (arguments, wants) in [
        ("absent", ["absent cannot be read", "name a run directory"]),
        ("empty", ["empty holds no result.json", "run directory"]),
        ("other.json", ["schema 'vmmlab.result/2'", "vmmlab.result/1"]),
        ("none.json", ["no schema", "vmmlab.reproduce/1"]),
        ("cut.json", ["cut.json is no JSON", "EOF"]),
        ("short.json", ["short.json is no vmmlab.result/1", "missing field"]),
    ] {
        let output = vmmlab(root.path(), &format!("report {arguments}"));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{arguments}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    let output = vmmlab(root.path(), "report other.json -o /proc/no/page.html");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_schedule_is_drawn_around_the_longest_wait_or_where_asked() {
    let root = tempfile::tempdir().unwrap();
    run(root.path(), &format!("{SMALL} --mode base --blocks 1 --trace t.txt"));
    let around = page(root.path(), "run --trace t.txt");
    for want in
        ["around its longest flush wait", "CPU 0</text>", "CPU 1</text>", "waiting for a flush", "of it on a CPU"]
    {
        assert!(around.contains(want), "the page lacks {want}");
    }
    let asked = page(root.path(), "run --trace t.txt --window 10ms..20ms");
    assert!(asked.contains("from 10.0 ms to 20.0 ms, as asked for"));
    let beyond = page(root.path(), "run --trace t.txt --window 10s..20s");
    assert!(beyond.contains("Nothing lies in this window."));
    fs::write(root.path().join("empty.txt"), "# nothing\n").unwrap();
    for (arguments, want) in [
        ("run --trace absent.txt", "--trace absent.txt cannot be read"),
        ("run --trace empty.txt", "--trace empty.txt holds no event"),
        ("run --trace t.txt --window 9ms..3ms", "9ms is not before 3ms"),
        ("run --window 1ms..3ms", "--trace"),
    ] {
        let output = vmmlab(root.path(), &format!("report {arguments}"));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(want), "{arguments}: {stderr}");
    }
}

/// A trace of `events` events: two vCPUs take turns on one CPU, each waits for a flush while the other one runs.
fn long_trace(path: &Path, events: u64) {
    let mut out = std::io::BufWriter::new(fs::File::create(path).unwrap());
    for n in 0..events / 2 {
        let (at, me, other) = (n * 3_000, n % 2, (n + 1) % 2);
        let now = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
        let mark = if n % 4 < 2 { format!("B|{}|flush", me + 1) } else { format!("E|{}", me + 1) };
        writeln!(out, "vcpu0.{me}-{} [000] {now}: tracing_mark_write: {mark}", me + 1).unwrap();
        writeln!(
            out,
            "vcpu0.{me}-{} [000] {now}: sched_switch: prev_comm=vcpu0.{me} prev_pid={} prev_prio=120 prev_state=R ==> \
             next_comm=vcpu0.{other} next_pid={} next_prio=120",
            me + 1,
            me + 1,
            other + 1
        )
        .unwrap();
    }
}

#[test]
fn a_long_trace_is_read_in_bounded_memory() {
    let root = tempfile::tempdir().unwrap();
    run(root.path(), &format!("{SMALL} --mode base --blocks 1"));
    // VMMLAB_TRACE_EVENTS=1000000 with a release build is the measurement.
    let events = std::env::var("VMMLAB_TRACE_EVENTS").map_or(200_000, |text| text.parse().unwrap());
    long_trace(&root.path().join("t.txt"), events);
    let script =
        format!("ulimit -v 300000; exec '{}' report run --trace t.txt -o page.html", env!("CARGO_BIN_EXE_vmmlab"));
    let begun = std::time::Instant::now();
    let output = Command::new("sh").current_dir(root.path()).args(["-c", &script]).output().unwrap();
    println!("report of {events} events: {:?}", begun.elapsed());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(root.path().join("page.html")).unwrap();
    assert!(page.contains("short runs") && page.len() < 400_000, "the page has {} bytes", page.len());
}

#[test]
fn published_figures_stand_beside_ours() {
    let root = tempfile::tempdir().unwrap();
    let cell = |row: &str, published: Value, ours: Value| json!({"row": row, "column": "v2_vs_base", "published": published, "ours": ours, "ratio": null});
    let given = json!({
        "schema": "vmmlab.reproduce/1", "seed": 7, "protocol": "quick", "unknown": 1,
        "tables": [{"id": "64bit", "title": "gains", "notes": ["a <note>"], "cells": [
            cell("2 VMs", json!(241.0), json!(181.2)), cell("4 VMs", json!(-3.0), json!(1e3)),
        ]}, {"id": "ours-only", "title": "t", "notes": [], "cells": [cell("8 VMs", json!(null), json!(7))]}],
        "checks": [{"demand": "d1", "found": "f1", "met": true, "fitted": true},
                   {"demand": "d2", "found": "f2", "met": false, "fitted": false}],
        "score": {"signs_right": 1, "signs_all": 2}, "missing": ["not this"],
    });
    fs::write(root.path().join("r.json"), given.to_string()).unwrap();
    let page = page(root.path(), "r.json");
    for want in
        ["241 \u{2192} 181", "1 of 2 demands are met", "a &lt;note&gt;", "MISSED", "not this", "--quick --seed 7"]
    {
        assert!(page.contains(want), "the page lacks {want}");
    }
    assert!(page.find(">d2<") < page.find(">d1<"), "missed demands come first");
    assert_eq!(page.matches("<svg role=\"img\"").count(), 1, "a table without published values has no dots");
}
