//! A small deterministic engine for tests, examples and benchmarks: the event loop of the golden schedules.
//!
//! Scenarios and conventions are those of the golden data's FORMAT.md: tasks run little programs, everything but running
//! and sleeping takes 0 ns, every CPU ticks whether idle or not. One event at a time, the earliest first; at the same
//! instant: task starts, ends of run segments (lowest CPU first), timers (in the order in which they were set), ticks
//! (lowest CPU first).
//!
//! After each event the CPU where it happened settles first, then IPIs are delivered, then every CPU that must
//! reschedule settles, lowest first, until all is quiet. *Settling* is: `schedule` if need be, then the steps of the
//! current task's program until it has time to run.
//!
//! | file | idea |
//! |---|---|
//! | `scenario.rs` | what to run |
//! | `engine.rs` | the event loop |
//! | `program.rs` | the steps of tasks |
//! | `ticks.rs` | when CPUs tick |
//! | `queue.rs` | the earliest of many events |
//! | `outcome.rs` | what came out, and the trace sink that collects it |
mod engine;
mod outcome;
mod program;
mod queue;
mod scenario;
mod ticks;

pub use engine::{Engine, RunError};
pub use outcome::{CpuOutcome, Migration, Outcome, Recorder, SwitchIn, TaskOutcome, run};
pub use scenario::{GroupSpec, Scenario, ScenarioError, Step, TaskPlan};
