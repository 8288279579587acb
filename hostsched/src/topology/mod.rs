//! The host's CPUs as the scheduler sees them: sets, the machine, scheduling domains.
//!
//! **Units.** CPUs and nodes by number; distances as in the ACPI SLIT (10 = local); power in 1/1024 of a CPU that is
//! alone on its core; intervals in ms.
//!
//! **Problem.** The scheduler asks all day which CPUs share a core, a cache, a node with this one, and in which order to
//! look at them. The answers must be those of Linux 3.4, or no schedule of ours can be compared with a real one.
//!
//! **Approach.** A [`Machine`] says what shares what; [`build_sched_domains`] turns it and the online CPUs into
//! [`SchedDomains`], which never change: CPU hotplug builds new ones.
//!
//! ```text
//!   2 packages x 2 cores x 2 threads ("2s:2c:2t")
//!
//!   package      |           0           |           1           |
//!   LLC          |           0           |           1           |
//!   core         |     0     |     1     |     2     |     3     |
//!   CPU          |  0  |  1  |  2  |  3  |  4  |  5  |  6  |  7  |
//!
//!   domains of CPU 2:                                               groups
//!   SIBLING                  [  2     3  ]                          2 | 3
//!   MC           [  0     1     2     3  ]                          2-3 | 0-1
//!   CPU (PKG)    [  0     1     2     3     4     5     6     7  ]  0-3 | 4-7
//!   NODE         only with several NUMA nodes
//! ```
//!
//! **Glossary.** *span*: the CPUs of a domain; *group*: a part of a span between which load is balanced, the span of a
//! child domain or one CPU; *ring*: the groups in the order in which the kernel walks them, own group first; *LLC*:
//! last-level cache; *degenerate*: a domain that decides nothing and is dropped; *buddy*: see [`SchedDomain::idle_buddy`].
//!
//! **Properties** (tests at the end): domains of a CPU are nested and hold it; groups of a domain cover it, and are
//! disjoint outside NUMA levels; all CPUs of a span see the same ring, each from its own group; powers add up; a buddy
//! lies in the domain; printing a machine and reading it back gives the same machine; a rebuild without a CPU never
//! mentions it.
//!
//! | file | idea |
//! |---|---|
//! | `cpuset.rs` | a set of CPUs |
//! | `machine.rs` | what shares what |
//! | `text.rs`, `regular.rs`, `presets.rs` | machines as text (long and short form), machines by name |
//! | `level.rs` | levels, flags, numbers |
//! | `build.rs`, `check.rs` | `build_sched_domains`, and what a kernel would refuse |
//! | `domain.rs`, `buddy.rs` | what the scheduler reads |

mod buddy;
mod build;
mod check;
mod cpuset;
mod domain;
mod level;
mod machine;
mod presets;
mod regular;
mod text;

#[cfg(test)]
mod tests;

pub use build::{BuildOptions, NumaLevels, build_sched_domains};
pub use check::{Broken, BrokenTopology};
pub use cpuset::{Bits, CPUS_MAX, CpuId, CpuSet};
pub use domain::{SCHED_POWER_SCALE, SchedDomain, SchedDomains, SchedGroup, SgpId};
pub use level::{Level, SdFlags, SdParams};
pub use machine::{Cpu, LOCAL_DISTANCE, Machine, MachineError, NODES_MAX, Node, REMOTE_DISTANCE, uniform_distances};
pub use presets::{PRESETS, Preset, preset};
pub use text::TextError;
