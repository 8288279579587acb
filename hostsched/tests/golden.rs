//! Schedules that real Linux 3.4.113 scheduler code produced, reproduced bit for bit.
//!
//! `golden/data` holds them compressed: scenarios and figures, described by their FORMAT.md. Files marked `placement` and
//! `statistical` would allow tolerances; at the defaults hostsched needs none.
#![forbid(unsafe_code)]
use std::io::Read;
use std::path::PathBuf;

use hostsched::config::Sysctls;
use hostsched::testing::{Engine, Recorder};
use hostsched::weight::{LoadWeight, PRIO_TO_WEIGHT, PRIO_TO_WMULT, calc_delta_mine};
use hostsched::{CpuId, Nanos, sched_period};
use serde::Deserialize;

#[path = "golden/mod.rs"]
mod golden;

use golden::file::Golden;

/// The golden files, by name.
fn data() -> Vec<(String, Vec<u8>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data");
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("golden data").map(|e| e.expect("entry").path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let mut json = Vec::new();
            flate2::read::GzDecoder::new(std::fs::File::open(path).expect("open"))
                .read_to_end(&mut json)
                .expect("gzip");
            let name = path.file_name().and_then(|n| n.to_str()).expect("name").trim_end_matches(".json.gz");
            (name.to_owned(), json)
        })
        .collect()
}

fn file(name: &str) -> Vec<u8> {
    data().into_iter().find(|(n, _)| n == name).expect("the file is there").1
}

fn scenarios() -> impl Iterator<Item = (String, Vec<u8>)> {
    data().into_iter().filter(|(n, _)| n != "unit_vectors")
}

#[test]
fn every_schedule_matches_bit_for_bit() {
    let mut differences = Vec::new();
    let mut count = 0;
    for (name, json) in scenarios() {
        count += 1;
        if let Err(why) = golden::compare::judge(&json, true).and_then(|d| d) {
            differences.push(format!("{name}: {why}"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(count, 50, "scenarios in golden/data");
}

#[test]
fn the_verdict_finds_a_single_wrong_nanosecond() {
    let json = String::from_utf8(file("up_equal3")).expect("text");
    let mut wrong: serde_json::Value = serde_json::from_str(&json).expect("json");
    let exec = &mut wrong["outcome"]["tasks"][1]["exec_ns"];
    *exec = serde_json::Value::from(exec.as_u64().expect("a number") + 1);
    let verdict = golden::compare::judge(wrong.to_string().as_bytes(), false).expect("it runs");
    assert!(verdict.expect_err("it differs").starts_with("task 1 exec_ns"), "the difference is named");
}

#[test]
fn domains_are_those_that_the_kernel_built() {
    for (name, json) in scenarios() {
        let golden: Golden = serde_json::from_slice(&json).expect("golden");
        let host = golden.scenario.scenario().expect("scenario").host().expect("host");
        for want in &golden.outcome.domains {
            let sd = &host.domains().of(CpuId(want.cpu))[want.level];
            let span = sd.span.iter().fold(0_u128, |m, c| m | 1 << c.0);
            let power = host.domains().initial_power(sd.local_group().sgp);
            assert_eq!(
                (sd.level.name(), span, sd.params.flags.0, sd.group_count(), power),
                (want.name.as_str(), want.span, want.flags, want.ngroups, want.cpu_power),
                "{name}: domain {} of CPU {}",
                want.level,
                want.cpu
            );
        }
    }
}

#[test]
fn sysctls_in_force_are_those_of_the_kernel() {
    for (name, json) in scenarios() {
        let golden: Golden = serde_json::from_slice(&json).expect("golden");
        let host = golden.scenario.scenario().expect("scenario").host().expect("host");
        let s = &host.config().sysctls;
        for (key, ours) in [
            ("sched_latency_ns", s.latency.0),
            ("sched_min_granularity_ns", s.min_granularity.0),
            ("sched_wakeup_granularity_ns", s.wakeup_granularity.0),
            ("sched_child_runs_first", s.child_runs_first.into()),
            ("sched_migration_cost_ns", s.migration_cost.0),
            ("sched_nr_migrate", s.nr_migrate.into()),
            ("sched_nr_latency", s.nr_latency),
            ("sched_shares_ratelimit_ns", s.shares_window.0),
        ] {
            let want = golden.outcome.effective.get(key).expect("an effective value");
            assert_eq!(i64::try_from(ours), Ok(*want), "{name}: {key}");
        }
    }
}

/// 3.4 leaves a CPU idle for ever here: when every task of the busiest CPU is pinned there, `load_balance` tries again
/// without that CPU but with its count of examined tasks used up, and examines none. The default has that bug, like the
/// golden schedule; `redo_resets_loop` is the repair.
#[test]
fn subset_affinity_leaves_a_cpu_idle_as_3_4_does_unless_repaired() {
    let golden: Golden = serde_json::from_slice(&file("smp4_subset_affinity")).expect("golden");
    let scenario = golden.scenario.scenario().expect("scenario");
    let longest_idle = |repaired: bool| {
        let mut host = scenario.host().expect("host");
        host.config_mut().switches.redo_resets_loop = repaired;
        let mut engine = Engine::new(&scenario, host, Recorder::default()).expect("engine");
        engine.run_until(scenario.duration_ns).expect("run");
        engine.outcome().cpus.iter().map(|c| c.idle_ns).max().expect("a CPU")
    };
    assert!(longest_idle(false) > scenario.duration_ns * 9 / 10);
    assert!(longest_idle(true) < scenario.duration_ns / 10);
}

#[derive(Deserialize)]
struct Vectors {
    prio_to_weight: Vec<u64>,
    prio_to_wmult: Vec<u64>,
    /// delta, weight, load weight, its inverse or 0, result, inverse afterwards.
    calc_delta_mine: Vec<[u64; 6]>,
    /// latency, minimum granularity, nr_latency, nr_running, period.
    sched_period: Vec<[u64; 5]>,
}

#[test]
fn the_arithmetic_is_the_kernels() {
    let v: Vectors = serde_json::from_slice(&file("unit_vectors")).expect("vectors");
    assert_eq!((&v.prio_to_weight[..], &v.prio_to_wmult[..]), (&PRIO_TO_WEIGHT[..], &PRIO_TO_WMULT[..]));
    assert_eq!((v.calc_delta_mine.len(), v.sched_period.len()), (3000, 160));
    for [delta, weight, load, inverse, result, inverse_after] in v.calc_delta_mine {
        let mut load = LoadWeight { weight: load, inv_weight: inverse };
        assert_eq!(calc_delta_mine(delta, weight, &mut load), result, "{delta} x {weight} / {load:?}");
        assert_eq!(load.inv_weight, inverse_after);
    }
    for [latency, min_granularity, nr_latency, nr_running, period] in v.sched_period {
        let mut s = Sysctls::for_cpus(1);
        (s.latency, s.min_granularity, s.nr_latency) = (Nanos(latency), Nanos(min_granularity), nr_latency);
        assert_eq!(sched_period(&s, nr_running), period);
    }
}
