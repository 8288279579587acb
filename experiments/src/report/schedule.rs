//! The section with the schedule: reads a trace twice, once to find its longest flush wait, once to draw around it.
//!
//! Both passes stream. Of the first only one open wait a thread is kept, of the second only the window.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use trace::ftrace::FLUSH_MARK;
use trace::read::{Body, Item};
use trace::timeline::{Kind, Timeline, Window};

use super::chart::float;
use super::chart::timeline::{self, ARROWS_MAX, CPUS_MAX, KINDS};
use super::page::{Block, Cell, Charts, Section, Table};
use crate::exit::Error;
use crate::table::figure;
use crate::units::Time;

/// Length of a window that nobody chose, at least.
const LEN_NS: u64 = 30_000_000;
/// Flush waits of distinct threads that may be open at once.
const OPEN_MAX: usize = 65_536;
/// Waits that are listed.
const LISTED: usize = 8;
/// Things of a window that are kept.
const ITEMS_MAX: usize = 50_000;

/// A stretch of a trace, counted from its first event: `100ms..130ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    from_ns: u64,
    to_ns: u64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let right = "a window is two times counted from the first event, as in 100ms..130ms or 0ms..5ms";
        let (from, to) = text.split_once("..").ok_or(right)?;
        // A bare 0 needs no unit.
        let from_ns = if from == "0" { 0 } else { from.parse::<Time>()?.ns };
        let to_ns = to.parse::<Time>()?.ns;
        if from_ns >= to_ns { Err(format!("{from} is not before {to}; {right}")) } else { Ok(Self { from_ns, to_ns }) }
    }
}

/// What to draw schedules from.
#[derive(Debug, Clone, Copy)]
pub struct Traces<'a> {
    /// Traces in text form, each of which is drawn.
    pub paths: &'a [PathBuf],
    /// The window; `None` for one around the longest flush wait of each.
    pub window: Option<Span>,
}

/// The section; without a trace it says how to get one.
///
/// # Errors
/// A trace that cannot be read or holds no event.
pub(super) fn section(traces: &Traces<'_>) -> Result<Section, Error> {
    let mut found = Vec::new();
    for (nth, path) in traces.paths.iter().enumerate() {
        if traces.paths.len() > 1 {
            let name = path.file_name().unwrap_or(path.as_os_str());
            found.push(Block::Heading(name.to_string_lossy().into_owned()));
        }
        found.extend(blocks(path, traces.window, nth + 1)?);
    }
    if found.is_empty() {
        let how = "No trace was given, so no schedule is drawn: vmmlab run --trace FILE.txt records one, vmmlab report DIR --trace \
                   FILE.txt draws it.";
        found.push(Block::Text(how.into()));
    }
    Ok(Section { id: "schedule", heading: "The schedule", blocks: found })
}

fn blocks(path: &Path, window: Option<Span>, nth: usize) -> Result<Vec<Block>, Error> {
    let (window, why) = match window {
        Some(window) => (window, "as asked for"),
        None => chosen(path)?,
    };
    let wanted = Window { skip_ns: window.from_ns, len_ns: window.to_ns - window.from_ns, items_max: ITEMS_MAX };
    let timeline = Timeline::read(open(path)?, wanted).map_err(unreadable(path))?;
    let Some((first, last)) = timeline.span_ns else {
        return Err(Error::Usage(format!(
            "--trace {} holds no event; it takes a trace in text form, as vmmlab run --trace FILE.txt writes it",
            path.display()
        )));
    };
    let mut blocks = Vec::new();
    let offset = |ns: u64| figure::time(float(ns - first.min(ns)));
    blocks.push(Block::Text(format!(
        "{} of {} events in {}: from {} to {}, {why}.",
        shown(&timeline),
        figure::grouped(&timeline.events.to_string()),
        figure::time(float(last - first)),
        offset(timeline.from_ns),
        offset(timeline.to_ns)
    )));
    match timeline::draw(&format!("schedule-{nth}"), "Who ran on which CPU", &timeline) {
        None => blocks.push(Block::Text("Nothing lies in this window.".into())),
        Some(drawn) => {
            let mut gaps = Vec::new();
            let mut gap = |n: usize, what: &str| {
                if n > 0 {
                    gaps.push(format!("{} {what}.", figure::grouped(&n.to_string())));
                }
            };
            gap(timeline.cpus.len().saturating_sub(CPUS_MAX), "more CPUs are not drawn");
            gap(drawn.waiters_left_out, "more vCPUs that waited are not drawn");
            gap(drawn.arrows_left_out, &format!("more arrows are not drawn: {ARROWS_MAX} are, kicks and gangs first"));
            gap(usize::try_from(timeline.left_out).unwrap_or(usize::MAX), "more things of the window were not kept");
            blocks.push(Charts::wide(LEGEND, vec![drawn.svg]));
            blocks.extend((!gaps.is_empty()).then(|| Block::Notes(gaps)));
            blocks.extend(waits(&timeline, first));
        }
    }
    if timeline.lost > 0 || timeline.damaged > 0 {
        blocks.push(Block::Text(format!(
            "The trace is not whole: its tracer lost {} events, and {} lines could not be read.",
            timeline.lost, timeline.damaged
        )));
    }
    Ok(blocks)
}

const LEGEND: &str = "A box is a vCPU on a CPU: 0.3 is vCPU 3 of VM 0, and VMs differ in colour. Hatched: it waits for its flush, and \
                      burns the CPU if it spins. Speckled: runs too short to draw apart. Arrows: thick, a kick that ends a halt; thin, \
                      an IPI between vCPUs until its handler runs; dashed, a gang leader's request; dotted, a rescheduling request. Below, \
                      each vCPU that waited: outlined while it had no CPU.";

/// How much happened in the window.
fn shown(timeline: &Timeline) -> String {
    let arrows = |kind: Kind| timeline.arrows.iter().filter(|arrow| arrow.kind == kind).count();
    let sent = KINDS.map(|(kind, _)| {
        let what = match kind {
            Kind::Kick => "kicks",
            Kind::Gang => "gang requests",
            Kind::GuestIpi => "IPIs",
            Kind::Resched => "rescheduling requests",
        };
        format!("{} {what}", arrows(kind))
    });
    format!("{} runs, {} flush waits, {}", timeline.runs.len(), timeline.flushes.len(), sent.join(", "))
}

/// The longest waits of the window.
fn waits(timeline: &Timeline, first: u64) -> Option<Block> {
    let mut longest: Vec<_> = timeline.flushes.iter().collect();
    longest.sort_by_key(|flush| (std::cmp::Reverse(flush.to_ns - flush.from_ns), flush.from_ns, flush.thread));
    let row = |flush: &&trace::timeline::Flush| {
        let inside = |run: &&trace::timeline::Run| run.thread == flush.thread;
        let overlap =
            |run: &trace::timeline::Run| run.to_ns.min(flush.to_ns).saturating_sub(run.from_ns.max(flush.from_ns));
        let on_cpu: u64 = timeline.runs.iter().filter(inside).map(overlap).sum();
        let all = flush.to_ns - flush.from_ns;
        vec![
            Cell::words(timeline::name(timeline, flush.thread)),
            Cell::figure(figure::time(float(flush.from_ns - first.min(flush.from_ns)))),
            Cell::figure(figure::time(float(all))),
            Cell::figure(figure::share(float(on_cpu) / float(all.max(1)))),
        ]
    };
    (!longest.is_empty()).then(|| {
        Block::Table(Table {
            caption: "The longest flush waits of the window, as far as they lie in it".into(),
            head: vec![
                Cell::words("vCPU"),
                Cell::figure("begins at"),
                Cell::figure("waits"),
                Cell::figure("of it on a CPU"),
            ],
            rows: longest.iter().take(LISTED).map(row).collect(),
        })
    })
}

fn open(path: &Path) -> Result<BufReader<File>, Error> {
    File::open(path).map(|file| BufReader::with_capacity(1 << 16, file)).map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| {
        Error::Usage(format!("--trace {} cannot be read ({source}); name a trace in text form", path.display()))
    }
}

/// A window around the longest flush wait, or the beginning of a trace without one.
fn chosen(path: &Path) -> Result<(Span, &'static str), Error> {
    let mut first = None;
    let mut open_since: BTreeMap<u32, u64> = BTreeMap::new();
    let mut longest: Option<[u64; 2]> = None;
    trace::read::read(open(path)?, |_, item| {
        let Item::Event(line) = item else { return };
        let start = *first.get_or_insert(line.at_ns);
        match line.body {
            Body::MarkBegin { name } if name.starts_with(FLUSH_MARK) && open_since.len() < OPEN_MAX => {
                open_since.insert(line.thread.pid, line.at_ns);
            }
            Body::MarkEnd => {
                let Some(since) = open_since.remove(&line.thread.pid) else { return };
                let wait = [since.saturating_sub(start), line.at_ns.saturating_sub(start)];
                if longest.is_none_or(|[from, to]| wait[1].saturating_sub(wait[0]) > to.saturating_sub(from)) {
                    longest = Some(wait);
                }
            }
            _ => {}
        }
    })
    .map_err(unreadable(path))?;
    Ok(match longest {
        None => (Span { from_ns: 0, to_ns: LEN_NS }, "its beginning, because it has no flush wait"),
        Some([from, to]) => {
            // The wait takes at most two thirds of the picture.
            let len = LEN_NS.max((to - from) / 2 * 3);
            let from_ns = from.saturating_sub((len - (to - from)) / 2);
            (Span { from_ns, to_ns: from_ns.saturating_add(len) }, "around its longest flush wait")
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_window_is_two_times_in_order() {
        assert_eq!("100ms..130ms".parse(), Ok(Span { from_ns: 100_000_000, to_ns: 130_000_000 }));
        assert_eq!("0..1us".parse(), Ok(Span { from_ns: 0, to_ns: 1_000 }));
        for wrong in ["", "..", "1ms", "2ms..1ms", "1ms..1ms", "1..2", "-1ms..2ms"] {
            assert!(wrong.parse::<Span>().unwrap_err().contains("as in"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,30}") {
            let _ = text.parse::<Span>();
        }
    }
}
