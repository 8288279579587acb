//! The one place where the dispatcher asks `hostsched`: inputs go in, decisions come out, and both can be recorded.
//!
//! # Approach
//! Everything that happens to the scheduler is a value, [`Input`]. [`perform`] turns it into the one call that it stands
//! for, over run queues behind locks in a live run and over plain ones in a replay, so that both execute the same code
//! and a recorded run can be checked against `hostsched` alone.
//!
//! # Two ways of running
//! - Normally each operation locks the queues that it touches, one or two, for as long as it touches them. Operations
//!   of different CPUs overlap, so their order is not known afterwards.
//! - While recording, one lock is held around each operation, from reading the clock to noting the result. Then the
//!   order of the log is the order of the operations. It costs parallelism, so it is for tests.

use hostsched::topology::CpuId;
use hostsched::{
    Effects, GroupId, Host, Ipi, Nanos, NoTrace, Rq, RunQueues, TaskId, TaskSpec, Trace, Violation, Waker,
};

use crate::clock::monotonic_ns;
use crate::sync::{Mutex, lock};
use crate::tap;

/// Something that happened to the scheduler.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Input {
    /// A task appears.
    TaskAdd(TaskSpec),
    /// The vCPU that has the CPU lost this much of its time to the host.
    Steal(CpuId, Nanos),
    /// `need_resched` was seen: pick the next task.
    Schedule(CpuId),
    /// The current task halts; pick the next one.
    Block(CpuId),
    /// The current task ends; pick the next one.
    Exit(CpuId),
    /// The thread of the current task has arrived on the CPU and runs its guest from here on.
    GuestMode(CpuId),
    /// The gang flag of the group changed.
    SetGang(GroupId, bool),
    /// A tick.
    Tick(CpuId),
    /// What the task was halted for came.
    Wake(TaskId, Waker),
    /// An IPI of the scheduler arrived.
    IpiReceived(CpuId, Ipi),
    /// The current task spins; if it yields to another, pick the next one.
    Spin(CpuId),
}

/// What `hostsched` answered, apart from the effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Nothing to say.
    Done,
    /// The number of the new task; `None` if it was refused.
    Added(Option<TaskId>),
    /// The CPU on which the task was put; `None`: it did not sleep.
    Woken(Option<CpuId>),
    /// The task that has the CPU from now on; `None`: idle.
    Next(Option<TaskId>),
}

/// Hands `input` to `hostsched`.
pub(super) fn perform<Q: RunQueues>(
    host: &Host,
    queues: &mut Q,
    now: Nanos,
    input: &Input,
    fx: &mut Effects,
    trace: impl Trace,
) -> Output {
    let mut sched = host.traced(now, queues, fx, trace);
    match input {
        Input::TaskAdd(spec) => Output::Added(sched.task_add(spec).ok()),
        Input::Steal(cpu, ns) => {
            sched.account_steal(*cpu, *ns);
            Output::Done
        }
        Input::Schedule(cpu) => Output::Next(sched.schedule(*cpu).next),
        Input::Block(cpu) => {
            sched.block_current(*cpu);
            Output::Next(sched.schedule(*cpu).next)
        }
        Input::Exit(cpu) => {
            sched.exit_current(*cpu);
            Output::Next(sched.schedule(*cpu).next)
        }
        Input::GuestMode(cpu) => {
            sched.guest_mode(*cpu, true);
            Output::Done
        }
        Input::SetGang(group, gang) => {
            // Cannot fail: the groups of a lab live as long as it does.
            let _ = sched.group_set_gang(*group, *gang);
            Output::Done
        }
        Input::Tick(cpu) => {
            sched.tick(*cpu);
            Output::Done
        }
        Input::Wake(task, waker) => Output::Woken(sched.wake(*task, *waker)),
        Input::IpiReceived(cpu, ipi) => {
            sched.ipi_received(*cpu, *ipi);
            Output::Done
        }
        Input::Spin(cpu) => {
            if sched.spin_detected(*cpu) {
                Output::Next(sched.schedule(*cpu).next)
            } else {
                Output::Done
            }
        }
    }
}

/// One recorded operation: what came in when, and everything that went out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) now: Nanos,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) resched: Vec<CpuId>,
    pub(super) ipis: Vec<(CpuId, Ipi)>,
}

/// The run queues of a live run, each behind its lock.
#[derive(Debug)]
struct Locked<'a>(&'a [Mutex<Rq>]);

impl RunQueues for Locked<'_> {
    fn with<R>(&mut self, cpu: CpuId, f: impl FnOnce(&mut Rq) -> R) -> R {
        f(&mut lock(&self.0[cpu.index()]))
    }

    fn with_two<R>(&mut self, a: CpuId, b: CpuId, f: impl FnOnce(&mut Rq, &mut Rq) -> R) -> R {
        // In the order of the CPUs, so that two who want the same pair do not wait for each other.
        if a < b {
            let mut first = lock(&self.0[a.index()]);
            let mut second = lock(&self.0[b.index()]);
            f(&mut first, &mut second)
        } else {
            let mut second = lock(&self.0[b.index()]);
            let mut first = lock(&self.0[a.index()]);
            f(&mut first, &mut second)
        }
    }
}

/// `hostsched` for threads.
#[derive(Debug)]
pub(super) struct Core {
    host: Host,
    queues: Box<[Mutex<Rq>]>,
    log: Option<Mutex<Vec<Step>>>,
}

impl Core {
    /// Over a host and its run queues; `record` keeps every operation.
    pub(super) fn new(host: Host, queues: Vec<Rq>, record: bool) -> Self {
        let queues = queues.into_iter().map(Mutex::new).collect();
        Self { host, queues, log: record.then(Mutex::default) }
    }

    /// What is shared and needs no lock.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Hands `input` to `hostsched` at the current time; gives that time in ns too. Effects are added to `fx`.
    pub(super) fn ask(&self, input: Input, fx: &mut Effects) -> (Output, u64) {
        let Some(log) = &self.log else {
            let now = monotonic_ns();
            return (self.perform(Nanos(now), &input, fx), now);
        };
        let mut log = lock(log);
        let now = Nanos(monotonic_ns());
        let mut own = Effects::default();
        let output = self.perform(now, &input, &mut own);
        fx.resched.extend_from_slice(&own.resched);
        fx.ipis.extend_from_slice(&own.ipis);
        log.push(Step { now, input, output, resched: own.resched, ipis: own.ipis });
        (output, now.0)
    }

    fn perform(&self, now: Nanos, input: &Input, fx: &mut Effects) -> Output {
        let queues = &mut Locked(&self.queues);
        if !tap::is_on() {
            return perform(&self.host, queues, now, input, fx, NoTrace);
        }
        if let Input::Block(cpu) | Input::Exit(cpu) = input {
            tap::leaves(self.host.current(*cpu), matches!(input, Input::Exit(_)));
        }
        perform(&self.host, queues, now, input, fx, tap::Tap)
    }

    /// True if the CPU has to `schedule`.
    pub(super) fn need_resched(&self, cpu: CpuId) -> bool {
        lock(&self.queues[cpu.index()]).need_resched()
    }

    /// Looks at one run queue.
    pub(super) fn look<R>(&self, cpu: CpuId, f: impl FnOnce(&Rq, &Host) -> R) -> R {
        f(&lock(&self.queues[cpu.index()]), &self.host)
    }

    /// Checks `hostsched`'s invariants; nothing may be under way.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let queues: Vec<Rq> = self.queues.iter().map(|queue| lock(queue).clone()).collect();
        self.host.check(&queues)
    }

    /// The recorded operations, if this run records.
    pub(super) fn log(&self) -> Option<Vec<Step>> {
        self.log.as_ref().map(|log| lock(log).clone())
    }
}
