//! The text form: what is written is read back, whole.
mod sample;

use sample::sample;
use trace::ftrace;
use trace::read::{Body, Item, State, Thread, read};
use trace::timeline::{Arrow, Flush, Kind, Run, Timeline, Window};

fn text() -> String {
    let mut text = Vec::new();
    ftrace::write(&sample(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_text_is_in_the_formats_of_the_kernel() {
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# tracer: nop");
    assert_eq!(lines[2], "# vmmlab test");
    assert_eq!(lines[3], "# entries-in-buffer/entries-written: 19/24   #P:2");
    assert_eq!(
        lines[6],
        "          <idle>-0       [002]     1.999999200: sched_switch:        prev_comm=swapper/2 prev_pid=0 prev_prio=120 \
         prev_state=R ==> next_comm=vcpu3.0 next_pid=11 next_prio=120"
    );
    let has = |wanted: &str| assert!(text.contains(wanted), "{wanted}\n{text}");
    has("         vcpu3.0-11      [002]     1.999999210: kvm_entry:           vcpu 0\n");
    has("        vcpu3.10-12      [033]     1.999999300: tracing_mark_write:  B|12|flush of 1\n");
    has(" kvm_apic_ipi:        dst 0 vec 207 (Fixed|physical|assert|edge|dst)\n");
    has(" kvm_exit:            reason EXTERNAL_INTERRUPT rip 0x0 info 0 0\n");
    has(" kvm_hypercall:       nr 0x5 a0 0x0 a1 0xa a2 0x0 a3 0x0\n");
    has(" ipi_raise:           target_mask=00000002,00000000 (gang of vm3)\n");
    has(" sched_migrate_task:  comm=vcpu3.10 pid=12 prio=120 orig_cpu=33 dest_cpu=2\n");
    has(" sched_waking:        comm=vcpu3.10 pid=12 prio=120 target_cpu=033\n");
    has("     1.999999700: ipi_raise:           target_mask=00000002,00000000 (Rescheduling interrupts)\n");
}

#[test]
fn every_event_is_read_back() {
    let mut found = Vec::new();
    read(text().as_bytes(), |_, item| match item {
        Item::Event(line) => found.push((line.at_ns, line.cpu, format!("{:?}", line.body))),
        other => panic!("{other:?}"),
    })
    .unwrap();
    let trace = sample();
    assert_eq!(found.len(), trace.events.len());
    for (event, (at_ns, cpu, body)) in trace.events.iter().zip(&found) {
        assert_eq!((event.at_ns, event.cpu.0), (*at_ns, *cpu), "{body}");
        assert_ne!(body, "Other", "{event:?}");
    }
    let stopper = Thread { comm: "migration/33", pid: 46 };
    let vcpu = Thread { comm: "vcpu3.10", pid: 12 };
    let switch = Body::Switch { prev: vcpu, state: State::Blocked, next: stopper };
    assert_eq!(found[12].2, format!("{switch:?}"));
    assert_eq!(found[9].2, format!("{:?}", Body::IpiEntry));
    assert_eq!(found[8].2, format!("{:?}", Body::Ipi { to: 33, why: "gang of vm3" }));
    assert_eq!(found[7].2, format!("{:?}", Body::Kick { to: 10 }));
}

#[test]
fn a_timeline_has_runs_flushes_and_arrows() {
    let base = 1_999_999_000;
    let timeline = Timeline::read(text().as_bytes(), Window::default()).unwrap();
    assert_eq!(timeline.cpus, [2, 33]);
    let name = |thread: usize| timeline.threads[thread].comm.as_str();
    let runs = timeline
        .runs
        .iter()
        .map(|Run { cpu, thread, from_ns, to_ns }| (*cpu, name(*thread), from_ns - base, to_ns - base));
    let runs: Vec<_> = runs.collect();
    // B ran before the first event; A still runs after the last.
    assert_eq!(runs, [(33, "vcpu3.10", 100, 400), (2, "vcpu3.0", 200, 700)]);
    let [Flush { thread, from_ns, to_ns }] = timeline.flushes[..] else { panic!("{:?}", timeline.flushes) };
    assert_eq!((name(thread), from_ns - base, to_ns - base), ("vcpu3.10", 300, 360));
    let arrows: Vec<_> = timeline
        .arrows
        .iter()
        .map(|Arrow { kind, from_cpu, from_ns, to_cpu, to_ns }| {
            (*kind, *from_cpu, from_ns - base, to_cpu.unwrap(), to_ns - base)
        })
        .collect();
    assert_eq!(
        arrows,
        [
            (Kind::GuestIpi, 33, 310, 2, 330),
            (Kind::Gang, 2, 345, 33, 345),
            (Kind::Kick, 2, 340, 33, 350),
            (Kind::Resched, 2, 700, 33, 700)
        ]
    );
    assert_eq!((timeline.events, timeline.damaged, timeline.left_out), (19, 0, 0));
}

#[test]
fn a_window_cuts_what_reaches_into_it() {
    let base = 1_999_999_000;
    let window = Window { skip_ns: 150, len_ns: 100, items_max: 1 };
    let timeline = Timeline::read(text().as_bytes(), window).unwrap();
    assert_eq!((timeline.from_ns, timeline.to_ns), (base + 250, base + 350));
    // Both vCPUs run from end to end; there is room for one.
    let [run] = timeline.runs[..] else { panic!("{:?}", timeline.runs) };
    assert_eq!((run.from_ns, run.to_ns, timeline.left_out > 0), (base + 250, base + 350, true));
    let [flush] = timeline.flushes[..] else { panic!("{:?}", timeline.flushes) };
    assert_eq!((flush.from_ns, flush.to_ns), (base + 300, base + 350));
}
