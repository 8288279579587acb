//! The host's scheduler: Linux 3.4's CFS as a pure library.
//!
//! It never sees a clock, a thread or a device. It is told what happened at which instant and answers with decisions;
//! an *engine* (real vCPU threads, or a simulator) carries them out. No unsafe, no I/O, no floats, no hashing, and no
//! allocation once the tables have grown.
//!
//! ```text
//!   engine ── at(now).tick(cpu), wake(task), block_current(cpu), schedule(cpu) ... ──►  Sched
//!          ◄── Switch {prev, next}, Effects {resched: [cpu], ipis: [(cpu, ipi)]} ──       │ one Rq a CPU, by RunQueues
//!                                                                                        └ Host: shared, atomics only
//! ```
//! **Units.** Nanoseconds of one clock common to all CPUs; weights (1024 = nice 0); see [`ids`].
//!
//! **Glossary.** *Entity*: a task, or a group on one CPU. *vruntime*: its runtime over its weight. *Slice*: its part of
//! the period in which every entity runs once. *Buddy*: a hint to run one entity out of turn. *Engine contract*: after each
//! operation look at [`Effects`]: a CPU in `resched` must call [`Sched::schedule`] soon (interrupt what it runs), an IPI
//! must be delivered by [`Sched::ipi_received`]; CPUs tick every [`Config::tick`].
//!
//! **Properties.** Runtime + idle + stolen time = elapsed time, to the nanosecond; `min_vruntime` never falls; every task is
//! in one queue; the same inputs give the same decisions. [`Checker`] verifies them from outside; `tests/golden.rs` proves
//! fifty schedules of real 3.4 code, bit for bit.
//!
//! | file | what of the kernel |
//! |---|---|
//! | `host.rs`, `rq.rs`, `slab.rs`, `sched.rs` | `struct rq` and what is shared; how operations get at it |
//! | `fair.rs`, `pick.rs`, `buddies.rs`, `shares.rs` | CFS on one queue: charging, picking, hints, group weights |
//! | `cfs_rq.rs`, `timeline.rs`, `entity.rs`, `weight.rs` | its data and arithmetic |
//! | `load_avg/` | load tracking per entity (3.8), off by default |
//! | `schedule.rs`, `wake.rs`, `placement.rs`, `stopper.rs`, `yields.rs` | `__schedule`, the tick, `try_to_wake_up`, `select_task_rq_fair` |
//! | `balance/` | `load_balance`, `idle_balance`, active balance, hotplug |
//! | `task.rs`, `group.rs` | fork, exit, affinity, nice; cgroups |
//! | `topology/`, `policy/` | sched domains; remedies |
//! | `testing/`, `check.rs` | the golden event loop; invariants |
//!
//! # Two tasks share a CPU
//! ```
//! use hostsched::topology::{BuildOptions, Machine};
//! use hostsched::{Birth, Config, CpuId, Effects, Host, Limits, Nanos, TaskSpec, Waker};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let machine: Machine = "1s:2c".parse()?;
//! let start = Nanos(1_000_000_000);
//! let config = Config { epoch: start, ..Config::for_cpus(2) };
//! let host = Host::new(config, machine, BuildOptions::default(), Limits { tasks: 2, groups: 1 })?;
//! let (mut rqs, mut fx) = (host.run_queues(), Effects::default());
//! let cpu = CpuId(0);
//!
//! let task = TaskSpec { cpu, birth: Birth::Boot, ..TaskSpec::default() };
//! let a = host.at(start, &mut rqs, &mut fx).task_add(&task)?;
//! let b = host.at(start, &mut rqs, &mut fx).task_add(&task)?;
//! assert_eq!(fx.resched, [cpu]);
//! assert_eq!(host.at(start, &mut rqs, &mut fx).schedule(cpu).next, Some(a));
//!
//! // One tick after a's slice of 6 ms (two nice-0 tasks, latency 12 ms at 2 CPUs) it is b's turn.
//! let mut now = start;
//! while !rqs[0].need_resched() {
//!     now += host.config().tick;
//!     host.at(now, &mut rqs, &mut fx).tick(cpu);
//! }
//! assert_eq!(now, start + Nanos(7_000_000));
//! assert_eq!(host.at(now, &mut rqs, &mut fx).schedule(cpu).next, Some(b));
//!
//! // b blocks, a runs; an interrupt wakes b.
//! let mut at = host.at(now, &mut rqs, &mut fx);
//! at.block_current(cpu);
//! assert_eq!(at.schedule(cpu).next, Some(a));
//! assert!(at.wake(b, Waker::on(cpu)).is_some());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic, clippy::iter_over_hash_type, clippy::disallowed_types)]

mod balance;
mod buddies;
mod cfs_rq;
mod check;
pub mod config;
mod effects;
mod entity;
mod fair;
mod group;
mod host;
pub mod ids;
mod load_avg;
mod pick;
mod placement;
pub mod policy;
mod rq;
mod sched;
mod schedule;
mod shares;
mod slab;
mod stopper;
mod task;
pub mod testing;
mod timeline;
pub mod topology;
mod trace;
mod wake;
pub mod weight;
mod yields;

pub use balance::{CpuIdle, DomainStats, HotplugError};
pub use check::{Checker, Violation};
pub use config::{Config, Features, SettingError, Switches, Sysctls};
pub use effects::{Effects, Ipi};
pub use entity::{SchedPolicy, TaskState, TaskStats};
pub use fair::sched_period;
pub use group::GroupError;
pub use host::{Host, HostError, Limits};
pub use ids::{GroupId, Nanos, TaskId, VmId, Vruntime};
pub use policy::Policy;
pub use rq::{Rq, RqStats, RunQueues, TaskInfo};
pub use sched::Sched;
pub use schedule::Switch;
pub use task::{Birth, TaskError, TaskSpec};
pub use topology::{CpuId, CpuSet};
pub use trace::{NoTrace, Running, Trace};
pub use wake::Waker;
pub use weight::{Nice, NiceError};
