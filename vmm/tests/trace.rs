//! Traces of real guests: every side of the story is there, in order, and they agree with the record.

mod support;

use plan::{Control, Engine, Mode, RunPlan, RunStatus, Sched, metric};
use support::{kvm_usable, plan};
use trace::{Limits, Trace, What};
use vmm::Kvm;

fn traced(plan: &RunPlan, events_max: usize) -> Option<(plan::RunRecord, Trace)> {
    if !kvm_usable("trace") {
        return None;
    }
    let (record, trace) = Kvm::default().run_traced(plan, &Control::default(), Limits { events_max }).unwrap();
    assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
    Some((record, trace))
}

fn count(trace: &Trace, wanted: impl Fn(&What) -> bool) -> u64 {
    trace.events.iter().filter(|event| wanted(&event.what)).count() as u64
}

#[test]
fn a_trace_of_the_lab_has_what_the_record_counted() {
    for mode in [Mode::GangPle, Mode::PvFlush] {
        let plan = RunPlan { vcpus: 2, ..plan(mode, 2, Sched::Lab) };
        let Some((record, trace)) = traced(&plan, 4_000_000) else { return };
        assert_eq!(trace.dropped, 0);
        assert!(trace.events.is_sorted_by_key(|event| event.at_ns));
        let span = trace.events.last().unwrap().at_ns - trace.events[0].at_ns;
        assert!(span <= record.duration_ns + 50_000_000, "{span} of {}", record.duration_ns);
        let about = |counted: u64, found: u64, what: &str| {
            // Threads see the end of the measured time a moment later than the snapshot is taken.
            let slack = counted / 10 + 50;
            assert!(found.abs_diff(counted) <= slack, "{mode}: {found} {what}, counted {counted}");
        };
        about(record.counters[metric::EXITS], count(&trace, |w| matches!(w, What::Exit { .. })), "exits");
        let injections = record.counters["injections"];
        about(injections, count(&trace, |w| matches!(w, What::GuestIrq { .. })), "interrupts");
        let switches = count(&trace, |w| matches!(w, What::Switch { next, .. } if next.as_task().is_some()));
        about(record.counters[metric::SWITCHES], switches, "switches");
        about(record.counters[metric::WAKEUPS], count(&trace, |w| matches!(w, What::Wakeup { .. })), "wake-ups");
        // Every vCPU has its thread's id, every event a CPU of the run.
        assert!(trace.names.tasks().iter().all(|task| task.pid > 0 && task.vcpu.is_some()));
        assert!(trace.events.iter().all(|event| plan.pcpus.as_slice().contains(&event.cpu.0)));
        let begun = count(&trace, |w| matches!(w, What::FlushBegin { .. }));
        let ended = count(&trace, |w| matches!(w, What::FlushEnd { .. }));
        assert!(begun.abs_diff(ended) <= 4, "{mode}: {begun} flushes begun, {ended} ended");
        assert!(mode != Mode::GangPle || begun > 0);
    }
}

#[test]
fn a_small_buffer_keeps_the_beginning_and_counts_the_rest() {
    let plan = RunPlan { vcpus: 2, ..plan(Mode::Base, 1, Sched::Lab) };
    // Two vCPU threads and the control loop share the room, of which each gets its least.
    let Some((_, trace)) = traced(&plan, 60) else { return };
    assert!(
        trace.events.len() <= 3 * 32 && trace.dropped > 0,
        "{} kept, {} dropped",
        trace.events.len(),
        trace.dropped
    );
}

#[test]
fn the_kernels_scheduler_is_traced_as_far_as_it_is_seen() {
    let plan = RunPlan { vcpus: 2, ..plan(Mode::Base, 1, Sched::Host) };
    let Some((record, trace)) = traced(&plan, 1_000_000) else { return };
    // How often a guest leaves guest mode is up to the host, and to what else it runs.
    let (exits, entries) = (record.counters[metric::EXITS], count(&trace, |w| matches!(w, What::Entry { .. })));
    assert!(entries > 0 && entries.abs_diff(exits) <= exits / 10 + 50, "{entries} entries, {exits} exits");
    assert_eq!(count(&trace, |w| matches!(w, What::Switch { .. })), 0);
    assert!(trace.events.iter().all(|event| plan.pcpus.as_slice().contains(&event.cpu.0)));
}
