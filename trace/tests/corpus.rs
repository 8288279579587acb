//! Traces that others published. They lie outside the repository; without them the tests say that they skip.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use trace::read::{Body, Damage, Item, Line, read};
use trace::summary::Summary;

fn corpus(name: &str) -> Option<BufReader<File>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus/traces").join(name);
    match File::open(&path) {
        Ok(file) => Some(BufReader::new(file)),
        Err(error) => {
            eprintln!("skipped: {}: {error}", path.display());
            None
        }
    }
}

/// Events and damages of a file.
fn all<T>(file: BufReader<File>, mut event: impl FnMut(&Line<'_>) -> T) -> (Vec<T>, Vec<(u64, Damage)>) {
    let (mut events, mut damaged) = (Vec::new(), Vec::new());
    read(file, |number, item| match item {
        Item::Event(line) => events.push(event(&line)),
        Item::Damaged(damage) => damaged.push((number, damage)),
        Item::Lost(_) => {}
    })
    .unwrap();
    (events, damaged)
}

#[test]
fn trace_cmd_report() {
    let Some(file) = corpus("lisa-rtapp-sched.report.txt") else { return };
    let (events, damaged) = all(file, |line| (line.at_ns, line.cpu, matches!(line.body, Body::Switch { .. })));
    assert_eq!(damaged, []);
    // expected.json: switches, by CPU, first and last time.
    assert_eq!(events.iter().filter(|(_, _, switch)| *switch).count(), 1552);
    let mut by_cpu = BTreeMap::new();
    events.iter().for_each(|(_, cpu, _)| *by_cpu.entry(*cpu).or_insert(0) += 1);
    assert_eq!(by_cpu, BTreeMap::from([(0, 77), (1, 788), (2, 596), (3, 34), (4, 6), (5, 51)]));
    assert_eq!((events[0].0, events[1551].0), (259_445_106_979_000, 259_454_410_124_000));
}

#[test]
fn perf_sched_script() {
    let Some(file) = corpus("perf-sched-script-8cpu.txt") else { return };
    let (events, damaged) = all(file, |line| line.name.to_owned());
    assert_eq!(damaged, []);
    let mut counts = BTreeMap::new();
    events.iter().for_each(|name| *counts.entry(name.as_str()).or_insert(0) += 1);
    let expected = [
        ("sched_stat_sleep", 3),
        ("sched_wakeup", 4),
        ("sched_stat_wait", 5),
        ("sched_switch", 10),
        ("sched_stat_runtime", 5),
        ("sched_migrate_task", 1),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn damaged_and_unsorted_traces_are_read() {
    for (name, events) in
        [("kvm-entry-exit-unmatched.txt", 7), ("trappy-trace_failed_to_parse.txt", 11), ("trappy-trace_sched.txt", 11)]
    {
        let Some(file) = corpus(name) else { return };
        let (found, damaged) = all(file, |line| line.at_ns);
        assert_eq!((found.len(), damaged), (events, vec![]), "{name}");
    }
    let Some(file) = corpus("trappy-trace_idle_unsorted.txt") else { return };
    let (times, damaged) = all(file, |line| line.at_ns);
    // Its last line was cut off where it was copied.
    assert_eq!(damaged, [(17, Damage::Field("prev_state"))]);
    assert!(!times.is_sorted());
}

#[test]
fn runtimes_are_the_published_ones() {
    let Some(file) = corpus("lisa-rtapp-sched.report.txt") else { return };
    let summary = Summary::read(file).unwrap();
    // expected.json
    assert_eq!((summary.threads.len(), summary.cpus.len()), (55, 6));
    let (first, last) = summary.span_ns.unwrap();
    assert_eq!(last - first, 9_303_145_000);
    let idle: Vec<u64> = summary.cpus.iter().map(|cpu| cpu.idle_ns / 1000).collect();
    assert_eq!(idle, [9_054_467, 9_105_094, 9_231_060, 8_579_583, 5_837_162, 2_226_947]);
    let top: Vec<_> = summary.threads[..3].iter().map(|t| (t.comm.as_str(), t.pid, t.runtime_ns / 1000)).collect();
    assert_eq!(top, [("task_r20_5-60", 6984, 4_536_479), ("rt-app", 6983, 109_969), ("sh", 6837, 24_891)]);
    assert_eq!(summary.cpus.iter().map(|cpu| cpu.switches).sum::<u64>(), 1552);
    let colons: Vec<_> = summary.threads.iter().filter(|t| t.comm.starts_with("kworker/0:1")).collect();
    assert_eq!(colons.len(), 1, "{colons:?}");
}

#[test]
fn waits_are_the_published_ones() {
    let Some(file) = corpus("perf-sched-script-8cpu.txt") else { return };
    let summary = Summary::read(file).unwrap();
    let wait = |pid| summary.threads.iter().find(|thread| thread.pid == pid).unwrap().wait;
    // expected.json, in us, from wake-up to run: 7 waits 7 and 7, 11530 waits 11, 27 waits 3. 11530 also waits 21 for
    // the stopper to take it to another CPU.
    assert_eq!((wait(7).count, wait(7).total_ns, wait(7).max_ns), (2, 14_000, 7_000));
    assert_eq!((wait(11530).count, wait(11530).total_ns), (2, 11_000 + 21_000));
    assert_eq!((wait(27).count, wait(27).total_ns), (1, 3_000));
}

#[test]
fn exits_without_entries_and_unsorted_events_are_counted() {
    let Some(file) = corpus("kvm-entry-exit-unmatched.txt") else { return };
    let exits = Summary::read(file).unwrap().exits;
    assert_eq!(exits, BTreeMap::from([("EXTERNAL_INTERRUPT".into(), 1), ("MSR_WRITE".into(), 3)]));
    let Some(file) = corpus("trappy-trace_idle_unsorted.txt") else { return };
    let summary = Summary::read(file).unwrap();
    assert_eq!((summary.unsorted, summary.damaged), (1, 1));
    assert_eq!(summary.damages, [(17, Damage::Field("prev_state"))]);
}
