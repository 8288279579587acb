//! What came out of a run, as in the golden data.
use super::engine::{Engine, RunError};
use super::scenario::{EPOCH, Scenario};
use crate::ids::{GroupId, Nanos, TaskId, Vruntime};
use crate::trace::{Running, Trace};
use crate::{CpuId, TaskState};

/// One line of the switch log: who got the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchIn {
    /// When, since the start.
    pub at_ns: u64,
    /// Where.
    pub cpu: u32,
    /// Who: a task's index, -1 idle, -2 the stopper.
    pub next: i64,
    /// The vruntime of a task.
    pub vruntime: Vruntime,
}

/// One line of the migration log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// When, since the start.
    pub at_ns: u64,
    /// Who.
    pub task: usize,
    /// From where.
    pub from: u32,
    /// To where.
    pub to: u32,
}

/// A CPU at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuOutcome {
    /// Time idle.
    pub idle_ns: u64,
    /// Context switches.
    pub switches: u64,
    /// Virtual clock of the root queue.
    pub min_vruntime: Vruntime,
}

/// A task at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskOutcome {
    /// Time that it ran.
    pub exec_ns: u64,
    /// Times it was switched to.
    pub switches_in: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// From wake-up to the first switch to it, summed.
    pub wakeup_latency_sum_ns: u64,
    /// The longest of these.
    pub wakeup_latency_max_ns: u64,
    /// Time runnable and not running.
    pub wait_sum_ns: u64,
    /// Virtual runtime.
    pub vruntime: Vruntime,
    /// Where it is.
    pub final_cpu: u32,
    /// Running or queued.
    pub on_rq: bool,
    /// Running.
    pub running: bool,
}

/// The result of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// By CPU.
    pub cpus: Vec<CpuOutcome>,
    /// By task.
    pub tasks: Vec<TaskOutcome>,
    /// Every switch, in order.
    pub switches: Vec<SwitchIn>,
    /// Every migration, in order.
    pub migrations: Vec<Migration>,
}

/// A trace sink that keeps the switch and migration logs and measures wake-up latencies.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    switches: Vec<SwitchIn>,
    migrations: Vec<Migration>,
    /// By task: when it was woken and not yet switched to; sum and maximum of the latencies.
    woken: Vec<(Option<Nanos>, u64, u64)>,
}

impl Recorder {
    fn woken(&mut self, task: TaskId) -> &mut (Option<Nanos>, u64, u64) {
        if self.woken.len() <= task.index() {
            self.woken.resize(task.index() + 1, (None, 0, 0));
        }
        &mut self.woken[task.index()]
    }
}

impl Trace for Recorder {
    fn sched_switch(&mut self, now: Nanos, cpu: CpuId, _prev: Running, next: Running, vruntime: Vruntime) {
        let at_ns = (now - EPOCH).0;
        let who = match next {
            Running::Idle => -1,
            Running::Stopper => -2,
            Running::Task(t) => i64::from(t.0),
        };
        self.switches.push(SwitchIn { at_ns, cpu: cpu.0, next: who, vruntime });
        if let Running::Task(t) = next {
            let (woken, sum, max) = self.woken(t);
            if let Some(since) = woken.take() {
                let latency = (now - since).0;
                *sum += latency;
                *max = (*max).max(latency);
            }
        }
    }

    fn sched_wakeup(&mut self, now: Nanos, task: TaskId, _target: CpuId) {
        self.woken(task).0 = Some(now);
    }

    fn sched_migrate_task(&mut self, now: Nanos, task: TaskId, from: CpuId, to: CpuId) {
        let at_ns = (now - EPOCH).0;
        self.migrations.push(Migration { at_ns, task: task.index(), from: from.0, to: to.0 });
    }
}

/// Runs a scenario to its end and collects everything.
///
/// # Errors
/// A scenario that makes no sense, or a program that takes no time.
pub fn run(scenario: &Scenario) -> Result<Outcome, RunError> {
    let mut engine = Engine::new(scenario, scenario.host()?, Recorder::default())?;
    engine.run_until(scenario.duration_ns)?;
    Ok(engine.outcome())
}

impl Engine<'_, Recorder> {
    /// What has come out so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let cpu = |rq: &crate::Rq| CpuOutcome {
            idle_ns: rq.stats().idle.0,
            switches: rq.stats().nr_switches,
            min_vruntime: rq.min_vruntime(GroupId::ROOT),
        };
        let task = |i: usize| {
            let (_, sum, max) = self.trace().woken.get(i).copied().unwrap_or_default();
            self.task(i).map_or(TaskOutcome::default(), |(cpu, t)| TaskOutcome {
                exec_ns: t.sum_exec_runtime.0,
                switches_in: t.stats.switches_in,
                migrations: t.stats.nr_migrations,
                wakeups: t.stats.nr_wakeups,
                wakeup_latency_sum_ns: sum,
                wakeup_latency_max_ns: max,
                wait_sum_ns: t.stats.wait_sum.0,
                vruntime: t.vruntime,
                final_cpu: cpu.0,
                on_rq: t.on_rq && t.state == TaskState::Running,
                running: t.running,
            })
        };
        Outcome {
            cpus: self.rqs().iter().map(cpu).collect(),
            tasks: (0..self.task_count()).map(task).collect(),
            switches: self.trace().switches.clone(),
            migrations: self.trace().migrations.clone(),
        }
    }
}
