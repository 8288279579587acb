//! The simulator: a deterministic host in virtual nanoseconds.
//!
//! The same `hostsched` that schedules real vCPU threads in `vmm` schedules modelled ones here; the plan and the record
//! are the same too. One thread a run, integers only, no clock, no hashing: the same machine, plan and seed give the same
//! events on every computer, and the run's digest says so.
//!
//! ```text
//!   machine.toml ─► Machine ┐                       ┌── hostsched: who runs where
//!        RunPlan ───────────┼─► World: events ──────┼── pCPU: host, guest or idle; what each thing costs
//!        Options ───────────┘      │                ├── guest: threads, mmap_sem, TLB shootdown, halt
//!                                  ▼                └── workload: one small program a thread
//!                              RunRecord
//! ```
//! **Mechanism first.** A cost belongs to a machine, never to a mode: what makes one mode faster than another is what it
//! does, not what it is charged. [`machine`] says where each number comes from.
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic, clippy::iter_over_hash_type, clippy::disallowed_types)]

mod alarms;
mod cache;
mod check;
mod fault;
mod ids;
mod log;
pub mod machine;
pub mod observe;
mod record;
mod rng;
mod run;
mod setup;
mod spin;
mod stats;
pub mod swarm;
pub mod tasks;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_workload;
mod timers;
mod traced;
mod vcpu;
mod workload;
mod world;

pub use fault::{Fault, FaultKind};
pub use log::{EventLog, LEGEND};
pub use machine::{Machine, MachineError};
pub use run::Sim;
pub use setup::Options;
