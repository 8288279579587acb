//! How a run ends: thread by thread, all at once at any moment, or by a panic, wherever it strikes.

use super::*;

#[test]
fn threads_may_end_one_by_one() {
    let rig = Rig::new(config(2, 4, HostPolicy::Cfs));
    let panicked = rig.run(
        |_| false,
        |_| {
            let mut left = 20;
            move |run: &Run<'_>| {
                run.spin(Duration::from_micros(100));
                left -= 1;
                if left == 0 { Exit::End } else { Exit::Again }
            }
        },
    );
    assert_eq!(panicked, 0);
    rig.check();
}

#[test]
fn the_run_stops_at_any_moment() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..40 {
        let rig = Rig::new(config(2, 8, HostPolicy::Ple));
        let tokens: Vec<AtomicU32> = (0..16).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            let after = Duration::from_micros(u64::from(random.next_u32() % 20_000));
            let lab = &rig.lab;
            scope.spawn(move || {
                std::thread::sleep(after);
                lab.stop();
            });
            let tokens = &tokens;
            assert_eq!(rig.run(|me| take(&tokens[me.index()]), |me| random_guest(16, me, tokens)), 0);
        });
        assert_eq!(rig.lab.failure(), None);
    }
}

/// Eight random guests, of which `who` does `how` after fifty turns: how many threads panicked.
fn panics(rig: &Rig, who: u32, how: impl Fn() + Sync) -> usize {
    let tokens: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
    let (tokens, how) = (&tokens, &how);
    rig.run(
        |me| take(&tokens[me.index()]),
        |me| {
            let (mut guest, mut left) = (random_guest(8, me, tokens), 50);
            move |run: &Run<'_>| {
                left -= 1;
                if me.0 == who && left == 0 {
                    how();
                }
                guest(run)
            }
        },
    )
}

fn panic_on_purpose() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

#[test]
fn a_thread_that_panics_in_its_guest_ends_the_run() {
    let rig = Rig::new(config(2, 4, HostPolicy::Cfs));
    assert_eq!(panics(&rig, 5, panic_on_purpose), 1);
    assert_eq!(rig.lab.failure(), Some("the thread of vCPU 5 panicked"));
}

/// Panics on the way out of a CPU: the token is held, the task is already off its queue.
#[derive(Debug)]
struct Trap(AtomicU32);

impl PreemptNotifier for Trap {
    fn sched_out(&self, _vcpu: VcpuIndex, _why: SchedOut) {
        if self.0.fetch_add(1, Ordering::AcqRel) == 20 {
            panic_on_purpose();
        }
    }

    fn sched_in(&self, _vcpu: VcpuIndex) {}
}

#[test]
fn a_thread_that_panics_while_it_holds_the_token_ends_the_run() {
    let config = config(2, 4, HostPolicy::Cfs);
    let (cells, turns) = (cells(8), Turns::new(8));
    let lab = Lab::new(config, cells.clone(), Arc::new(Trap(AtomicU32::new(0)))).unwrap();
    let rig = Rig { lab, cells, turns };
    let tokens: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
    let tokens = &tokens;
    assert_eq!(rig.run(|me| take(&tokens[me.index()]), |me| random_guest(8, me, tokens)), 1);
    assert!(rig.lab.failure().unwrap().contains("panicked"));
}

#[test]
fn a_thread_that_panics_while_it_holds_a_run_queue_ends_the_run() {
    let rig = Rig::new(config(2, 4, HostPolicy::Cfs));
    let lab = &rig.lab;
    let panicked = panics(&rig, 3, || {
        lab.core.look(CpuId(0), |_, _| panic_on_purpose());
    });
    assert_eq!(panicked, 1);
    assert_eq!(rig.lab.failure(), Some("the thread of vCPU 3 panicked"));
}
