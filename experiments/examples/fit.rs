//! Fits what is marked `fitted` to the nine headline numbers of "Gang scheduling in CFS", and to nothing else.
//!
//! ```text
//!   cargo run --release -p vmmlab --example fit -- [EVALUATIONS] [SEED]        defaults 150 and 1
//! ```
//! Starts at the values of the machine and experiment files. Each step changes some of them at random, by at most the
//! present step width, and keeps what comes nearer; the width shrinks while nothing does. What is minimized: the worst of
//! the nine |ln(ours / published)|, then their sum of squares, weighed so low that it decides between equal worsts. Each
//! evaluation uses the same seeds for its runs, so that two of them differ by their values alone. Prints each better set, at
//! the end as lines for the files.
use std::collections::BTreeMap;

use plan::EngineError;
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use vmmlab::reproduce::Fit;

/// Steps without success until the width shrinks.
const PATIENCE: u32 = 8;

type Values = BTreeMap<String, u64>;

fn main() -> Result<(), EngineError> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().ok());
    let evaluations = arguments.next().flatten().unwrap_or(150);
    let seed = arguments.next().flatten().unwrap_or(1);
    let mut rng = Xoshiro256StarStar::seed_from_u64(seed);
    let model = Fit::new(1)?;
    let mut best = model.values();
    let mut error = look(&model, &best, 0)?;
    let (mut width, mut failed) = (0.2, 0);
    for evaluation in 1..evaluations {
        let candidate = changed(&best, width, &mut rng);
        let its = distance(&model.clone().vary(&candidate).ratios()?);
        if its < error {
            (best, failed) = (candidate, 0);
            error = look(&model, &best, evaluation)?;
        } else {
            failed += 1;
            if failed % PATIENCE == 0 {
                width = f64::max(0.8 * width, 0.03);
            }
        }
    }
    best.iter().for_each(|(id, value)| println!("{id} = {value}"));
    Ok(())
}

/// Each value is changed with even odds.
fn changed(values: &Values, width: f64, rng: &mut Xoshiro256StarStar) -> Values {
    let mut unit = || f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let mut change = |value: u64| {
        let (chosen, by) = (unit() < 0.5, 1.0 + width * (2.0 * unit() - 1.0));
        if chosen { scaled(value, by) } else { value }
    };
    values.iter().map(|(id, value)| (id.clone(), change(*value))).collect()
}

/// Rounded, and at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "costs are small"
)]
fn scaled(value: u64, by: f64) -> u64 {
    ((value as f64 * by).round() as u64).max(1)
}

fn distance(ratios: &[f64]) -> f64 {
    let logs = || ratios.iter().map(|ratio| ratio.ln());
    logs().map(f64::abs).fold(0.0, f64::max) + 0.1 * logs().map(|x| x * x).sum::<f64>()
}

fn look(model: &Fit, values: &Values, evaluation: u64) -> Result<f64, EngineError> {
    let ratios = model.clone().vary(values).ratios()?;
    let shown: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let set: Vec<String> = values.iter().map(|(id, value)| format!("{id}={value}")).collect();
    println!("{evaluation:5}  {:.4}  {}  {}", distance(&ratios), shown.join(" "), set.join(" "));
    Ok(distance(&ratios))
}
