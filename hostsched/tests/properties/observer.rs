//! Keeps its own books from the trace alone: who ran where, for how long.
use hostsched::{CpuId, Nanos, Running, TaskId, Trace, Vruntime};

/// The books.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    cpus: Vec<(Running, Nanos)>,
    /// Time on a CPU, by task.
    pub(crate) ran_ns: Vec<u64>,
    /// Time charged by `sched_stat_runtime`, by task.
    pub(crate) charged_ns: Vec<u64>,
    pub(crate) idle_ns: Vec<u64>,
    on: Vec<Option<CpuId>>,
    last: Nanos,
    /// What cannot be.
    pub(crate) wrong: Vec<String>,
    /// Every switch: when, where, to whom.
    pub(crate) switches: Vec<(Nanos, CpuId, Running)>,
}

impl Observer {
    pub(crate) fn new(start: Nanos, cpus: usize, tasks: usize) -> Self {
        Self {
            cpus: vec![(Running::Idle, start); cpus],
            ran_ns: vec![0; tasks],
            charged_ns: vec![0; tasks],
            idle_ns: vec![0; cpus],
            on: vec![None; tasks],
            last: start,
            wrong: Vec::new(),
            switches: Vec::new(),
        }
    }

    /// Closes the books of all CPUs up to `now`.
    pub(crate) fn close(&mut self, now: Nanos) {
        for cpu in 0..self.cpus.len() {
            self.account(cpu, now);
        }
    }

    fn account(&mut self, cpu: usize, now: Nanos) {
        let (running, since) = &mut self.cpus[cpu];
        let ns = (now - *since).0;
        match running {
            Running::Idle => self.idle_ns[cpu] += ns,
            Running::Stopper if ns > 0 => self.wrong.push(format!("the stopper of CPU {cpu} took {ns} ns")),
            Running::Stopper => {}
            Running::Task(t) => self.ran_ns[t.index()] += ns,
        }
        *since = now;
    }

    fn time(&mut self, now: Nanos) {
        if now < self.last {
            self.wrong.push(format!("time went back from {} to {now}", self.last));
        }
        self.last = now;
    }
}

impl Trace for Observer {
    fn sched_switch(&mut self, now: Nanos, cpu: CpuId, prev: Running, next: Running, _next_vruntime: Vruntime) {
        self.time(now);
        let had = self.cpus[cpu.index()].0;
        if had != prev {
            self.wrong.push(format!("CPU {cpu} switched from {prev:?} and was running {had:?}"));
        }
        self.account(cpu.index(), now);
        if let Running::Task(t) = prev {
            self.on[t.index()] = None;
        }
        if let Running::Task(t) = next
            && let Some(other) = self.on[t.index()].replace(cpu)
        {
            self.wrong.push(format!("task {t} runs on CPU {other} and CPU {cpu}"));
        }
        self.cpus[cpu.index()].0 = next;
        self.switches.push((now, cpu, next));
    }

    fn sched_migrate_task(&mut self, now: Nanos, task: TaskId, from: CpuId, to: CpuId) {
        self.time(now);
        if self.on[task.index()].is_some() || from == to {
            self.wrong.push(format!("task {task} moved from CPU {from} to CPU {to} while it ran"));
        }
    }

    fn sched_stat_runtime(&mut self, now: Nanos, task: TaskId, runtime: Nanos, _vruntime: Vruntime) {
        self.time(now);
        self.charged_ns[task.index()] += runtime.0;
    }
}
