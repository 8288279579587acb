//! What guests do, and the constants of it: one list that the engines, the command line, `vmmlab list` and the settings of a
//! result are made from.
//!
//! A workload is the same on both engines: the same parameters, the same unit of work (its *record*). The constants are
//! part of the plan, equal in every mode and recorded in the result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModeError;
use crate::mode::named;

named! {
    /// What the guest does.
    Workload, "workload" {
        /// Chunk allocate, touch, copy, search, free with shootdown; two threads a vCPU.
        Ebizzy = "ebizzy",
        /// Groups of senders and receivers over locked queues.
        Hackbench = "hackbench",
        /// A parallel build: many short processes, and a serial tail.
        Kernbench = "kernbench",
        /// Warehouses that allocate, and stop-the-world collections.
        Specjbb = "specjbb",
        /// Clients of a file server on one shared disk.
        Dbench = "dbench",
        /// Every vCPU takes one lock again and again, nothing else.
        Spinlock = "spinlock",
        /// Every vCPU flushes every other, nothing else.
        Flush = "flush",
        /// The same, and each flush takes away translations that are in use.
        TlbStorm = "tlb-storm",
        /// Interrupts between vCPUs, there and back.
        Ipi = "ipi",
        /// Lockless page-table walks with interrupts off, while the pages are unmapped and freed.
        Gup = "gup",
    }
}

named! {
    /// How the guest's spinlocks wait.
    Lock, "lock" {
        /// Ticket locks: first come first served, spin until it is one's turn.
        Ticket = "ticket",
        /// Test-and-set: whoever looks first when it is free; a waiter without a CPU holds up nobody.
        Unfair = "unfair",
        /// Paravirt ticket locks: spin a budget, halt; who unlocks kicks the next in line.
        Pv = "pv",
        /// The same, but who waits for a vCPU that has lost its CPU halts at once (`pv_wait_early`, `vcpu_is_preempted`).
        PvEarly = "pv-early",
    }
}

impl Default for Lock {
    /// What every kernel of the tables has.
    fn default() -> Self {
        Self::Ticket
    }
}

impl Lock {
    /// True if who waits may halt.
    #[must_use]
    pub const fn is_paravirt(self) -> bool {
        matches!(self, Self::Pv | Self::PvEarly)
    }
}

/// A workload in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// What one record is, in the plural: `messages`.
    pub records: &'static str,
    /// What it does.
    pub text: &'static str,
    /// What it does not measure.
    pub caveat: &'static str,
}

impl Workload {
    /// The workload in words.
    #[must_use]
    pub const fn about(self) -> About {
        let (records, text, caveat) = match self {
            Self::Ebizzy => (
                "records",
                "allocate a chunk, touch, copy, search, free it: one TLB flush a record",
                "locks, I/O, memory pressure",
            ),
            Self::Hackbench => (
                "messages",
                "groups of senders and receivers over locked queues: wake-ups and short spinlocks",
                "real work: its tasks do nothing but wake each other",
            ),
            Self::Kernbench => (
                "jobs",
                "make -j: short processes with page faults and an exit flush, then a serial tail",
                "the disk: all files are cached",
            ),
            Self::Specjbb => (
                "transactions",
                "warehouses that allocate; a collection stops the world and runs on all vCPUs",
                "I/O and locks of the application: warehouses share nothing but the heap",
            ),
            Self::Dbench => (
                "requests",
                "file server clients: metadata under locks, some requests wait for one shared disk",
                "a real disk: every access takes the same time, first come first served",
            ),
            Self::Spinlock => (
                "acquisitions",
                "every vCPU takes one spinlock, holds it, lets it go",
                "anything but the lock: the worst case",
            ),
            Self::Flush => ("flushes", "every vCPU flushes all others, nothing else", "anything but the flush"),
            Self::TlbStorm => (
                "flushes",
                "every vCPU takes pages under a lock, touches, reads and unmaps them, and flushes all others",
                "anything but page faults, one lock and the flush",
            ),
            Self::Ipi => (
                "round trips",
                "each vCPU interrupts each sibling in turn, and waits for its answer",
                "anything but the interrupt",
            ),
            Self::Gup => (
                "walks",
                "each vCPU unmaps and frees pages, and walks to its siblings' with interrupts off and no lock",
                "reads through the TLB: real guests only",
            ),
        };
        About { records, text, caveat }
    }

    /// True where the guest takes spinlocks, so that [`Lock`] matters.
    #[must_use]
    pub const fn has_locks(self) -> bool {
        !matches!(self, Self::Ebizzy | Self::Specjbb | Self::Flush | Self::Ipi | Self::Gup)
    }

    /// True if the simulator has it, too: its page tables are not walked.
    #[must_use]
    pub const fn is_simulated(self) -> bool {
        !matches!(self, Self::Gup)
    }

    /// Its constants.
    pub fn params(self) -> impl Iterator<Item = &'static ParamInfo> {
        PARAMS.iter().filter(move |info| info.workloads.contains(&self))
    }
}

/// One constant as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name in plans, settings and `--param`.
    pub id: &'static str,
    /// How the command line names it.
    pub flag: &'static str,
    /// What it counts: `pages`, `us`, ...
    pub unit: &'static str,
    /// What it is.
    pub text: &'static str,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
    /// The value where nothing is said.
    pub default: u32,
    /// Who reads it.
    pub workloads: &'static [Workload],
}

/// Declares the constants: fields, defaults, ranges and access by name come from this one list.
macro_rules! params {
    ($($(#[doc = $text:literal])+ $id:ident = $default:literal $unit:literal, $min:literal..=$max:literal, $flag:literal,
        [$($workload:ident),+];)+) => {
        /// Constants of the workloads, equal in every mode and recorded in the result; [`PARAMS`] describes them.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        // Unknown fields pass: results of later versions must be readable.
        #[serde(default)]
        pub struct WorkloadParams {
            $($(#[doc = $text])+ pub $id: u32,)+
        }
        /// Every constant.
        pub const PARAMS: &[ParamInfo] = &[$(ParamInfo {
            id: stringify!($id), flag: $flag, unit: $unit, text: concat!($($text),+), min: $min, max: $max,
            default: $default, workloads: &[$(Workload::$workload),+],
        },)+];
        impl Default for WorkloadParams {
            /// A record of ebizzy takes about 200 us without the waiting for its flush, on a 2.1 GHz processor under
            /// kvm_pvm: 135 us to map, touch, copy and unmap 16 pages (mostly the hypervisor's page faults), of these
            /// 33 us for the own flush; 2.4 us a search pass. The records that the published tables were made of are
            /// modelled as 190 us of work and 49 us of unmapping. The other workloads are sized by what their
            /// published runs asked for (`hackbench 8`, `kernbench -o 16`, `dbench 8`, 16 warehouses).
            fn default() -> Self {
                Self { $($id: $default,)+ }
            }
        }
        impl WorkloadParams {
            /// The constant of that name.
            #[must_use]
            pub fn get(&self, id: &str) -> Option<u32> {
                match id { $(stringify!($id) => Some(self.$id),)+ _ => None }
            }
            fn get_mut(&mut self, id: &str) -> Option<&mut u32> {
                match id { $(stringify!($id) => Some(&mut self.$id),)+ _ => None }
            }
        }
    };
}

params! {
    /// Pages of one chunk (4 KiB each).
    chunk_pages = 16 "pages", 1..=1024, "--chunk-pages", [Ebizzy, TlbStorm, Gup];
    /// Search passes over the chunk's copy: the computing share of a record.
    search_passes = 24 "passes", 0..=100_000, "--search-passes", [Ebizzy];
    /// Of 1,000 records, how many end in a flush of all vCPUs.
    flush_per_mille = 1000 "per mille", 0..=1000, "--flush-per-mille", [Ebizzy];
    /// Logical guest threads a vCPU.
    threads_per_vcpu = 2 "threads", 1..=16, "--threads-per-vcpu", [Ebizzy, Flush, TlbStorm, Gup];

    /// Groups, each with queues of its own.
    groups = 8 "groups", 1..=64, "--param groups", [Hackbench];
    /// Senders of a group, and as many receivers.
    pairs = 20 "threads", 1..=64, "--param pairs", [Hackbench];
    /// Computing in each send and each receive, outside of the queue's lock.
    message_ns = 2000 "ns", 100..=1_000_000, "--param message_ns", [Hackbench];

    /// Processes that make runs at once (`-j`).
    jobs = 16 "processes", 1..=256, "--param jobs", [Kernbench];
    /// Jobs of one build, before its serial tail.
    build_jobs = 160 "jobs", 1..=10_000, "--param build_jobs", [Kernbench];
    /// Computing of a job.
    job_us = 20_000 "us", 1..=10_000_000, "--param job_us", [Kernbench];
    /// Pages that a job faults in, and gives back when it exits.
    job_pages = 1000 "pages", 0..=100_000, "--param job_pages", [Kernbench];
    /// Computing of the serial tail: the link.
    link_us = 50_000 "us", 0..=10_000_000, "--param link_us", [Kernbench];

    /// Warehouses: one thread each.
    warehouses = 16 "threads", 1..=256, "--param warehouses", [Specjbb];
    /// Computing of a transaction.
    transaction_us = 50 "us", 1..=1_000_000, "--param transaction_us", [Specjbb];
    /// Transactions of all warehouses that fill the heap: then it is collected.
    heap_transactions = 16_000 "transactions", 1..=10_000_000, "--param heap_transactions", [Specjbb];
    /// Computing of a collection, all collector threads (one a vCPU) together.
    collection_us = 80_000 "us", 1..=10_000_000, "--param collection_us", [Specjbb];

    /// Clients: one thread each.
    clients = 8 "threads", 1..=256, "--param clients", [Dbench];
    /// Computing of a request, outside of locks.
    request_us = 40 "us", 1..=1_000_000, "--param request_us", [Dbench];
    /// Of 1,000 requests, how many wait for the disk.
    io_per_mille = 100 "per mille", 0..=1000, "--param io_per_mille", [Dbench];
    /// Time that the one disk of the host takes for an access.
    disk_us = 150 "us", 1..=1_000_000, "--param disk_us", [Dbench];

    /// Turns that a paravirt spinlock spins before it halts (`SPIN_THRESHOLD`; 2^11 as posted in 2012).
    lock_spins = 2048 "turns", 0..=1_073_741_824, "--param lock_spins", [Spinlock, Hackbench, Kernbench, Dbench, TlbStorm];
    /// Time that the lock is held.
    hold_ns = 1000 "ns", 0..=10_000_000, "--param hold_ns", [Spinlock];
    /// Computing of each vCPU between letting go and asking again.
    gap_ns = 20_000 "ns", 1..=100_000_000, "--param gap_ns", [Spinlock];

    /// Time that the lock of the page allocator is held for a chunk, with interrupts off where one waits for it; 0: not taken.
    zone_hold_ns = 1000 "ns", 0..=10_000_000, "--param zone_hold_ns", [TlbStorm];

    /// vCPUs of a VM that send; the others halt and answer.
    ipi_senders = 64 "vCPUs", 1..=64, "--param ipi_senders", [Ipi];

    /// Turns of a two-instruction loop between the two looks of a walk, with interrupts off.
    walk_turns = 50 "turns", 1..=100_000, "--param walk_turns", [Gup];
}

impl WorkloadParams {
    /// Sets the constant of that name; the range is checked with the plan.
    ///
    /// # Errors
    /// A sentence with the nearest name, if there is none of that name.
    pub fn set(&mut self, id: &str, value: u32) -> Result<(), ModeError> {
        match self.get_mut(id) {
            Some(param) => {
                *param = value;
                Ok(())
            }
            None => Err(ModeError::unknown("parameter", id, PARAMS.iter().map(|info| info.id))),
        }
    }

    /// Guest threads of one VM.
    #[must_use]
    pub fn threads(&self, workload: Workload, vcpus: u32) -> u64 {
        let vcpus = u64::from(vcpus);
        match workload {
            Workload::Ebizzy | Workload::Flush | Workload::TlbStorm | Workload::Gup => {
                vcpus * u64::from(self.threads_per_vcpu)
            }
            Workload::Hackbench => 2 * u64::from(self.groups) * u64::from(self.pairs),
            // make itself, and the processes that it runs.
            Workload::Kernbench => 1 + u64::from(self.jobs),
            Workload::Specjbb => u64::from(self.warehouses) + vcpus,
            Workload::Dbench => self.clients.into(),
            Workload::Spinlock | Workload::Ipi => vcpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_is_described_read_by_somebody_and_within_its_range_by_default() {
        let mut params = WorkloadParams::default();
        for info in PARAMS {
            assert!(!info.workloads.is_empty() && info.text.trim().ends_with('.'), "{}", info.id);
            assert!((info.min..=info.max).contains(&info.default), "{}", info.id);
            assert_eq!(params.get(info.id), Some(info.default));
            params.set(info.id, info.max).unwrap();
            assert_eq!(params.get(info.id), Some(info.max));
        }
        let error = params.set("gruops", 1).unwrap_err().to_string();
        assert!(error.contains("parameter 'gruops'") && error.contains("'groups'"), "{error}");
    }

    #[test]
    fn documents_of_older_and_newer_versions_read() {
        let old = r#"{"chunk_pages":64,"search_passes":4,"flush_per_mille":340,"threads_per_vcpu":2}"#;
        let params: WorkloadParams = serde_json::from_str(old).unwrap();
        assert_eq!((params.chunk_pages, params.groups), (64, 8));
        let newer = r#"{"chunk_pages":64,"a_constant_of_the_future":1}"#;
        assert_eq!(serde_json::from_str::<WorkloadParams>(newer).unwrap().chunk_pages, 64);
    }

    #[test]
    fn every_workload_says_what_its_record_is() {
        for workload in Workload::ALL {
            let about = workload.about();
            assert!(about.records.ends_with('s') && !about.text.is_empty() && !about.caveat.is_empty());
            assert!(workload.params().count() > 0, "{workload}");
            assert!(WorkloadParams::default().threads(*workload, 8) >= 8, "{workload}");
        }
    }
}
