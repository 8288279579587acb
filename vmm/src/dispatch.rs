//! The lab's scheduler on real threads (`--sched lab`).
//!
//! Units: CLOCK_MONOTONIC nanoseconds; CPUs by *slot*, their position in the plan's list.
//!
//! # Problem
//! vCPUs are threads, and the kernel would schedule them. The lab wants *its* scheduler, `hostsched`, to decide, with all
//! the remedies under study, and as cheaply as a kernel would: no thread that hands out CPUs, no queue of messages.
//!
//! # Approach
//! The kernel is left no choice: of the threads that belong on a pCPU one at most is awake, and it may run there only.
//! Which one is `hostsched`'s decision. Whoever holds the CPU's *token* (`token.rs`) *is* that CPU: it runs `schedule()`
//! for itself, and if another task is picked it gives the token to that task's thread, wakes it, and parks.
//!
//! ```text
//!   thread of A (holds CPU 0)             thread of B (parked)          anyone
//!   KVM_RUN ◄───────────────────────────────────────── kick ──────────  wake(B): B queued on CPU 0,
//!     │ EINTR                                                            need_resched set
//!   before_entry: charge(CPU time)
//!   schedule(0) = B
//!   sched_out(A): marked preempted
//!   affinity(B) = 0 if B comes from elsewhere
//!   token = B; grant; unpark ────────────► sched_in(B)
//!   park                                   tick armed; KVM_RUN
//! ```
//! An idle CPU has no thread. Who has work for it claims its token, runs its `schedule()` (and its due balancing), and
//! gives the token to the thread that was picked, or back.
//!
//! # Glossary
//! - *slot*: a pCPU of this run. *Seat*: the place where a vCPU's thread waits for a CPU (`seat.rs`).
//! - *work*: bits and mailbox of a CPU that its token's holder looks at before each entry.
//! - *steal*: time during which a thread held a CPU of the lab and the host's kernel ran something else there.
//!
//! # Properties
//! - At most one thread per pCPU is in `KVM_RUN` (counted: `in_run_max`).
//! - Every decision is `hostsched`'s: a recorded run replays through it alone, same picks at same times ([`Lab::replay`]).
//! - Tasks are charged the CPU time of their thread, not wall time; the difference is `steal`.
//! - A thread that panics, whatever it holds, ends the run; nobody waits for it ([`Lab::failure`]).

mod core;
mod corun;
mod lab;
mod machine;
#[cfg(all(test, loom))]
mod model;
mod pcpu;
mod replay;
mod report;
#[cfg(all(test, shuttle))]
mod rotation;
mod seat;
mod setup;
mod stats;
mod thread;
mod token;

#[cfg(test)]
mod tests;

pub use lab::Lab;
pub use replay::{ReplayError, Replayed};
pub use report::LabStats;
pub use setup::{LabConfig, LabError};
