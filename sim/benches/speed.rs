//! How many simulated seconds a second of one core makes, and how memory grows with the vCPUs.
//!
//! ```text
//!   cargo bench -p sim                   both tables
//!   cargo bench -p sim -- 8x8 gang       the cases whose name holds all these words
//! ```
//! Bars (issue 4), simulated s per s: 8 VMs x 8 vCPUs on 8 CPUs base 200, gang and pvflush 30, ple 10; 128 CPUs x 1,024
//! vCPUs 1. The best of three runs counts. Time is the CPU time of the thread, which on an idle host is wall-clock time;
//! neighbours still cost caches and clock frequency. Where `/proc/thread-self/schedstat` is missing it is wall-clock time.
#![allow(clippy::disallowed_types, reason = "a benchmark looks at the clock, beside the simulator")]
use std::process::Command;
use std::time::{Duration, Instant};

use plan::{Control, CpuList, Engine, Mode, RunPlan, WorkloadParams};
use sim::{Machine, Options, Sim};

/// A line of the table.
struct Case {
    name: String,
    machine: Machine,
    plan: RunPlan,
    /// Simulated s per s that it must reach.
    bar: Option<f64>,
}

/// Runs of a case; the best one counts.
const TRIES: u32 = 3;

/// The time of this thread.
struct Stopwatch {
    cpu_ns: Option<u64>,
    wall: Instant,
}

impl Stopwatch {
    fn start() -> Self {
        Self { cpu_ns: cpu_ns(), wall: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        let cpu = self.cpu_ns.zip(cpu_ns()).map(|(begun, now)| Duration::from_nanos(now - begun));
        cpu.filter(|cpu| !cpu.is_zero()).unwrap_or_else(|| self.wall.elapsed())
    }
}

/// For how long this thread has had a CPU.
fn cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let Some(vcpus) = words.iter().find_map(|word| word.strip_prefix("memory=")) {
        return one_run_of(vcpus.parse().expect("memory=N takes a number of vCPUs"));
    }
    println!("{:<22} {:>10} {:>12} {:>6}", "case", "sim s / s", "events / s", "bar");
    for case in cases().iter().filter(|case| words.iter().all(|word| case.name.contains(word.as_str()))) {
        speed(case);
    }
    if words.is_empty() {
        memory();
    }
}

fn cases() -> Vec<Case> {
    let ple = Machine::from_toml(include_str!("../../experiments/machines/ple.toml")).expect("the machine is valid");
    let mut cases = Vec::new();
    for (mode, bar) in [(Mode::Base, 200.0), (Mode::Gang, 30.0), (Mode::PvFlush, 30.0), (Mode::Ple, 10.0)] {
        let plan = plan(mode, 8, 8, 8, if mode == Mode::Base { 20_000 } else { 4000 });
        cases.push(Case { name: format!("8x8-on-8 {mode}"), machine: ple.clone(), plan, bar: Some(bar) });
    }
    let large = Machine { topology: "8s:16c".parse().expect("the topology is valid"), ..ple };
    for mode in [Mode::Base, Mode::Gang, Mode::PvFlush, Mode::Ple] {
        let plan = plan(mode, 128, 8, 128, 500);
        cases.push(Case { name: format!("1024-on-128 {mode}"), machine: large.clone(), plan, bar: Some(1.0) });
    }
    cases
}

fn plan(mode: Mode, vms: u32, vcpus: u32, cpus: u32, duration_ms: u64) -> RunPlan {
    RunPlan {
        vms,
        vcpus,
        pcpus: CpuList::new((0..cpus).collect()).expect("a host has CPUs"),
        gang_cpus: 8,
        duration_ns: duration_ms * 1_000_000,
        warmup_ns: 0,
        params: WorkloadParams {
            chunk_pages: 64,
            search_passes: 4,
            flush_per_mille: 300,
            threads_per_vcpu: 2,
            ..WorkloadParams::default()
        },
        seed: 1,
        ..RunPlan::sample(mode)
    }
}

fn speed(case: &Case) {
    let sim = Sim::new(case.machine.clone(), Options::default());
    let (mut best, mut events) = (Duration::MAX, 0);
    for _ in 0..TRIES {
        let begun = Stopwatch::start();
        let record = sim.run(&case.plan, &Control::default()).expect("the plan runs");
        best = best.min(begun.elapsed());
        events = record.counters["sim_events"];
    }
    let simulated = Duration::from_nanos(case.plan.duration_ns).as_secs_f64() / best.as_secs_f64();
    let events = Duration::from_micros(events).as_secs_f64() / best.as_secs_f64();
    let bar =
        case.bar.map_or(String::new(), |bar| format!("{bar:>6}{}", if simulated < bar { "  MISSED" } else { "" }));
    println!("{:<22} {simulated:>10.1} {events:>10.1} M {bar}", case.name);
}

/// Peak memory of runs with more and more vCPUs on 16 CPUs, each in a process of its own.
fn memory() {
    println!("\n{:>6} {:>5} {:>12} {:>22}", "vCPUs", "VMs", "peak", "for each more vCPU");
    let mut before: Option<(u32, u64)> = None;
    for vcpus in [64, 128, 256, 512, 1024, 2048, 4096] {
        let this = std::env::current_exe().expect("a program knows its file");
        let child = Command::new(this).arg(format!("memory={vcpus}")).output().expect("the benchmark runs again");
        let text = String::from_utf8_lossy(&child.stdout);
        let Ok(kib) = text.trim().parse::<u64>() else {
            return println!("no VmHWM in /proc/self/status: no memory table");
        };
        let more = before.map_or(String::new(), |(at, was)| {
            let more = Duration::from_secs(kib.saturating_sub(was)).as_secs_f64();
            format!("{:.1} KiB", more / f64::from(vcpus - at))
        });
        println!("{vcpus:>6} {:>5} {kib:>8} KiB {more:>22}", vcpus / 16);
        before = Some((vcpus, kib));
    }
}

/// The child: one run, and the most memory that this process ever had.
fn one_run_of(vcpus: u32) {
    let text = include_str!("../../experiments/machines/ple.toml");
    let machine = Machine::from_toml(text).expect("the machine is valid");
    let machine = Machine { topology: "2s:8c".parse().expect("the topology is valid"), ..machine };
    let plan = plan(Mode::PvFlush, vcpus / 16, 16, 16, 100);
    Sim::new(machine, Options::default()).run(&plan, &Control::default()).expect("the plan runs");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", peak.unwrap_or_default().trim().trim_end_matches(" kB"));
}
