//! Swarm tests: random hosts, guests, modes and switches by seed, and the checkers of [`crate::check`] every few ms.
//!
//! Each case turns a random subset of features on, so that rare combinations are met too. A failure names the seed;
//! `SIM_SWARM_SEED=N cargo test -p sim swarm` runs that case alone.
use plan::{Axes, CpuList, Flush, HostPolicy, RunPlan, Spin, Workload, WorkloadParams};

use crate::check::broken;
use crate::machine::tests::nonple;
use crate::machine::{COSTS, Machine};
use crate::rng::Stream;
use crate::setup::Options;
use crate::tests::plan;
use crate::world::{EPOCH_NS, World};

/// Cases of an ordinary test run.
const CASES: u64 = 60;
/// Between two looks of the checkers, in ns.
const LOOK_NS: u64 = 3_000_000;

fn pick<T: Copy>(rng: &mut Stream, from: &[T]) -> T {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()]
}

fn small(rng: &mut Stream, n: u64) -> u32 {
    u32::try_from(rng.below(n)).unwrap()
}

/// A machine with each cost anywhere from nothing to four times what it is.
fn machine(rng: &mut Stream) -> Machine {
    let mut machine = nonple();
    machine.topology = pick(rng, &["1s:1c", "1s:2c", "2s:2c", "1s:4c:2t", "2s:4c", "2n:1s:3c"]).parse().unwrap();
    machine.ple = rng.per_mille(500);
    for info in COSTS {
        let wild = rng.per_mille(200);
        let cost = machine.costs.get_mut(info.id).unwrap();
        if wild {
            *cost = rng.below(*cost * 4 + 1);
        }
    }
    let costs = &mut machine.costs;
    for cost in [&mut costs.cpu_clock, &mut costs.spin_turn, &mut costs.pause_gap, &mut costs.cache_half_life] {
        *cost = (*cost).max(1);
    }
    // Records and flushes take time, so that a run has an end.
    costs.page_touch = costs.page_touch.max(100);
    costs.tlb_flush = costs.tlb_flush.max(200);
    machine
}

fn axes(rng: &mut Stream) -> Axes {
    let flush = pick(rng, Flush::ALL);
    let halts = matches!(flush, Flush::HaltKick | Flush::PvFlush);
    let spin = if halts { Spin::Halt } else { pick(rng, &[Spin::Busy, Spin::Ple]) };
    Axes { host_policy: pick(rng, HostPolicy::ALL), flush, spin, pin: rng.per_mille(500) }
}

fn case(seed: u64) -> (Machine, RunPlan, Options) {
    let rng = &mut Stream::new(seed, 0);
    let machine = machine(rng);
    let cpus = machine.topology.online().weight();
    let base = plan(plan::Mode::Base, 1);
    let plan = RunPlan {
        axes: axes(rng),
        vms: 1 + small(rng, 5),
        vcpus: 1 + small(rng, 9),
        pcpus: CpuList::new((0..1 + small(rng, cpus.into())).collect()).unwrap(),
        gang_cpus: 1 + small(rng, 9),
        hz: pick(rng, &[100, 250, 1000]),
        ple_window_cycles: pick(rng, &[512, 4096]),
        spin_budget: pick(rng, &[0, 1, 1024, 100_000]),
        duration_ns: 60_000_000,
        warmup_ns: pick(rng, &[0, 5_000_000]),
        workload: pick(rng, &[Workload::Ebizzy, Workload::Flush]),
        params: WorkloadParams {
            chunk_pages: 1 + small(rng, 70),
            search_passes: small(rng, 10),
            flush_per_mille: pick(rng, &[0, 300, 1000]),
            threads_per_vcpu: 1 + small(rng, 4),
            ..WorkloadParams::default()
        },
        seed,
        ..base
    };
    let options = Options {
        yield_on_hlt: rng.per_mille(800),
        halt_once: rng.per_mille(100),
        stagger_ns: pick(rng, &[0, 0, 7_000_000]),
        guest_hz: pick(rng, &[100, 1000]),
        ..Options::default()
    };
    (machine, plan, options)
}

fn run(seed: u64) {
    let (machine, plan, options) = case(seed);
    let replay = format!("SIM_SWARM_SEED={seed} cargo test -p sim swarm: {:?} {options:?}", plan.axes);
    let mut world = World::new(&machine, &plan, options).unwrap_or_else(|error| panic!("{error}; {replay}"));
    let mut looks = (EPOCH_NS + LOOK_NS..EPOCH_NS + 90_000_000).step_by(usize::try_from(LOOK_NS).unwrap());
    let bound = 20_000_000;
    let found = looks.find_map(|until| {
        let in_bounds = world.run_until(until, || false) && world.events < bound;
        if in_bounds { broken(&mut world) } else { Some("more events than any host has".into()) }
    });
    assert_eq!(found, None, "{replay}");
    let stale: u64 = world.vms.iter().map(|vm| vm.stale_reads).sum();
    assert!(stale == 0 || options.halt_once, "{stale} stale reads; {replay}");
}

#[test]
fn random_worlds_keep_every_invariant() {
    match std::env::var("SIM_SWARM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => run(seed),
        None => (0..CASES).for_each(run),
    }
}
