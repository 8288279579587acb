//! Sweeps: one question asked at many points.
//!
//! ```text
//!   experiments/x.toml ─ file ─► points (every combination of the axes; each is a `vmmlab run`)
//!                                  │
//!        --shard K/N ─ shard ──────┤ blocks 0 of all points, blocks 1 of all points, ... : every N-th from the K-th
//!                                  ▼
//!   DIR/manifest.json            directory: what was asked, whole; --resume reads it
//!   DIR/experiment.toml          the file as it was
//!   DIR/points/0000-vms=2/       an ordinary run directory a point (see `store`)
//!   DIR/sweep.json               vmmlab.sweep/1: the summary of each point
//! ```
//!
//! Glossary. *Axis*: an option of `vmmlab run` with a list of values. *Point*: one value of each axis. *Block*: every mode
//! of a point once. *Share*: what one process of several runs; the shares of a sweep have every block exactly once.

mod directory;
mod file;
mod join;
mod page;
mod shard;

pub use directory::{PointEntry, SWEEP_MANIFEST_SCHEMA, Sweep, SweepManifest};
pub use file::{ExperimentFile, Overrides, Point};
pub use join::{Joined, join};
pub use page::{SWEEP_SCHEMA, SweepFile, SweepPoint, render};
pub use shard::{Shard, jobs};
