//! Properties of whole runs of host tasks.
use hostsched::config::{BusiestPick, IdleImbalance, IdleSibling, LbBias, LoadTracking, SdInit, Switches};
use plan::Control;

use super::{Governor, Grouping, HOST_COSTS, HostMachine, Load, Outcome, Setup, SetupError, run};

const MS: u64 = 1_000_000;

const MACHINES: [&str; 8] = [
    include_str!("../../../experiments/machines/e5620.toml"),
    include_str!("../../../experiments/machines/q6600.toml"),
    include_str!("../../../experiments/machines/q6600-broken.toml"),
    include_str!("../../../experiments/machines/six-core.toml"),
    include_str!("../../../experiments/machines/stoakley.toml"),
    include_str!("../../../experiments/machines/tigerton.toml"),
    include_str!("../../../experiments/machines/westmere-ex.toml"),
    include_str!("../../../experiments/machines/x5472.toml"),
];

fn machine(name: &str) -> HostMachine {
    let all = MACHINES.iter().map(|text| HostMachine::from_toml(text).unwrap());
    all.into_iter().find(|machine| machine.name == name).unwrap()
}

fn setup(load: Load, switches: Switches) -> Setup {
    Setup {
        load,
        switches,
        governor: Governor::Performance,
        grouping: Grouping::None,
        warmup_ns: 30 * MS,
        duration_ns: 60 * MS,
        seed: 1,
    }
}

fn outcome(name: &str, setup: &Setup) -> Outcome {
    run(&machine(name), setup, &Control::default()).unwrap()
}

fn units(name: &str, load: Load, idle_sibling: IdleSibling) -> u64 {
    outcome(name, &setup(load, Switches { idle_sibling, ..Switches::default() })).units
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let one = setup(Load::Tbench { clients: 2 }, Switches::default());
    assert_eq!(outcome("e5620", &one), outcome("e5620", &one));
    assert_ne!(outcome("e5620", &one).digest, outcome("e5620", &Setup { seed: 2, ..one.clone() }).digest);
}

#[test]
fn every_load_runs_on_every_machine_with_every_search_and_keeps_the_invariants() {
    let loads = [
        Load::Tbench { clients: 5 },
        Load::TcpRr { bound: false },
        Load::TcpRr { bound: true },
        Load::UdpStream,
        Load::PipeTest,
        Load::CtxSwitch,
        Load::BwTcp,
        Load::Aim7 { tasks: 6 },
        Load::Volano { rooms: 2, users: 4 },
        Load::Server { workers: 9 },
    ];
    let searches = [IdleSibling::Traverse, IdleSibling::FirstIdle, IdleSibling::Buddy, IdleSibling::Off];
    let groupings = [Grouping::None, Grouping::One, Grouping::Sessions];
    for (i, text) in MACHINES.iter().enumerate() {
        let machine = HostMachine::from_toml(text).unwrap();
        for (j, load) in loads.into_iter().enumerate() {
            let switches = Switches { idle_sibling: searches[(i + j) % searches.len()], ..Switches::default() };
            let grouping = groupings[(i + 2 * j) % groupings.len()];
            let setup = Setup { grouping, warmup_ns: 0, duration_ns: 30 * MS, ..setup(load, switches) };
            let outcome = run(&machine, &setup, &Control::default()).unwrap();
            assert!(outcome.ended && outcome.units > 0, "{load:?} on {}", machine.name);
        }
    }
}

#[test]
fn a_lone_pair_bounces_under_traverse_and_settles_under_buddy() {
    let pair = Load::Tbench { clients: 1 };
    let of = |idle_sibling| outcome("e5620", &setup(pair, Switches { idle_sibling, ..Switches::default() }));
    let (traverse, buddy) = (of(IdleSibling::Traverse), of(IdleSibling::Buddy));
    let moves = |outcome: &Outcome| 100 * outcome.counter("wakeups_other_core") / outcome.counter("wakeups");
    assert!(moves(&traverse) > 90 && moves(&buddy) < 5, "{} and {}", moves(&traverse), moves(&buddy));
    assert!(buddy.units > traverse.units && buddy.units < 2 * traverse.units);
}

#[test]
fn on_ten_cores_the_walk_keeps_every_core_in_deep_sleep() {
    let pair = Load::Tbench { clients: 1 };
    let [traverse, buddy] = [IdleSibling::Traverse, IdleSibling::Buddy].map(|kind| units("westmere-ex", pair, kind));
    assert!(buddy > 3 * traverse, "{buddy} and {traverse}");
    // Without the deep states only the lines are lost.
    let mut shallow = machine("westmere-ex");
    (shallow.costs.c3_residency, shallow.costs.c6_residency) = (0, 0);
    let setup = setup(pair, Switches::default());
    let traverse = run(&shallow, &setup, &Control::default()).unwrap().units;
    assert!(buddy < 2 * traverse, "{buddy} and {traverse}");
}

#[test]
fn fixed_buddies_lose_where_one_wakes_many() {
    let load = Load::Server { workers: 8 };
    let [traverse, buddy] = [IdleSibling::Traverse, IdleSibling::Buddy].map(|kind| units("westmere-ex", load, kind));
    assert!(buddy < traverse, "{buddy} and {traverse}");
}

#[test]
fn a_thin_load_stays_at_a_low_clock_and_one_on_a_single_cpu_does_not() {
    let rate = |bound, governor| {
        let setup = Setup { governor, ..setup(Load::TcpRr { bound }, Switches::default()) };
        outcome("e5620", &setup).units
    };
    let ondemand = Governor::Ondemand { up_threshold: 80 };
    assert!(rate(false, ondemand) * 5 < rate(false, Governor::Performance) * 4);
    assert!(rate(true, ondemand) * 100 > rate(true, Governor::Performance) * 95);
}

/// A streaming pair of two sessions on 3.16's domains.
fn streaming(busiest_pick: BusiestPick, idle_imbalance: IdleImbalance, load_tracking: LoadTracking) -> Outcome {
    let sd_init = SdInit::V3_16;
    let switches = Switches {
        busiest_pick,
        idle_imbalance,
        load_tracking,
        sd_init,
        idle_next_balance: true,
        ..Switches::default()
    };
    let setup =
        Setup { grouping: Grouping::Sessions, warmup_ns: 0, duration_ns: 400 * MS, ..setup(Load::UdpStream, switches) };
    outcome("x5472", &setup)
}

#[test]
fn an_idle_cpu_rips_a_streaming_pair_apart_unless_the_threshold_is_two() {
    let of = |pick, imbalance| streaming(pick, imbalance, LoadTracking::PerEntity);
    let pre = of(BusiestPick::V3_18, IdleImbalance::One);
    let post = of(BusiestPick::V3_18, IdleImbalance::TwoOnTwoCpuLlc);
    assert!(pre.counter("active_balances") > 0 && post.counter("active_balances") == 0);
    assert!(pre.units * 3 < post.units * 2);
    assert_eq!(of(BusiestPick::V3_4, IdleImbalance::One).counter("active_balances"), 0);
}

#[test]
fn only_a_pair_whose_load_is_tracked_finds_together() {
    let of = |tracking| streaming(BusiestPick::V3_18, IdleImbalance::TwoOnTwoCpuLlc, tracking);
    let [weights, tracked] = [LoadTracking::PerQueue, LoadTracking::PerEntity].map(of);
    assert!(weights.units * 3 < tracked.units * 2);
    assert!(weights.counter("transfer_ns") > 2 * tracked.counter("transfer_ns"));
}

#[test]
fn a_sender_is_slowed_by_its_reader_and_what_finds_no_room_is_dropped() {
    let stream = |machine: &HostMachine| {
        let setup = Setup { warmup_ns: 0, ..setup(Load::UdpStream, Switches::default()) };
        run(machine, &setup, &Control::default()).unwrap()
    };
    let of = |outcome: &Outcome| (outcome.counter("dropped"), outcome.counter("taken_back_ns"));
    let (dropped, taken_back) = of(&stream(&machine("e5620")));
    assert!(taken_back > 0);
    // A reader with much to do for each datagram keeps up with none.
    let mut slow = machine("e5620");
    slow.costs.udp_recv *= 100;
    assert!(of(&stream(&slow)).0 > 10 * dropped);
}

#[test]
fn without_the_bias_more_tasks_are_drawn_to_another_cache() {
    let of = |lb_bias| {
        let switches = Switches { lb_bias, ..Switches::v2_6_27() };
        outcome("tigerton", &setup(Load::Volano { rooms: 10, users: 20 }, switches))
    };
    let share = |outcome: &Outcome| 1000 * outcome.counter("wakeups_far") / outcome.counter("wakeups");
    assert!(share(&of(LbBias::Off)) > share(&of(LbBias::MinMax)));
}

#[test]
fn without_the_bias_the_memory_of_sixteen_cpus_is_what_holds_them_up() {
    let of = |name, lb_bias, kb_memory: Option<u64>| {
        let mut machine = machine(name);
        if let Some(ns) = kb_memory {
            (machine.costs.kb_memory, machine.costs.kb_write_back, machine.costs.kb_bus) = (ns, ns, ns);
        }
        let switches = Switches { lb_bias, ..Switches::v2_6_27() };
        let setup = Setup { warmup_ns: 100 * MS, ..setup(Load::Volano { rooms: 10, users: 20 }, switches) };
        run(&machine, &setup, &Control::default()).unwrap()
    };
    let waits = |name, lb_bias| of(name, lb_bias, None).counter("bus_wait_ns");
    assert!(waits("tigerton", LbBias::Off) > 3 * waits("stoakley", LbBias::Off));
    assert!(waits("tigerton", LbBias::Off) * 2 > 3 * waits("tigerton", LbBias::MinMax));
    assert_eq!(of("tigerton", LbBias::Off, Some(0)).counter("bus_wait_ns"), 0);
}

#[test]
fn connections_of_many_packages_brake_each_other_at_the_route_and_one_pair_does_not() {
    let per_wakeup = |clients| {
        let outcome = outcome("westmere-ex", &setup(Load::Tbench { clients }, Switches::default()));
        outcome.counter("route_wait_ns") / outcome.counter("wakeups")
    };
    assert!(per_wakeup(32) > 5 * per_wakeup(1).max(1), "{} and {}", per_wakeup(32), per_wakeup(1));
}

/// What `--nocapture` prints is the list of cost x load.
#[test]
fn every_cost_acts_somewhere() {
    let governor = Governor::Ondemand { up_threshold: 40 };
    let loads = [
        ("e5620", Load::Tbench { clients: 3 }),
        ("e5620", Load::UdpStream),
        ("e5620", Load::PipeTest),
        ("stoakley", Load::Volano { rooms: 10, users: 20 }),
        ("westmere-ex", Load::Tbench { clients: 1 }),
        ("westmere-ex", Load::Server { workers: 4 }),
    ];
    let digest = |machine: &HostMachine, load| {
        let setup = Setup { governor, duration_ns: 20 * MS, ..setup(load, Switches::default()) };
        run(machine, &setup, &Control::default()).unwrap().digest
    };
    let plain: Vec<u64> = loads.iter().map(|(name, load)| digest(&machine(name), *load)).collect();
    for info in HOST_COSTS {
        let acts = |((name, load), plain): &(&(&str, Load), &u64)| {
            let mut machine = machine(name);
            let cost = machine.costs.get_mut(info.id).unwrap();
            *cost = if info.id == "hz" { *cost / 2 } else { (*cost * 8).max(10) };
            digest(&machine, *load) != **plain
        };
        let acts: Vec<_> = loads.iter().zip(&plain).filter(acts).map(|((name, load), _)| (name, load)).collect();
        println!("{:16} {acts:?}", info.id);
        assert!(!acts.is_empty(), "{} acts nowhere", info.id);
    }
}

#[test]
fn a_setup_that_cannot_run_says_why() {
    let host = machine("e5620");
    let error = |setup: &Setup| run(&host, setup, &Control::default()).unwrap_err();
    let fine = setup(Load::Tbench { clients: 1 }, Switches::default());
    assert!(matches!(error(&Setup { duration_ns: 0, ..fine.clone() }), SetupError::Duration(_)));
    assert!(matches!(error(&Setup { warmup_ns: u64::MAX, ..fine.clone() }), SetupError::Duration(_)));
    let load = Load::Tbench { clients: u32::MAX };
    assert!(matches!(error(&Setup { load, ..fine.clone() }), SetupError::Tasks(_)));
    let load = Load::Volano { rooms: u32::MAX, users: u32::MAX };
    assert!(matches!(error(&Setup { load, ..fine.clone() }), SetupError::Tasks(_)));
    assert!(matches!(error(&Setup { load: Load::Server { workers: 0 }, ..fine }), SetupError::Tasks(0)));
}

#[test]
fn a_stopped_run_is_not_ended() {
    let control = Control::default();
    control.abort();
    let setup = setup(Load::Tbench { clients: 4 }, Switches::default());
    assert!(!run(&machine("e5620"), &setup, &control).unwrap().ended);
}
