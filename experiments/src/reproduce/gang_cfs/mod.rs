//! `vmmlab reproduce gang-cfs`: "Gang scheduling in CFS" (LKML 2011/12) and the paravirtual flush of the same thread.
//!
//! ```text
//!   published/gang-cfs.toml ─┐
//!   gang-cfs.toml (protocol) ├─► tables: which runs each cell needs ─► runs, all cores ─► cells ─► page or JSON
//!   machines/*.toml (costs) ─┘
//! ```
//! Only the nine numbers of `pvflush-nonple` were fitted.
mod checks;
mod committed;
mod headline;
mod missing;
mod published;
mod runs;
mod tables;

use std::collections::BTreeMap;

use plan::{EngineError, Workload};

use super::{Protocol, Reproduction, SCHEMA, broken};

pub use committed::Committed;
pub use headline::{Fit, sensitivity};

use published::Published;
use runs::{Asked, Plans};

/// Reproduces the tables of "Gang scheduling in CFS".
///
/// # Errors
/// A data file of the program that cannot be read, or a run that the simulator refuses.
pub fn gang_cfs(protocol: Protocol, seed: u64) -> Result<Reproduction, EngineError> {
    let published = Published::read()?;
    let plans = Plans::read(protocol.into(), seed)?;
    // The tables are made twice: first to learn which runs they need, then with the answers.
    let mut asked = Asked::Collecting(Vec::new());
    tables::all(&published, &mut asked);
    let Asked::Collecting(questions) = asked else { return Err(broken("the questions were answered too early")) };
    let answers: BTreeMap<_, _> = runs::answer(&plans, questions)?;
    let mut asked = Asked::Answered(answers);
    let tables = tables::all(&published, &mut asked);
    let checks = checks::all(&tables);
    let others = tables::WORKLOADS.iter().filter(|workload| **workload != Workload::Ebizzy);
    Ok(Reproduction {
        schema: SCHEMA,
        experiment: "gang-cfs",
        title: "Gang scheduling in CFS (LKML 2011/12): published, and the simulator beside it".into(),
        setup: "machines nonple and ple: 2 sockets x 4 CPUs, assumed".into(),
        seed,
        protocol: protocol.name(),
        score: checks::score(&tables, Workload::Ebizzy),
        scores: others.map(|workload| (workload.to_string(), checks::score(&tables, *workload))).collect(),
        score_counts: "Signs of the published 64-bit ebizzy gains above 10 points".into(),
        tables,
        checks,
        missing: missing::TEXT.iter().map(|text| (*text).to_owned()).collect(),
    })
}
