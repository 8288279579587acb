//! Runs a case and checks it every few milliseconds.
//!
//! After the measured time every thread must come to its end, or at least closer to it now and then. Two kinds of cases
//! are cut and counted: those that are on their way and slow, and live-locks of directed yield. Where a pause exit is
//! much shorter than a context switch, spinners make a CPU switch again before it has entered the guest, for ever: that is
//! how the mechanism is, not a broken promise.
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hostsched::Checker;
use plan::{HostPolicy, Inject, Workload};

use super::Case;
use super::ledger::Ledger;
use super::waste::Waste;
use crate::check::{broken, unfinished};
use crate::observe::Watch;
use crate::world::{EPOCH_NS, World};

/// Between two looks of the checkers, in ns.
const LOOK_NS: u64 = 3_000_000;
/// The same where waste is looked for.
const CLOSE_LOOK_NS: u64 = 1_000_000;
/// Where a case is cut.
const EVENTS_MAX: u64 = 5_000_000;
/// Virtual time in which somebody must get on after the measured time, and how much more for each vCPU that may have to
/// run first.
const STUCK_NS: [u64; 2] = [60_000_000_000, 2_000_000_000];

/// A case that held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Events simulated.
    pub events: u64,
    /// Digest of all of them.
    pub digest: u64,
    /// Faults that were not refused.
    pub faults: u64,
    /// 1 if it was cut before all threads had come to their end.
    pub cut: u64,
}

/// A case that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its seed.
    pub seed: u64,
    /// The fault that was put in, if one was.
    pub inject: Option<Inject>,
    /// What did not hold, as a sentence that begins with the name of the invariant.
    pub what: String,
}

impl Broken {
    /// The command that shows it again.
    #[must_use]
    pub fn replay(&self) -> String {
        let inject = self.inject.map_or(String::new(), |inject| format!(" --inject {inject}"));
        format!("vmmlab swarm --seed {} --cases 1{inject}", self.seed)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; again: {}", self.what, self.replay())
    }
}

impl Case {
    /// Runs it; `watch` sees every event.
    ///
    /// # Errors
    /// The first invariant that does not hold; a panic of the simulator counts as one.
    pub fn run(&self, watch: Option<&Arc<dyn Watch>>) -> Result<Summary, Broken> {
        let caught = catch_unwind(AssertUnwindSafe(|| self.checked(watch)));
        let outcome = caught.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            Err(format!("panic: {text}"))
        });
        outcome.map_err(|what| Broken { seed: self.seed, inject: self.plan.inject, what })
    }

    fn checked(&self, watch: Option<&Arc<dyn Watch>>) -> Result<Summary, String> {
        let mut world = World::new(&self.machine, &self.plan, self.options).map_err(|e| format!("setup: {e}"))?;
        world.expect_faults(&self.faults);
        let ledger = Ledger::default();
        {
            let mut books = ledger.0.borrow_mut();
            let v2 = matches!(self.plan.axes.host_policy, HostPolicy::Gang | HostPolicy::GangPle);
            // Whose affinity is widened, because its CPU is gone, may be pulled away between request and pick.
            books.gangs_promised = v2 && self.plan.axes.pin && self.faults.is_empty();
            books.early_allowed = self.options.halt_once;
        }
        world.sinks.push(Box::new(ledger.clone()));
        world.sinks.extend(watch.and_then(|watch| watch.begin(&self.plan)));

        let mut checker = Checker::default();
        let mut waste = Waste::of(self);
        let end = world.vms.iter().map(|vm| vm.measure_to).max().unwrap_or(EPOCH_NS);
        let look = if waste.is_some() { CLOSE_LOOK_NS } else { LOOK_NS };
        let patience = STUCK_NS[0] + STUCK_NS[1] * world.vcpus.len() as u64;
        let (mut done, mut stuck_at) = (0, end + patience);
        let mut until = EPOCH_NS;
        let mut left = Some(String::new());
        while left.is_some() {
            if world.events >= EVENTS_MAX {
                break;
            }
            if until >= stuck_at {
                if self.plan.axes.host_policy.is_ple() {
                    break;
                }
                let ms = (until - EPOCH_NS) / 1_000_000;
                return Err(format!("{}, and nobody got on for long at {ms} ms", left.unwrap_or_default()));
            }
            // Once nothing is looked for but the end, bigger steps do.
            until += if until < end { look } else { 20 * look };
            world.run_until(until, || false);
            if let Some(what) = broken(&mut world).or_else(|| ledger.0.borrow_mut().broken(&world)) {
                return Err(what);
            }
            checker.check(&world.host, &world.rqs).map_err(|violation| format!("hostsched: {violation}"))?;
            if let Some(waste) = waste.as_mut().filter(|_| until < end) {
                waste.look(&world, &ledger.0.borrow())?;
            }
            let got_on = world.progress();
            if got_on != done {
                (done, stuck_at) = (got_on, end.max(until) + patience);
            }
            left = if until < end { left } else { unfinished(&world).filter(|_| self.drains()) };
        }
        let ended_at = world.now - EPOCH_NS;
        world.sinks.iter_mut().for_each(|sink| sink.end(ended_at));
        let stale: u64 = world.vms.iter().map(|vm| vm.stale_reads).sum();
        if stale != 0 && !self.options.halt_once {
            return Err(format!("stale-read: {stale} pieces of work began with a translation whose flush was over"));
        }
        let cut = u64::from(left.is_some());
        Ok(Summary { events: world.events, digest: world.digest, faults: world.faults_done, cut })
    }

    /// True if the threads of its workload end by themselves, one by one, when the measured time is over.
    fn drains(&self) -> bool {
        matches!(self.plan.workload, Workload::Ebizzy | Workload::Flush | Workload::TlbStorm)
    }
}
