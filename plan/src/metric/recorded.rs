//! The names of counters and histograms, as engines record them.
//!
//! An engine fills in what it can measure and leaves the others out: a missing value is never shown as zero. It may
//! add names of its own (`exit_io`, `exit_hlt`, ... count the exits by reason), which are kept in the result. Counters
//! cover the measured time, all VMs together, unless the text says otherwise.

/// A counter or a histogram, described for those who read a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Its name in the JSON.
    pub id: &'static str,
    /// The unit of its value: `count`, `ns`, or `threads`.
    pub unit: &'static str,
    /// What it measures.
    pub text: &'static str,
}

/// Declares one constant per name, and the table of all of them.
macro_rules! metrics {
    ($(#[$meta:meta])* $all:ident { $($(#[doc = $text:literal])+ $name:ident = $id:literal, $unit:literal;)+ }) => {
        $($(#[doc = $text])+ pub const $name: &str = $id;)+
        $(#[$meta])*
        pub const $all: &[Recorded] = &[$(Recorded { id: $id, unit: $unit, text: concat!($($text),+) }),+];
    };
}

metrics! {
    /// Every counter that the tables know.
    COUNTERS {
        /// Remote TLB flushes that guests completed.
        FLUSHES = "flushes", "count";
        /// vCPUs that those flushes had to reach.
        FLUSH_TARGETS = "flush_targets", "count";
        /// Interrupts that initiators sent for flushes.
        FLUSH_IPIS = "flush_ipis", "count";
        /// Targets that were only marked: the host flushed before they ran again.
        FLUSH_MARKS = "flush_marks", "count";
        /// Time that initiators waited for their flushes, all vCPUs together.
        FLUSH_WAIT_NS = "flush_wait_ns", "ns";
        /// Times that a vCPU halted.
        GUEST_HALTS = "guest_halts", "count";
        /// Kicks of a halted initiator by the last acknowledger.
        GUEST_KICKS = "guest_kicks", "count";
        /// Spins longer than the PLE window that the host was told of.
        SPIN_HINTS = "spin_hints", "count";
        /// Returns of KVM_RUN, whatever the reason.
        EXITS = "exits", "count";
        /// Time that vCPU threads spent in KVM_RUN.
        GUEST_NS = "guest_ns", "ns";
        /// Times that a CPU went from one vCPU to another.
        SWITCHES = "switches", "count";
        /// Times that a vCPU went to another CPU.
        MIGRATIONS = "migrations", "count";
        /// Times that a blocked vCPU became runnable.
        WAKEUPS = "wakeups", "count";
        /// Preemptions of a vCPU that held a lock; only of engines that know the guest's locks.
        LOCK_HOLDER_PREEMPTIONS = "lock_holder_preemptions", "count";
        /// Preemptions of a vCPU that stood in line for a spinlock.
        LOCK_WAITER_PREEMPTIONS = "lock_waiter_preemptions", "count";
        /// Spinlocks that guests asked for.
        LOCK_ACQUISITIONS = "lock_acquisitions", "count";
        /// Of these, how many another vCPU held.
        LOCK_CONTENDED = "lock_contended", "count";
        /// Time that vCPUs waited for spinlocks, all together.
        LOCK_WAIT_NS = "lock_wait_ns", "ns";
        /// Times that a vCPU halted because a spinlock did not come.
        LOCK_HALTS = "lock_halts", "count";
        /// Kicks of such a vCPU by the one that let go.
        LOCK_KICKS = "lock_kicks", "count";
        /// Times that a guest thread went to another vCPU of its VM.
        GUEST_MIGRATIONS = "guest_migrations", "count";
        /// Requests to the disk that all VMs share.
        DISK_ACCESSES = "disk_accesses", "count";
        /// Time in which a vCPU had a CPU, all CPUs together.
        SCHED_EXEC_NS = "sched_exec_ns", "ns";
        /// Time in which no vCPU had a CPU, all CPUs together.
        SCHED_IDLE_NS = "sched_idle_ns", "ns";
        /// The part of it in which a vCPU waited that might have run there; only of engines that can tell.
        FORCED_IDLE_NS = "forced_idle_ns", "ns";
        /// Scheduler ticks taken.
        TICKS = "ticks", "count";
        /// Requests of gang leaders to fellow CPUs.
        GANG_IPIS = "gang_ipis", "count";
        /// Windows with at least two runnable gang members.
        GANG_WINDOWS = "gang_windows", "count";
        /// Directed yields that were tried.
        YIELD_TO_CALLS = "yield_to_calls", "count";
        /// Directed yields that boosted another vCPU.
        YIELDS = "yields", "count";
        /// Kicks sent to vCPU threads, whole run.
        KICKS_SENT = "kicks_sent", "count";
        /// Kicks that their target took, whole run.
        KICKS_CONSUMED = "kicks_consumed", "count";
        /// Kicks that met one still under way, whole run.
        KICKS_COALESCED = "kicks_coalesced", "count";
        /// Most threads of one CPU in KVM_RUN at once: 1 under the lab scheduler.
        IN_RUN_MAX = "in_run_max", "threads";
    }
}

metrics! {
    /// Every histogram that the tables know.
    HISTOGRAMS {
        /// From the start of a flush until the initiator may go on.
        FLUSH_WAIT = "flush_wait", "ns";
        /// From the sending of a guest IPI until its handler runs.
        IPI_DELIVERY = "ipi_delivery", "ns";
        /// From runnable to running.
        RUNQUEUE_WAIT = "runqueue_wait", "ns";
        /// From the kick of a CPU until the next vCPU enters its guest there.
        DISPATCH = "dispatch", "ns";
        /// From asking for a spinlock that another vCPU holds until it is one's own.
        LOCK_WAIT = "lock_wait", "ns";
        /// From asking the disk until it answers.
        DISK_WAIT = "disk_wait", "ns";
        /// Workload ipi: from the sending of an interrupt to another vCPU until its handler's answer.
        IPI_ROUND_TRIP = "ipi_round_trip", "ns";
        /// From the sending of a flush's IPI to a target that ran then until its acknowledgement.
        FLUSH_ACK_RUNNING = "flush_ack_running", "ns";
        /// The same of a target that had lost its CPU.
        FLUSH_ACK_PREEMPTED = "flush_ack_preempted", "ns";
        /// The same of a target that had halted with interrupts on, in the middle of something.
        FLUSH_ACK_HALTED = "flush_ack_halted", "ns";
        /// The same of a target that had halted with interrupts off: no interrupt wakes it.
        FLUSH_ACK_HALTED_IRQS_OFF = "flush_ack_halted_irqs_off", "ns";
        /// The same of a target that had halted because it had nothing to run.
        FLUSH_ACK_IDLE = "flush_ack_idle", "ns";
        /// From the end of the neighbour's sleep until it goes on.
        NEIGHBOUR_WAKE = "neighbour_wake", "ns";
    }
}

/// The guest functions in which an initiator waits for its flush start with this: the guest profile adds them up.
pub const FLUSH_WAIT_SYMBOL_PREFIX: &str = "flush_wait";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_described() {
        let mut ids: Vec<_> = COUNTERS.iter().chain(HISTOGRAMS).map(|m| m.id).collect();
        assert!(COUNTERS.iter().chain(HISTOGRAMS).all(|m| m.text.trim().ends_with('.')));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), COUNTERS.len() + HISTOGRAMS.len());
    }
}
