//! Random hosts: a machine, settings, groups, tasks with programs, a policy, and what happens to them from outside.
//!
//! Swarm testing: each world turns a random part of the features on and draws its weights from skewed sets, so that rare
//! combinations come up. Times in ns since the start.
use hostsched::config::{BusiestPick, IdleImbalance, IdleSibling, LbBias, LoadTracking, Switches};
use hostsched::policy::{GangSettings, PleSwitches, PolicyKind, PolicySettings};
use hostsched::testing::{GroupSpec, Scenario, Step, TaskPlan};
use hostsched::weight::Nice;
use hostsched::{CpuId, CpuSet, SchedPolicy, VmId};
use proptest::prelude::*;
use proptest::sample::{Index, select};

pub(crate) const MS: u64 = 1_000_000;

/// Something that happens from outside.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Affinity(usize, CpuSet),
    Nice(usize, i32),
    Move(usize, u32),
    Exit(usize),
    Shares(u32, u64),
    Gang(u32, bool),
    /// Removes a group and makes a new one, which gets its number.
    Renew(u32),
    Offline(u32),
    Online(u32),
    Yield(u32),
    YieldTo(u32, usize),
    Spin(u32),
    /// A gang request of whatever origin, up to date or late.
    Request(u32, u32, bool),
    Ring(usize, bool),
    GuestMode(u32, bool),
}

/// A host and its fate.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) switches: Switches,
    pub(crate) kind: PolicyKind,
    pub(crate) settings: PolicySettings,
    /// Which of the groups are gangs at the start.
    pub(crate) gangs: Vec<bool>,
    /// When, ascending, and what.
    pub(crate) acts: Vec<(u64, Act)>,
}

fn nice() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 1 => -20..20, 1 => select(vec![-20, 19])]
}

fn shares() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(1024), 1 => select(vec![2, 128, 512, 4096, 1 << 18])]
}

fn cpu_set(cpus: u32) -> impl Strategy<Value = CpuSet> {
    (1..1_u32 << cpus).prop_map(move |mask| (0..cpus).filter(|c| mask >> c & 1 == 1).map(CpuId).collect())
}

fn step(tasks: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (10_000..8 * MS).prop_map(Step::Run),
        3 => (10_000..12 * MS).prop_map(Step::Sleep),
        1 => Just(Step::Wait),
        2 => (0..tasks).prop_map(Step::Wake),
        1 => (0..tasks).prop_map(Step::WakeSync),
        1 => Just(Step::Yield),
        2 => Just(Step::Spin),
    ]
}

fn task(cpus: u32, groups: usize, tasks: usize) -> impl Strategy<Value = TaskPlan> {
    let group = prop_oneof![1 => Just(None), 3 => (0..groups.max(1)).prop_map(move |g| (g < groups).then_some(g))];
    let program = prop_oneof![
        1 => Just(TaskPlan::hog().program),
        2 => (20_000..3 * MS, prop::collection::vec(step(tasks), 1..6)).prop_map(|(run, mut steps)| {
            steps.push(Step::Run(run));
            steps
        }),
    ];
    let affinity = prop_oneof![2 => Just(None), 1 => cpu_set(cpus).prop_map(Some)];
    let policy =
        prop_oneof![8 => Just(SchedPolicy::Normal), 1 => Just(SchedPolicy::Batch), 1 => Just(SchedPolicy::Idle)];
    let start = (prop_oneof![2 => Just(0), 1 => 0..100 * MS], prop::option::of(0..cpus));
    let exits = prop::bool::weighted(0.1);
    (nice(), policy, group, prop::option::of(0..2_u32), start, affinity, program, exits).prop_map(
        |(nice, policy, group, vm, (start_ns, start_cpu), affinity, program, exits)| TaskPlan {
            nice: Nice::new(nice).unwrap(),
            policy,
            group,
            vm: vm.map(VmId),
            start_ns,
            start_cpu,
            affinity,
            loop_from: if exits { program.len() } else { 0 },
            program,
        },
    )
}

fn act(cpus: u32, groups: u32, tasks: usize) -> impl Strategy<Value = Act> {
    // Group numbers reach one too far, so that requests and moves to groups that are not there come up.
    let group = 1..groups + 2;
    prop_oneof![
        3 => (0..tasks, cpu_set(cpus)).prop_map(|(t, c)| Act::Affinity(t, c)),
        2 => (0..tasks, nice()).prop_map(|(t, n)| Act::Nice(t, n)),
        3 => (0..tasks, 0..=groups).prop_map(|(t, g)| Act::Move(t, g)),
        1 => (0..tasks).prop_map(Act::Exit),
        2 => (group.clone(), shares()).prop_map(|(g, s)| Act::Shares(g, s)),
        2 => (group.clone(), any::<bool>()).prop_map(|(g, on)| Act::Gang(g, on)),
        2 => group.prop_map(Act::Renew),
        2 => (0..cpus).prop_map(Act::Offline),
        2 => (0..cpus).prop_map(Act::Online),
        1 => (0..cpus).prop_map(Act::Yield),
        2 => (0..cpus, 0..tasks).prop_map(|(c, t)| Act::YieldTo(c, t)),
        2 => (0..cpus).prop_map(Act::Spin),
        4 => (0..cpus, 1..=groups.max(1), any::<bool>()).prop_map(|(c, g, late)| Act::Request(c, g, late)),
        1 => (0..tasks, any::<bool>()).prop_map(|(t, k)| Act::Ring(t, k)),
        2 => (0..cpus, any::<bool>()).prop_map(|(c, on)| Act::GuestMode(c, on)),
    ]
}

fn switches() -> impl Strategy<Value = Switches> {
    let idle_sibling = select(vec![IdleSibling::Traverse, IdleSibling::Traverse, IdleSibling::Buddy, IdleSibling::Off]);
    let lb_bias = select(vec![LbBias::MinMax, LbBias::MinMax, LbBias::Averaged, LbBias::Off]);
    (idle_sibling, lb_bias, any::<[bool; 4]>()).prop_map(
        |(idle_sibling, lb_bias, [busiest, imbalance, redo_resets_loop, tracked])| Switches {
            idle_sibling,
            lb_bias,
            busiest_pick: if busiest { BusiestPick::V3_18 } else { BusiestPick::V3_4 },
            idle_imbalance: if imbalance { IdleImbalance::TwoOnTwoCpuLlc } else { IdleImbalance::One },
            redo_resets_loop,
            load_tracking: if tracked { LoadTracking::PerEntity } else { LoadTracking::PerQueue },
            ..Switches::default()
        },
    )
}

fn policy() -> impl Strategy<Value = (PolicyKind, PolicySettings)> {
    let ple = (any::<[bool; 4]>()).prop_map(|[dy_eligible, preempted_only, in_kernel, strict_boost]| PleSwitches {
        dy_eligible,
        preempted_only,
        in_kernel,
        strict_boost,
    });
    let gang = (select(vec![1, 2, 4, 8]), any::<bool>()).prop_map(|(gang_cpus, guest_mode_told)| GangSettings {
        gang_cpus,
        guest_mode_told,
        ..GangSettings::default()
    });
    (select(&PolicyKind::ALL[..]), gang, ple).prop_map(|(kind, gang, ple)| (kind, PolicySettings { gang, ple }))
}

/// Feature names; a world turns each over with probability 1/4.
const FEATURES: [(&str, bool); 7] = [
    ("GENTLE_FAIR_SLEEPERS", true),
    ("START_DEBIT", true),
    ("NEXT_BUDDY", false),
    ("LAST_BUDDY", true),
    ("CACHE_HOT_BUDDY", true),
    ("TTWU_QUEUE", true),
    ("LB_MIN", false),
];

/// Any world.
pub(crate) fn world() -> impl Strategy<Value = World> {
    let machine = select(vec![("1s:1c", 1), ("1s:2c", 2), ("1s:2c:2t", 4), ("2s:2c", 4), ("2s:4c", 8)]);
    (machine, 0..5_usize, 2..14_usize).prop_flat_map(|((machine, cpus), groups, tasks)| {
        let group_specs = prop::collection::vec((any::<Index>(), prop::bool::weighted(0.3), shares()), groups);
        let settings = (
            select(vec![100_u64, 250, 1000]),
            prop_oneof![1 => Just(0), 2 => 1..300_000_u64],
            prop::collection::vec(prop::bool::weighted(0.25), FEATURES.len()),
            switches(),
            policy(),
        );
        let end = 150 * MS;
        (
            settings,
            group_specs,
            prop::collection::vec(any::<bool>(), groups),
            prop::collection::vec(task(cpus, groups, tasks), tasks),
            prop::collection::vec((0..end, act(cpus, u32::try_from(groups).unwrap(), tasks)), 0..30),
        )
            .prop_map(move |(settings, groups, gangs, tasks, mut acts)| {
                let (hz, tick_skew_ns, flips, switches, (kind, settings)) = settings;
                let features = FEATURES.iter().zip(flips).filter(|(_, flip)| *flip);
                let groups = groups.iter().enumerate().map(|(i, (parent, nested, shares))| GroupSpec {
                    parent: (*nested && i > 0).then(|| parent.index(i.max(1))),
                    shares: *shares,
                });
                acts.sort_by_key(|(at, _)| *at);
                let scenario = Scenario {
                    hz,
                    tick_skew_ns,
                    features: features.map(|((name, on), _)| ((*name).to_owned(), !on)).collect(),
                    groups: groups.collect(),
                    tasks,
                    ..Scenario::on(machine, end)
                };
                World { scenario, switches, kind, settings, gangs, acts }
            })
    })
}
