//! `dbench`: clients of a file server, each a thread: look-ups under a lock, computing, and now and then a wait for the disk.
//!
//! ```text
//!   3 x { dcache lock { }   work }   a tenth of the requests: journal lock { }   disk   record
//! ```
//! One record is one request. The same program as `sim/src/workload/dbench.rs`, with the same constants: it measures what I/O waits
//! and short locks do together. The disk is the host's, one for all VMs, first come first served (`vmm/src/disk.rs`): once it is busy,
//! more VMs do not get more done. Not here: the page cache and its write-back, merged requests, the mix of operations (published in
//! MB/s; ours is requests a second, the same in every mode).
//!
//! # Check
//! Under the dcache lock every look-up is counted twice, in one sum and for its client; under the journal lock every request
//! that goes to the disk. The sums must be those of the clients whenever one looks (every [`CHECK`]th time), and at the end of a
//! run of limited length. A client's look-ups must be three for each of its requests, and whoever returns from the disk must have
//! been answered (`disk.rs`).

use abi::params::{FAULT_LOST_WORK, FAULT_PERIOD, Params};
use abi::sync::AtomicU64;
use abi::sync::Ordering::Relaxed;

use crate::cpu::{params, rdtsc};
use crate::disk;
use crate::lock::SpinLock;
use crate::thread::{record, stopping, work_error};
use crate::work::{HOLD_NS, compute, compute_around};
use crate::workload::Random;

/// Look-ups of a request.
const LOOKUPS: u64 = 3;
/// Most clients.
const CLIENTS_MAX: usize = 256;
/// How often sums are made.
const CHECK: u64 = 64;

/// A lock, and what is counted under it with plain loads and stores.
struct Ledger {
    lock: SpinLock,
    sum: AtomicU64,
    of: [AtomicU64; CLIENTS_MAX],
}

impl Ledger {
    const fn new() -> Self {
        Self { lock: SpinLock::new(), sum: AtomicU64::new(0), of: [const { AtomicU64::new(0) }; CLIENTS_MAX] }
    }

    /// Counts for a client; `lost`: only half of it.
    fn enter(&self, client: usize, lost: bool) {
        let _guard = self.lock.lock();
        let sum = self.sum.load(Relaxed);
        if sum.is_multiple_of(CHECK) && !self.adds_up() {
            work_error();
        }
        compute(HOLD_NS);
        let own = &self.of[client];
        own.store(own.load(Relaxed) + 1, Relaxed);
        if !lost {
            self.sum.store(sum + 1, Relaxed);
        }
    }

    fn adds_up(&self) -> bool {
        self.sum.load(Relaxed) == self.of.iter().map(|of| of.load(Relaxed)).sum::<u64>()
    }
}

/// `dcache_lock` of 2.6.32.
static DCACHE: Ledger = Ledger::new();
/// `j_state_lock` of the journal.
static JOURNAL: Ledger = Ledger::new();

/// True if the host has made the threads that the parameters ask for.
pub(super) fn fits(params: &Params) -> bool {
    let [clients, ..] = params.args;
    clients as usize <= CLIENTS_MAX && clients == params.kthreads && params.loops_per_ms != 0
}

/// The client of that number.
pub(super) fn thread(number: u32) {
    let [_, request_us, io_per_mille, ..] = params().args;
    let lossy = params().faults & FAULT_LOST_WORK != 0;
    let mut random = Random(params().seed ^ (u64::from(number) << 32));
    let client = number as usize;
    let (mut requests, mut accesses) = (0_u64, 0_u64);
    let mut since = rdtsc();
    while !stopping() {
        for _ in 0..LOOKUPS {
            DCACHE.enter(client, lossy && requests.is_multiple_of(FAULT_PERIOD));
            compute_around(&mut random, u64::from(request_us) * 1000 / LOOKUPS);
        }
        if random.next() % 1000 < u64::from(io_per_mille) {
            JOURNAL.enter(client, false);
            disk::access();
            accesses += 1;
        }
        requests += 1;
        since = record(since);
    }
    let counted = [&DCACHE, &JOURNAL].map(|ledger| {
        let _guard = ledger.lock.lock();
        (ledger.of[client].load(Relaxed), ledger.adds_up())
    });
    if counted != [(LOOKUPS * requests, true), (accesses, true)] {
        work_error();
    }
}
