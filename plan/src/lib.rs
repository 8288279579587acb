//! What both engines are asked, and what they answer.
//!
//! ```text
//!   experiments ── RunPlan ──►  Engine (vmm: real KVM guests; sim: virtual time)
//!               ◄─ RunRecord ─
//! ```
//!
//! One *run* is one mode in one block: boot the VMs, warm up, measure, stop. A block is the unit of analysis (one boot
//! on KVM, one seed in the simulator); an experiment is a list of runs that `experiments` orders and interleaves.
//!
//! Units: every time is in nanoseconds and says so in its name (`_ns`); rates say `_per_s`. CPU numbers are the host
//! kernel's own. All types are plain data, checked once by [`RunPlan::validate`].
#![forbid(unsafe_code)]

mod cpulist;
mod engine;
mod entitled;
pub mod metric;
mod mode;
mod neighbour;
mod record;
mod run;
mod workload;

pub use cpulist::{CpuList, CpuListError};
pub use engine::{Control, Engine, EngineError};
pub use entitled::{EntitledCpus, entitled_cpus};
pub use mode::{Axes, Flush, HostPolicy, Mode, ModeError, Spin};
pub use neighbour::Neighbour;
pub use record::{Failure, HistogramSummary, NeighbourRecord, Placement, RunRecord, RunStatus, VmRecord};
pub use run::{Inject, PlanError, RunPlan, Sched, format_ns};
pub use workload::{About, Lock, PARAMS, ParamInfo, Workload, WorkloadParams};
