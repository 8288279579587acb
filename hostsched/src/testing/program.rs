//! The programs of tasks: one step after the other.
use std::cmp::Reverse;

use super::engine::{Engine, cpu_id};
use super::scenario::{Scenario, ScenarioError, Step, TaskPlan};
use crate::ids::{GroupId, TaskId};
use crate::trace::Trace;
use crate::{Birth, CpuId, TaskInfo, TaskSpec, Waker};

/// What a task that does not run waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// Runs or is queued.
    No,
    /// Sleeps for a time.
    Timer,
    /// Waits to be woken.
    Wake,
    /// Has not started, or has ended.
    Absent,
}

/// How far a task has got in its program.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Next step.
    pub(super) pc: usize,
    /// Left of the current run segment.
    pub(super) left: u64,
    /// Wake-ups that came too early.
    pub(super) credit: u64,
    pub(super) waits: Waits,
    /// What it was when it ended.
    pub(super) last: Option<Box<(CpuId, TaskInfo)>>,
}

impl<T: Trace> Engine<'_, T> {
    /// The current task of the CPU takes the next step of its program.
    pub(super) fn step(&mut self, cpu: usize, task: usize) {
        let plan = &self.scenario.tasks[task];
        let p = &mut self.progress[task];
        if p.pc >= plan.program.len() {
            p.pc = plan.loop_from;
        }
        let step = plan.program.get(p.pc).copied().unwrap_or(Step::Exit);
        p.pc += 1;
        let id = cpu_id(cpu);
        match step {
            Step::Run(ns) => {
                p.left = ns;
                self.on_cpu[cpu].since = self.now;
                self.arm(cpu);
            }
            Step::Sleep(ns) => {
                p.waits = Waits::Timer;
                self.timers.push(Reverse((self.now + ns, self.armed, task, id.0)));
                self.armed += 1;
                self.sched().block_current(id);
                self.schedule(cpu);
            }
            Step::Wait if p.credit > 0 => p.credit -= 1,
            Step::Wait => {
                p.waits = Waits::Wake;
                self.sched().block_current(id);
                self.schedule(cpu);
            }
            Step::Wake(other) => self.wake(other, Waker { cpu: id, sync: false }),
            Step::WakeSync(other) => self.wake(other, Waker { cpu: id, sync: true }),
            Step::Yield => {
                self.sched().yield_current(id);
                self.schedule(cpu);
            }
            Step::Spin => {
                if self.sched().spin_detected(id) {
                    self.schedule(cpu);
                }
            }
            Step::Exit => {
                self.sched().sync(id);
                let last = self.task(task).map(|(cpu, t)| (cpu, TaskInfo { on_rq: false, running: false, ..t }));
                let p = &mut self.progress[task];
                p.waits = Waits::Absent;
                p.last = last.map(Box::new);
                self.sched().exit_current(id);
                self.schedule(cpu);
            }
        }
    }

    fn wake(&mut self, other: usize, waker: Waker) {
        let p = &mut self.progress[other];
        if p.waits == Waits::Wake {
            p.waits = Waits::No;
            self.sched().wake(TaskId::from_index(other), waker);
        } else {
            p.credit += 1;
        }
    }
}

/// The task as the scheduler gets it. Task numbers are indices.
pub(super) fn spec(task: usize, plan: &TaskPlan) -> TaskSpec {
    let birth = match (plan.start_ns, plan.start_cpu) {
        (0, Some(_)) => Birth::Boot,
        (0, None) => Birth::BootBalanced,
        (_, Some(_)) => Birth::Fork,
        (_, None) => Birth::ForkBalanced,
    };
    TaskSpec {
        id: Some(TaskId::from_index(task)),
        group: plan.group.map_or(GroupId::ROOT, |g| GroupId::from_index(g + 1)),
        vm: plan.vm,
        nice: plan.nice,
        policy: plan.policy,
        affinity: plan.affinity.clone(),
        cpu: CpuId(plan.start_cpu.unwrap_or(0)),
        birth,
        ..TaskSpec::default()
    }
}

/// Refuses programs and groups that name what is not there.
pub(super) fn check_references(scenario: &Scenario) -> Result<(), ScenarioError> {
    let (tasks, groups) = (scenario.tasks.len(), scenario.groups.len());
    for (task, plan) in scenario.tasks.iter().enumerate() {
        if let Some(group) = plan.group.filter(|g| *g >= groups) {
            return Err(ScenarioError::Missing { task, what: "group", index: group, count: groups });
        }
        for step in &plan.program {
            if let Step::Wake(other) | Step::WakeSync(other) = *step
                && other >= tasks
            {
                return Err(ScenarioError::Missing { task, what: "task", index: other, count: tasks });
            }
        }
    }
    Ok(())
}
