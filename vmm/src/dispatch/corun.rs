//! How often the members of a gang really run together.
//!
//! A *window* is open while at least one member of the gang runs and at least two are runnable. It is *covered* while
//! all runnable members run at once. Coverage is covered time over open time, all gangs together: 1 means that no
//! member ever waited while another ran.
//!
//! A member runs from the moment its thread has the CPU (`sched_in`) until it gives it up; a doorbell exit in between
//! counts as running, for the guest's neighbours see no difference. The lab's view: time that the host's own kernel
//! takes from the thread is not seen here.

use crate::sync::{Mutex, lock};

/// Totals of one gang.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CorunTotals {
    /// Time with an open window.
    pub(super) open_ns: u64,
    /// Part of it in which all runnable members ran.
    pub(super) covered_ns: u64,
    /// Windows that were opened.
    pub(super) windows: u64,
}

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A halted (or new) member became runnable.
    Wakes,
    /// A runnable member took a CPU.
    Runs,
    /// A running member lost its CPU and waits for another.
    Waits,
    /// A running member halted or ended.
    Halts,
}

/// The clock of one gang.
#[derive(Debug, Default)]
pub(super) struct Corun(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    runnable: u32,
    running: u32,
    /// Since when the two have these values.
    since_ns: u64,
    totals: CorunTotals,
}

impl Corun {
    /// A member changes at `now_ns`.
    pub(super) fn note(&self, change: Change, now_ns: u64) {
        let mut state = lock(&self.0);
        state.advance(now_ns);
        let was_open = state.open();
        match change {
            Change::Wakes => state.runnable += 1,
            Change::Runs => state.running += 1,
            Change::Waits => state.running -= 1,
            Change::Halts => {
                state.running -= 1;
                state.runnable -= 1;
            }
        }
        if state.open() && !was_open {
            state.totals.windows += 1;
        }
    }

    /// Totals up to `now_ns`.
    pub(super) fn totals(&self, now_ns: u64) -> CorunTotals {
        let mut state = lock(&self.0);
        state.advance(now_ns);
        state.totals
    }
}

impl State {
    fn open(&self) -> bool {
        self.running >= 1 && self.runnable >= 2
    }

    /// Counts the time up to `now_ns`; two CPUs may report out of order by a few ns, which then count as none.
    fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(now_ns);
        if self.open() {
            self.totals.open_ns += passed;
            if self.running == self.runnable {
                self.totals.covered_ns += passed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_in_which_all_runnable_members_run_is_covered() {
        let gang = Corun::default();
        gang.note(Change::Wakes, 0);
        gang.note(Change::Wakes, 0);
        gang.note(Change::Runs, 100);
        // One of two runs: open, not covered.
        gang.note(Change::Runs, 150);
        // Both: covered.
        gang.note(Change::Waits, 250);
        gang.note(Change::Runs, 260);
        gang.note(Change::Halts, 300);
        // The other is alone and runnable: no window.
        assert_eq!(gang.totals(1000), CorunTotals { open_ns: 200, covered_ns: 140, windows: 1 });
    }

    #[test]
    fn a_gang_larger_than_its_cpus_is_never_covered() {
        let gang = Corun::default();
        for _ in 0..3 {
            gang.note(Change::Wakes, 0);
        }
        gang.note(Change::Runs, 0);
        gang.note(Change::Runs, 0);
        assert_eq!(gang.totals(50), CorunTotals { open_ns: 50, covered_ns: 0, windows: 1 });
    }
}
