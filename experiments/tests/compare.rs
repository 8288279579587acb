//! `vmmlab compare` on results that are made here: pairing, the gate, verdicts, exit codes, formats.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use clap::Parser;
use plan::{Failure, RunPlan, RunRecord, RunStatus, VmRecord, metric};
use vmmlab::cli::{Cli, Command};
use vmmlab::compare::{Aspect, Comparison, Design, Outcome, Request, Verdict, compare};
use vmmlab::host::Fingerprint;
use vmmlab::result::{ResultFile, SCHEMA};
use vmmlab::table::{self, Medium};

/// What a made-up system is like.
#[derive(Clone, Copy)]
struct System {
    engine: &'static str,
    /// Records/s of `base`; `gang` has twice that.
    rate: f64,
    blocks: u32,
    seed: u64,
}

const KVM: System = System { engine: "kvm", rate: 1000.0, blocks: 8, seed: 42 };
const SIM: System = System { engine: "sim", ..KVM };

/// Noise of a percent: different for every seed, block and mode, and always the same.
fn noise(of: &[u64]) -> f64 {
    let mixed = of.iter().fold(0x9e37_79b9_7f4a_7c15u64, |hash, value| {
        (hash ^ value).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
    });
    1.0 + (f64::from(u32::try_from(mixed >> 40).unwrap()) / 8_388_608.0 - 1.0) * 0.01
}

fn result(system: System) -> ResultFile {
    let arguments = format!("vmmlab run --mode base,gang --vms 2 --blocks {} --seed {}", system.blocks, system.seed);
    let Command::Run(run_args) = Cli::parse_from(arguments.split_whitespace()).command else { unreachable!() };
    let experiment = run_args.experiment(&[0, 1]).unwrap();
    let mut result = ResultFile {
        schema: SCHEMA.into(),
        status: RunStatus::Ok,
        engine: system.engine.into(),
        seed: system.seed,
        command: format!("vmmlab run --seed {}", system.seed),
        started: "2026-01-02T03:04:05Z".into(),
        experiment_digest: experiment.digest(),
        runs: (0..system.blocks).flat_map(|block| experiment.block(block)).map(|plan| run(system, &plan)).collect(),
        experiment,
        host: Fingerprint { cpu: Some("Lab CPU".into()), kernel: Some("6.1".into()), ..Fingerprint::default() },
        versions: BTreeMap::new(),
        summary: Vec::new(),
    };
    result.summarize();
    result
}

fn run(system: System, plan: &RunPlan) -> RunRecord {
    let mut record = RunRecord::empty(plan);
    let gang = plan.mode == "gang";
    let noise = noise(&[plan.seed, u64::from(plan.block), u64::from(gang)]);
    record.duration_ns = plan.duration_ns;
    record.records_per_s = system.rate * if gang { 2.0 } else { 1.0 } * noise;
    record.vms = [0.99, 1.01]
        .map(|share| VmRecord {
            records: 500,
            records_per_s: record.records_per_s / 2.0 * share,
            cpu_ns: 1_000_000,
            entitled_ns: 1_000_000,
            stale_reads: 0,
            soft_stale_reads: 0,
            vcpu_records: Vec::new(),
        })
        .to_vec();
    let mut count = |name: &str, value: u64| record.counters.insert(name.into(), value);
    count(metric::FLUSHES, 1000);
    count(metric::FLUSH_IPIS, if gang { 7000 } else { 3000 } + plan.seed % 10);
    count("exit_io", 100 + plan.seed % 7);
    if system.engine == "sim" {
        count("sim_digest", plan.seed ^ system.rate.to_bits());
    }
    record
}

fn verdicts(results: &[&ResultFile], request: &Request) -> Comparison {
    let named: Vec<(&str, &ResultFile)> = ["old.json", "new.json"].into_iter().zip(results.iter().copied()).collect();
    compare(&named, request).unwrap()
}

fn primary(comparison: &Comparison) -> Vec<(String, Option<Verdict>)> {
    let row = |pair: &vmmlab::compare::Pair| (pair.new.label.clone(), pair.rows[0].verdict);
    comparison.pairs.iter().map(row).collect()
}

#[test]
fn the_modes_of_one_result_are_paired_and_the_reference_is_the_old_side() {
    let result = result(KVM);
    let found = verdicts(&[&result], &Request::default());
    assert_eq!(primary(&found), [("gang".to_owned(), Some(Verdict::Better))]);
    let pair = &found.pairs[0];
    assert_eq!((pair.design, pair.old.mode.as_str(), pair.new.blocks.len()), (Design::Paired, "base", 8));
    let change = pair.rows[0].change.as_ref().unwrap();
    assert!((change.centre - 100.0).abs() < 3.0, "the raw change in percent: {change:?}");
    assert_eq!(found.outcome, Outcome::Ok);
    // The other way round it is a regression.
    let swapped = Request { base: Some("gang".into()), new: Some("base".into()), ..Request::default() };
    let found = verdicts(&[&result], &swapped);
    assert_eq!((primary(&found)[0].1, found.outcome), (Some(Verdict::Worse), Outcome::Regression));
    assert_eq!(result.summary[1].change.as_ref().unwrap().verdict, Some(Verdict::Better), "as on its own page");
}

#[test]
fn two_results_are_compared_mode_by_mode_and_unpaired_on_real_hosts() {
    let found = verdicts(&[&result(KVM), &result(System { rate: 900.0, seed: 7, ..KVM })], &Request::default());
    assert_eq!(primary(&found), ["base", "gang"].map(|mode| (mode.to_owned(), Some(Verdict::Worse))));
    assert!(found.pairs.iter().all(|pair| pair.design == Design::Unpaired));
    assert_eq!((found.rules.holm_over, found.outcome), (2, Outcome::Regression));
}

#[test]
fn equal_systems_are_shown_to_be_the_same() {
    let found = verdicts(
        &[&result(System { blocks: 12, ..KVM }), &result(System { blocks: 12, seed: 7, ..KVM })],
        &Request::default(),
    );
    assert_eq!(primary(&found), ["base", "gang"].map(|mode| (mode.to_owned(), Some(Verdict::Same))));
    assert_eq!(found.outcome, Outcome::Ok);
}

#[test]
fn the_simulator_is_paired_by_seed_and_equal_digests_are_identical() {
    let old = result(SIM);
    let slower = result(System { rate: 990.0, ..SIM });
    let found = verdicts(&[&old, &slower], &Request::default());
    assert!(found.pairs.iter().all(|pair| pair.design == Design::Paired), "equal seeds");
    let other = verdicts(&[&old, &result(System { seed: 7, ..SIM })], &Request::default());
    assert!(other.pairs.iter().all(|pair| pair.design == Design::Unpaired), "other seeds");

    let same = verdicts(&[&old, &old.clone()], &Request::default());
    assert!(same.pairs.iter().all(|pair| pair.identical && pair.rows[0].change.is_none()));
    assert_eq!(same.outcome, Outcome::Ok);
    assert!(table::comparison_text(&same, Medium::Mail).contains("base: IDENTICAL, 8 paired blocks"));

    let mut recounted = old.clone();
    recounted.runs[0].records_per_s += 1.0;
    let found = verdicts(&[&old, &recounted], &Request::default());
    assert!(
        found.notices.iter().any(|n| n.contains("the same events to the bit, but counted differently: records_per_s"))
    );
}

#[test]
fn unlike_things_are_refused_unless_named() {
    let old = result(KVM);
    let mut new = result(System { seed: 7, ..KVM });
    new.host.kernel = Some("6.2".into());
    new.experiment.plans.iter_mut().for_each(|plan| plan.vms = 3);
    let named = [("old.json", &old), ("new.json", &new)];
    let error = compare(&named, &Request::default()).unwrap_err().to_string();
    for want in ["not alike", "--ignore kernel,experiment", "kernel     kernel: 6.1 / 6.2", "experiment vms: 2 / 3"] {
        assert!(error.contains(want), "{want}: {error}");
    }
    let some = Request { ignore: [Aspect::Kernel].into(), ..Request::default() };
    assert!(compare(&named, &some).unwrap_err().to_string().contains("--ignore experiment"));
    let all = Request { ignore: [Aspect::Kernel, Aspect::Experiment].into(), ..Request::default() };
    let found = compare(&named, &all).unwrap();
    assert_eq!(found.ignored.len(), 2);
    assert!(table::comparison_text(&found, Medium::Terminal).contains("ignored  kernel: 6.1 / 6.2"));
}

#[test]
fn failed_runs_come_first_count_nowhere_and_decide() {
    let (old, mut new) = (result(KVM), result(System { seed: 7, ..KVM }));
    let run = new.runs.iter_mut().find(|run| run.mode == "base" && run.block == 3).unwrap();
    run.status = RunStatus::Failed;
    run.records_per_s = 1.0;
    run.failures = vec![Failure { check: "stale-read".into(), message: "VM 1 read 3".into() }];
    let found = verdicts(&[&old, &new], &Request::default());
    assert_eq!((found.pairs[0].new.blocks.len(), found.outcome), (7, Outcome::Regression));
    for text in [table::comparison_text(&found, Medium::Mail), table::comparison_markdown(&found)] {
        assert!(
            text.starts_with("FAILED   new base block 3: stale-read: VM 1") || text.starts_with("- **FAILED**"),
            "{text}"
        );
    }
    let swapped = verdicts(&[&new, &old], &Request::default());
    assert_eq!(swapped.outcome, Outcome::Inconclusive, "what is compared with is in doubt");
}

#[test]
fn below_six_blocks_nothing_is_concluded() {
    let found = verdicts(&[&result(System { blocks: 5, ..KVM })], &Request::default());
    assert_eq!(primary(&found)[0].1, Some(Verdict::Unclear));
    assert_eq!((found.pairs[0].rows[0].blocks_to_settle, found.outcome), (Some(6), Outcome::Inconclusive));
    assert!(found.notices.iter().any(|n| n.contains("it takes 6 good blocks a side and there are 5")));
}

#[test]
fn a_mode_against_itself_raises_no_alarm() {
    let found = verdicts(&[&result(System { blocks: 40, ..SIM })], &Request { aa: true, ..Request::default() });
    assert_eq!((found.pairs.len(), found.outcome), (2, Outcome::Ok));
    assert_eq!(found.pairs[0].new.blocks, (0..20).map(|k| 2 * k + 1).collect::<Vec<_>>());
    assert!(found.notices.last().unwrap().starts_with("A/A: of "), "{:?}", found.notices);
}

#[test]
fn bands_are_in_order_and_unknown_counters_explain() {
    let found = verdicts(&[&result(KVM)], &Request::default());
    let pair = &found.pairs[0];
    assert!(pair.rows.windows(2).all(|rows| rows[0].family <= rows[1].family));
    let row = |id: &str| pair.rows.iter().find(|row| row.metric == id).unwrap();
    assert_eq!(row("ipis_per_flush").verdict, Some(Verdict::Worse));
    assert!(row("exit_io_per_s").change.is_some());
    assert_eq!(row("stale_reads").verdict, Some(Verdict::Same), "exact: looked at");
    let why: Vec<&str> = pair.band(metric::Family::Why).map(|row| row.metric.as_str()).collect();
    assert_eq!(why[0], "ipis_per_flush", "what is sure and large comes first");
}

#[test]
fn json_csv_and_the_comparison_have_the_same_numbers() {
    let (old, new) = (result(KVM), result(System { rate: 900.0, seed: 7, ..KVM }));
    let found = verdicts(&[&old, &new], &Request::default());
    let read: Comparison = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
    assert_eq!(read, found, "json loses nothing");

    let text = table::comparison_csv(&read);
    let mut values = BTreeMap::new();
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let (path, mode, block, seed, id, _, value): (String, String, u32, u64, String, String, f64) = row.unwrap();
        assert!(values.insert((path, mode, block, id), (seed, value)).is_none(), "each value once");
    }
    let mut count = 0;
    for (path, file) in [("old.json", &old), ("new.json", &new)] {
        for run in &file.runs {
            for metric in &found.metrics {
                let key = (path.to_owned(), run.mode.clone(), run.block, metric.id.to_string());
                let want = metric.value(run).map(|value| (run.seed, value.to_bits()));
                assert_eq!(values.get(&key).map(|(seed, value)| (*seed, value.to_bits())), want, "{key:?}");
                count += usize::from(want.is_some());
            }
        }
    }
    assert_eq!(count, values.len());
    let rows = csv::Reader::from_reader(table::result_csv(&old).as_bytes()).records().count();
    let want =
        old.runs.iter().map(|run| metric::METRICS.iter().filter(|m| m.value(run).is_some()).count()).sum::<usize>();
    assert_eq!(rows, want);
}

#[test]
fn pages_are_as_narrow_as_their_medium() {
    let found = verdicts(&[&result(KVM), &result(System { rate: 900.0, seed: 7, ..KVM })], &Request::default());
    for (medium, columns) in [(Medium::Terminal, 100), (Medium::Mail, 78)] {
        let page = anstream::adapter::strip_str(&table::comparison_text(&found, medium)).to_string();
        for line in page.lines() {
            assert!(line.chars().count() <= columns, "{} columns: {line}", line.chars().count());
        }
        assert!(medium == Medium::Terminal || page.is_ascii());
    }
}

#[test]
fn the_page_of_a_comparison() {
    let found = verdicts(&[&result(KVM), &result(System { rate: 900.0, seed: 7, ..KVM })], &Request::default());
    let page = table::comparison_text(&found, Medium::Terminal);
    insta::assert_snapshot!(anstream::adapter::strip_str(&page).to_string());
    insta::assert_snapshot!("mail", table::comparison_text(&found, Medium::Mail));
    insta::assert_snapshot!("explain", table::explain(&found, "records_per_s").unwrap());
}

fn vmmlab(arguments: &[&str], files: &[&Path]) -> Output {
    assert_cmd::Command::cargo_bin("vmmlab").unwrap().arg("compare").args(files).args(arguments).output().unwrap()
}

fn write(dir: &Path, name: &str, result: &ResultFile) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("result.json"), serde_json::to_vec(result).unwrap()).unwrap();
    path
}

#[test]
fn exit_codes_are_for_scripts_and_for_git_bisect() {
    let dir = tempfile::tempdir().unwrap();
    let old = write(dir.path(), "old", &result(System { blocks: 12, ..KVM }));
    let same = write(dir.path(), "same", &result(System { blocks: 12, seed: 7, ..KVM }));
    let slow = write(dir.path(), "slow", &result(System { blocks: 12, rate: 900.0, seed: 7, ..KVM }));
    let few = write(dir.path(), "few", &result(System { blocks: 3, seed: 7, ..KVM }));
    let mut elsewhere = result(System { blocks: 12, seed: 7, ..KVM });
    elsewhere.host.cpu = Some("Other CPU".into());
    let elsewhere = write(dir.path(), "elsewhere", &elsewhere);
    for (new, plain, bisect) in [(&same, 0, 0), (&slow, 1, 1), (&few, 3, 125), (&elsewhere, 3, 125)] {
        for (arguments, want) in [(&[][..], plain), (&["--bisect"][..], bisect)] {
            let output = vmmlab(arguments, &[&old, new]);
            assert_eq!(output.status.code(), Some(want), "{} {arguments:?}: {output:?}", new.display());
        }
    }
    assert_eq!(vmmlab(&["--ignore", "host"], &[&old, &elsewhere]).status.code(), Some(0));
    assert_eq!(vmmlab(&["--ignore", "hots"], &[&old, &elsewhere]).status.code(), Some(2));
    assert_eq!(vmmlab(&["--explain", "exits_per_s"], &[&old, &same]).status.code(), Some(2));
}

#[test]
fn files_that_are_no_results_are_answered_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let good = serde_json::to_string(&result(KVM)).unwrap();
    let half = &good[..good.len() / 2];
    let other = good.replacen(SCHEMA, "vmmlab.compare/1", 1);
    let deep = format!("{{\"schema\":\"{SCHEMA}\",\"runs\":{}", "[".repeat(100_000));
    let typed = good.replacen("\"runs\":[", "\"runs\":[7,", 1);
    for (text, want) in [
        ("", "or is damaged: EOF"),
        ("no json", "or is damaged: expected"),
        (half, "or is damaged"),
        (other.as_str(), "its schema is 'vmmlab.compare/1'"),
        ("{}", "its schema is 'none'"),
        (deep.as_str(), "or is damaged"),
        (typed.as_str(), "invalid type: integer `7`"),
    ] {
        let path = dir.path().join("result.json");
        fs::write(&path, text).unwrap();
        let output = vmmlab(&[], &[&path]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(want) && error.contains("result.json") && error.lines().count() == 1, "{want}: {error}");
        assert_eq!(output.status.code(), Some(2));
    }
    let error = String::from_utf8(vmmlab(&[], &[&dir.path().join("absent")]).stderr).unwrap();
    assert!(error.contains("absent") && error.contains("No such file"), "{error}");
}

#[test]
fn a_result_of_a_later_version_is_read() {
    let mut json = serde_json::to_value(result(KVM)).unwrap();
    json["new_field"] = serde_json::json!({ "a": [1, 2] });
    json["runs"][0]["also_new"] = 1.into();
    json["runs"][0]["histograms"]["flush_wait"] =
        serde_json::json!({ "p50_ns": 1, "p99_ns": 2, "max_ns": 3, "count": 4, "p999_ns": 5 });
    json["experiment"]["plans"][0]["later"] = "x".into();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("result.json"), serde_json::to_vec(&json).unwrap()).unwrap();
    let read = vmmlab::result::read(dir.path()).unwrap();
    assert_eq!(read.runs.len(), 16);
}

/// What a result's own page says follows from its runs, in the committed baselines too. VMMLAB_RENEW=1 writes them anew.
#[test]
fn the_committed_baselines_have_the_verdicts_of_this_version() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let mut count = 0;
    for point in fs::read_dir(results).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for file in fs::read_dir(point.path()).unwrap().flatten() {
            let path = file.path();
            let committed = vmmlab::result::read(&path).unwrap();
            let mut now = committed.clone();
            now.summarize();
            if std::env::var_os("VMMLAB_RENEW").is_some() {
                fs::write(&path, serde_json::to_string_pretty(&now).unwrap() + "\n").unwrap();
            } else {
                assert_eq!(committed.summary, now.summary, "{}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 0, "no baselines were found");
}
