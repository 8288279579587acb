//! The nine headline numbers: what the fit looks at, and what the sensitivity page varies.
//!
//! ```text
//!            base     gang V2    pv_flush (halt-kick as posted)
//!   2 VMs     x          x          x         records/s, mean per VM, staggered, machine nonple
//!   4 VMs     x          x          x
//!   8 VMs     x          x          x
//! ```
use std::collections::BTreeMap;

use plan::{EngineError, Mode};

use super::published::Published;
use super::runs::{self, Effort, Plans, Question};
use crate::reproduce::{Cell, Protocol, Reproduction, SCHEMA, Score, Table, broken};

const VMS: [u32; 3] = [2, 4, 8];
const COLUMNS: [(&str, Mode, bool); 3] =
    [("base", Mode::Base, false), ("gang", Mode::Gang, false), ("pv_flush", Mode::HaltKick, true)];

/// The model with some values, and how near it comes to the nine numbers.
#[derive(Debug, Clone)]
pub struct Fit {
    plans: Plans,
    published: Vec<f64>,
}

impl Fit {
    /// The model as it stands, with runs of the fit's length.
    ///
    /// # Errors
    /// A data file of the program that cannot be read.
    pub fn new(seed: u64) -> Result<Self, EngineError> {
        Self::with(Effort::Fit, seed)
    }

    pub(super) fn with(effort: Effort, seed: u64) -> Result<Self, EngineError> {
        let lines = Published::read()?.rates.ebizzy;
        let published = (1..=COLUMNS.len()).flat_map(|column| lines.iter().map(move |line| line[column])).collect();
        Ok(Self { plans: Plans::read(effort, seed)?, published })
    }

    /// What may be varied, and its present value.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, u64> {
        self.plans.fitted()
    }

    /// The model with other values.
    #[must_use]
    pub fn vary(mut self, values: &BTreeMap<String, u64>) -> Self {
        values.iter().for_each(|(id, value)| self.plans.vary(id, *value));
        self
    }

    /// The nine numbers in records/s: base at 2, 4 and 8 VMs, then gang, then pv_flush.
    ///
    /// # Errors
    /// A run that the simulator refuses.
    pub fn rates(&self) -> Result<Vec<f64>, EngineError> {
        let questions: Vec<Question> = COLUMNS
            .iter()
            .flat_map(|(_, mode, halt_once)| {
                VMS.map(|vms| Question { halt_once: *halt_once, ..Question::of("nonple", mode.axes(), vms) })
            })
            .collect();
        let answers = runs::answer(&self.plans, questions.clone())?;
        let rate = |q: &Question| answers.get(&q.key()).map(|answer| answer.rate);
        questions.iter().map(|q| rate(q).ok_or_else(|| broken("a headline number has no run"))).collect()
    }

    /// The same over what was published.
    ///
    /// # Errors
    /// As [`Self::rates`].
    pub fn ratios(&self) -> Result<Vec<f64>, EngineError> {
        Ok(self.rates()?.iter().zip(&self.published).map(|(ours, published)| ours / published).collect())
    }
}

/// What each fitted value is worth: halved and doubled, and the change of the nine numbers in per cent.
///
/// # Errors
/// As [`super::gang_cfs`].
pub fn sensitivity(protocol: Protocol, seed: u64) -> Result<Reproduction, EngineError> {
    let effort = if protocol == Protocol::Quick { Effort::Quick } else { Effort::Fit };
    let fit = Fit::with(effort, seed)?;
    let before = fit.rates()?;
    let columns: Vec<String> =
        COLUMNS.iter().flat_map(|(name, ..)| VMS.map(|vms| format!("{name}, {vms} VMs"))).collect();
    let mut cells = Vec::new();
    for (id, value) in fit.values() {
        for (how, other) in [("halved", value / 2), ("doubled", 2 * value)] {
            let after = fit.clone().vary(&BTreeMap::from([(id.clone(), other)])).rates()?;
            let row = format!("{id} {how}: {other}");
            for ((column, before), after) in columns.iter().zip(&before).zip(after) {
                let change = 100.0 * (after / before - 1.0);
                cells.push(Cell {
                    row: row.clone(),
                    column: column.clone(),
                    published: None,
                    ours: Some(change),
                    ratio: None,
                });
            }
        }
    }
    let values: Vec<String> = fit.values().iter().map(|(id, value)| format!("{id} {value}")).collect();
    let notes =
        ["Change of the nine headline numbers in per cent, seeds equal. base moves by up to 10 % with the seed alone."];
    Ok(Reproduction {
        schema: SCHEMA,
        experiment: "gang-cfs --sensitivity",
        title: "Gang scheduling in CFS: what the fitted numbers rest on".into(),
        setup: format!("runs as long as those of the fit; machine nonple; fitted: {}", values.join(", ")),
        seed,
        protocol: protocol.name(),
        tables: vec![Table::new("sensitivity", "each fitted value halved and doubled, one at a time", &notes, cells)],
        checks: Vec::new(),
        score: Score::default(),
        scores: BTreeMap::new(),
        score_counts: String::new(),
        missing: Vec::new(),
    })
}
