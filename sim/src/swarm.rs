//! Swarm tests: random hosts, guests, modes, switches and faults by seed, and checkers that look on.
//!
//! Each case first draws which features it has at all and how wild its costs are, then the rest, so that rare
//! combinations are met and most cases still do much (*swarm testing*, Groce et al. 2012). Sizes are skewed to small.
//!
//! ```text
//!   seed ─► Case::draw ─► Case::run: World, every few ms  check.rs, hostsched's Checker, ledger.rs, waste.rs
//!                                    at the end            every thread must come to its end
//! ```
//! A case is a function of its seed, of the machine whose costs it varies, and of the program's version: what fails is
//! replayed by `vmmlab swarm --seed N --cases 1`.
mod ledger;
mod run;
mod waste;

use hostsched::policy::PleSwitches;
use plan::{Axes, CpuList, Flush, HostPolicy, Lock, Mode, Neighbour, RunPlan, Sched, Spin, Workload, WorkloadParams};

use crate::fault::{Fault, FaultKind};
use crate::machine::{COSTS, Machine, range};
use crate::rng::Stream;
use crate::setup::Options;

pub use run::{Broken, Summary};

/// One case: everything that a run depends on.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it comes from.
    pub seed: u64,
    /// The host.
    pub machine: Machine,
    /// The guests.
    pub plan: RunPlan,
    /// Switches.
    pub options: Options,
    /// What happens to the host, by time.
    pub faults: Vec<Fault>,
}

impl Case {
    /// The case of that seed. Its costs are those of `base`, up to four times as much or nothing at all.
    #[must_use]
    pub fn draw(seed: u64, base: &Machine) -> Self {
        let rng = &mut Stream::new(seed, 0);
        let machine = machine(rng, base);
        let cpus = machine.topology.online().weight();
        let long = rng.per_mille(100);
        let mut plan = plan(rng, seed, cpus, long);
        let options = options(rng, &plan);
        let span = plan.warmup_ns + plan.duration_ns;
        let faults = if rng.per_mille(600) { faults(rng, &plan, span) } else { Vec::new() };
        if rng.per_mille(300) {
            plan.neighbour = pick(rng, &[Neighbour::Spin, Neighbour::Sleeper]);
        }
        Self { seed, machine, plan, options, faults }
    }
}

/// One of these.
fn pick<T: Copy>(rng: &mut Stream, from: &[T]) -> T {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap_or(0)]
}

/// Below `n`, small ones more often.
fn small(rng: &mut Stream, n: u32) -> u32 {
    let drawn = rng.below(n.into()).min(rng.below(n.into()));
    u32::try_from(drawn).unwrap_or(0)
}

fn machine(rng: &mut Stream, base: &Machine) -> Machine {
    let mut machine = base.clone();
    let shapes = ["1s:1c", "1s:2c", "1s:2c", "2s:2c", "1s:4c:2t", "2s:4c", "2n:1s:3c", "2s:4c:2t"];
    if let Ok(topology) = pick(rng, &shapes).parse() {
        machine.topology = topology;
    }
    machine.ple = rng.per_mille(500);
    let wildness = pick(rng, &[0, 200, 700]);
    for info in COSTS {
        let wild = rng.per_mille(wildness);
        let factor = rng.below(1 << 12);
        if let Some(cost) = machine.costs.get_mut(info.id).filter(|_| wild) {
            let (min, max) = range(info);
            *cost = (*cost * factor / 1024).clamp(min, max);
        }
    }
    // Records and flushes take time, so that a run has an end.
    machine.costs.page_touch = machine.costs.page_touch.max(100);
    machine.costs.tlb_flush = machine.costs.tlb_flush.max(200);
    machine.costs.lock_hold = machine.costs.lock_hold.max(100);
    machine
}

fn axes(rng: &mut Stream) -> Axes {
    let flush = pick(rng, Flush::ALL);
    let halts = matches!(flush, Flush::HaltKick | Flush::PvFlush);
    let spin = if halts { Spin::Halt } else { pick(rng, &[Spin::Busy, Spin::Ple]) };
    Axes { host_policy: pick(rng, HostPolicy::ALL), flush, spin, pin: rng.per_mille(500) }
}

/// Constants of the workloads besides ebizzy, for runs of some ten milliseconds.
fn small_workloads(rng: &mut Stream) -> WorkloadParams {
    WorkloadParams {
        groups: 1 + small(rng, 3),
        pairs: 1 + small(rng, 6),
        message_ns: pick(rng, &[100, 2000, 50_000]),
        jobs: 1 + small(rng, 12),
        build_jobs: 1 + small(rng, 30),
        job_us: pick(rng, &[50, 2000]),
        job_pages: small(rng, 300),
        link_us: pick(rng, &[0, 3000]),
        warehouses: 1 + small(rng, 20),
        heap_transactions: 1 + small(rng, 300),
        collection_us: pick(rng, &[100, 5000]),
        clients: 1 + small(rng, 20),
        io_per_mille: pick(rng, &[0, 100, 1000]),
        lock_spins: pick(rng, &[0, 100, 2048]),
        hold_ns: pick(rng, &[0, 500, 100_000]),
        ..WorkloadParams::default()
    }
}

fn plan(rng: &mut Stream, seed: u64, cpus: u32, long: bool) -> RunPlan {
    let used = if rng.per_mille(700) { cpus } else { 1 + small(rng, cpus) };
    let simulated: Vec<Workload> = Workload::ALL.iter().copied().filter(|w| w.is_simulated()).collect();
    let workload = pick(rng, &simulated);
    let lock = if workload.has_locks() { pick(rng, Lock::ALL) } else { Lock::Ticket };
    let others = small_workloads(rng);
    let sysctl = |rng: &mut Stream, odds, from: &[u64]| rng.per_mille(odds).then(|| pick(rng, from));
    RunPlan {
        mode: Mode::Base.to_string(),
        axes: axes(rng),
        vms: 1 + small(rng, 6),
        vcpus: if rng.per_mille(30) { 64 } else { 1 + small(rng, 12) }.max(if workload == Workload::Ipi {
            2
        } else {
            1
        }),
        // A list of at least one CPU.
        pcpus: CpuList::new((0..used).collect()).unwrap_or_else(|| CpuList::new(vec![0]).expect("one CPU is a list")),
        sched: Sched::Lab,
        gang_cpus: 1 + small(rng, 9),
        hz: pick(rng, &[100, 250, 1000, 1000]),
        sched_latency_ns: sysctl(rng, 200, &[1_000_000, 48_000_000]),
        sched_min_granularity_ns: sysctl(rng, 200, &[100_000, 10_000_000]),
        sched_wakeup_granularity_ns: sysctl(rng, 200, &[0, 1_000_000, 20_000_000]),
        ple_window_cycles: pick(rng, &[512, 4096]),
        spin_budget: pick(rng, &[0, 1, 1024, 1024, 100_000]),
        duration_ns: if long { 400_000_000 } else { 60_000_000 },
        warmup_ns: pick(rng, &[0, 5_000_000]),
        workload,
        params: WorkloadParams {
            chunk_pages: 1 + small(rng, 70),
            search_passes: small(rng, 10),
            flush_per_mille: pick(rng, &[0, 300, 1000]),
            threads_per_vcpu: 1 + small(rng, 4),
            ..others
        },
        lock,
        neighbour: Neighbour::None,
        inject: None,
        seed,
        block: 0,
        cgroup: None,
    }
}

fn options(rng: &mut Stream, plan: &RunPlan) -> Options {
    let quarter = |rng: &mut Stream| rng.per_mille(250);
    Options {
        yield_on_hlt: rng.per_mille(850),
        halt_once: plan.axes.flush == Flush::HaltKick && rng.per_mille(200),
        stagger_ns: pick(rng, &[0, 0, 7_000_000]),
        guest_hz: pick(rng, &[100, 1000]),
        flat: rng.per_mille(200),
        idle_next_balance: rng.per_mille(300),
        ple: PleSwitches {
            dy_eligible: quarter(rng),
            preempted_only: quarter(rng),
            in_kernel: quarter(rng),
            strict_boost: quarter(rng),
        },
        ..Options::default()
    }
}

/// Up to a dozen faults; each case draws which kinds are frequent in it. Some come within microseconds of another.
fn faults(rng: &mut Stream, plan: &RunPlan, span_ns: u64) -> Vec<Fault> {
    let weights = [0; 4].map(|_: u64| pick(rng, &[0, 1, 1, 5]));
    let all: u64 = weights.iter().sum();
    let count = 1 + small(rng, 12);
    let mut faults = Vec::new();
    let mut at_ns = 0;
    for _ in 0..if all == 0 { 0 } else { count } {
        at_ns = if rng.per_mille(300) { at_ns + rng.below(50_000) } else { rng.below(span_ns) };
        let mut drawn = rng.below(all);
        let kind = weights.iter().position(|weight| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        let cpu = u32::try_from(rng.below(plan.pcpus.as_slice().len() as u64)).unwrap_or(0);
        // One number too far now and then: a host refuses it.
        let (vm, vcpu) = (small(rng, plan.vms + 1), small(rng, plan.vcpus + 1));
        let kind = match kind {
            Some(0) => FaultKind::CpuOffline(cpu),
            Some(1) => FaultKind::CpuOnline(cpu),
            Some(2) => FaultKind::GroupRemoved { vm },
            _ => FaultKind::VcpuKilled { vm, vcpu },
        };
        faults.push(Fault { at_ns, kind });
    }
    faults.sort_by_key(|fault| fault.at_ns);
    faults
}
