//! The event log of small runs, line by line.
use std::sync::Arc;

use plan::{Control, Engine, Mode};
use sim::{EventLog, LEGEND, Options, Sim};

use crate::host::{MS, host, plan};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/event_log.txt");

fn log(mode: Mode, lines: u64) -> (String, u64) {
    let log = EventLog::new(lines);
    let sim = Sim::new(host("1s:2c"), Options::default()).watched(Arc::new(log.clone()));
    let plan = plan::RunPlan { duration_ns: 9 * MS, warmup_ns: MS, ..plan(mode, 2, 2, 2) };
    let digest = sim.run(&plan, &Control::default()).unwrap().counters["sim_digest"];
    (log.render(), digest)
}

#[test]
fn the_log_of_a_small_run() {
    let found = log(Mode::PvFlush, 150).0;
    if std::env::var_os("SIM_WRITE_DIGESTS").is_some() {
        std::fs::write(GOLDEN, found).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    for (golden, found) in golden.lines().zip(found.lines()) {
        assert_eq!(golden, found, "to take the new log: SIM_WRITE_DIGESTS=1 cargo test -p sim --test whole");
    }
    assert_eq!(golden.lines().count(), found.lines().count());
}

#[test]
fn a_run_is_the_same_whether_or_not_it_is_watched() {
    let (text, digest) = log(Mode::Gang, 100_000);
    let plan = plan::RunPlan { duration_ns: 9 * MS, warmup_ns: MS, ..plan(Mode::Gang, 2, 2, 2) };
    let alone = Sim::new(host("1s:2c"), Options::default()).run(&plan, &Control::default()).unwrap();
    assert_eq!(alone.counters["sim_digest"], digest);
    assert!(text.contains("\n# run: mode gang, block 0, seed 1\n"));
}

#[test]
fn every_kind_of_line_is_in_the_legend() {
    let known: Vec<_> = LEGEND.iter().map(|(event, _)| event.split(' ').next().unwrap()).collect();
    for mode in Mode::ALL.iter().copied() {
        for line in log(mode, 100_000).0.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let (at, cpu, event) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            assert!(at.parse::<u64>().is_ok() && (cpu == "-" || cpu.starts_with('c')), "{line}");
            assert!(known.contains(&event), "{line}");
        }
    }
}

#[test]
fn a_log_is_bounded_and_says_what_it_left_out() {
    let (whole, _) = log(Mode::Base, u64::MAX);
    let events = |log: &str| log.lines().filter(|line| !line.starts_with('#')).count();
    let (cut, _) = log(Mode::Base, 10);
    assert_eq!(events(&cut), 10);
    let notice = format!("\n# cut here: {} more events do not fit\n", events(&whole) - 10);
    assert!(cut.ends_with(&notice), "{cut}");
}
