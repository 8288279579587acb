//! The schedule of a window: who ran on which CPU, who waited for a flush, and what CPUs sent each other.
//!
//! ```text
//!   CPU 0  |  0.3  |//0.1//|  1.0  |        a box: VM.vCPU ran here; hatched: it waited for its flush while it ran
//!   CPU 1  |   1.2   ↘ 0.2 |  0.2  |        an arrow: a kick, an IPI, a gang's or a rescheduling request
//!
//!   0.1    [=======]                         all of the wait, on a CPU (hatched) or without one (empty)
//! ```
//! What is narrower than two pixels is drawn as one speckled box, so that a drawing is bounded by its pixels, however
//! many events there are.

use std::collections::BTreeMap;

use trace::timeline::{Arrow, Kind, Timeline};

use super::super::svg::{Anchor, Svg};
use super::{LINE, Scale, count, float};
use crate::table::figure;

const WIDTH: f64 = 1180.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 26.0;
/// Height of a CPU's lane, and of the box in it.
const LANE: f64 = 34.0;
const BOX: f64 = 22.0;
/// Height of a waiting vCPU's lane.
const WAIT: f64 = 16.0;
/// Lanes that are drawn; the caller says so where there are more.
pub(in super::super) const CPUS_MAX: usize = 32;
pub(in super::super) const WAITERS_MAX: usize = 32;
/// Arrows that are drawn, the rarer kinds first.
pub(in super::super) const ARROWS_MAX: usize = 400;
/// A run narrower than this is drawn together with its neighbours.
const NARROW: f64 = 2.0;

/// What of a timeline was drawn.
#[derive(Debug)]
pub(in super::super) struct Drawn {
    pub(in super::super) svg: String,
    /// Arrows that found no room.
    pub(in super::super) arrows_left_out: usize,
    /// vCPUs that waited and have no lane.
    pub(in super::super) waiters_left_out: usize,
}

/// The drawing; `None` for a window in which nothing happened.
pub(in super::super) fn draw(id: &str, title: &str, timeline: &Timeline) -> Option<Drawn> {
    if timeline.to_ns <= timeline.from_ns || timeline.cpus.is_empty() {
        return None;
    }
    let lanes: BTreeMap<u32, f64> =
        timeline.cpus.iter().take(CPUS_MAX).enumerate().map(|(at, cpu)| (*cpu, TOP + LANE * count(at))).collect();
    let waiters = waiters(timeline);
    let cpus_end = TOP + LANE * count(lanes.len());
    let waits_top = cpus_end + if waiters.is_empty() { 0.0 } else { 1.8 * LINE };
    let shown = waiters.len().min(WAITERS_MAX);
    let bottom = waits_top + WAIT * count(shown);
    let desc = "Lanes from top to bottom: each CPU with the vCPUs that ran on it, then each vCPU that waited for a flush. Time runs \
                to the right. Arrows are kicks, IPIs and requests between CPUs.";
    let mut svg = Svg::new(id, [WIDTH, bottom + 2.6 * LINE], title, desc);
    let x = Scale::new([0.0, float(timeline.to_ns - timeline.from_ns)], [LEFT, RIGHT]);
    let at = |ns: u64| x.at(float(ns.saturating_sub(timeline.from_ns)));
    axis(&mut svg, timeline, &at, bottom);
    let mut labels = Vec::new();
    for (cpu, top) in &lanes {
        svg.text("tick", [LEFT - 8.0, top + LINE], Anchor::End, &format!("CPU {cpu}"));
        svg.rect("lane", [LEFT, *top], [RIGHT - LEFT, BOX]);
        labels.extend(lane(&mut svg, timeline, *cpu, *top, &at));
    }
    let spinning = on_a_cpu(timeline);
    for (cpu, stretch) in spinning.values().flatten() {
        let [from, to] = stretch.map(&at);
        if let Some(top) = lanes.get(cpu).filter(|_| to - from >= NARROW) {
            svg.rect("wait", [from, *top], [to - from, BOX]);
        }
    }
    for (place, who) in labels {
        svg.text("who halo", place, Anchor::Middle, &who);
    }
    let arrows_left_out = arrows(&mut svg, timeline, &lanes, &at);
    if !waiters.is_empty() {
        svg.text("axis-name", [LEFT, waits_top - 6.0], Anchor::Start, "waiting for a flush");
    }
    for (row, thread) in waiters.iter().take(WAITERS_MAX).enumerate() {
        let top = waits_top + WAIT * count(row);
        svg.text("tick", [LEFT - 8.0, top + 11.0], Anchor::End, &name(timeline, *thread));
        let who = name(timeline, *thread);
        let of_thread = timeline.flushes.iter().filter(|flush| flush.thread == *thread);
        for piece in pieces(of_thread.map(|flush| (0, [flush.from_ns, flush.to_ns])).collect(), &at) {
            let (place, size) = ([piece.from, top + 2.0], [(piece.to - piece.from).max(0.8), WAIT - 4.0]);
            match piece.only {
                None => svg.rect("dense", place, size),
                Some(_) if size[0] < NARROW => svg.rect("waiting", place, size),
                Some((_, [from, to])) => {
                    let said = format!("{who} waited {}", figure::time(float(to - from)));
                    svg.rect_titled("waiting", place, size, &said);
                }
            }
        }
        for (_, stretch) in spinning.get(thread).into_iter().flatten() {
            let [from, to] = stretch.map(&at);
            if to - from >= NARROW {
                svg.rect("wait", [from, top + 2.0], [to - from, WAIT - 4.0]);
            }
        }
    }
    Some(Drawn { svg: svg.finish(), arrows_left_out, waiters_left_out: waiters.len() - shown })
}

/// vCPUs that waited, those of one VM together.
fn waiters(timeline: &Timeline) -> Vec<usize> {
    let mut waiters: Vec<usize> = timeline.flushes.iter().map(|flush| flush.thread).collect();
    waiters.sort_by_key(|thread| (timeline.threads.get(*thread).map(|t| t.vcpu), *thread));
    waiters.dedup();
    waiters
}

/// `0.3` for vCPU 3 of VM 0, else the thread's own name.
pub(in super::super) fn name(timeline: &Timeline, thread: usize) -> String {
    match timeline.threads.get(thread) {
        Some(named) => named.vcpu.map_or_else(|| named.comm.clone(), |(vm, vcpu)| format!("{vm}.{vcpu}")),
        None => "?".into(),
    }
}

/// The colour of a thread: that of its VM.
fn class(timeline: &Timeline, thread: usize) -> String {
    let vm = timeline.threads.get(thread).and_then(|named| named.vcpu);
    vm.map_or_else(|| "run host".into(), |(vm, _)| format!("run v{}", vm % 8))
}

/// Ticks count from the first event of the trace, as `--window` does.
fn axis(svg: &mut Svg, timeline: &Timeline, at: &impl Fn(u64) -> f64, bottom: f64) {
    let first = timeline.span_ns.map_or(timeline.from_ns, |(first, _)| first);
    let len = timeline.to_ns - timeline.from_ns;
    let steps = (0..18).flat_map(|power| [1, 2, 5].map(|digit: u64| digit * 10_u64.pow(power)));
    let step = steps.into_iter().find(|step| len / step <= 12).unwrap_or(len);
    let start = (timeline.from_ns - first.min(timeline.from_ns)).div_ceil(step) * step;
    for n in 0..=12 {
        let offset = start.saturating_add(n * step);
        let ns = first.saturating_add(offset);
        if ns <= timeline.to_ns {
            svg.line("grid", [at(ns), TOP - 6.0], [at(ns), bottom]);
            svg.text("tick", [at(ns), TOP - 10.0], Anchor::Middle, &figure::setting(offset));
            svg.text("tick", [at(ns), bottom + LINE], Anchor::Middle, &figure::setting(offset));
        }
    }
    svg.text(
        "axis-name",
        [(LEFT + RIGHT) / 2.0, bottom + 2.2 * LINE],
        Anchor::Middle,
        "time since the first event of the trace",
    );
}

/// Where and when each waiting thread had a CPU during its waits.
fn on_a_cpu(timeline: &Timeline) -> BTreeMap<usize, Vec<(u32, [u64; 2])>> {
    let mut waits: BTreeMap<usize, Vec<[u64; 2]>> = BTreeMap::new();
    for flush in &timeline.flushes {
        waits.entry(flush.thread).or_default().push([flush.from_ns, flush.to_ns]);
    }
    waits.values_mut().for_each(|stretches| stretches.sort_unstable());
    let mut found: BTreeMap<usize, Vec<(u32, [u64; 2])>> = BTreeMap::new();
    for run in &timeline.runs {
        let Some(waits) = waits.get(&run.thread) else { continue };
        // A thread waits for one flush at a time: its waits do not overlap, and are in order of begin and of end.
        let first = waits.partition_point(|[_, end]| *end <= run.from_ns);
        for [from, to] in waits[first..].iter().take_while(|[begin, _]| *begin < run.to_ns) {
            let stretch = [(*from).max(run.from_ns), (*to).min(run.to_ns)];
            found.entry(run.thread).or_default().push((run.cpu, stretch));
        }
    }
    found
}

/// A stretch of pixels, and what it is if it is one thing only.
struct Piece {
    from: f64,
    to: f64,
    only: Option<(usize, [u64; 2])>,
}

/// Stretches of time in pixels: neighbours that are too narrow become one piece.
fn pieces(mut stretches: Vec<(usize, [u64; 2])>, at: &impl Fn(u64) -> f64) -> Vec<Piece> {
    stretches.sort_by_key(|(thread, [from, _])| (*from, *thread));
    let mut pieces: Vec<Piece> = Vec::new();
    for (thread, [begin, end]) in stretches {
        let (from, to) = (at(begin), at(end));
        let narrow = to - from < NARROW;
        let joins = |last: &&mut Piece| {
            narrow && from - last.to < NARROW && (last.only.is_none() || last.to - last.from < NARROW)
        };
        match pieces.last_mut().filter(joins) {
            Some(last) => (last.to, last.only) = (to.max(last.to), None),
            None => pieces.push(Piece { from, to, only: Some((thread, [begin, end])) }),
        }
    }
    pieces
}

/// The runs of one CPU. Answers their labels, which go on top of whatever is drawn over the boxes.
fn lane(svg: &mut Svg, timeline: &Timeline, cpu: u32, top: f64, at: &impl Fn(u64) -> f64) -> Vec<([f64; 2], String)> {
    let mut labels = Vec::new();
    let of_cpu = timeline.runs.iter().filter(|run| run.cpu == cpu);
    for piece in pieces(of_cpu.map(|run| (run.thread, [run.from_ns, run.to_ns])).collect(), at) {
        let size = [(piece.to - piece.from).max(0.8), BOX];
        let Some((thread, [begin, end])) = piece.only else {
            svg.rect_titled("dense", [piece.from, top], size, "short runs");
            continue;
        };
        let who = name(timeline, thread);
        let said = format!("{who} on CPU {cpu} for {}", figure::time(float(end - begin)));
        svg.rect_titled(&class(timeline, thread), [piece.from, top], size, &said);
        if size[0] > 7.0 * count(who.chars().count()) + 4.0 {
            labels.push(([f64::midpoint(piece.from, piece.to), top + 15.0], who));
        }
    }
    labels
}

/// Class of a kind of arrow, rarest first.
pub(in super::super) const KINDS: [(Kind, &str); 4] =
    [(Kind::Kick, "kick"), (Kind::Gang, "gang"), (Kind::GuestIpi, "ipi"), (Kind::Resched, "resched")];

/// Draws arrows until there are enough; of those at the same pixels only one. Answers how many found no room.
fn arrows(svg: &mut Svg, timeline: &Timeline, lanes: &BTreeMap<u32, f64>, at: &impl Fn(u64) -> f64) -> usize {
    let mut drawn: Vec<[f64; 4]> = Vec::new();
    let mut left_out = 0;
    for (kind, class) in KINDS {
        for arrow in timeline.arrows.iter().filter(|arrow| arrow.kind == kind) {
            let Some((from, to)) = ends(arrow, lanes, at) else { continue };
            let rounded = [from[0], from[1], to[0], to[1]].map(f64::round);
            if drawn.contains(&rounded) {
                continue;
            }
            if drawn.len() == ARROWS_MAX {
                left_out += 1;
                continue;
            }
            drawn.push(rounded);
            svg.line(&format!("arrow {class}"), from, to);
        }
    }
    left_out
}

/// From the edge of one lane to that of the other; along the lower edge inside one lane.
fn ends(arrow: &Arrow, lanes: &BTreeMap<u32, f64>, at: &impl Fn(u64) -> f64) -> Option<([f64; 2], [f64; 2])> {
    let (from, to) = (lanes.get(&arrow.from_cpu)?, lanes.get(&arrow.to_cpu?)?);
    let (x1, x2) = (at(arrow.from_ns), at(arrow.to_ns));
    Some(match from.total_cmp(to) {
        std::cmp::Ordering::Less => ([x1, from + BOX], [x2, *to]),
        std::cmp::Ordering::Greater => ([x1, *from], [x2, to + BOX]),
        std::cmp::Ordering::Equal => ([x1, from + BOX + 3.0], [x2, from + BOX + 3.0]),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trace::timeline::{Flush, Named, Run};

    use super::*;

    fn named(vm: u32, vcpu: u32) -> Named {
        Named { comm: format!("vcpu{vm}.{vcpu}"), pid: vcpu + 1, vcpu: Some((vm, vcpu)) }
    }

    /// 1000 ns of two CPUs: 0.0 waits from 100 to 700 and has CPU 0 until 400; 1.0 has CPU 1.
    fn sample() -> Timeline {
        Timeline {
            from_ns: 5_000,
            to_ns: 6_000,
            cpus: vec![0, 1],
            threads: vec![named(0, 0), named(1, 0)],
            runs: vec![
                Run { cpu: 0, thread: 0, from_ns: 5_000, to_ns: 5_400 },
                Run { cpu: 1, thread: 1, from_ns: 5_000, to_ns: 6_000 },
            ],
            flushes: vec![Flush { thread: 0, from_ns: 5_100, to_ns: 5_700 }],
            arrows: vec![Arrow { kind: Kind::Kick, from_cpu: 1, from_ns: 5_650, to_cpu: Some(0), to_ns: 5_700 }],
            span_ns: Some((1_000, 9_000)),
            ..Timeline::default()
        }
    }

    #[test]
    fn a_wait_is_hatched_while_it_has_a_cpu_and_outlined_all_the_time() {
        assert_eq!(on_a_cpu(&sample())[&0], [(0, [5_100, 5_400])]);
        let drawn = draw("c", "t", &sample()).unwrap();
        assert_eq!(drawn.svg.matches("class=\"wait\"").count(), 2, "once in its CPU's lane, once in its own");
        assert_eq!(drawn.svg.matches("class=\"waiting\"").count(), 1);
        assert!(drawn.svg.contains("0.0 waited 600 ns") && drawn.svg.contains("1.0 on CPU 1 for 1.00 us"));
        assert_eq!(drawn.svg.matches("class=\"arrow kick\"").count(), 1);
        assert!(drawn.svg.contains(">4 us</text>"), "ticks count from the first event");
        assert_eq!((drawn.arrows_left_out, drawn.waiters_left_out), (0, 0));
    }

    #[test]
    fn an_empty_window_is_not_drawn() {
        assert!(draw("c", "t", &Timeline::default()).is_none());
    }

    #[test]
    fn many_short_runs_are_few_boxes() {
        let mut many = sample();
        let run = |n: u64| Run { cpu: 0, thread: 0, from_ns: 5_000 + n, to_ns: 5_001 + n };
        many.runs = (0..1000).map(run).collect();
        many.flushes = many.runs.iter().map(|r| Flush { thread: 0, from_ns: r.from_ns, to_ns: r.to_ns }).collect();
        let drawn = draw("c", "t", &many).unwrap();
        assert_eq!(drawn.svg.matches("short runs").count(), 1);
        assert!(drawn.svg.len() < 200_000, "{}", drawn.svg.len());
    }

    proptest! {
        #[test]
        fn pieces_do_not_overlap_and_cover_what_they_are_made_of(
            starts in prop::collection::vec((0_u64..2000, 1_u64..40), 0..60)
        ) {
            let mut end = 0;
            let mut stretches = Vec::new();
            let mut sorted = starts;
            sorted.sort_unstable();
            for (from, len) in sorted {
                let from = from.max(end);
                end = from + len;
                stretches.push((0, [from, end]));
            }
            let at = |ns: u64| float(ns) / 7.0;
            let found = pieces(stretches.clone(), &at);
            prop_assert!(found.windows(2).all(|pair| pair[0].to <= pair[1].from));
            for (_, [from, to]) in stretches {
                prop_assert!(found.iter().any(|piece| piece.from <= at(from) && at(to) <= piece.to));
            }
        }
    }
}
