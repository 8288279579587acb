//! Work conservation, where it is defined: no CPU idles for long while another has a task that waits.
//!
//! Real 3.4 breaks it with small group weights and subset affinities, so it is asked for only of flat, equal-weight,
//! unpinned vCPUs on a host to which nothing happens. A CPU that goes idle there still waits for the balance that it
//! planned while it was busy: at most 100 ms a CPU; with [`idle_next_balance`](crate::setup::Options::idle_next_balance)
//! at most 2 ms a CPU, and a few tries may fail on hot caches. The same bounds as in hostsched's own tests.
//!
//! What is measured is an upper bound: the time since a CPU went idle, while some CPU was crowded at every look.
use hostsched::CpuId;
use plan::HostPolicy;

use super::Case;
use super::ledger::Books;
use crate::world::{EPOCH_NS, World};

const MS: u64 = 1_000_000;
/// Balances that may pass until one pulls a task.
const TRIES: u64 = 3;

/// The longest waste so far.
#[derive(Debug)]
pub(super) struct Waste {
    bound_ns: u64,
    /// Since when each CPU has had somebody who waits, by position in the world's list.
    crowded_since: Vec<Option<u64>>,
}

impl Waste {
    /// The watcher of a case for which conservation is defined.
    pub(super) fn of(case: &Case) -> Option<Self> {
        let plain = matches!(case.plan.axes.host_policy, HostPolicy::Cfs | HostPolicy::Ple);
        let defined = plain && case.options.flat && !case.plan.axes.pin && case.faults.is_empty();
        let cpus = case.plan.pcpus.as_slice().len();
        let interval = if case.options.idle_next_balance { TRIES * 2 * MS } else { 100 * MS };
        let bound_ns = interval * cpus as u64 + 2 * MS;
        defined.then(|| Self { bound_ns, crowded_since: vec![None; cpus] })
    }

    /// One look.
    pub(super) fn look(&mut self, world: &World, books: &Books) -> Result<(), String> {
        let now = world.now - EPOCH_NS;
        for (since, cpu) in self.crowded_since.iter_mut().zip(&world.present) {
            *since = if world.host.nr_running(*cpu) >= 2 { since.or(Some(now)) } else { None };
        }
        let idle = |cpu: &CpuId| books.idle_since(*cpu);
        let Some(idle_since) = world.present.iter().filter_map(idle).min() else { return Ok(()) };
        let Some(crowded_since) = self.crowded_since.iter().flatten().min() else { return Ok(()) };
        let wasted = now - idle_since.max(*crowded_since);
        if wasted > self.bound_ns {
            let bound = self.bound_ns;
            return Err(format!(
                "work-conservation: a CPU idles beside waiting work for {wasted} ns, bound {bound} ns"
            ));
        }
        Ok(())
    }
}
