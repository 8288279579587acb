//! How well gang scheduling works: the share of the gangs' time in which the whole gang ran.
//!
//! Units: nanoseconds. Glossary: a *window* of a group is the time from its leader's pick of it to the leader's next pick
//! of something else. A *member* is a runnable task of the group, or of a group below it, on a CPU of the span; it
//! *runs* while it has the CPU and, if the engine tells, is in guest mode.
//!
//! ```text
//!   leader    | A . . . . . . . . | B                   A has one member on each of two CPUs
//!   fellow    | B | A . . . | B . . .
//!             |---| 2 runnable, 1 runs     not covered
//!                 |---------| both run     covered      coverage = 8 / 18 of the window
//! ```
//! Coverage is covered time over window time, both counted only while at least two members are runnable: the windows are
//! weighted by their length. A CPU with two runnable members can never run both, so a gang that does not fit its
//! span shows as such.
//!
//! Algorithm: one word a (span, group) holds the time of its last change, whether a window is open, and two counts:
//! `members`, the sum over the CPUs of the runnable members there *but at most 2*, and `running`. The cap loses
//! nothing: all members run exactly if the two are equal, and there are two members exactly if `members` is at least 2.
//! A change swaps the word, and whoever swapped it charges the time that the old one had lasted: no lock, no time
//! charged twice, exact with one thread. With several, clocks read in different order can shift a change by as much.
//! What a CPU adds is written only with its queue in hand. A pick costs two changes if the group changed, else none.
//!
//! Limits: spans above [`CPUS_MAX`] CPUs are not measured; a word must change (or be read) once in 2.4 hours.
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::counter;
use super::span::{Role, Span};
use crate::host::Host;
use crate::ids::{GroupId, Nanos, TaskId};
use crate::rq::Rq;
use crate::topology::CpuId;

/// CPUs of the largest span that is measured: two members each still fit the count.
const CPUS_MAX: u32 = 511;

/// `stamp:43 open:1 counted:1 members:10 running:9`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word(u64);

const MEMBER: u64 = 1 << 9;
const COUNTED: u64 = 1 << 19;
const OPEN: u64 = 1 << 20;
const STAMP_SHIFT: u32 = 21;
const STAMP_MASK: u64 = u64::MAX >> STAMP_SHIFT;
/// How far the clocks of two CPUs may read apart.
const BACKWARDS_MAX_NS: u64 = 1_000_000_000;

impl Word {
    fn members(self) -> u64 {
        (self.0 / MEMBER) & 0x3ff
    }

    fn running(self) -> u64 {
        self.0 & 0x1ff
    }

    /// True while time counts: a window is open and there is a gang to speak of.
    fn counts(self) -> bool {
        self.0 & OPEN != 0 && self.members() >= 2
    }

    fn covered(self) -> bool {
        self.members() == self.running()
    }

    /// Time since the last change; 0 for an instant up to a second before it.
    fn passed(self, now: Nanos) -> u64 {
        let dt = now.0.wrapping_sub(self.0 >> STAMP_SHIFT) & STAMP_MASK;
        if dt < STAMP_MASK - BACKWARDS_MAX_NS { dt } else { 0 }
    }

    /// The part of it that counts.
    fn lasted(self, now: Nanos) -> u64 {
        if self.counts() { self.passed(now) } else { 0 }
    }

    /// The word at a change: a clock that runs behind never moves it back, else time that was charged would count again.
    fn stamped(self, now: Nanos, before: Self) -> Self {
        let stamp = (before.0 >> STAMP_SHIFT) + before.passed(now);
        Self(self.0 & !(STAMP_MASK << STAMP_SHIFT) | (stamp & STAMP_MASK) << STAMP_SHIFT)
    }
}

/// A change of a [`Word`].
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Open,
    Close,
    Members(u8, u8),
    Runs,
    Stops,
}

impl Change {
    fn apply(self, word: Word) -> Word {
        let w = match self {
            Self::Nothing => word.0,
            Self::Open => word.0 | OPEN,
            Self::Close => word.0 & !(OPEN | COUNTED),
            Self::Members(from, to) => word.0 + u64::from(to) * MEMBER - u64::from(from) * MEMBER,
            Self::Runs => word.0 + 1,
            Self::Stops => word.0 - 1,
        };
        if Word(w).counts() { Word(w | COUNTED) } else { Word(w) }
    }
}

/// What one CPU adds to the counts.
#[derive(Debug, Default)]
struct OnCpu {
    /// Group, +1, that `running` counts it in, with the groups above.
    counted: AtomicU32,
    /// The task that was picked last, +1.
    task: AtomicU32,
    in_guest: AtomicBool,
}

/// The measurement.
#[derive(Debug)]
pub(super) struct Coverage {
    groups: usize,
    guest_mode_told: bool,
    cpus: Vec<OnCpu>,
    /// Runnable members a CPU and group, at most 2.
    members: Vec<AtomicU8>,
    /// Span of each CPU, if that is measured.
    span_of: Vec<Option<usize>>,
    words: Vec<AtomicU64>,
    /// Group, +1, whose window is open, by span.
    open: Vec<AtomicU32>,
    windows: AtomicU64,
    window_ns: AtomicU64,
    covered_ns: AtomicU64,
}

impl Coverage {
    pub(super) fn new(host: &Host, spans: &[Span], roles: &[Role], guest_mode_told: bool) -> Self {
        let (groups, cpus) = (host.limits().groups as usize, host.machine().cpu_slots());
        let mut new = Self {
            groups,
            guest_mode_told,
            cpus: (0..cpus).map(|_| OnCpu::default()).collect(),
            members: (0..cpus * groups).map(|_| AtomicU8::new(0)).collect(),
            span_of: Vec::new(),
            words: Vec::new(),
            open: Vec::new(),
            windows: AtomicU64::new(0),
            window_ns: AtomicU64::new(0),
            covered_ns: AtomicU64::new(0),
        };
        new.reshape(host, spans, roles, host.config().epoch);
        new
    }

    /// New spans: ends all windows and counts anew what each CPU adds.
    pub(super) fn reshape(&mut self, host: &Host, spans: &[Span], roles: &[Role], now: Nanos) {
        (0..self.open.len()).for_each(|span| self.window(span, None, now));
        let measured = |s: &usize| spans[*s].cpus.weight() <= CPUS_MAX;
        self.span_of = roles.iter().map(|r| r.span().filter(measured)).collect();
        self.words = (0..spans.len() * self.groups).map(|_| AtomicU64::new(0)).collect();
        self.open = spans.iter().map(|_| AtomicU32::new(0)).collect();
        for cpu in host.cpu_numbers() {
            for group in 0..self.groups {
                let m = self.members[cpu.index() * self.groups + group].load(Relaxed);
                self.change(cpu, GroupId::from_index(group), Change::Members(0, m), now);
            }
            if let Some(group) = self.cpus[cpu.index()].counted.load(Relaxed).checked_sub(1) {
                up(host, GroupId(group), |g| self.change(cpu, g, Change::Runs, now));
            }
        }
    }

    /// The leader of a span runs that gang from now on, or none.
    pub(super) fn window(&self, span: usize, gang: Option<GroupId>, now: Nanos) {
        let new = gang.map_or(0, |g| g.0 + 1);
        let old = self.open[span].swap(new, Relaxed);
        if old == new {
            return;
        }
        if let Some(group) = old.checked_sub(1) {
            self.change_in(span, GroupId(group), Change::Close, now);
        }
        if let Some(group) = gang {
            self.change_in(span, group, Change::Open, now);
        }
    }

    /// Ends the windows of a group that vanishes.
    pub(super) fn group_removed(&self, group: GroupId, now: Nanos) {
        for span in 0..self.open.len() {
            if self.open[span].load(Relaxed) == group.0 + 1 {
                self.window(span, None, now);
            }
        }
    }

    /// The CPU was given to a task, or to idle.
    #[inline]
    pub(super) fn picked(&self, host: &Host, cpu: CpuId, task: Option<TaskId>, now: Nanos) {
        let on = &self.cpus[cpu.index()];
        if self.guest_mode_told {
            let id = task.map_or(0, |t| t.0 + 1);
            if on.task.load(Relaxed) != id {
                on.task.store(id, Relaxed);
                on.in_guest.store(false, Relaxed);
            }
        }
        self.runs(host, cpu, task, now);
    }

    /// The running task of the CPU entered or left guest mode.
    pub(super) fn guest_mode(&self, host: &Host, rq: &Rq, in_guest: bool, now: Nanos) {
        self.cpus[rq.cpu().index()].in_guest.store(in_guest, Relaxed);
        self.runs(host, rq.cpu(), rq.current(), now);
    }

    /// A task came to or left the CPU's queue.
    pub(super) fn queued(&self, host: &Host, rq: &Rq, task: TaskId, on: bool, now: Nanos) {
        let cpu = rq.cpu();
        up(host, host.task_group(task), |group| {
            let here = u8::try_from(rq.nr_running_in(group).min(2)).unwrap_or(2);
            let members = &self.members[cpu.index() * self.groups + group.index()];
            let before = members.load(Relaxed);
            if before != here {
                members.store(here, Relaxed);
                self.change(cpu, group, Change::Members(before, here), now);
            }
        });
        // A running task that came from another group; one that leaves is followed by a pick at the same instant.
        if on && rq.current() == Some(task) {
            self.runs(host, cpu, Some(task), now);
        }
    }

    /// Counts the CPU as running a member of the task's group and those above.
    #[inline]
    fn runs(&self, host: &Host, cpu: CpuId, task: Option<TaskId>, now: Nanos) {
        let on = &self.cpus[cpu.index()];
        let counts = !self.guest_mode_told || on.in_guest.load(Relaxed);
        let new = task.filter(|_| counts).map_or(0, |t| host.task_group(t).0 + 1);
        let old = on.counted.load(Relaxed);
        if old == new {
            return;
        }
        on.counted.store(new, Relaxed);
        if let Some(group) = old.checked_sub(1) {
            up(host, GroupId(group), |g| self.change(cpu, g, Change::Stops, now));
        }
        if let Some(group) = new.checked_sub(1) {
            up(host, GroupId(group), |g| self.change(cpu, g, Change::Runs, now));
        }
    }

    #[inline]
    fn change(&self, cpu: CpuId, group: GroupId, change: Change, now: Nanos) {
        if let Some(span) = self.span_of[cpu.index()] {
            self.change_in(span, group, change, now);
        }
    }

    #[inline]
    fn change_in(&self, span: usize, group: GroupId, change: Change, now: Nanos) {
        let word = &self.words[span * self.groups + group.index()];
        let mut seen = word.load(Relaxed);
        loop {
            let old = Word(seen);
            let lasted = old.lasted(now);
            let new = change.apply(old).stamped(now, old);
            match word.compare_exchange_weak(seen, new.0, Relaxed, Relaxed) {
                Ok(_) => return self.charge(old, new, lasted),
                Err(now_there) => seen = now_there,
            }
        }
    }

    fn charge(&self, old: Word, new: Word, lasted: u64) {
        if old.counts() {
            self.window_ns.fetch_add(lasted, Relaxed);
            if old.covered() {
                self.covered_ns.fetch_add(lasted, Relaxed);
            }
        }
        if new.0 & COUNTED != 0 && old.0 & COUNTED == 0 {
            self.windows.fetch_add(1, Relaxed);
        }
    }

    /// Charges what is open up to now and reports.
    pub(super) fn counters(&self, now: Nanos, report: &mut dyn FnMut(&'static str, u64)) {
        for (span, open) in self.open.iter().enumerate() {
            if let Some(group) = open.load(Relaxed).checked_sub(1) {
                self.change_in(span, GroupId(group), Change::Nothing, now);
            }
        }
        report(counter::GANG_WINDOWS, self.windows.load(Relaxed));
        report(counter::GANG_WINDOW_NS, self.window_ns.load(Relaxed));
        report(counter::GANG_COVERED_NS, self.covered_ns.load(Relaxed));
    }
}

/// Calls `f` for a group and all above it but the root group. A group that is being removed still has its parent.
#[inline]
fn up(host: &Host, mut group: GroupId, mut f: impl FnMut(GroupId)) {
    while group != GroupId::ROOT {
        f(group);
        group = GroupId(host.groups[group.index()].parent.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::Limits;
    use crate::policy::span::roles;
    use crate::topology::BuildOptions;

    fn host(cpus: u32) -> Host {
        let config = Config { epoch: Nanos(1_000_000_000), ..Config::for_cpus(cpus) };
        let machine = format!("1s:{cpus}c").parse().unwrap();
        Host::new(config, machine, BuildOptions::default(), Limits { tasks: 8, groups: 2 }).unwrap()
    }

    fn of(host: &Host, cpus: u32) -> Coverage {
        let spans = crate::policy::elect(host.domains(), cpus);
        Coverage::new(host, &spans, &roles(&spans, cpus as usize), false)
    }

    fn totals(coverage: &Coverage, now: u64) -> Vec<u64> {
        let mut all = Vec::new();
        coverage.counters(Nanos(now), &mut |_, n| all.push(n));
        all
    }

    #[test]
    fn a_clock_that_reads_behind_charges_nothing_twice() {
        let host = host(2);
        let c = of(&host, 2);
        let gang = GroupId(1);
        for cpu in [CpuId(0), CpuId(1)] {
            c.change(cpu, gang, Change::Members(0, 1), Nanos(2_000_000_000));
            c.change(cpu, gang, Change::Runs, Nanos(2_000_000_000));
        }
        c.window(0, Some(gang), Nanos(2_000_000_100));
        // CPU 1's clock is 50 ns behind: its change counts from where CPU 0's left off.
        c.change(CpuId(0), gang, Change::Stops, Nanos(2_000_000_200));
        c.change(CpuId(1), gang, Change::Stops, Nanos(2_000_000_150));
        c.change(CpuId(0), gang, Change::Runs, Nanos(2_000_000_300));
        assert_eq!(totals(&c, 2_000_000_300), [1, 200, 100]);
        // Nor does it when nothing counts: 300 is charged, so what opens again at 250 counts from 300 on.
        c.change(CpuId(0), gang, Change::Members(1, 0), Nanos(2_000_000_300));
        c.change(CpuId(0), gang, Change::Members(0, 1), Nanos(2_000_000_250));
        assert_eq!(totals(&c, 2_000_000_300), [1, 200, 100]);
    }

    #[test]
    fn what_many_threads_add_and_take_away_leaves_nothing() {
        let host = host(4);
        let c = of(&host, 4);
        let (gang, clock) = (GroupId(1), AtomicU64::new(2_000_000_000));
        c.window(0, Some(gang), Nanos(2_000_000_000));
        std::thread::scope(|s| {
            for cpu in (0..4).map(CpuId) {
                let (c, clock) = (&c, &clock);
                s.spawn(move || {
                    for _ in 0..5000 {
                        let steps = [Change::Members(0, 2), Change::Runs, Change::Members(2, 1), Change::Stops];
                        for change in steps.into_iter().chain([Change::Members(1, 0)]) {
                            c.change(cpu, gang, change, Nanos(clock.fetch_add(3, Relaxed)));
                        }
                    }
                });
            }
        });
        let word = Word(c.words[1].load(Relaxed));
        assert_eq!((word.members(), word.running()), (0, 0));
        let now = clock.load(Relaxed);
        let [windows, window_ns, covered_ns] = totals(&c, now)[..] else { panic!("three counters") };
        assert_eq!(windows, 1);
        assert!(covered_ns <= window_ns && window_ns <= now - 2_000_000_000);
    }
}
