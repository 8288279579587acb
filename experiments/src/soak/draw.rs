//! A random plan as options of `vmmlab run`.
//!
//! Options and not a plan: they are checked by the code that checks what users write, and a failure can be run again, and
//! changed, by hand. Sizes are skewed to small, so that a minute holds many plans; rare values are drawn often enough to meet
//! each other.

use plan::{Flush, HostPolicy, Lock, Mode, Neighbour, Spin, Workload};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The words of plan `seed` on a host with `cpus` CPUs, without those that only one engine takes. The second list is for real
/// guests only.
#[must_use]
pub fn draw(seed: u64, cpus: u32) -> (Vec<String>, Vec<String>) {
    let rng = &mut Draw(Xoshiro256PlusPlus::seed_from_u64(seed));
    let mode = rng.pick(Mode::ALL);
    let workload = rng.pick(Workload::ALL);
    let (vms, mut vcpus) = (1 + rng.small(4), rng.pick(&[1, 2, 2, 2, 3, 4, 4, 8]));
    if matches!(workload, Workload::Ipi | Workload::Gup) {
        // There must be somebody to interrupt, or to walk to.
        vcpus = vcpus.max(2);
    }
    let mut words = vec![
        format!("--mode={mode}{}", axes(rng, mode)),
        format!("--workload={workload}"),
        format!("--vms={vms}"),
        format!("--vcpus={vcpus}"),
        format!("--seed={seed}"),
        "--blocks=1".into(),
        format!("--duration={}ms", rng.pick(&[60, 100, 200, 400])),
        format!("--warmup={}ms", rng.pick(&[0, 10, 50])),
        format!("--hz={}", rng.pick(&[100, 250, 1000, 1000])),
        format!("--gang-cpus={}", 1 + rng.small(cpus.max(2))),
        format!("--spin-budget={}", rng.pick(&[0, 1, 1024, 1024, 100_000])),
        format!("--ple-window={}", rng.pick(&[512, 4096, 4096])),
        format!("--neighbour={}", rng.pick(&[Neighbour::None, Neighbour::None, Neighbour::Spin, Neighbour::Sleeper])),
    ];
    if rng.one_in(3) {
        words.push(format!("--slice={}", rng.pick(&["500us", "2ms", "6ms"])));
    }
    if workload.has_locks() {
        words.push(format!("--lock={}", rng.pick(Lock::ALL)));
    }
    words.extend(constants(rng, workload));
    let mut real = Vec::new();
    if mode.axes().host_policy == HostPolicy::Cfs && rng.one_in(6) {
        real.push("--sched=host".into());
    }
    (words, real)
}

/// Now and then another flush than the mode's, as the row names it.
fn axes(rng: &mut Draw, mode: Mode) -> String {
    if !rng.one_in(4) {
        return String::new();
    }
    let flush = rng.pick(Flush::ALL);
    let halts = matches!(flush, Flush::HaltKick | Flush::PvFlush);
    match (halts, mode.axes().spin) {
        // What waits by pause-loop exits cannot halt.
        (true, Spin::Ple) => String::new(),
        _ => format!("+flush={flush}"),
    }
}

/// Constants of the workload, for runs of some hundred milliseconds.
fn constants(rng: &mut Draw, workload: Workload) -> Vec<String> {
    let param = |name: &str, value: u32| format!("--param={name}={value}");
    match workload {
        Workload::Ebizzy => vec![
            format!("--chunk-pages={}", 1 + rng.small(64)),
            format!("--search-passes={}", rng.small(24)),
            format!("--flush-per-mille={}", rng.pick(&[0, 300, 1000, 1000])),
            format!("--threads-per-vcpu={}", 1 + rng.small(4)),
        ],
        Workload::Flush => vec![format!("--threads-per-vcpu={}", 1 + rng.small(4))],
        Workload::Hackbench => vec![param("groups", 1 + rng.small(4)), param("pairs", 1 + rng.small(8))],
        Workload::Kernbench => vec![
            param("jobs", 1 + rng.small(8)),
            param("build_jobs", 1 + rng.small(30)),
            param("job_us", rng.pick(&[50, 500, 2000])),
            param("job_pages", rng.small(64)),
            param("link_us", rng.pick(&[0, 1000])),
        ],
        Workload::Specjbb => vec![
            param("warehouses", 1 + rng.small(8)),
            param("heap_transactions", rng.pick(&[100, 1000])),
            param("collection_us", rng.pick(&[100, 2000])),
        ],
        Workload::Dbench => vec![
            param("clients", 1 + rng.small(8)),
            param("io_per_mille", rng.pick(&[0, 100, 1000])),
            param("disk_us", rng.pick(&[20, 150, 1000])),
        ],
        Workload::Spinlock => {
            vec![param("hold_ns", rng.pick(&[0, 500, 20_000])), param("lock_spins", rng.pick(&[0, 100, 2048]))]
        }
        Workload::Gup => {
            vec![format!("--chunk-pages={}", 1 + rng.small(16)), param("walk_turns", rng.pick(&[1, 50, 500]))]
        }
        Workload::TlbStorm | Workload::Ipi => Vec::new(),
    }
}

struct Draw(Xoshiro256PlusPlus);

impl Draw {
    /// Uniform below `n`, by the high half of a product.
    fn below(&mut self, n: u32) -> u32 {
        let high = (u128::from(self.0.next_u64()) * u128::from(n)) >> 64;
        u32::try_from(high).unwrap_or(0)
    }

    /// Below `n`, small ones more often.
    fn small(&mut self, n: u32) -> u32 {
        self.below(n).min(self.below(n))
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(u32::try_from(from.len()).unwrap_or(u32::MAX)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::cli::RunArgs;

    use super::*;

    #[test]
    fn every_plan_is_one_that_a_user_could_ask_for_and_all_modes_and_workloads_come() {
        let (mut modes, mut workloads) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..1000 {
            let (words, real) = draw(seed, 2);
            assert_eq!(draw(seed, 2), (words.clone(), real.clone()), "a function of its number");
            let all: Vec<String> = words.into_iter().chain(real).collect();
            let args = RunArgs::from_words(&all).unwrap_or_else(|why| panic!("{all:?}: {why}"));
            let experiment = args.experiment(&[0, 1]).unwrap_or_else(|why| panic!("{all:?}: {why}"));
            let [plan] = experiment.plans.as_slice() else { panic!("{all:?}: one plan") };
            modes.insert(args.mode[0].mode);
            workloads.insert(plan.workload);
        }
        assert_eq!((modes.len(), workloads.len()), (Mode::ALL.len(), Workload::ALL.len()));
    }
}
