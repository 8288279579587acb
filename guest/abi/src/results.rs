//! Results block of a vCPU: counters and histograms, written by that vCPU only, read by the host at any time.
//!
//! Untrusted: every counter is any `u64`. The host copies it once, and uses it only as a number to show or add up with
//! saturation. Counters grow; the difference of two copies is what a run measured.

use crate::histogram::Histogram;
use crate::sync::{AtomicU64, Ordering};
use crate::vcpu::Doing;

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
    /// Progress for the watchdog: turns, or doorbells; where the guest has threads, records, and ticks that a thread computed
    /// through.
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
    /// The same with interrupts off (`gup`). Must be 0 unless frames are freed early.
    gup_hazards,
    /// Sets of frames whose reuse had to wait for a page-table walker.
    frees_deferred,
    /// Allocations that had to wait for free frames.
    alloc_waits,
    /// Pieces of work that were lost, done twice or out of order, as the workload's own check has found. Must be 0.
    work_errors,
    /// Spinlocks asked for.
    lock_acquisitions,
    /// Of these, the ones that another vCPU held.
    lock_contended,
    /// Sum of the waits for these, in cycles.
    lock_wait_cycles,
    /// Calls of `Halt` because a spinlock did not come.
    lock_halts,
    /// Kicks of such a vCPU by the one that let go.
    lock_kicks,
    /// Switches from one thread of the guest, or from its idle loop, to another.
    thread_switches,
    /// Threads woken.
    thread_wakes,
    /// Calls of `SendResched`: of these, threads whose vCPU was idle, and idle vCPUs that were told of work elsewhere.
    resched_ipis,
    /// Timer ticks.
    timer_ticks,
    /// Of these, ended the slice of a thread.
    thread_preemptions,
    /// Threads that this vCPU took from another's run queue.
    guest_migrations,
    /// Calls of `Halt` because no thread was runnable.
    idle_halts,
}

macro_rules! results {
    ($($(#[$meta:meta])* $name:ident = $id:literal,)+) => {
        /// The block.
        #[derive(Debug)]
        #[repr(C, align(4096))]
        pub struct Results {
            /// Counters.
            pub counters: Counters,
            _pad: [u64; 512 - Counters::NAMES.len()],
            $($(#[$meta])* pub $name: Histogram,)+
            _spare: [[u64; 512]; PAGES - 1 - Results::HISTOGRAMS.len()],
        }

        impl Results {
            /// Names of the histograms in a result, in the order of [`Results::histograms`].
            pub const HISTOGRAMS: &'static [&'static str] = &[$($id,)+];

            /// The histograms, in cycles.
            #[must_use]
            pub fn histograms(&self) -> [&Histogram; Self::HISTOGRAMS.len()] {
                [$(&self.$name,)+]
            }
        }
    };
}

#[allow(clippy::cast_possible_truncation)] // A few pages.
const PAGES: usize = (crate::layout::RESULTS_SIZE / crate::layout::PAGE_SIZE) as usize;

results! {
    /// From the beginning of a flush of all vCPUs to its end, for flushes that had a target.
    flush_wait = "flush_wait",
    /// From a `SendIpi` call to the moment the initiator saw the target's acknowledgement, one a target. An initiator that
    /// halted sees it after it woke.
    ipi_delivery = "flush_ack",
    /// One turn of a logical thread, which is the work of one record, in wall time; for workload `Doorbell` one round
    /// trip.
    record_time = "record_time",
    /// From asking for a spinlock that another vCPU holds until it is one's own.
    lock_wait = "lock_wait",
    /// From asking the disk until the thread runs again.
    disk_sleep = "guest_disk_sleep",
    /// Workload `Ipi`: from `SendIpi` to the target's answer.
    ipi_round_trip = "ipi_round_trip",
    /// The part of `ipi_delivery` whose targets ran when the flush began: [`Doing`].
    ack_running = "flush_ack_running",
    /// The same that had been taken off their CPU.
    ack_preempted = "flush_ack_preempted",
    /// The same that had halted with interrupts on, with something left to run.
    ack_halted = "flush_ack_halted",
    /// The same that had halted with interrupts off.
    ack_halted_irqs_off = "flush_ack_halted_irqs_off",
    /// The same that had halted because no thread was runnable.
    ack_idle = "flush_ack_idle",
}

impl Results {
    /// Where acknowledgements of targets in that state are counted.
    #[must_use]
    pub const fn ack(&self, doing: Doing) -> &Histogram {
        match doing {
            Doing::Running => &self.ack_running,
            Doing::Preempted => &self.ack_preempted,
            Doing::Halted => &self.ack_halted,
            Doing::HaltedIrqsOff => &self.ack_halted_irqs_off,
            Doing::Idle => &self.ack_idle,
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = {
    assert!(size_of::<Results>() as u64 == crate::layout::RESULTS_SIZE);
    assert!(core::mem::offset_of!(Results, flush_wait) == 4096);
};
