//! The watchdog: VMs that make no progress, and halts that outlive a set kick latch.
//!
//! Progress is a number that the guest keeps for this purpose (`Counters::progress`): it grows with every record,
//! with doorbells where there are no records, and with ticks that a thread computed through. It is untrusted; a guest that fakes it only fools its own run.

use plan::Failure;

use crate::guests::{Guests, Vm};
use crate::sync::Ordering;

/// What a VM says that it has done so far.
#[must_use]
pub fn progress(vm: &Vm) -> u64 {
    (0..vm.params.vcpus).map(|vcpu| vm.results(vcpu).counters.progress.get()).fold(0, u64::wrapping_add)
}

/// What one VM did last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    progress: u64,
    since_ns: u64,
}

/// Watches all VMs; asked again and again.
#[derive(Debug)]
pub struct Watchdog {
    limit_ns: u64,
    vms: Vec<Option<Seen>>,
    /// For each vCPU: when it was first seen halted with its latch set, without a break since.
    latched_since_ns: Vec<Option<u64>>,
}

impl Watchdog {
    /// A watchdog that bites after `limit_ns` without progress.
    #[must_use]
    pub fn new(guests: &Guests, limit_ns: u64) -> Self {
        Self { limit_ns, vms: vec![None; guests.vms.len()], latched_since_ns: vec![None; guests.len()] }
    }

    /// Begins anew: what was seen so far is no longer held against anybody.
    pub fn forgive(&mut self) {
        self.vms.fill(None);
        self.latched_since_ns.fill(None);
    }

    /// The VMs that have made no progress for too long.
    pub fn stuck(&mut self, guests: &Guests, now_ns: u64) -> Vec<u32> {
        let mut stuck = Vec::new();
        for (vm, seen) in guests.vms.iter().zip(&mut self.vms) {
            let progress = progress(vm);
            match seen {
                Some(seen) if seen.progress == progress => {
                    if now_ns.saturating_sub(seen.since_ns) > self.limit_ns {
                        stuck.push(vm.number);
                    }
                }
                _ => *seen = Some(Seen { progress, since_ns: now_ns }),
            }
        }
        stuck
    }

    /// Halts that go on although their kick has come: the wake was lost.
    pub fn lost_kicks(&mut self, guests: &Guests, now_ns: u64) -> Vec<Failure> {
        let mut lost = Vec::new();
        for (index, since) in guests.indices().zip(&mut self.latched_since_ns) {
            let shared = guests.shared(index);
            if !(shared.halted.load(Ordering::Relaxed) && shared.latch.is_set()) {
                *since = None;
                continue;
            }
            let first_ns = *since.get_or_insert(now_ns);
            if now_ns - first_ns > self.limit_ns {
                let (vm, vcpu) = guests.locate(index);
                let message = format!(
                    "VM {} vCPU {vcpu} has been halted for {} ms with its kick latch set: its wake-up was lost",
                    vm.number,
                    (now_ns - first_ns) / 1_000_000
                );
                lost.push(Failure { check: "lost-kick".into(), message });
            }
        }
        lost
    }
}
