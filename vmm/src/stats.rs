//! What a vCPU thread counts and times.
//!
//! Counters are atomics with one writer (plain load and store) that the control loop copies at both ends of the
//! measured time; what a run measured is the difference. Histograms and profile samples belong to the thread, are
//! recorded only while the run [`measures`](Phase::Measure), and travel through a channel when the thread ends: the hot
//! path takes no lock and allocates nothing.

use hdrhistogram::Histogram;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Largest time that a histogram distinguishes: 100 s.
const HISTOGRAM_MAX_NS: u64 = 100_000_000_000;
/// Significant digits of histograms.
const HISTOGRAM_DIGITS: u8 = 2;
/// Samples of a thread that are kept: at 1,000 ticks a second of guest time, over a quarter of an hour.
const SAMPLES_MAX: usize = 1 << 20;

macro_rules! counters {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)+) => {
        /// What is counted, for each vCPU.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $($(#[$meta])* $variant,)+ }

        impl Counter {
            /// Names in the result, in order.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];
        }
    };
}

counters! {
    /// Returns of KVM_RUN.
    Exits = "exits",
    /// For port I/O: doorbells.
    ExitIo = "exit_io",
    /// Because of a kick or another signal.
    ExitIntr = "exit_intr",
    /// Because a requested interrupt window opened.
    ExitIrqWindow = "exit_irq_window",
    /// Because of HLT in ring 0.
    ExitHlt = "exit_hlt",
    /// Entries that a kick forbade at the last moment.
    EntriesForbidden = "entries_forbidden",
    /// Time in KVM_RUN.
    GuestNs = "guest_ns",
    /// Vectors given to KVM.
    Injections = "injections",
    /// Interrupt windows that were asked for.
    WindowRequests = "window_requests",
    /// Flushes taken from the state word on entry.
    EntryFlushes = "entry_flushes",
    /// State words that did not say what the host had last written about stopping: the guest wrote them.
    StateWordsForged = "state_words_forged",
    /// Doorbell calls by name.
    CallNop = "call_nop",
    /// Calls.
    CallSendIpi = "call_send_ipi",
    /// Calls.
    CallHalt = "call_halt",
    /// Calls.
    CallKickCpu = "call_kick_cpu",
    /// Calls.
    CallSpinHint = "call_spin_hint",
    /// Calls.
    CallFlushOnEnter = "call_flush_on_enter",
    /// Calls.
    CallIo = "call_io",
    /// Calls.
    CallConsole = "call_console",
    /// Calls.
    CallReport = "call_report",
    /// Calls.
    CallSendResched = "call_send_resched",
    /// Calls.
    CallDiskIo = "call_disk_io",
    /// Requests to the disk.
    DiskAccesses = "disk_accesses",
    /// Ticks of the guest's timer that were raised.
    GuestTicks = "guest_ticks_raised",
    /// Targets of SendIpi calls.
    IpiTargets = "ipi_targets",
    /// Of these, on which the vector was pending already.
    IpisMerged = "ipis_merged",
    /// Targets of FlushOnEnter calls that had to be forced out of guest mode.
    HypercallKicks = "hypercall_kicks",
    /// The same that were stopped, and only marked.
    HypercallMarks = "hypercall_marks",
    /// Times that the vCPU lost its CPU while its guest said that it holds a spinlock.
    LockHolderPreemptions = "lock_holder_preemptions",
    /// The same while it stood in line for one.
    LockWaiterPreemptions = "lock_waiter_preemptions",
    /// Halts that ended at once because the latch was set or a vector was pending.
    HaltsSkipped = "halts_skipped",
}

/// The counters of one vCPU.
#[derive(Debug, Default)]
pub struct Counters {
    values: [AtomicU64; Counter::NAMES.len()],
}

impl Counters {
    /// Counts `n` more; for the owning thread only.
    pub fn add(&self, counter: Counter, n: u64) {
        let value = &self.values[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Copies all.
    #[must_use]
    pub fn read(&self) -> [u64; Counter::NAMES.len()] {
        std::array::from_fn(|index| self.values[index].load(Ordering::Relaxed))
    }
}

/// Where the run is; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// Booting and warming up: nothing is recorded.
    Warmup = 0,
    /// The measured time.
    Measure = 1,
    /// Over: nothing is recorded.
    Done = 2,
}

/// The phase, set by the control loop and read by every thread.
#[derive(Debug, Default)]
pub struct PhaseCell(AtomicU32);

impl PhaseCell {
    /// Enters a phase.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u32, Ordering::Release);
    }

    /// True in the measured time.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Phase::Measure as u32
    }
}

/// A histogram of nanoseconds, the same in all threads.
///
/// # Panics
/// Never: the bounds are constants that hdrhistogram accepts.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS).expect("constant bounds")
}

/// What a thread hands over when it ends.
#[derive(Debug)]
pub struct ThreadStats {
    /// From raising a vector until the entry that delivers it.
    pub ipi_delivery: Histogram<u64>,
    /// From the end of a wait for a time (`Io`) until the vCPU may go on.
    pub io_wake: Histogram<u64>,
    /// Guest RIP at ticks.
    pub samples: Vec<u64>,
    /// What it traced, if it did.
    pub trace: Option<trace::Buffer>,
}

impl Default for ThreadStats {
    fn default() -> Self {
        Self { ipi_delivery: histogram(), io_wake: histogram(), samples: Vec::new(), trace: None }
    }
}

impl ThreadStats {
    /// Adds a RIP sample, unless there are too many.
    pub fn sample(&mut self, rip: u64) {
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(rip);
        }
    }
}
