//! The dispatcher under threads whose guests are closures: every property of the module's list that needs no KVM. How a run ends
//! stands in `ending`.

mod ending;

use std::time::Duration;

use hostsched::{CpuId, TaskId};
use plan::{CpuList, HostPolicy};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::core::Input;
use super::lab::Lab;
use super::setup::LabConfig;
use crate::cgroup::{RunCgroup, list_gangs, set_gang_flag};
use crate::kick::KickCell;
use crate::sched::fake::{Exit, Run, Turns, cells, vcpu_loop, within};
use crate::sched::{PreemptNotifier, SchedOut, VcpuIndex, VcpuSched};
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering};

const LIMIT: Duration = Duration::from_secs(60);

/// The first `n` CPUs that this process may use, or all of them if there are fewer.
fn host_cpus(n: usize) -> CpuList {
    let mask = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed = (0..1024_u32).filter(|cpu| mask.is_set(*cpu as usize)).take(n);
    CpuList::new(allowed.collect()).unwrap()
}

fn config(vms: u32, vcpus: u32, policy: HostPolicy) -> LabConfig {
    LabConfig {
        cpus: host_cpus(2),
        vms,
        vcpus,
        neighbours: 0,
        hz: 1000,
        // Short slices, so that a short test has many of them.
        sysctls_ns: [Some(1_000_000), Some(200_000), Some(200_000)],
        policy,
        pin: policy.is_gang(),
        gang_cpus: 8,
        cgroup: None,
        record: false,
    }
}

/// A lab with its cells and notifier.
struct Rig {
    lab: Lab,
    cells: Arc<[KickCell]>,
    turns: Arc<Turns>,
}

impl Rig {
    fn new(config: LabConfig) -> Self {
        let vcpus = config.vms * config.vcpus;
        let (cells, turns) = (cells(vcpus), Turns::new(vcpus));
        let lab = Lab::new(config, cells.clone(), turns.clone()).unwrap();
        Self { lab, cells, turns }
    }

    /// Runs one thread for each vCPU until all have ended; says how many panicked.
    fn run<G>(&self, woken: impl Fn(VcpuIndex) -> bool + Sync, guest: impl Fn(VcpuIndex) -> G + Sync) -> usize
    where
        G: FnMut(&Run<'_>) -> Exit,
    {
        let mut panicked = 0;
        within(LIMIT, &self.lab, || {
            std::thread::scope(|scope| {
                let spawn = |me: u32| {
                    let me = VcpuIndex(me);
                    let (woken, guest) = (&woken, &guest);
                    scope.spawn(move || {
                        let mut guest = guest(me);
                        vcpu_loop(&self.lab, &self.cells, me, &|| woken(me), |run| {
                            assert!(!self.turns.is_out(me), "{me:?} is in the guest between sched_out and sched_in");
                            guest(run)
                        });
                    })
                };
                let threads: Vec<_> = (0..u32::try_from(self.cells.len()).unwrap()).map(spawn).collect();
                panicked = threads.into_iter().map(|t| t.join()).filter(Result::is_err).count();
            });
        });
        panicked
    }

    /// What holds after every run.
    fn check(&self) {
        assert_eq!(self.lab.failure(), None);
        let counters = self.lab.stats().counters;
        assert_eq!(counters[plan::metric::IN_RUN_MAX], 1, "two threads of one CPU were in the guest at once");
        for cell in self.cells.iter() {
            cell.take();
            let totals = cell.totals();
            assert_eq!(totals.sent, totals.consumed + totals.coalesced);
        }
        self.lab.check().unwrap();
    }
}

/// A guest that works for some microseconds and then does anything, at random but reproducibly.
fn random_guest(vcpus: u32, me: VcpuIndex, tokens: &[AtomicU32]) -> impl FnMut(&Run<'_>) -> Exit {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(u64::from(me.0));
    move |run| {
        run.spin(Duration::from_micros(u64::from(random.next_u32() % 200)));
        let other = VcpuIndex(random.next_u32() % vcpus);
        match random.next_u32() % 8 {
            0 => Exit::Halt,
            1..=4 => {
                tokens[other.index()].fetch_add(1, Ordering::AcqRel);
                Exit::Wake(other)
            }
            5 => Exit::Spin,
            _ => Exit::Again,
        }
    }
}

/// True if a token lies there, which is taken.
fn take(token: &AtomicU32) -> bool {
    token.swap(0, Ordering::AcqRel) != 0
}

fn token_ring(config: LabConfig, rounds: u32) -> Rig {
    let rig = Rig::new(config);
    let vcpus = u32::try_from(rig.cells.len()).unwrap();
    let token = AtomicU32::new(0);
    let mine = |me: VcpuIndex| token.load(Ordering::Acquire) % vcpus == me.0;
    let (lab, token, mine) = (&rig.lab, &token, &mine);
    let panicked = rig.run(mine, |me| {
        move |_: &Run<'_>| {
            if !mine(me) {
                Exit::Halt
            } else if token.fetch_add(1, Ordering::AcqRel) < rounds {
                Exit::Wake(VcpuIndex((me.0 + 1) % vcpus))
            } else {
                lab.stop();
                Exit::Again
            }
        }
    });
    assert_eq!(panicked, 0);
    assert!(token.load(Ordering::Acquire) > rounds);
    rig.check();
    rig
}

#[test]
fn a_token_goes_round_and_no_wake_is_lost() {
    for vcpus in [2, 3, 8] {
        token_ring(config(1, vcpus, HostPolicy::Cfs), 3000);
    }
}

#[test]
fn a_token_goes_round_between_pinned_gangs() {
    token_ring(config(2, 4, HostPolicy::Gang), 2000);
}

#[test]
fn anything_at_random_under_every_policy() {
    for policy in HostPolicy::ALL {
        let rig = Rig::new(config(4, 4, *policy));
        let tokens: Vec<AtomicU32> = (0..16).map(|_| AtomicU32::new(0)).collect();
        let steps = AtomicU64::new(0);
        let (lab, tokens, steps) = (&rig.lab, &tokens, &steps);
        let panicked = rig.run(
            |me| take(&tokens[me.index()]),
            |me| {
                let mut guest = random_guest(16, me, tokens);
                move |run: &Run<'_>| {
                    // The last one to see enough ends the run; until then somebody always goes on, because a vCPU
                    // halts only one time in eight and wakes another four times in eight.
                    if steps.fetch_add(1, Ordering::Relaxed) > 4000 {
                        lab.stop();
                    }
                    guest(run)
                }
            },
        );
        assert_eq!(panicked, 0, "{policy}");
        rig.check();
    }
}

#[test]
fn a_busy_vcpu_is_preempted_and_all_run() {
    let rig = Rig::new(config(2, 8, HostPolicy::Cfs));
    let (lab, seen) = (&rig.lab, AtomicU64::new(0));
    let seen = &seen;
    let panicked = rig.run(
        |_| false,
        |me| {
            move |run: &Run<'_>| {
                if seen.fetch_or(1 << me.0, Ordering::AcqRel) | 1 << me.0 == 0xffff {
                    lab.stop();
                }
                // As long as nobody forces it out.
                run.spin(LIMIT);
                Exit::Again
            }
        },
    );
    assert_eq!(panicked, 0);
    rig.check();
    let counters = rig.lab.stats().counters;
    assert!(counters[plan::metric::TICKS] > 0 && counters[plan::metric::SWITCHES] >= 16, "{counters:?}");
}

#[test]
fn a_pinned_vcpu_runs_on_its_cpu_only() {
    let rig = Rig::new(LabConfig { pin: true, ..config(2, 3, HostPolicy::Cfs) });
    let cpus = host_cpus(2);
    let (lab, cpus, runs) = (&rig.lab, cpus.as_slice(), AtomicU64::new(0));
    let runs = &runs;
    let panicked = rig.run(
        |_| false,
        |me| {
            move |run: &Run<'_>| {
                let home = cpus[(me.0 % 3) as usize % cpus.len()];
                assert_eq!(rustix::thread::sched_getcpu(), home as usize);
                run.spin(Duration::from_micros(500));
                if runs.fetch_add(1, Ordering::Relaxed) > 500 {
                    lab.stop();
                }
                Exit::Again
            }
        },
    );
    assert_eq!(panicked, 0);
    rig.check();
    assert_eq!(lab.stats().counters[plan::metric::MIGRATIONS], 6, "one first placement each");
}

#[test]
fn a_recorded_run_replays_through_hostsched_alone() {
    for policy in [HostPolicy::Cfs, HostPolicy::GangPle] {
        let config = LabConfig { record: true, ..config(3, 4, policy) };
        let rig = Rig::new(config);
        let tokens: Vec<AtomicU32> = (0..12).map(|_| AtomicU32::new(0)).collect();
        let steps = AtomicU64::new(0);
        let (lab, tokens, steps) = (&rig.lab, &tokens, &steps);
        rig.run(
            |me| take(&tokens[me.index()]),
            |me| {
                let mut guest = random_guest(12, me, tokens);
                move |run: &Run<'_>| {
                    if steps.fetch_add(1, Ordering::Relaxed) > 3000 {
                        lab.stop();
                    }
                    guest(run)
                }
            },
        );
        rig.check();
        let replayed = lab.replay().unwrap();
        assert!(replayed.picks > 50 && replayed.wakes > 10, "{replayed:?}");
        // The check itself must be able to fail: with one wake-up left out, another task is picked somewhere.
        let mut short = lab.core.log().unwrap();
        let first = short.iter().position(|step| matches!(step.input, Input::Wake(..))).unwrap();
        short.remove(first);
        assert!(lab.replay_log(&short).is_err(), "{policy}: a lost wake-up went unnoticed");
    }
}

#[test]
fn the_kernel_says_who_is_in_a_gang_and_whether_it_is_one() {
    let cgroup = match RunCgroup::create(None, 2, 0, true) {
        Ok(cgroup) => Arc::new(cgroup),
        Err(error) => return println!("skipped the_kernel_says_who_is_in_a_gang_and_whether_it_is_one: {error}"),
    };
    // The second VM is no gang although the policy is one: the attribute decides, also later.
    let dirs: Vec<_> = list_gangs(Some(cgroup.path())).unwrap().into_iter().map(|gang| gang.path).collect();
    set_gang_flag(&dirs[1], false).unwrap();
    let rig = Rig::new(LabConfig { cgroup: Some(Arc::clone(&cgroup)), ..config(2, 3, HostPolicy::Gang) });
    let (lab, seen) = (&rig.lab, AtomicU64::new(0));
    let seen = &seen;
    let panicked = rig.run(
        |_| false,
        |me| {
            let cgroup = &cgroup;
            move |_: &Run<'_>| {
                // Once seen, the run may be ending and members leaving.
                if seen.load(Ordering::Acquire) & 1 << me.0 != 0 {
                    return Exit::Again;
                }
                let vm = (me.0 / 3) as usize;
                assert!(cgroup.members(vm).unwrap().contains(&rustix::thread::gettid().as_raw_nonzero().get()));
                assert_eq!(cgroup.members(vm).unwrap().len(), 3);
                let host = lab.core.host();
                assert_eq!(host.is_gang(host.task_group(TaskId(me.0))), vm == 0);
                if seen.fetch_or(1 << me.0, Ordering::AcqRel) | 1 << me.0 == 0x3f {
                    lab.stop();
                }
                Exit::Again
            }
        },
    );
    assert_eq!(panicked, 0);
    rig.check();
    set_gang_flag(&dirs[1], true).unwrap();
    lab.refresh_gangs();
    let host = lab.core.host();
    assert!((0..6).all(|vcpu| host.is_gang(host.task_group(TaskId(vcpu)))));
}
