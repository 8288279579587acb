//! The section of a page that shows how long everything took: percentiles, distribution functions, and a table for each
//! histogram. All good blocks of a mode count together; a mode without such a wait is named.

use plan::metric::HISTOGRAMS;

use super::chart::{ecdf, float, percentiles};
use super::histograms::Latency;
use super::page::{Block, Cell, Charts, Ids, Table};
use super::source::Measured;
use super::view::{capital, modes};
use crate::table::figure;

/// Two drawings and a table for each histogram that is there, in the order of the metrics; those of no metric last.
pub(super) fn section(measured: &Measured, ids: &mut Ids) -> Vec<Block> {
    let modes = modes(&measured.result);
    let mut blocks: Vec<Block> = measured.gaps.iter().map(|gap| Block::Text(gap.clone())).collect();
    let known = HISTOGRAMS.iter().map(|m| m.id);
    let found = &measured.latencies.by_name;
    let others = found.keys().map(String::as_str).filter(|name| known.clone().all(|id| id != *name));
    for name in known.clone().chain(others) {
        let Some(by_mode) = found.get(name) else { continue };
        let present: Vec<(usize, &str, &Latency)> =
            modes.iter().enumerate().filter_map(|(at, mode)| Some((at, *mode, by_mode.get(*mode)?))).collect();
        let title = name.replace('_', " ").replace("ipi ", "IPI ").replace("runqueue", "run-queue");
        let text = HISTOGRAMS.iter().find(|m| m.id == name).map_or("", |m| m.text.trim());
        blocks.push(Block::Heading(capital(&title)));
        if !text.is_empty() {
            blocks.push(Block::Text(text.into()));
        }
        let drawings = [
            percentiles::draw(&ids.next(), &format!("{title}: percentiles"), &present),
            ecdf::draw(&ids.next(), &format!("{title}: share of waits up to a time"), &present),
        ];
        let caption = "Left or above: time by percentile, the axis stretched towards 100 % so that rare long waits can be seen. \
                       Right or below: which share took at most so long.";
        blocks.push(Charts::narrow(caption, drawings.into_iter().flatten().collect()));
        let absent: Vec<&str> = modes.iter().copied().filter(|mode| !by_mode.contains_key(*mode)).collect();
        if !absent.is_empty() {
            blocks.push(Block::Text(format!("No such wait was recorded under {}.", absent.join(", "))));
        }
        blocks.push(percentile_table(&title, &present));
    }
    if found.is_empty() {
        blocks.push(Block::Text("There is no whole histogram to draw a latency from.".into()));
    }
    blocks
}

fn percentile_table(title: &str, modes: &[(usize, &str, &Latency)]) -> Block {
    let row = |(_, mode, latency): &(usize, &str, &Latency)| {
        let time = |ns: u64| Cell::figure(figure::time(float(ns)));
        let shares = [0.5, 0.9, 0.99, 0.999].map(|share| time(latency.at(share)));
        let count = Cell::figure(figure::grouped(&latency.count().to_string()));
        [Cell::words(*mode)].into_iter().chain(shares).chain([time(latency.max_ns()), count]).collect()
    };
    let head = ["p50", "p90", "p99", "p99.9", "longest", "count"].map(Cell::figure);
    Block::Table(Table {
        caption: format!("{}, all good blocks of a mode together", capital(title)),
        head: [Cell::words("mode")].into_iter().chain(head).collect(),
        rows: modes.iter().map(row).collect(),
    })
}
