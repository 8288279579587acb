//! What the vCPU loop costs: the round trip of a no-op doorbell through the product, against a bare `KVM_RUN` loop.
//!
//! Both boot the same guest, which times each `OUT` with the TSC itself, so the two figures are of one clock and one
//! code path in the guest; they alternate on one CPU, so that a busy host disturbs both alike. The histogram's buckets are 3 %
//! wide. Target: p50 of the product at most that of bare KVM_RUN + max(10 %, 1 us).
//!
//! Run: `cargo bench -p vmm --bench doorbell`

#[path = "../tests/support/mod.rs"]
mod support;

use abi::call::{Call, Report};
use abi::layout::results_block;
use abi::params::{Params, Workload};
use abi::results::Results;
use hdrhistogram::Histogram;
use kvm_ioctls::VcpuExit;
use plan::{Mode, RunPlan, Sched};
use vmm::boot::{Image, boot};
use vmm::clock::cycles_to_ns;
use vmm::probe::open_kvm;
use vmm::{Options, stats};

/// Doorbells of one round.
const DOORBELLS: u64 = 20_000;
/// Rounds of each kind; the median round counts.
const ROUNDS: usize = 9;

fn main() {
    if !support::kvm_usable("doorbell") {
        return;
    }
    // One CPU for all: two CPUs of one host may differ by more than what is measured.
    let cpu = vmm::probe::allowed_cpus()[0];
    vmm::scheduler::bind_self(&[cpu]).expect("it is allowed");
    let [mut bare, mut host, mut lab] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        bare.push(bare_p50_ns());
        host.push(product_p50_ns(Sched::Host));
        lab.push(product_p50_ns(Sched::Lab));
    }
    let [bare, host, lab] = [bare, host, lab].map(median);
    let limit = bare + (bare / 10).max(1_000);
    println!("no-op doorbell, p50 of {DOORBELLS}, median of {ROUNDS} rounds; target at most {limit} ns");
    for (name, value) in [("bare KVM_RUN", bare), ("vmm, --sched host", host), ("vmm, --sched lab", lab)] {
        let verdict = if value <= limit { "ok" } else { "OVER" };
        println!("{name:<20} {value:>8} ns  {verdict}");
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The guest under nothing but a loop around KVM_RUN.
fn bare_p50_ns() -> u64 {
    let kvm = open_kvm().expect("probed");
    let header = guest::header().expect("the image is ours");
    let image = Image { elf: guest::IMAGE, header, code: None, patches: &[] };
    let params = Params { workload: Workload::Doorbell as u32, record_limit: DOORBELLS, ..Params::MINIMAL };
    let mut booted = boot(&kvm, &image, &params, false).expect("boots");
    let done = (Report::Done as u32).to_le_bytes();
    loop {
        match booted.vcpus[0].run().expect("KVM_RUN") {
            VcpuExit::IoOut(port, data) if port == Call::Report.port() && *data == done => break,
            VcpuExit::IoOut(..) => {}
            other => panic!("{other:?}"),
        }
    }
    let results: &Results = booted.memory.shared(results_block(0)).expect("inside memory");
    let mut times: Histogram<u64> = stats::histogram();
    for (bucket, count) in results.record_time.counts() {
        let middle = u64::midpoint(abi::histogram::bucket_low(bucket), abi::histogram::bucket_low(bucket + 1));
        times.saturating_record_n(cycles_to_ns(middle, booted.tsc_khz), count.into());
    }
    times.value_at_quantile(0.5)
}

/// The same guest under the engine.
fn product_p50_ns(sched: Sched) -> u64 {
    let plan = RunPlan { vcpus: 1, warmup_ns: 0, duration_ns: 60_000_000_000, ..support::plan(Mode::Base, 1, sched) };
    let options = Options { workload: Some(Workload::Doorbell), record_limit: DOORBELLS, ..Options::default() };
    let record = support::run(&plan, options);
    assert!(record.failures.is_empty(), "{:?}", record.failures);
    record.histograms["record_time"].p50_ns
}
