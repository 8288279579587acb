//! How often the vCPUs of a VM really run together, under any policy: what gang scheduling is there to raise.
//!
//! Time is *open* while at least one vCPU of the VM runs and at least two are runnable, and *covered* while all runnable
//! ones run at once. Covered over open time is the VM's co-run fraction: 1 means that no vCPU ever waited while another
//! ran. (Gang coverage, which `hostsched` measures, looks at the windows of gang policies only.)
//!
//! A vCPU runs from the moment its thread has the CPU (`sched_in`) until it gives it up; a doorbell exit in between
//! counts as running, for the guest's neighbours see no difference. The lab's view: time that the host's own kernel
//! takes from the thread is not seen here.

use crate::sync::{Mutex, lock};

/// Totals of one VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CorunTotals {
    /// Open time.
    pub(super) open_ns: u64,
    /// Part of it in which all runnable vCPUs ran.
    pub(super) covered_ns: u64,
}

/// What a vCPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A halted (or new) one became runnable.
    Wakes,
    /// A runnable one took a CPU.
    Runs,
    /// A running one lost its CPU and waits for another.
    Waits,
    /// A running one halted or ended.
    Halts,
}

/// The clock of one VM.
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
    /// A vCPU changes at `now_ns`.
    pub(super) fn note(&self, change: Change, now_ns: u64) {
        let mut state = lock(&self.0);
        state.advance(now_ns);
        match change {
            Change::Wakes => state.runnable += 1,
            Change::Runs => state.running += 1,
            Change::Waits => state.running -= 1,
            Change::Halts => {
                state.running -= 1;
                state.runnable -= 1;
            }
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
    fn only_time_in_which_all_runnable_vcpus_run_is_covered() {
        let vm = Corun::default();
        vm.note(Change::Wakes, 0);
        vm.note(Change::Wakes, 0);
        vm.note(Change::Runs, 100);
        // One of two runs: open, not covered.
        vm.note(Change::Runs, 150);
        // Both: covered.
        vm.note(Change::Waits, 250);
        vm.note(Change::Runs, 260);
        vm.note(Change::Halts, 300);
        // The other is alone and runnable: closed.
        assert_eq!(vm.totals(1000), CorunTotals { open_ns: 200, covered_ns: 140 });
    }

    #[test]
    fn a_vm_with_more_vcpus_than_cpus_is_never_covered() {
        let vm = Corun::default();
        for _ in 0..3 {
            vm.note(Change::Wakes, 0);
        }
        vm.note(Change::Runs, 0);
        vm.note(Change::Runs, 0);
        assert_eq!(vm.totals(50), CorunTotals { open_ns: 50, covered_ns: 0 });
    }
}
