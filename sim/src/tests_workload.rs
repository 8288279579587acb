//! Properties of the workloads, and of the locks, wait queues and the disk below them.
use plan::metric;
use plan::{Axes, Control, CpuList, Engine, HostPolicy, Lock, Mode, RunPlan, RunRecord, RunStatus, Workload};

use crate::Sim;
use crate::check::broken;
use crate::machine::tests::nonple;
use crate::rng::Stream;
use crate::setup::Options;
use crate::tests::plan;
use crate::workload::Shared;
use crate::world::{EPOCH_NS, World};

const MS: u64 = 1_000_000;
const MODELLED: [Workload; 7] = [
    Workload::Hackbench,
    Workload::Kernbench,
    Workload::Specjbb,
    Workload::Dbench,
    Workload::Spinlock,
    Workload::TlbStorm,
    Workload::Ipi,
];

/// A plan of a workload whose jobs, groups and heaps are small enough for a short run.
fn small(workload: Workload, mode: Mode, vms: u32) -> RunPlan {
    let mut plan = RunPlan { workload, duration_ns: 200 * MS, warmup_ns: 0, ..plan(mode, vms) };
    let p = &mut plan.params;
    (p.groups, p.pairs, p.job_us, p.build_jobs, p.heap_transactions, p.collection_us) = (2, 5, 2000, 40, 1500, 8000);
    plan
}

fn run(plan: &RunPlan) -> RunRecord {
    let record = Sim::new(nonple(), Options::default()).run(plan, &Control::default()).unwrap();
    assert_eq!((record.status, &record.failures), (RunStatus::Ok, &Vec::new()), "{} {}", plan.workload, plan.mode);
    record
}

/// The world at the end of a plan whose invariants held every 2 ms.
fn checked(plan: &RunPlan, options: Options) -> World {
    let mut world = World::new(&nonple(), plan, options).unwrap();
    let end = EPOCH_NS + plan.duration_ns;
    for until in (EPOCH_NS..=end).step_by(2_000_000) {
        world.run_until(until, || false);
        assert_eq!(broken(&mut world), None, "{} {:?} seed {} at {until}", plan.workload, plan.axes, plan.seed);
    }
    world
}

#[test]
fn every_workload_goes_on_in_every_mode_and_repeats() {
    for workload in MODELLED {
        for mode in Mode::ALL {
            for lock in Lock::ALL.iter().filter(|lock| **lock == Lock::Ticket || workload.has_locks()) {
                let plan = RunPlan { lock: *lock, ..small(workload, *mode, 3) };
                let record = run(&plan);
                assert!(record.vms.iter().all(|vm| vm.records > 0), "{workload} {mode} {lock}: {:?}", record.vms);
                assert_eq!(record.stale_reads, 0);
                assert_eq!(record.counters["sim_digest"], run(&plan).counters["sim_digest"], "{workload} {mode}");
            }
        }
    }
}

/// What the targets of an interrupt did is told apart; one that only answers is idle.
#[test]
fn interrupts_are_told_apart_by_what_their_targets_did() {
    let plan = small(Workload::Ipi, Mode::Base, 1);
    let count = |record: &RunRecord, name: &str| record.histograms.get(name).map_or(0, |h| h.count);
    let all_send = run(&plan);
    assert!(count(&all_send, metric::FLUSH_ACK_RUNNING) > 0 && count(&all_send, metric::FLUSH_ACK_IDLE) == 0);
    let mut one_sends = plan.clone();
    one_sends.params.ipi_senders = 1;
    let one_sends = run(&one_sends);
    assert!(count(&one_sends, metric::FLUSH_ACK_IDLE) > 0);
    assert_eq!(one_sends.vms[0].vcpu_records[1..].iter().sum::<u64>(), 0);
}

/// A paravirt waiter that asked with `spin_lock_irqsave` halts with interrupts off: it answers a flush only when it is kicked.
#[test]
fn a_flush_waits_longer_for_who_halts_with_interrupts_off() {
    let mut plan = RunPlan { lock: Lock::Pv, ..small(Workload::TlbStorm, Mode::Base, 3) };
    (plan.params.zone_hold_ns, plan.params.lock_spins) = (20_000, 10);
    let record = run(&plan);
    let [running, irqs_off] = [metric::FLUSH_ACK_RUNNING, metric::FLUSH_ACK_HALTED_IRQS_OFF]
        .map(|name| record.histograms.get(name).unwrap_or_else(|| panic!("no {name}")).p50_ns);
    assert!(irqs_off > running, "{irqs_off} and {running} ns");
}

#[test]
fn every_message_that_was_sent_is_received_or_waits() {
    let plan = small(Workload::Hackbench, Mode::Gang, 2);
    let world = checked(&plan, Options::default());
    for vm in &world.vms {
        let Shared::Queues(queues) = &vm.shared else { panic!("hackbench has queues") };
        let received: u64 = queues.iter().map(|queue| queue.received).sum();
        // A receiver has at most one in its hands.
        let receivers = u64::from(plan.params.groups * plan.params.pairs);
        assert!(vm.records > 1000 && (vm.records..=vm.records + receivers).contains(&received), "{received}");
    }
}

#[test]
fn every_job_of_a_build_is_done_once() {
    let mut plan = small(Workload::Kernbench, Mode::Base, 1);
    plan.params.link_us = 1000;
    let world = checked(&plan, Options::default());
    let Shared::Build(build) = &world.vms[0].shared else { panic!("kernbench builds") };
    let whole = build.builds * u64::from(plan.params.build_jobs);
    let records = world.vms[0].records;
    assert!(build.builds > 2 && (whole..=whole + u64::from(plan.params.build_jobs)).contains(&records), "{records}");
}

#[test]
fn a_build_uses_every_vcpu_that_has_a_cpu() {
    let rate = |jobs| {
        let mut plan = small(Workload::Kernbench, Mode::Base, 1);
        (plan.params.jobs, plan.params.link_us, plan.params.build_jobs) = (jobs, 0, 10_000);
        run(&plan).records_per_s
    };
    let (one, eight) = (rate(1), rate(8));
    // Colder caches and locks take their part; a thread that stayed behind another would take more.
    assert!(eight > 6.0 * one, "{one} with one job at a time, {eight} with eight");
}

#[test]
fn the_world_stops_for_a_collection_and_goes_on() {
    let world = checked(&small(Workload::Specjbb, Mode::Pin, 2), Options::default());
    for vm in &world.vms {
        let Shared::Heap(heap) = &vm.shared else { panic!("specjbb has a heap") };
        assert!(heap.over > 3, "{heap:?}");
    }
}

#[test]
fn the_disk_is_one_for_all_and_serves_one_at_a_time() {
    let plan = small(Workload::Dbench, Mode::Base, 4);
    let plan = RunPlan { params: plan::WorkloadParams { io_per_mille: 1000, ..plan.params.clone() }, ..plan };
    let accesses = run(&plan).counters["disk_accesses"];
    let served = plan.duration_ns / 1000 / u64::from(plan.params.disk_us);
    let in_line = u64::from(plan.vms * plan.params.clients);
    assert!((served * 9 / 10..=served + in_line).contains(&accesses), "{accesses} of {served}");
}

#[test]
fn a_ticket_lock_serves_its_vcpus_alike() {
    let record = run(&small(Workload::Spinlock, Mode::Pin, 1));
    let counts = &record.vms[0].vcpu_records;
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    assert!(least * 100 >= most * 95, "{counts:?}");
}

#[test]
fn who_halts_for_a_lock_leaves_its_cpu_to_the_holder() {
    let with = |vms, lock| {
        run(&RunPlan { lock, warmup_ns: 300 * MS, duration_ns: 700 * MS, ..small(Workload::Spinlock, Mode::Base, vms) })
    };
    let [ticket, alone] = [with(4, Lock::Ticket), with(1, Lock::Ticket)];
    let preempted = |r: &RunRecord| r.counters["lock_holder_preemptions"] + r.counters["lock_waiter_preemptions"];
    assert_eq!(ticket.counters["lock_kicks"], 0);
    for lock in [Lock::Pv, Lock::PvEarly] {
        let pv = with(4, lock);
        assert!(pv.records_per_s > 2.0 * ticket.records_per_s, "{lock}: {} {}", pv.records_per_s, ticket.records_per_s);
        assert!(preempted(&ticket) > preempted(&pv), "{lock}: {} {}", preempted(&ticket), preempted(&pv));
        assert!(pv.counters["lock_kicks"] > 0);
        let pv = with(1, lock);
        let change = pv.records_per_s / alone.records_per_s - 1.0;
        assert!(change.abs() < 0.03, "{lock} alone: {change}");
    }
}

#[test]
fn who_waits_for_a_lost_holder_halts_before_its_budget_is_spent() {
    let with = |lock| {
        let mut plan =
            RunPlan { lock, warmup_ns: 300 * MS, duration_ns: 700 * MS, ..small(Workload::Spinlock, Mode::Base, 4) };
        plan.params.lock_spins = 1_000_000_000;
        run(&plan)
    };
    let [pv, early] = [Lock::Pv, Lock::PvEarly].map(with);
    assert_eq!(pv.counters["lock_halts"], 0, "its budget is longer than the run");
    assert!(early.counters["lock_halts"] > 0);
    assert!(early.records_per_s > 2.0 * pv.records_per_s, "{} {}", early.records_per_s, pv.records_per_s);
}

#[test]
fn an_unfair_lock_waits_for_its_holder_only() {
    let with = |lock| run(&RunPlan { lock, warmup_ns: 200 * MS, ..small(Workload::Spinlock, Mode::Base, 4) });
    let [ticket, unfair] = [Lock::Ticket, Lock::Unfair].map(with);
    assert!(unfair.records_per_s > 5.0 * ticket.records_per_s, "{} {}", unfair.records_per_s, ticket.records_per_s);
    assert!(unfair.counters["lock_holder_preemptions"] > 0 && unfair.counters["lock_halts"] == 0);
}

#[test]
fn pause_loop_exits_see_a_spinlock() {
    let ple = crate::Machine::from_toml(include_str!("../../experiments/machines/ple.toml")).unwrap();
    let hints = |mode| {
        let record =
            Sim::new(ple.clone(), Options::default()).run(&small(Workload::Spinlock, mode, 3), &Control::default());
        record.unwrap().counters.get("spin_hints").copied().unwrap_or_default()
    };
    assert!(hints(Mode::Ple) > 100);
    assert_eq!(hints(Mode::Base), 0);
}

/// A swarm of its own: what a lost kick would need is a waiter that halts while the lock comes to it.
#[test]
fn paravirt_locks_lose_no_kick() {
    for seed in 0..60 {
        let rng = &mut Stream::new(seed, 7);
        let mut pick = |from: &[u32]| from[usize::try_from(rng.below(from.len() as u64)).unwrap()];
        let mut plan = small(Workload::Spinlock, Mode::Base, pick(&[1, 2, 3]));
        plan.workload = [Workload::Spinlock, Workload::Hackbench, Workload::Dbench][pick(&[0, 1, 2]) as usize];
        plan.lock = [Lock::Pv, Lock::PvEarly][pick(&[0, 1]) as usize];
        (plan.seed, plan.duration_ns) = (seed, 100 * MS);
        (plan.vcpus, plan.params.lock_spins) = (pick(&[1, 2, 5]), pick(&[0, 1, 20, 1024]));
        plan.pcpus = CpuList::new((0..pick(&[1, 2, 4])).collect()).unwrap();
        plan.axes = Axes { host_policy: HostPolicy::ALL[pick(&[0, 1, 2]) as usize], ..plan.axes };
        (plan.params.hold_ns, plan.params.gap_ns) = (pick(&[100, 5000]), pick(&[1000, 30_000]));
        let options = Options { yield_on_hlt: pick(&[0, 1, 1]) == 1, ..Options::default() };
        let mut world = checked(&plan, options);
        let served = |world: &World| -> Vec<u64> {
            world.vms.iter().map(|vm| vm.locks.iter().map(|lock| lock.serving).sum()).collect()
        };
        let before = served(&world);
        // A lost kick would leave its VM standing.
        world.vms.iter_mut().for_each(|vm| vm.measure_to += 400 * MS);
        world.run_until(EPOCH_NS + 500 * MS, || false);
        for (after, before) in served(&world).into_iter().zip(before) {
            assert!(
                after > before,
                "seed {seed}: {before} locks served, then none; {:?} {:?}",
                plan.workload,
                plan.axes
            );
        }
    }
}
