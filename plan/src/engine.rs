//! The one interface that experiments see of an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{RunPlan, RunRecord};

/// Runs plans. Implemented by `vmm` (real guests, real time) and `sim` (modelled guests, virtual time).
pub trait Engine {
    /// The name that results carry: `kvm` or `sim`.
    fn name(&self) -> &'static str;

    /// Runs one plan to its end and leaves nothing behind on the host, whatever the outcome.
    ///
    /// A run whose own checks failed (stale read, lost kick, guest crash, watchdog) is an `Ok` record with
    /// [`RunStatus::Failed`](crate::RunStatus::Failed) and its reasons: the partial measurements are worth keeping.
    ///
    /// # Errors
    /// When the run could not be started or the engine itself broke.
    fn run(&self, plan: &RunPlan, control: &Control) -> Result<RunRecord, EngineError>;

    /// As [`Engine::run`], and records the scheduling events of the measured time. An engine that cannot answers with an
    /// empty trace.
    ///
    /// # Errors
    /// Those of [`Engine::run`].
    fn run_traced(
        &self,
        plan: &RunPlan,
        control: &Control,
        limits: trace::Limits,
    ) -> Result<(RunRecord, trace::Trace), EngineError> {
        let _ = limits;
        Ok((self.run(plan, control)?, trace::Trace::default()))
    }
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn run(&self, plan: &RunPlan, control: &Control) -> Result<RunRecord, EngineError> {
        (**self).run(plan, control)
    }

    fn run_traced(
        &self,
        plan: &RunPlan,
        control: &Control,
        limits: trace::Limits,
    ) -> Result<(RunRecord, trace::Trace), EngineError> {
        (**self).run_traced(plan, control, limits)
    }
}

/// How the caller stops a run from outside; clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Control {
    abort: Arc<AtomicBool>,
}

impl Control {
    /// Asks the run to end as soon as it can; its record is marked partial.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }

    /// True once [`Control::abort`] was called.
    #[must_use]
    pub fn aborted(&self) -> bool {
        self.abort.load(Ordering::Acquire)
    }
}

/// Why an engine gave no record.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// This host cannot run it; exit code 4.
    #[error("{0}")]
    Unsupported(String),
    /// The plan asks for what this host has not; exit code 2.
    #[error("{0}")]
    BadPlan(String),
    /// The engine broke; exit code 70.
    #[error("{what}")]
    Internal {
        /// What was being done.
        what: String,
        /// What went wrong below.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}
