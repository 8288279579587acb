//! What a comparison costs: two results of 100 metrics x 50 blocks, not paired, every metric tested exactly.
//! Must stay under 100 ms.

use std::collections::BTreeMap;
use std::hint::black_box;

use clap::Parser;
use criterion::{Criterion, criterion_group, criterion_main};
use plan::{RunRecord, RunStatus};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use vmmlab::cli::{Cli, Command};
use vmmlab::compare::{Request, compare};
use vmmlab::host::Fingerprint;
use vmmlab::result::{ResultFile, SCHEMA};

const METRICS: usize = 100;

fn result(seed: u64) -> ResultFile {
    let arguments = format!("vmmlab run --mode base --blocks 50 --seed {seed}");
    let Command::Run(run) = Cli::parse_from(arguments.split_whitespace()).command else { unreachable!() };
    let experiment = run.experiment(&[0, 1]).expect("these options are valid");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut record = |plan: &plan::RunPlan| {
        let mut record = RunRecord::empty(plan);
        record.duration_ns = plan.duration_ns;
        record.records_per_s = 1000.0;
        // With records/s and stale reads, which every run has.
        for i in 0..METRICS - 2 {
            record.counters.insert(format!("counter_{i}"), 1_000_000 + rng.next_u64() % 100_000);
        }
        record
    };
    ResultFile {
        schema: SCHEMA.into(),
        status: RunStatus::Ok,
        engine: "kvm".into(),
        seed,
        command: arguments.clone(),
        started: String::new(),
        experiment_digest: experiment.digest(),
        runs: (0..50).flat_map(|block| experiment.block(block)).map(|plan| record(&plan)).collect(),
        experiment,
        host: Fingerprint::default(),
        versions: BTreeMap::new(),
        summary: Vec::new(),
    }
}

fn benchmark(c: &mut Criterion) {
    let (old, new) = (result(1), result(2));
    let named = [("old", &old), ("new", &new)];
    let rows = compare(&named, &Request::default()).map(|found| found.pairs[0].rows.len());
    assert_eq!(rows, Ok(METRICS));
    c.bench_function("compare 100 metrics x 50 blocks", |b| {
        b.iter(|| compare(black_box(&named), black_box(&Request::default())));
    });
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
