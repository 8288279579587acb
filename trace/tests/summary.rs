//! Sums over small traces whose values are counted by hand.
mod sample;

use proptest::prelude::*;
use sample::sample;
use trace::ftrace;
use trace::read::Damage;
use trace::summary::{NAMED_MAX, OfCpu, Summary, Times};

fn times(count: u64, total_ns: u64, max_ns: u64) -> Times {
    Times { count, total_ns, max_ns }
}

#[test]
fn runtime_wait_and_preemption_of_two_threads() {
    // b wakes at 2, runs 3..5, is preempted, waits 5..9, runs 9..10; a runs 0..3 and 5..9, of which the first is unknown.
    let text = "\
        a-1 [0] 2.0: sched_wakeup: comm=b pid=2 prio=120 target_cpu=000\n\
        a-1 [0] 3.0: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=2 next_prio=120\n\
        b-2 [0] 5.0: sched_switch: b:2 [120] R ==> a:1 [120]\n\
        a-1 [0] 9.0: sched_switch: a:1 [120] S ==> b:2 [120]\n\
        b-2 [0] 10.0: sched_switch: b:2 [120] D ==> swapper/0:0 [120]\n\
        <idle>-0 [0] 12.5: sched_switch: swapper/0:0 [120] R ==> b:2 [120]\n";
    let summary = Summary::read(text.as_bytes()).unwrap();
    let s = 1_000_000_000;
    let [a, b] = &summary.threads[..] else { panic!("{summary:?}") };
    assert_eq!((a.comm.as_str(), a.runtime_ns, a.switches, a.preempted), ("a", 4 * s, 1, 1));
    assert_eq!(a.wait, times(1, 2 * s, 2 * s));
    assert_eq!((b.comm.as_str(), b.runtime_ns, b.switches, b.preempted, b.wakeups), ("b", 3 * s, 3, 1, 1));
    assert_eq!(b.wait, times(2, 5 * s, 4 * s));
    assert_eq!(b.wait.mean_ns(), 5 * s / 2);
    assert_eq!(summary.cpus, [OfCpu { cpu: 0, switches: 5, busy_ns: 7 * s, idle_ns: 5 * s / 2 }]);
}

#[test]
fn our_own_trace_has_flushes_and_exits() {
    let mut text = Vec::new();
    ftrace::write(&sample(), &mut text).unwrap();
    let summary = Summary::read(text.as_slice()).unwrap();
    let b = summary.threads.iter().find(|thread| thread.comm == "vcpu3.10").unwrap();
    assert_eq!((b.flush, b.migrations), (times(1, 60, 60), 1));
    assert_eq!(summary.exits.get("EXTERNAL_INTERRUPT"), Some(&1));
    assert_eq!((summary.damaged, summary.unsorted, summary.events), (0, 0, 19));
}

#[test]
fn damaged_lines_are_counted_and_the_first_are_named() {
    let text =
        format!("cpus=2\n{}\na-1 [0] 1.0: sched_switch: nonsense\n\nCPU:1 [LOST 7 EVENTS]\n", "rubbish\n".repeat(9));
    let summary = Summary::read(text.as_bytes()).unwrap();
    assert_eq!((summary.damaged, summary.damages.len(), summary.lost, summary.events), (10, NAMED_MAX, 7, 0));
    assert_eq!(summary.damages[0], (2, Damage::NoTime));
}

proptest! {
    /// Times of any size and order neither panic nor overflow.
    #[test]
    fn any_times_and_threads_add_up(lines in prop::collection::vec((any::<u64>(), 0u32..3, 0u32..4, 0u32..4), 0..60)) {
        let text: String = lines
            .iter()
            .map(|(at, cpu, prev, next)| {
                let (s, ns) = (at / 1_000_000_000, at % 1_000_000_000);
                format!("x-1 [{cpu:03}] {s}.{ns:09}: sched_switch: p:{prev} [120] R ==> n:{next} [120]\n")
            })
            .collect();
        let summary = Summary::read(text.as_bytes()).unwrap();
        prop_assert_eq!(summary.events, lines.len() as u64);
        prop_assert_eq!(summary.cpus.iter().map(|cpu| cpu.switches).sum::<u64>(), lines.len() as u64);
    }
}
