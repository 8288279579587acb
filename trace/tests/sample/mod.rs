//! A trace with every kind of event.
use hostsched::{CpuId, TaskId};
use trace::{Buffer, Event, ExitReason, Names, PrevState, Task, Trace, What, Who};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);

/// Two vCPUs of VM 3 on CPUs 2 and 33; B flushes A, is preempted meanwhile, and kicked.
pub(crate) fn sample() -> Trace {
    let switch = |prev, state, next| What::Switch { prev, state, next };
    let (a, b, idle) = (Who::task(A), Who::task(B), Who::IDLE);
    let events = [
        (100, 2, What::Wakeup { task: A }),
        (200, 2, switch(idle, PrevState::Runnable, a)),
        (210, 2, What::Entry { task: A }),
        (300, 33, What::FlushBegin { task: B, targets: Some(1) }),
        (310, 33, What::GuestIpi { from: B, to: A }),
        (320, 2, What::Exit { task: A, reason: ExitReason::ExternalInterrupt }),
        (330, 2, What::GuestIrq { task: A }),
        (340, 2, What::Kick { from: A, to: B }),
        (345, 2, What::Gang { to: CpuId(33), vm: 3 }),
        (346, 33, What::HostIrq { all: false }),
        (350, 33, What::HaltOver { task: B }),
        (360, 33, What::FlushEnd { task: B }),
        (400, 33, switch(b, PrevState::Sleeping, Who::STOPPER)),
        (400, 33, switch(Who::STOPPER, PrevState::Sleeping, idle)),
        (500, 2, What::Waking { task: B, target: CpuId(33) }),
        (510, 2, What::Migrate { task: B, from: CpuId(33) }),
        (600, 2, What::Spin { task: A, yielded: true }),
        (700, 2, What::Halt { task: A }),
        (700, 2, What::Resched { to: CpuId(33) }),
    ];
    let mut buffer = Buffer::new(events.len());
    for (at_ns, cpu, what) in events {
        buffer.push(Event { at_ns: 1_999_999_000 + at_ns, cpu: CpuId(cpu), what });
    }
    let names = Names::new(vec![Task::vcpu(3, 0, 11), Task::vcpu(3, 10, 12)]);
    let trace = Trace::new([buffer], names, vec![CpuId(2), CpuId(33)]);
    Trace { dropped: 5, title: "test".into(), ..trace }
}
