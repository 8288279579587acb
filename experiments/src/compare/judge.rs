//! Every metric of every pair: first all tests, then the corrections over all of them, then the verdicts.

use std::collections::BTreeSet;

use plan::RunRecord;
use plan::metric::{Direction, Family, METRICS, Metric, Scale};
use stats::{Better, Interval, Margin, Test, Tests};

use super::pairing::Matched;
use super::{Change, ChangeUnit, Row, Rules, Values, Verdict};
use crate::experiment::Metrics;

/// Counters of the simulator that identify a run and measure nothing.
const NO_METRICS: [&str; 2] = ["sim_digest", "sim_events"];

/// Every metric that the runs of these pairs may have: the defined ones, and other counters by their rates; families and
/// margins as the experiment declares them.
pub(super) fn metrics(pairs: &[Matched<'_>], declared: &Metrics) -> Vec<Metric> {
    let runs = || pairs.iter().flat_map(|pair| pair.old_runs.iter().chain(&pair.new_runs));
    let counters: BTreeSet<&str> = runs().flat_map(|run| run.counters.keys().map(String::as_str)).collect();
    let known =
        |name: &str| NO_METRICS.contains(&name) || METRICS.iter().any(|metric| metric.source.counter() == Some(name));
    let others = counters.into_iter().filter(|name| !known(name)).map(Metric::of_counter);
    METRICS.iter().cloned().chain(others).map(|metric| declare(metric, declared)).collect()
}

/// The metrics that decide, as the experiment declares them.
pub(super) fn primary(declared: &Metrics) -> Vec<Metric> {
    METRICS.iter().cloned().map(|m| declare(m, declared)).filter(|m| m.family == Family::Primary).collect()
}

fn declare(mut metric: Metric, declared: &Metrics) -> Metric {
    if !declared.primary.is_empty() {
        let decides = declared.primary.iter().any(|id| *id == metric.id);
        metric.family = match metric.family {
            _ if decides => Family::Primary,
            Family::Primary => Family::Cost,
            other => other,
        };
    }
    if let (Some(margin), false) =
        (declared.margins.get(&*metric.id).copied().or(declared.margin_percent), metric.exact)
    {
        metric.margin = margin.clamp(0.0, 1e6);
    }
    metric
}

/// A row whose verdict waits for the corrections.
struct Open {
    row: Row,
    direction: Direction,
    tested: Option<Tested>,
}

/// A test in its scale.
struct Tested {
    test: Test,
    margin: Margin,
    /// False if no value differs: nothing that a correction need be made for.
    counts: bool,
}

/// The rows of all pairs, in the order of the page, and the rules that were applied.
pub(super) fn judge(pairs: &[Matched<'_>], metrics: &[Metric]) -> (Vec<Vec<Row>>, Rules) {
    let mut tests = Tests::default();
    let mut open: Vec<Vec<Open>> = pairs
        .iter()
        .map(|pair| metrics.iter().filter_map(|metric| open_row(&mut tests, metric, pair)).collect())
        .collect();
    let holm_over = correct(&mut open, |family| family == Family::Primary, stats::holm);
    let bh_over = correct(&mut open, |family| family != Family::Primary, stats::benjamini_hochberg);
    let rules = Rules { alpha: stats::ALPHA, blocks_min: stats::BLOCKS_MIN, holm_over, bh_over };
    let alarms = rows_of(&open, |family| family != Family::Primary).filter(|p| *p < stats::ALPHA).count();
    // What an uncorrected p has to reach: by Holm in the worst case, by BH beside the alarms that there are.
    let primary = stats::ALPHA / count(holm_over.max(1));
    let other = stats::ALPHA * count(alarms + 1).min(count(bh_over.max(1))) / count(bh_over.max(1));
    let rows = open
        .into_iter()
        .map(|rows| {
            let alpha = |row: &Row| if row.family == Family::Primary { primary } else { other };
            let mut rows: Vec<Row> = rows
                .into_iter()
                .map(|open| {
                    let alpha = alpha(&open.row);
                    close(open, alpha)
                })
                .collect();
            sort(&mut rows);
            rows
        })
        .collect();
    (rows, rules)
}

/// Corrects the p-values of the rows of `families` by `correction`, and says how many they were.
fn correct(open: &mut [Vec<Open>], families: fn(Family) -> bool, correction: fn(&[f64]) -> Vec<f64>) -> usize {
    let mut of: Vec<&mut Open> = open
        .iter_mut()
        .flatten()
        .filter(|open| families(open.row.family) && open.tested.as_ref().is_some_and(|tested| tested.counts))
        .collect();
    let p: Vec<f64> = of.iter().filter_map(|open| Some(open.tested.as_ref()?.test.p)).collect();
    for (open, corrected) in of.iter_mut().zip(correction(&p)) {
        if let Some(change) = &mut open.row.change {
            change.p_corrected = Some(corrected);
        }
    }
    p.len()
}

/// The corrected p-values of the rows of `families`.
fn rows_of(open: &[Vec<Open>], families: fn(Family) -> bool) -> impl Iterator<Item = f64> {
    open.iter()
        .flatten()
        .filter(move |open| families(open.row.family))
        .filter_map(|o| o.row.change.as_ref()?.p_corrected)
}

fn open_row(tests: &mut Tests, metric: &Metric, pair: &Matched<'_>) -> Option<Open> {
    let values = |runs: &[&RunRecord]| -> Vec<Option<f64>> { runs.iter().map(|run| metric.value(run)).collect() };
    let (old, new) = (values(&pair.old_runs), values(&pair.new_runs));
    if old.iter().chain(&new).all(Option::is_none) {
        return None;
    }
    let (old_centre, new_centre) = (centre(metric, &old), centre(metric, &new));
    let mut row = Row {
        metric: metric.id.to_string(),
        family: metric.family,
        change: None,
        verdict: None,
        blocks_to_settle: None,
        effect: effect(old_centre, new_centre),
        old: Values { centre: old_centre, by_block: old },
        new: Values { centre: new_centre, by_block: new },
    };
    let tested = if pair.same_events() {
        let equal = row.old.by_block == row.new.by_block;
        row.verdict = equal.then_some(Verdict::Identical);
        if equal { None } else { compared(tests, metric, pair, &mut row) }
    } else {
        compared(tests, metric, pair, &mut row)
    };
    Some(Open { row, direction: metric.direction, tested })
}

/// Fills in the change of a row: by a test, or by looking if the metric is exact.
fn compared(tests: &mut Tests, metric: &Metric, pair: &Matched<'_>, row: &mut Row) -> Option<Tested> {
    let (old, new) = (row.old.centre?, row.new.centre?);
    if metric.exact {
        row.change = Some(Change {
            unit: ChangeUnit::Unit,
            centre: new - old,
            interval: None,
            narrow: None,
            margin: [0.0; 2],
            p: None,
            p_corrected: None,
            blocks: [present(&row.old.by_block).len(), present(&row.new.by_block).len()],
        });
        row.verdict = Some(exact_verdict(metric.direction, new - old));
        return None;
    }
    let paired = pair.design == super::Design::Paired;
    let (a, b): (Vec<f64>, Vec<f64>) = if paired {
        row.old.by_block.iter().zip(&row.new.by_block).filter_map(|(a, b)| (*a).zip(*b)).unzip()
    } else {
        (present(&row.old.by_block), present(&row.new.by_block))
    };
    let positive = a.iter().chain(&b).all(|value| *value > 0.0);
    let (unit, margin, scale): (_, _, fn(f64) -> f64) = match (metric.scale, positive) {
        (Scale::Percent, true) => (ChangeUnit::Percent, Margin::percent(metric.margin), f64::ln),
        (Scale::Points, _) => (ChangeUnit::Points, Margin::plain(metric.margin), |value| value * 100.0),
        // A value of 0 has no ratio: the margin is that share of the larger side.
        (Scale::Percent, false) => {
            (ChangeUnit::Unit, Margin::plain(metric.margin / 100.0 * old.abs().max(new.abs())), |value| value)
        }
    };
    let scaled = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| scale(*value)).collect() };
    let (a, b) = (scaled(&a), scaled(&b));
    let test = if paired {
        tests.paired(&a.iter().zip(&b).map(|(a, b)| b - a).collect::<Vec<_>>())?
    } else {
        tests.unpaired(&a, &b)?
    };
    let shown = |value: f64| if unit == ChangeUnit::Percent { stats::percent(value) } else { value };
    let interval = |i: Interval| Interval { low: shown(i.low), high: shown(i.high), confidence: i.confidence };
    row.change = Some(Change {
        unit,
        centre: shown(test.centre),
        interval: test.interval.map(interval),
        narrow: test.narrow.map(interval),
        margin: [shown(margin.low), shown(margin.high)],
        p: Some(test.p),
        p_corrected: Some(test.p),
        blocks: test.blocks,
    });
    let counts = a.iter().chain(&b).any(|value| *value != a[0]);
    Some(Tested { test, margin, counts })
}

/// The verdict of a row whose p-value is corrected. `alpha` is what an uncorrected one would have to reach.
fn close(open: Open, alpha: f64) -> Row {
    let Open { mut row, direction, tested } = open;
    let (Some(tested), Some(p)) = (tested, row.change.as_ref().and_then(|change| change.p_corrected)) else {
        return row;
    };
    let better = if direction == Direction::Lower { Better::Lower } else { Better::Higher };
    let verdict = match stats::verdict(&tested.test, p, stats::ALPHA, tested.margin, better) {
        stats::Verdict::Same => Verdict::Same,
        stats::Verdict::Unclear => Verdict::Unclear,
        _ if direction == Direction::Neither => Verdict::Differs,
        stats::Verdict::Better => Verdict::Better,
        stats::Verdict::Worse => Verdict::Worse,
    };
    row.verdict = Some(verdict);
    if verdict == Verdict::Unclear {
        row.blocks_to_settle = stats::blocks_to_settle(&tested.test, alpha, tested.margin);
    }
    row
}

fn exact_verdict(direction: Direction, change: f64) -> Verdict {
    match direction {
        _ if change == 0.0 => Verdict::Same,
        Direction::Neither => Verdict::Differs,
        Direction::Higher if change > 0.0 => Verdict::Better,
        Direction::Lower if change < 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    }
}

fn present(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().copied().flatten().collect()
}

fn centre(metric: &Metric, values: &[Option<f64>]) -> Option<f64> {
    let values = present(values);
    if metric.exact { values.into_iter().reduce(f64::max) } else { stats::median(&values) }
}

fn effect(old: Option<f64>, new: Option<f64>) -> f64 {
    let (Some(old), Some(new)) = (old, new) else { return 0.0 };
    let most = old.abs().max(new.abs());
    if most > 0.0 { ((new - old).abs() / most).min(1.0) } else { 0.0 }
}

/// Bands in their order; WHY by effect, what is sure before what is not.
fn sort(rows: &mut [Row]) {
    let found = |row: &Row| matches!(row.verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Differs));
    // Stable: rows of PRIMARY and COST keep the order of their definition.
    rows.sort_by(|a, b| {
        let why = a.family == Family::Why && b.family == Family::Why;
        let by_effect = || found(b).cmp(&found(a)).then(b.effect.total_cmp(&a.effect));
        a.family.cmp(&b.family).then_with(|| if why { by_effect() } else { std::cmp::Ordering::Equal })
    });
}

// Numbers of rows are far below 2^53.
#[allow(clippy::cast_precision_loss)]
pub(super) fn count(rows: usize) -> f64 {
    rows as f64
}
