//! How many simulated milliseconds a second of one core makes. Bars (issue 4), in simulated s per s: base 200, gang and
//! pvflush 30, ple 10, all at 8 VMs x 8 vCPUs on 8 CPUs; 128 CPUs x 1,024 vCPUs 1. `Kelem/s` is simulated s per s.
//!
//! Read them on an idle host: the time is wall-clock time.
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plan::{Control, CpuList, Engine, Lock, Mode, RunPlan, Sched, Workload, WorkloadParams};
use sim::{Machine, Options, Sim};

fn plan(mode: Mode, vms: u32, vcpus: u32, cpus: u32, duration_ms: u64) -> RunPlan {
    RunPlan {
        mode: mode.to_string(),
        axes: mode.axes(),
        vms,
        vcpus,
        pcpus: CpuList::new((0..cpus).collect()).expect("a host has CPUs"),
        sched: Sched::Lab,
        gang_cpus: 8,
        hz: 1000,
        sched_latency_ns: None,
        sched_min_granularity_ns: None,
        sched_wakeup_granularity_ns: None,
        ple_window_cycles: 4096,
        spin_budget: 1024,
        duration_ns: duration_ms * 1_000_000,
        warmup_ns: 0,
        workload: Workload::Ebizzy,
        params: WorkloadParams {
            chunk_pages: 64,
            search_passes: 4,
            flush_per_mille: 300,
            threads_per_vcpu: 2,
            ..WorkloadParams::default()
        },
        lock: Lock::Ticket,
        inject: None,
        seed: 1,
        block: 0,
        cgroup: None,
    }
}

fn speed(criterion: &mut Criterion) {
    let ple = Machine::from_toml(include_str!("../../experiments/machines/ple.toml")).expect("the machine is valid");
    let mut group = criterion.benchmark_group("simulated-ms");
    group.sample_size(10);
    let mut case = |name: &str, machine: &Machine, plan: &RunPlan| {
        let sim = Sim::new(machine.clone(), Options::default());
        group.throughput(Throughput::Elements(plan.duration_ns / 1_000_000));
        group.bench_function(name, |b| b.iter(|| sim.run(plan, &Control::default()).expect("the plan runs")));
    };
    for mode in [Mode::Base, Mode::Gang, Mode::PvFlush, Mode::Ple] {
        case(&format!("8x8-on-8/{mode}"), &ple, &plan(mode, 8, 8, 8, 1000));
    }
    let large = Machine { topology: "8s:16c".parse().expect("the topology is valid"), ..ple.clone() };
    for mode in [Mode::Base, Mode::Gang, Mode::PvFlush] {
        case(&format!("128x8-on-128/{mode}"), &large, &plan(mode, 128, 8, 128, 100));
    }
    group.finish();
}

criterion_group!(benches, speed);
criterion_main!(benches);
