//! The Perfetto form: decoded again, it has the structure that the format asks for.
mod sample;

use std::collections::{BTreeMap, BTreeSet};

use hostsched::{CpuId, TaskId};
use proptest::prelude::*;
use prost::Message;
use sample::sample;
use trace::perfetto::{TraceFile, TrackEvent, Type};
use trace::{Buffer, Event, ExitReason, Names, PrevState, Task, Trace, What, Who, pftrace};

/// A trace as a reader understands it: events with the names of their tracks.
struct Read {
    tracks: BTreeMap<u64, String>,
    names: BTreeMap<u64, String>,
    events: Vec<(u64, TrackEvent)>,
}

fn decode(trace: &Trace) -> Read {
    let mut bytes = Vec::new();
    pftrace::write(trace, &mut bytes).unwrap();
    let file = TraceFile::decode(bytes.as_slice()).unwrap();
    let mut read = Read { tracks: BTreeMap::new(), names: BTreeMap::new(), events: Vec::new() };
    for (number, packet) in file.packet.into_iter().enumerate() {
        // The first packet clears the state of the sequence, and every event says that it needs it.
        let flags = packet.sequence_flags.unwrap_or(0);
        assert_eq!((flags & 1 == 1, packet.trusted_packet_sequence_id), (number == 0, Some(1)));
        for name in packet.interned_data.into_iter().flat_map(|data| data.event_names) {
            assert!(read.names.insert(name.iid.unwrap(), name.name.unwrap()).is_none());
        }
        if let Some(track) = packet.track_descriptor {
            let parent = track.parent_uuid.map_or(String::new(), |uuid| format!("{}/", read.tracks[&uuid]));
            let name = format!("{parent}{}", track.name.unwrap());
            assert!(read.tracks.insert(track.uuid.unwrap(), name).is_none());
        }
        if let Some(event) = packet.track_event {
            assert_eq!(flags & 2, 2);
            read.events.push((packet.timestamp.unwrap(), event));
        }
    }
    read
}

/// What must hold of every trace.
fn check(read: &Read) {
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let (mut flows, mut last) = (BTreeSet::new(), 0);
    for (at, event) in &read.events {
        assert!(*at >= last, "time goes back");
        last = *at;
        let track = event.track_uuid.unwrap();
        assert!(read.tracks.contains_key(&track), "track {track} is not declared");
        assert!(event.name_iid.is_none_or(|iid| read.names.contains_key(&iid)));
        match event.r#type() {
            Type::SliceBegin => open.entry(track).or_default().push(*at),
            Type::SliceEnd => {
                let began = open.get_mut(&track).and_then(Vec::pop);
                assert!(
                    began.is_some_and(|began| began <= *at),
                    "{} ends a slice that is not open",
                    read.tracks[&track]
                );
            }
            Type::Instant => assert!(event.name_iid.is_some()),
            Type::Counter => assert!(event.counter_value.unwrap() >= 0),
            Type::Unspecified => panic!("an event without a type"),
        }
        for flow in &event.flow_ids {
            assert!(flows.insert(*flow), "arrow {flow} begins twice");
        }
        for flow in &event.terminating_flow_ids {
            assert!(flows.remove(flow), "arrow {flow} ends before it begins");
        }
    }
    assert!(open.values().all(Vec::is_empty), "slices stay open");
}

#[test]
fn the_sample_has_its_slices_arrows_and_counters() {
    let read = decode(&sample());
    check(&read);
    let base = 1_999_999_000;
    let of = |track: &str| {
        let on_track = |event: &&(u64, TrackEvent)| read.tracks[&event.1.track_uuid.unwrap()] == track;
        let show = |(at, event): &(u64, TrackEvent)| {
            let name = event.name_iid.map_or_else(String::new, |iid| read.names[&iid].clone());
            let kind = match event.r#type() {
                Type::SliceBegin => "[",
                Type::SliceEnd => "]",
                Type::Counter => return format!("{}={}", at - base, event.counter_value.unwrap()),
                _ => ".",
            };
            let begins = if event.flow_ids.is_empty() { "" } else { ">" };
            let ends = if event.terminating_flow_ids.is_empty() { "" } else { "<" };
            format!("{} {ends}{kind}{name}{begins}", at - base)
        };
        read.events.iter().filter(on_track).map(show).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(of("CPUs/CPU 33"), "100 [vcpu3.10, 346 <.interrupt, 400 ], 400 [migration, 400 ]");
    assert_eq!(of("CPUs/CPU 2"), "200 [vcpu3.0, 345 .gang request>, 700 .resched>, 700 ]");
    assert_eq!(of("CPUs/CPU 2 gang"), "345 [gang vm3, 700 ]");
    assert_eq!(
        of("vm3/vcpu3.0"),
        "100 .woken, 200 [on CPU 2, 210 [guest, 320 ], 320 .exit EXTERNAL_INTERRUPT, 600 .spins too long, yields, \
         700 .halt, 700 ]"
    );
    assert_eq!(of("vm3/vcpu3.10/flushes"), "300 [flush, 310 .send IPI>, 350 <.halt over, 360 ]");
    assert_eq!(of("vm3/vcpu3.0/flushes"), "330 <.flush interrupt, 340 .kick>");
    assert_eq!(of("runnable vCPUs"), "100=1, 100=2, 400=1");
    assert_eq!(of("vm3/running vCPUs"), "100=1, 200=2, 400=1, 700=0");
}

fn any_what() -> impl Strategy<Value = What> {
    let task = || (0u32..5).prop_map(TaskId);
    let who = || prop_oneof![Just(Who::IDLE), Just(Who::STOPPER), task().prop_map(Who::task)];
    let cpu = || (0u32..4).prop_map(CpuId);
    let state = prop_oneof![Just(PrevState::Runnable), Just(PrevState::Sleeping), Just(PrevState::Dead)];
    prop_oneof![
        4 => (who(), state, who()).prop_map(|(prev, state, next)| What::Switch { prev, state, next }),
        1 => task().prop_map(|task| What::Wakeup { task }),
        1 => task().prop_map(|task| What::Entry { task }),
        1 => task().prop_map(|task| What::Exit { task, reason: ExitReason::Hlt }),
        1 => task().prop_map(|task| What::FlushBegin { task, targets: None }),
        1 => task().prop_map(|task| What::FlushEnd { task }),
        1 => (task(), task()).prop_map(|(from, to)| What::GuestIpi { from, to }),
        1 => task().prop_map(|task| What::GuestIrq { task }),
        1 => (task(), task()).prop_map(|(from, to)| What::Kick { from, to }),
        1 => task().prop_map(|task| What::HaltOver { task }),
        1 => cpu().prop_map(|to| What::Resched { to }),
        1 => (cpu(), 0u32..3).prop_map(|(to, vm)| What::Gang { to, vm }),
        1 => any::<bool>().prop_map(|all| What::HostIrq { all }),
    ]
}

proptest! {
    /// Whatever order events come in (those of several threads may interleave oddly), the file keeps its structure.
    #[test]
    fn any_sequence_of_events_makes_a_sound_file(
        events in prop::collection::vec((0u64..1000, 0u32..4, any_what()), 0..200),
    ) {
        let mut buffer = Buffer::new(events.len());
        for (at_ns, cpu, what) in events {
            buffer.push(Event { at_ns, cpu: CpuId(cpu), what });
        }
        // Of the tasks 0 to 4 the last has no name, of the CPUs 0 to 3 the last is not declared.
        let mut tasks: Vec<Task> = (0..3).map(|i| Task::vcpu(i / 2, i % 2, i + 1)).collect();
        tasks.push(Task::kernel_thread("noise", CpuId(0), 9));
        let trace = Trace::new([buffer], Names::new(tasks), (0..3).map(CpuId).collect());
        check(&decode(&trace));
    }
}
