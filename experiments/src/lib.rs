//! vmmlab: when several SMP virtual machines share fewer CPUs than they have vCPUs, which remedy makes them fast, at
//! what cost, and why?
//!
//! ```text
//!   command line ─ cli ──► experiment ──► driver ──► Engine (vmm: KVM; sim: virtual time)
//!                          modes, blocks,   │
//!                          order, seeds     ├──► store    run directory, after each block
//!                                           └──► result   vmmlab.result/1 ──► stats ──► table
//! ```
//!
//! This library is what the binary `vmmlab` is made of, apart from its `main`; the tests drive it with an engine of
//! their own.
#![forbid(unsafe_code)]

pub mod cli;
pub mod compare;
pub mod driver;
pub mod exit;
pub mod experiment;
pub mod format;
pub mod host;
pub mod interrupt;
pub mod recording;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod row;
pub mod schema;
pub mod simulator;
pub mod soak;
pub mod store;
pub mod sweep;
pub mod table;
pub mod topology;
pub mod traced;
pub mod units;
