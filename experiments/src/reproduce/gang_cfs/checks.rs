//! What the numbers must show, said before they are seen.
use plan::Workload;

use super::tables::{GAIN_COLUMNS, gain_row};
use crate::reproduce::{Cell, Check, Score, Table};

/// A tie: closer than this.
const TIE: f64 = 0.05;
/// A published gain counts for the score from this many points on.
const CLEAR_POINTS: f64 = 10.0;

fn find<'a>(tables: &'a [Table], id: &str, row: &str, column: &str) -> Option<&'a Cell> {
    let table = tables.iter().find(|table| table.id == id)?;
    table.cells.iter().find(|cell| cell.row == row && cell.column == column)
}

fn ours(tables: &[Table], id: &str, row: &str, column: &str) -> f64 {
    find(tables, id, row, column).and_then(|cell| cell.ours).unwrap_or(f64::NAN)
}

/// All demands.
pub(super) fn all(tables: &[Table]) -> Vec<Check> {
    let mut checks = vec![fit(tables)];
    for vms in [2, 4, 8] {
        let row = format!("{vms} VMs");
        let gains = gain_row(Workload::Ebizzy, vms);
        let at = |column| ours(tables, "pvflush-nonple", &row, column);
        let (base, gang, halt_kick, on_enter) = (at("base"), at("gang"), at("halt-kick"), at("on-enter"));
        checks.push(v2_over_base(tables, &row, &gains));
        checks.push(v1_over_base(tables, &row, &gains));
        checks.push(within(tables, "implied-pin", &row, "nonple", 0.3));
        checks.push(Check::new(
            &format!("{row}: base < gang, base < halt-kick"),
            format!("{base:.0}, {gang:.0}, {halt_kick:.0}"),
            base < gang && base < halt_kick,
        ));
        checks.push(Check::new(
            &format!("{row}: re-checking halt-kick <= on-enter (within 5 % is a tie)"),
            format!("{halt_kick:.0}, {on_enter:.0}"),
            halt_kick <= on_enter * (1.0 + TIE),
        ));
        let stale = at("pv_flush_stale_reads");
        checks.push(Check::new(
            &format!("{row}: halt-kick as posted is unsafe"),
            format!("{stale:.0} stale reads"),
            stale > 0.0,
        ));
    }
    let gains = [2, 4, 8].map(|vms| ours(tables, "64bit-ple", &gain_row(Workload::Ebizzy, vms), "v2_vs_base"));
    checks.push(Check::new(
        "PLE: gang's gain over base grows from 2 to 8 VMs",
        format!("{:+.0} %, {:+.0} %, {:+.0} %", gains[0], gains[1], gains[2]),
        gains[2] > gains[0],
    ));
    let Score { signs_right, signs_all } = score(tables, Workload::Ebizzy);
    checks.push(Check::new(
        "ebizzy, 64 bit: the sign of every gain above 10 points",
        format!("{signs_right} of {signs_all}"),
        signs_all > 0 && signs_right == signs_all,
    ));
    checks
}

/// The nine fitted numbers.
fn fit(tables: &[Table]) -> Check {
    let cells = tables.iter().filter(|table| table.id == "pvflush-nonple").flat_map(|table| &table.cells);
    let off: Vec<f64> = cells.filter_map(|cell| cell.ratio).map(|ratio| 100.0 * (ratio - 1.0)).collect();
    let worst = off.iter().copied().fold(0.0, |worst: f64, x| if x.abs() > worst.abs() { x } else { worst });
    let inside = off.iter().filter(|x| x.abs() <= 20.0).count();
    Check {
        demand: "pvflush-nonple: each of the nine numbers within 20 %".into(),
        found: format!("{inside} of {}, the worst {worst:+.0} %", off.len()),
        met: !off.is_empty() && inside == off.len(),
        fitted: true,
    }
}

/// V2/base between 0.8 x the smaller and 1.2 x the larger of the two postings.
fn v2_over_base(tables: &[Table], row: &str, gains: &str) -> Check {
    let published = |column| find(tables, "pvflush-nonple", row, column).and_then(|cell| cell.published);
    let february = published("gang").zip(published("base")).map_or(f64::NAN, |(gang, base)| gang / base);
    let december = find(tables, "64bit-nonple", gains, "v2_vs_base").and_then(|cell| cell.published);
    let december = december.map_or(f64::NAN, |gain| 1.0 + gain / 100.0);
    let ours = 1.0 + ours(tables, "64bit-nonple", gains, "v2_vs_base") / 100.0;
    let (low, high) = (0.8 * february.min(december), 1.2 * february.max(december));
    let demand = format!("{row}: V2/base from {low:.2} to {high:.2} (both postings, 20 % beyond)");
    Check::new(&demand, format!("{ours:.2}"), (low..=high).contains(&ours))
}

/// V1/base within 30 % of the ratio that was published.
fn v1_over_base(tables: &[Table], row: &str, gains: &str) -> Check {
    let cell = find(tables, "64bit-nonple", gains, "v1_vs_base");
    let ratio = |gain: Option<f64>| gain.map_or(f64::NAN, |gain| 1.0 + gain / 100.0);
    let (published, ours) = (ratio(cell.and_then(|c| c.published)), ratio(cell.and_then(|c| c.ours)));
    let met = (ours / published - 1.0).abs() <= 0.3;
    Check::new(&format!("{row}: V1/base within 30 % of {published:.2}"), format!("{ours:.2}"), met)
}

fn within(tables: &[Table], id: &str, row: &str, column: &str, margin: f64) -> Check {
    let cell = find(tables, id, row, column);
    let published = cell.and_then(|c| c.published).unwrap_or(f64::NAN);
    let ours = cell.and_then(|c| c.ours).unwrap_or(f64::NAN);
    let met = (ours / published - 1.0).abs() <= margin;
    Check::new(&format!("{row}: pin/base within {:.0} % of {published:.2}", 100.0 * margin), format!("{ours:.2}"), met)
}

/// Signs of the clear gains of a workload in the 64-bit tables.
pub(super) fn score(tables: &[Table], workload: Workload) -> Score {
    let rows = [2, 4, 8].map(|vms| gain_row(workload, vms));
    let of = |cell: &&Cell| rows.contains(&cell.row) && GAIN_COLUMNS.contains(&&*cell.column);
    let cells = tables.iter().flat_map(|table| &table.cells).filter(of);
    let clear = cells.filter_map(|cell| cell.published.zip(cell.ours)).filter(|(p, _)| p.abs() > CLEAR_POINTS);
    let (mut right, mut all) = (0, 0);
    for (published, ours) in clear {
        all += 1;
        // Published gains are whole per cents: one of ours that rounds to 0 has no sign.
        right += u32::from((published > 0.0) == (ours > 0.0) && ours.abs() >= 0.5);
    }
    Score { signs_right: right, signs_all: all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(id: &str, cells: &[(&str, f64, f64)]) -> Table {
        let cell = |(column, published, ours): &(&str, f64, f64)| Cell {
            row: "ebizzy, 8 VMs".into(),
            column: (*column).into(),
            published: Some(*published),
            ours: Some(*ours),
            ratio: Some(ours / published),
        };
        let cells = cells.iter().map(cell).collect();
        Table { id: id.into(), title: String::new(), notes: Vec::new(), cells }
    }

    #[test]
    fn only_clear_gains_count_and_only_by_their_sign() {
        let gains =
            [("v1_vs_base", 225.0, 3.0), ("v1_vs_pin", 9.0, -50.0), ("v2_vs_base", -20.0, 5.0), ("base", 99.0, -1.0)];
        assert_eq!(score(&[table("64bit-nonple", &gains)], Workload::Ebizzy), Score { signs_right: 1, signs_all: 2 });
        let nothing = [("v1_vs_base", 25.0, 0.3)];
        assert_eq!(score(&[table("64bit-nonple", &nothing)], Workload::Ebizzy), Score { signs_right: 0, signs_all: 1 });
    }

    #[test]
    fn the_fit_names_its_worst_number() {
        let fitted = fit(&[table("pvflush-nonple", &[("base", 100.0, 81.0), ("gang", 100.0, 130.0)])]);
        assert!(!fitted.met && fitted.fitted);
        assert_eq!(fitted.found, "1 of 2, the worst +30 %");
    }

    #[test]
    fn a_number_that_is_not_there_meets_nothing() {
        assert!(all(&[]).iter().all(|check| !check.met));
    }
}
