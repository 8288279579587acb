//! Results block of a vCPU: counters and histograms, written by that vCPU only, read by the host at any time.
//!
//! Untrusted: every counter is any `u64`. The host copies it once, and uses it only as a number to show or add up with
//! saturation. Counters grow; the difference of two copies is what a run measured.

use crate::histogram::Histogram;
use crate::sync::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident,)+) => {
        /// The counters.
        #[derive(Debug)]
        #[repr(C)]
        pub struct Counters { $($(#[$meta])* pub $name: Counter,)+ }

        impl Counters {
            /// Names, in the order of [`Counters::read`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)+];

            /// Host: a copy of all.
            #[must_use]
            pub fn read(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name.get(),)+]
            }
        }
    };
}

/// One counter with one writer.
#[derive(Debug)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Guest: counts `n` more. Only the owning vCPU writes, so a plain load and store.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// Records completed.
    records,
    /// Progress for the watchdog: turns, or doorbells.
    progress,
    /// Flushes of all vCPUs completed.
    flushes,
    /// vCPUs that those flushes had to reach.
    flush_targets,
    /// Of these, the ones that were sent an IPI.
    flush_ipis,
    /// Of these, the ones that were marked: before an IPI, or on a rescan after it.
    flush_marks,
    /// Of the marked, those that had been sent an IPI before.
    flush_marks_late,
    /// Sum of all flush waits in cycles.
    flush_wait_cycles,
    /// Calls of `Halt` while waiting for a flush.
    guest_halts,
    /// Of these, returned with acknowledgements outstanding.
    early_wakes,
    /// Calls of `SpinHint`.
    spin_hints,
    /// Reads of other slots through the real TLB.
    real_reads,
    /// Of these, through a translation whose flush had completed before the read. Must be 0.
    stale_reads,
    /// Of these, faulted because the slot was not mapped.
    read_faults,
    /// Reads of other slots through the soft TLB.
    soft_reads,
    /// Of these, served from a cached translation.
    soft_hits,
    /// Of the hits, through a translation whose flush had completed before the read. Must be 0.
    soft_stale_reads,
    /// Lockless page-table walks that found their frame reused before they ended. Must be 0.
    walk_stale_reads,
    /// Sets of frames whose reuse had to wait for a page-table walker.
    frees_deferred,
    /// Allocations that had to wait for free frames.
    alloc_waits,
}

/// The block.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Results {
    /// Counters.
    pub counters: Counters,
    _pad: [u64; 512 - Counters::NAMES.len()],
    /// From the beginning of a flush of all vCPUs to its end, for flushes that had a target; cycles.
    pub flush_wait: Histogram,
    /// From a `SendIpi` call to the moment the initiator saw the target's acknowledgement, one a target; cycles. An
    /// initiator that halted sees it after it woke.
    pub ipi_delivery: Histogram,
    /// One turn of a logical thread, which is the work of one record, in cycles of wall time; for workload `Doorbell`
    /// one round trip.
    pub record_time: Histogram,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Results>() as u64 == crate::layout::RESULTS_SIZE);
    assert!(core::mem::offset_of!(Results, flush_wait) == 4096);
};
