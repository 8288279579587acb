//! Gang scheduling: who asks whom, what the asked one does, and how it is measured.
mod rig;

use hostsched::policy::{GangSettings, PolicyKind, PolicySettings, counter, elect};
use hostsched::topology::{BuildOptions, Machine, build_sched_domains};
use hostsched::{CpuId, GroupId, Ipi, Nanos};
use rig::{MS, Rig};

fn settings(gang_cpus: u32) -> PolicySettings {
    PolicySettings { gang: GangSettings { gang_cpus, ..GangSettings::default() }, ..PolicySettings::default() }
}

#[test]
fn every_cpu_has_one_leader_whatever_the_span() {
    for (gang_cpus, want) in [(1, "0-3 4-7"), (4, "0-3 4-7"), (5, "0-7"), (8, "0-7"), (64, "0-7")] {
        let machine: Machine = "2s:4c".parse().unwrap();
        let domains = build_sched_domains(&machine, machine.online(), BuildOptions::default()).unwrap();
        let spans = elect(&domains, gang_cpus);
        let text: Vec<String> = spans.iter().map(|s| s.cpus.to_string()).collect();
        assert_eq!(text.join(" "), want, "gang_cpus {gang_cpus}");
        assert!(spans.iter().all(|s| s.cpus.first() == Some(s.leader)));
    }
}

#[test]
fn a_host_smaller_than_the_span_is_told_of() {
    let rig = Rig::new("1s:2c", PolicyKind::Gang, &settings(8));
    let [notice] = &rig.notices[..] else { panic!("{:?}", rig.notices) };
    assert!(notice.contains("no scheduling domain has 8 CPUs") && notice.contains("the 2 CPUs 0-1"), "{notice}");
    assert!(Rig::new("1s:2c", PolicyKind::Gang, &settings(2)).notices.is_empty());
}

#[test]
fn the_leader_asks_all_fellows_after_every_pick_and_a_fellow_asks_nobody() {
    let mut rig = Rig::new("1s:4c", PolicyKind::Gang, &settings(4));
    let gang = rig.group(GroupId::ROOT, true);
    for cpu in 0..4 {
        rig.task(gang, cpu);
    }
    let want: Vec<_> = (1..4).map(|cpu| (CpuId(cpu), Ipi::Gang { group: gang, generation: 0 })).collect();
    rig.schedule(2);
    assert_eq!(rig.ipis(), []);
    rig.schedule(0);
    assert_eq!(rig.ipis(), want);
    rig.schedule(0);
    assert_eq!(rig.ipis(), want, "a re-pick asks again");
    assert_eq!(rig.counter(counter::GANG_IPIS), 6);
}

#[test]
fn a_leader_that_goes_off_line_is_replaced_and_takes_over_when_it_is_back() {
    let mut rig = Rig::new("1s:4c", PolicyKind::Gang, &settings(4));
    let gang = rig.group(GroupId::ROOT, true);
    for cpu in 1..4 {
        rig.task(gang, cpu);
    }
    let asked = |rig: &mut Rig, cpu| {
        rig.schedule(cpu);
        rig.ipis().into_iter().map(|(cpu, _)| cpu.0).collect::<Vec<_>>()
    };
    assert_eq!(asked(&mut rig, 1), []);
    rig.hotplug(0, false);
    assert_eq!(asked(&mut rig, 1), [2, 3]);
    assert_eq!(asked(&mut rig, 2), []);
    rig.hotplug(0, true);
    assert_eq!(asked(&mut rig, 1), []);
    rig.task(gang, 0);
    assert_eq!(asked(&mut rig, 0), [1, 2, 3]);
}

#[test]
fn a_span_that_hotplug_makes_too_small_moves_to_the_next_domain() {
    // The picture of `policy/span.rs`, at half the size.
    let mut rig = Rig::new("2s:4c", PolicyKind::Gang, &settings(4));
    let spans = |rig: &Rig| {
        let spans = elect(rig.host.domains(), 4);
        spans.iter().map(|s| format!("{}>{}", s.leader, s.cpus)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(spans(&rig), "0>0-3 4>4-7");
    rig.hotplug(0, false);
    assert_eq!(spans(&rig), "1>1-3 4>4-7");
}

#[test]
fn a_group_without_the_flag_asks_nobody() {
    let mut rig = Rig::new("1s:2c", PolicyKind::Gang, &settings(2));
    let group = rig.group(GroupId::ROOT, false);
    rig.task(group, 0);
    rig.schedule(0);
    assert_eq!(rig.ipis(), []);
    rig.at().group_set_gang(group, true).unwrap();
    rig.schedule(0);
    assert_eq!(rig.ipis().len(), 1);
}

#[test]
fn the_gang_of_a_task_is_its_innermost_flagged_group() {
    let mut rig = Rig::new("1s:2c", PolicyKind::Gang, &settings(2));
    let outer = rig.group(GroupId::ROOT, true);
    let inner = rig.group(outer, true);
    let plain = rig.group(outer, false);
    for (group, want) in [(plain, outer), (inner, inner), (outer, outer)] {
        let task = rig.task(group, 0);
        rig.schedule(0);
        assert_eq!(rig.running(0), Some(task));
        let asked: Vec<_> = rig.ipis();
        assert_eq!(asked, [(CpuId(1), Ipi::Gang { group: want, generation: 0 })]);
        rig.at().exit_current(CpuId(0));
        rig.schedule(0);
    }
}

/// CPU 1: a member of gang `a` that has run far ahead of the task of `b`, which runs there.
fn unfair(kind: PolicyKind, lead_ms: u32) -> (Rig, GroupId) {
    unfair_in(kind, lead_ms, false)
}

fn unfair_in(kind: PolicyKind, lead_ms: u32, nested: bool) -> (Rig, GroupId) {
    let mut rig = Rig::new("1s:2c", kind, &settings(2));
    let parent = if nested { rig.group(GroupId::ROOT, false) } else { GroupId::ROOT };
    let a = rig.group(parent, true);
    let b = rig.group(GroupId::ROOT, false);
    let ahead = rig.task(a, 1);
    rig.schedule(1);
    rig.ticks(lead_ms);
    assert_eq!(rig.running(1), Some(ahead));
    rig.task(b, 1);
    rig.fx.clear();
    rig.schedule(1);
    assert_ne!(rig.running(1), Some(ahead));
    (rig, a)
}

#[test]
fn v2_takes_the_gang_whatever_its_vruntime_and_v1_only_while_that_is_fair() {
    for (kind, lead_ms, taken) in [
        (PolicyKind::Gang, 50, true),
        (PolicyKind::GangNext, 50, false),
        // A lead within the wake-up granularity of 2 ms is fair.
        (PolicyKind::GangNext, 1, true),
    ] {
        let (mut rig, gang) = unfair(kind, lead_ms);
        rig.at().ipi_received(CpuId(1), Ipi::Gang { group: gang, generation: 0 });
        assert_eq!(rig.fx.resched, [CpuId(1)]);
        rig.schedule(1);
        let runs = rig.running(1).map(|t| rig.host.task_group(t));
        assert_eq!(runs == Some(gang), taken, "{kind} {lead_ms} ms");
        assert_eq!(rig.counter(counter::GANG_BUDDIES_SET), 1);
        assert_eq!(rig.counter(counter::GANG_BUDDIES_REFUSED), u64::from(!taken));
    }
}

#[test]
fn the_hint_leads_from_the_root_into_a_nested_gang() {
    for (kind, lead_ms) in [(PolicyKind::Gang, 50), (PolicyKind::GangNext, 1)] {
        let (mut rig, gang) = unfair_in(kind, lead_ms, true);
        rig.at().ipi_received(CpuId(1), Ipi::Gang { group: gang, generation: 0 });
        rig.schedule(1);
        assert_eq!(rig.running(1).map(|t| rig.host.task_group(t)), Some(gang), "{kind}");
    }
}

#[test]
fn the_gang_buddy_acts_once() {
    let (mut rig, gang) = unfair(PolicyKind::Gang, 50);
    rig.at().ipi_received(CpuId(1), Ipi::Gang { group: gang, generation: 0 });
    rig.schedule(1);
    rig.schedule(1);
    assert_ne!(rig.running(1).map(|t| rig.host.task_group(t)), Some(gang));
}

#[test]
fn a_fellow_with_nothing_of_the_gang_carries_on() {
    let mut rig = Rig::new("1s:2c", PolicyKind::Gang, &settings(2));
    let gang = rig.group(GroupId::ROOT, true);
    rig.task(GroupId::ROOT, 1);
    rig.schedule(1);
    rig.fx.clear();
    rig.at().ipi_received(CpuId(1), Ipi::Gang { group: gang, generation: 0 });
    assert!(rig.fx.is_empty());
    assert_eq!(rig.counter(counter::GANG_BUDDIES_SET), 0);
}

#[test]
fn a_request_for_a_group_that_vanished_or_is_no_gang_any_more_is_dropped() {
    let (mut rig, gang) = unfair(PolicyKind::Gang, 50);
    let request = Ipi::Gang { group: gang, generation: 0 };
    rig.at().group_set_gang(gang, false).unwrap();
    rig.at().ipi_received(CpuId(1), request);
    rig.at().group_remove(gang).unwrap();
    rig.fx.clear();
    rig.at().ipi_received(CpuId(1), request);
    // A new group gets the old number: the late request is not for it.
    assert_eq!(rig.group(GroupId::ROOT, true), gang);
    rig.task(gang, 1);
    rig.fx.clear();
    rig.at().ipi_received(CpuId(1), request);
    assert!(rig.fx.is_empty());
    assert_eq!(rig.counter(counter::GANG_IPIS_STALE), 3);
}

/// The picture of `policy/coverage.rs`, in ms.
#[test]
fn coverage_is_the_share_of_window_time_in_which_all_runnable_members_run() {
    let mut rig = Rig::new("1s:2c", PolicyKind::Gang, &settings(2));
    let a = rig.group(GroupId::ROOT, true);
    let b = rig.group(GroupId::ROOT, false);
    rig.task(a, 0);
    rig.task(a, 1);
    rig.schedule(0);
    rig.now += Nanos(4 * MS);
    rig.schedule(1);
    assert_eq!(rig.running(1).map(|t| rig.host.task_group(t)), Some(a));
    rig.now += Nanos(8 * MS);
    // Something of b takes CPU 1, then CPU 0.
    rig.task(b, 1);
    rig.schedule(1);
    rig.now += Nanos(6 * MS);
    rig.task(b, 0);
    rig.schedule(0);
    assert_eq!(rig.running(0).map(|t| rig.host.task_group(t)), Some(b));
    rig.now += Nanos(100 * MS);
    assert_eq!(rig.counter(counter::GANG_WINDOWS), 1);
    assert_eq!(rig.counter(counter::GANG_WINDOW_NS), 18 * MS);
    assert_eq!(rig.counter(counter::GANG_COVERED_NS), 8 * MS);
}

#[test]
fn coverage_needs_two_runnable_members_and_none_that_waits() {
    let mut rig = Rig::new("1s:2c", PolicyKind::Gang, &settings(2));
    let a = rig.group(GroupId::ROOT, true);
    rig.task(a, 0);
    rig.schedule(0);
    rig.now += Nanos(5 * MS);
    assert_eq!(rig.counter(counter::GANG_WINDOW_NS), 0, "one member is no gang");
    // Two members on CPU 1: whatever runs, one waits.
    rig.task(a, 1);
    let extra = rig.task(a, 1);
    rig.schedule(1);
    rig.now += Nanos(5 * MS);
    assert_eq!((rig.counter(counter::GANG_WINDOW_NS), rig.counter(counter::GANG_COVERED_NS)), (5 * MS, 0));
    rig.at().task_exit(extra).unwrap();
    rig.schedule(1);
    rig.now += Nanos(5 * MS);
    assert_eq!((rig.counter(counter::GANG_WINDOW_NS), rig.counter(counter::GANG_COVERED_NS)), (10 * MS, 5 * MS));
}

#[test]
fn with_guest_mode_told_only_vcpus_in_their_guest_cover() {
    let gang = GangSettings { gang_cpus: 2, guest_mode_told: true, ..GangSettings::default() };
    let mut rig = Rig::new("1s:2c", PolicyKind::Gang, &PolicySettings { gang, ..PolicySettings::default() });
    let a = rig.group(GroupId::ROOT, true);
    for cpu in 0..2 {
        rig.task(a, cpu);
        rig.schedule(cpu);
    }
    rig.now += Nanos(MS);
    rig.at().guest_mode(CpuId(0), true);
    rig.at().guest_mode(CpuId(1), true);
    rig.now += Nanos(MS);
    rig.at().guest_mode(CpuId(1), false);
    rig.now += Nanos(MS);
    assert_eq!((rig.counter(counter::GANG_WINDOW_NS), rig.counter(counter::GANG_COVERED_NS)), (3 * MS, MS));
    // A re-pick of the same task leaves it in its guest; another task has yet to enter.
    rig.at().guest_mode(CpuId(1), true);
    rig.schedule(1);
    rig.now += Nanos(MS);
    assert_eq!(rig.counter(counter::GANG_COVERED_NS), 2 * MS);
}
