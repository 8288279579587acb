//! `vmmlab compare`: two modes, two versions or two hosts, and what may be said about them.
//!
//! ```text
//!   result.json ─► ResultFile ─► gate      are they alike enough?            (else exit code 3)
//!                                 │
//!                                pair      which mode against which, block by block
//!                                 │
//!                                judge     every metric: estimate, interval, p; Holm and BH; verdicts
//!                                 ▼
//!                             Comparison   vmmlab.compare/1 ─► table, lkml, markdown, csv, html (crate::table, report)
//! ```
//! Pure: files are read by [`crate::cli`], and nothing is printed here.

mod data;

pub use data::*;
