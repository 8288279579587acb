//! The section of a page that shows where the guests' time went: the guest profile of each mode, as bars of the same
//! functions in the same order, so that modes can be compared by eye.

use std::collections::BTreeMap;

use super::chart::profile;
use super::page::{Block, Cell, Charts, Ids, Table};
use super::view::modes;
use crate::result::ResultFile;
use crate::table::figure;

/// Functions of a guest profile that have a bar of their own; the rest is one bar.
const FUNCTIONS: usize = 7;

/// Mean share of each guest function over the good runs of a mode.
fn shares(result: &ResultFile, mode: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut runs = 0_u32;
    for run in result.good_runs(mode).filter(|run| !run.guest_profile.is_empty()) {
        runs += 1;
        for (function, share) in &run.guest_profile {
            *sums.entry(function.clone()).or_default() += share;
        }
    }
    sums.values_mut().for_each(|sum| *sum /= f64::from(runs));
    sums
}

/// A bar for each mode, and the same in figures.
pub(super) fn section(result: &ResultFile, ids: &mut Ids) -> Vec<Block> {
    let by_mode: Vec<(usize, &str, BTreeMap<String, f64>)> =
        modes(result).into_iter().enumerate().map(|(at, mode)| (at, mode, shares(result, mode))).collect();
    let mut largest: BTreeMap<&str, f64> = BTreeMap::new();
    for (function, share) in by_mode.iter().flat_map(|(_, _, shares)| shares) {
        let most = largest.entry(function).or_default();
        *most = most.max(*share);
    }
    let mut order: Vec<(&str, f64)> = largest.into_iter().filter(|(_, share)| *share > 0.0).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    if order.is_empty() {
        return vec![Block::Text("No guest profile was recorded.".into())];
    }
    let shown: Vec<&str> = order.iter().take(FUNCTIONS).map(|(function, _)| *function).collect();
    let bars = |shares: &BTreeMap<String, f64>| {
        let of = |function: &&str| ((*function).to_owned(), shares.get(*function).copied().unwrap_or_default());
        let mut bars: Vec<(String, f64)> = shown.iter().map(of).collect();
        if order.len() > FUNCTIONS {
            let rest = shares.iter().filter(|(function, _)| !shown.contains(&function.as_str())).map(|(_, s)| s).sum();
            bars.push(("all others".into(), rest));
        }
        bars
    };
    let sampled = by_mode.iter().filter(|(_, _, shares)| !shares.is_empty());
    let drawings = sampled.clone().map(|(at, mode, shares)| {
        profile::draw(&ids.next(), &format!("{mode}: guest profile"), *at, mode, &bars(shares))
    });
    let caption =
        "Share of guest time by guest function, mean over the good blocks. flush_wait... is the wait of an initiator.";
    let mut blocks = vec![Charts::narrow(caption, drawings.collect())];
    let absent: Vec<&str> =
        by_mode.iter().filter(|(_, _, shares)| shares.is_empty()).map(|(_, mode, _)| *mode).collect();
    if !absent.is_empty() {
        blocks.push(Block::Text(format!("No profile was recorded under {}.", absent.join(", "))));
    }
    let row = |(_, mode, shares): &(usize, &str, BTreeMap<String, f64>)| {
        let cells = bars(shares).into_iter().map(|(_, share)| Cell::figure(figure::share(share)));
        [Cell::words(*mode)].into_iter().chain(cells).collect()
    };
    let head = bars(&BTreeMap::new()).into_iter().map(|(function, _)| Cell::figure(function));
    blocks.push(Block::Table(Table {
        caption: "The same in figures".into(),
        head: [Cell::words("mode")].into_iter().chain(head).collect(),
        rows: sampled.map(row).collect(),
    }));
    blocks
}
