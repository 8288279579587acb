//! What the numbers must show, said before they are seen.
use super::super::{Check, Table, ours};

/// A tie: closer than this.
const TIE: f64 = 0.03;

/// All demands.
pub(super) fn all(tables: &[Table]) -> Vec<Check> {
    let ex = |clients: u32, column| ours(tables, "tbench-westmere-ex", &format!("{clients} clients"), column);
    let ratio = |clients| ex(clients, "buddy/traverse");
    let mut checks = Vec::new();
    for clients in [1, 2, 4, 8, 16, 32] {
        let (traverse, buddy) = (ex(clients, "traverse"), ex(clients, "buddy"));
        let demand = format!("westmere-ex, {clients} clients: buddy above traverse");
        checks.push(Check::new(&demand, format!("{buddy:.0} against {traverse:.0}"), buddy > traverse));
    }
    let ratios = [2, 4, 8, 16, 32, 64].map(ratio);
    checks.push(Check::new(
        "westmere-ex: the ratio falls from 2 clients on (within 3 % is a tie)",
        ratios.map(|r| format!("{r:.2}")).join(", "),
        ratios.is_sorted_by(|a, b| b / a <= 1.0 + TIE),
    ));
    let at_64 = ratio(64);
    checks.push(Check::new(
        "westmere-ex, 64 clients: no gain or a loss",
        format!("{at_64:.2}"),
        at_64 > 0.0 && at_64 <= 1.02,
    ));
    let at_1 = ratio(1);
    checks.push(Check::new("westmere-ex, 1 client: at least 3 x", format!("{at_1:.1} x"), at_1 >= 3.0));
    let rr = |table, row| 100.0 * (ours(tables, table, row, "buddy/traverse") - 1.0);
    let [unbound, bound] = ["unbound", "bound"].map(|row| rr("tcp-rr-performance", row));
    checks.push(Check::new(
        "E5620, TCP_RR unbound: a gain of 10 to 40 %",
        format!("{unbound:+.0} %"),
        (10.0..=40.0).contains(&unbound),
    ));
    checks.push(Check::new("E5620, TCP_RR bound: within 10 %", format!("{bound:+.1} %"), bound.abs() <= 10.0));
    let ondemand = rr("tcp-rr-ondemand", "unbound");
    checks.push(Check::new(
        "E5620, TCP_RR unbound: more to gain under ondemand",
        format!("{ondemand:+.0} against {unbound:+.0} %"),
        ondemand > unbound,
    ));
    let [traverse, buddy] = ["traverse", "buddy"].map(|column| ours(tables, "lmbench-ctxsw", "2p/0K", column));
    checks.push(Check::new(
        "E5620, lmbench: a switch costs less with buddies",
        format!("{buddy:.2} against {traverse:.2} us"),
        buddy < traverse,
    ));
    let [sane, broken] = ["q6600", "q6600-broken"].map(|row| ours(tables, "pipe-test-q6600", row, "buddy"));
    checks.push(Check::new(
        "Q6600: broken sched groups make a buddy's loop slower",
        format!("{broken:.1} against {sane:.1} us"),
        broken > sane,
    ));
    let [traverse, buddy] = ["traverse", "buddy"].map(|column| ours(tables, "aim7", "64 tasks", column));
    checks.push(Check::new(
        "AIM7, 64 tasks: buddy above traverse",
        format!("{buddy:.0} against {traverse:.0}"),
        buddy > traverse,
    ));
    for row in ["e5620 1:4", "westmere-ex 1:8", "westmere-ex 1:16"] {
        let [traverse, buddy] = ["traverse", "buddy"].map(|column| ours(tables, "one-to-many", row, column));
        let demand = format!("{row}: fixed buddies lose");
        checks.push(Check::new(&demand, format!("{buddy:.0} against {traverse:.0}"), buddy < traverse));
    }
    let map = tables.iter().filter(|table| table.id == "buddy-map").flat_map(|table| &table.cells);
    let wrong = map.clone().filter(|cell| cell.ours != cell.published).count();
    let found = format!("{wrong} of {} differ", map.count());
    checks.push(Check::new("the buddy map of six cores is 1 0 3 2 5 4", found, wrong == 0 && !tables.is_empty()));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_there_meets_nothing() {
        assert!(all(&[]).iter().all(|check| !check.met));
    }
}
