//! A host without VMs: its tasks are the benchmarks.
//!
//! The published regressions of the host's own scheduler (CPU buddies, the last-level cache of two CPUs, `LB_BIAS`) were
//! measured with programs that talk to each other. Here such a program is a task with a list of operations, over the same
//! `hostsched` as everything else; what a decision of the scheduler costs follows from where it puts the task.
//!
//! ```text
//!   machine.toml ─► HostMachine ┐                      ┌── hostsched: who runs where
//!          Load: programs ──────┼─► World: events ─────┼── pCPU: switch, idle state, clock           cpu.rs
//!         Setup: switches ──────┘        │             ├── operations: send, receive, lock, sleep   step.rs
//!                                        │             ├── caches: refill and transfer              warmth.rs
//!                                        ▼             └── buses, memories, a shared line           bus.rs, line.rs
//!                                     Outcome
//! ```
//! **What a misplaced task pays**, and nothing else does: the exit of the idle state of the CPU that it lands on
//! (`idle.rs`), the lines that it left in another cache (`warmth.rs`), the lines of a message that another core wrote, a
//! core that it shares, a clock that has yet to rise (`clock.rs`), and the queues before buses and memories (`bus.rs`) and
//! before a line that all connections write (`line.rs`).
//!
//! Same rules as for guests: integers, one thread a run, the same machine, setup and seed give the same digest.
mod bus;
mod channel;
mod check;
mod clock;
mod cpu;
mod idle;
mod line;
mod load;
mod machine;
mod new;
mod outcome;
mod program;
mod step;
#[cfg(test)]
mod tests;
mod warmth;
mod world;

pub use clock::Governor;
pub use load::Load;
pub use machine::{HOST_COSTS, HostCosts, HostMachine};
pub use new::{Grouping, Setup, SetupError};
pub use outcome::{Outcome, run};
