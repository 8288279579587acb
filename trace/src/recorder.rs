//! What an engine records with: a [`Buffer`] that also listens to `hostsched`.
//!
//! `hostsched` says that a CPU switched, not why the old task left it. So the engine announces that a task is about to
//! block or exit ([`Recorder::blocks`], [`Recorder::exits`]); every other switch is a preemption.
use hostsched::{CpuId, Nanos, Running, TaskId, Vruntime};

use crate::buffer::Buffer;
use crate::event::{Event, PrevState, What, Who};

/// Records the events of one thread.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    buffer: Buffer,
    /// Who is about to leave its CPU for another reason than preemption.
    leaving: Option<(TaskId, PrevState)>,
}

impl Recorder {
    /// Keeps the first `room` events; takes their memory now.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { buffer: Buffer::new(room), leaving: None }
    }

    /// Something happened.
    #[inline]
    pub fn record(&mut self, at_ns: u64, cpu: CpuId, what: What) {
        self.buffer.push(Event { at_ns, cpu, what });
    }

    /// The next switch from `task` is because it sleeps.
    pub fn blocks(&mut self, task: TaskId) {
        self.leaving = Some((task, PrevState::Sleeping));
    }

    /// The next switch from `task` is because it ends.
    pub fn exits(&mut self, task: TaskId) {
        self.leaving = Some((task, PrevState::Dead));
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.buffer.clear();
    }

    /// What was recorded.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl hostsched::Trace for Recorder {
    fn sched_switch(&mut self, now: Nanos, cpu: CpuId, prev: Running, next: Running, _next_vruntime: Vruntime) {
        let state = match (prev.task(), self.leaving) {
            (Some(task), Some((leaver, state))) if task == leaver => {
                self.leaving = None;
                state
            }
            (None, _) if prev == Running::Stopper => PrevState::Sleeping,
            _ => PrevState::Runnable,
        };
        self.record(now.0, cpu, What::Switch { prev: Who::from(prev), state, next: Who::from(next) });
    }

    fn sched_wakeup(&mut self, now: Nanos, task: TaskId, target: CpuId) {
        self.record(now.0, target, What::Wakeup { task });
    }

    fn sched_wakeup_new(&mut self, now: Nanos, task: TaskId, target: CpuId) {
        self.record(now.0, target, What::Wakeup { task });
    }

    fn sched_migrate_task(&mut self, now: Nanos, task: TaskId, from: CpuId, to: CpuId) {
        self.record(now.0, to, What::Migrate { task, from });
    }
}

#[cfg(test)]
mod tests {
    use hostsched::Trace;

    use super::*;

    #[test]
    fn a_switch_says_how_the_task_left() {
        let (a, b) = (Running::Task(TaskId(0)), Running::Task(TaskId(1)));
        let mut recorder = Recorder::new(9);
        let switch = |recorder: &mut Recorder, prev, next| {
            recorder.sched_switch(Nanos(1), CpuId(0), prev, next, Vruntime(0));
        };
        switch(&mut recorder, a, b);
        recorder.blocks(TaskId(1));
        switch(&mut recorder, b, a);
        recorder.exits(TaskId(0));
        switch(&mut recorder, a, Running::Idle);
        switch(&mut recorder, Running::Idle, b);
        let (events, _) = Buffer::merge([recorder.into_buffer()]);
        let states: Vec<_> = events
            .iter()
            .map(|event| match event.what {
                What::Switch { state, .. } => state.letter(),
                _ => '?',
            })
            .collect();
        assert_eq!(states, ['R', 'S', 'X', 'R']);
    }
}
