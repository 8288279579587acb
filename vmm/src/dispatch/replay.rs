//! Does the dispatcher really do what `hostsched` says? A recorded run is played back through `hostsched` alone.
//!
//! The replay makes the same scheduler anew and gives it the recorded inputs at the recorded times. If every pick and
//! every effect comes out the same, then nothing but `hostsched` decided in the live run.

use hostsched::{Effects, Host, NoTrace, Rq};

use super::core::{Input, Output, Step, perform};
use super::lab::Lab;
use super::setup::{LabError, Prepared};

/// A replay that went as the live run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Operations.
    pub steps: u64,
    /// Those that picked a task.
    pub picks: u64,
    /// Those that woke one.
    pub wakes: u64,
}

/// Why there is no equal replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// [`LabConfig::record`](super::LabConfig::record) was not set.
    #[error("The run was not recorded: set `record` in its configuration")]
    NotRecorded,
    /// The scheduler could not be made again.
    #[error(transparent)]
    Setup(#[from] LabError),
    /// The first step that came out differently.
    #[error("Step {number} differs: live {live}, replayed {replayed}")]
    Differs {
        /// Its number, from 0.
        number: usize,
        /// What the live run saw.
        live: String,
        /// What the replay saw.
        replayed: String,
    },
}

impl Lab {
    /// Plays the recorded run back. Meant for tests, after the run.
    ///
    /// # Errors
    /// If it was not recorded, or the first step that differs.
    pub fn replay(&self) -> Result<Replayed, ReplayError> {
        let log = self.core.log().ok_or(ReplayError::NotRecorded)?;
        self.replay_log(&log)
    }

    pub(super) fn replay_log(&self, log: &[Step]) -> Result<Replayed, ReplayError> {
        let Prepared { host, queues, .. } = self.config.prepare(self.core.host().config().epoch.0)?;
        replay(&host, queues, log)?;
        let count = |wanted: fn(&Step) -> bool| log.iter().filter(|step| wanted(step)).map(|_| 1).sum();
        Ok(Replayed {
            steps: count(|_| true),
            picks: count(|step| matches!(step.output, Output::Next(_))),
            wakes: count(|step| matches!(step.input, Input::Wake(..))),
        })
    }
}

/// Plays `log` back on a fresh host with its queues.
fn replay(host: &Host, mut queues: Vec<Rq>, log: &[Step]) -> Result<(), ReplayError> {
    let mut fx = Effects::default();
    for (number, live) in log.iter().enumerate() {
        fx.clear();
        let output = perform(host, &mut queues, live.now, &live.input, &mut fx, NoTrace);
        let (resched, ipis) = (fx.resched.clone(), fx.ipis.clone());
        let replayed = Step { now: live.now, input: live.input.clone(), output, resched, ipis };
        if replayed != *live {
            return Err(ReplayError::Differs { number, live: format!("{live:?}"), replayed: format!("{replayed:?}") });
        }
    }
    Ok(())
}
