//! `spinlock`: every vCPU takes the VM's one lock, holds it, lets it go, computes for a while.
//!
//! ```text
//!   work: gap    lock {  read the count   work: hold   write it, one higher  }    record
//! ```
//! One record is one acquisition. The same program as `sim/src/workload/spinlock.rs`, with the same constants. It measures
//! the lock and nothing else: the worst case of holder and waiter preemption. Fairness among the vCPUs of a VM is in
//! `vcpu_records`. Times are computed, not waited for (`work.rs`), so that a vCPU that has lost its CPU has its computing
//! still to do.
//!
//! # Check
//! The count is no atomic counter: it is read when the lock is taken and written when it is let go, with the whole hold time
//! between. Each vCPU counts its own acquisitions, under the lock too. So for whoever has the lock the sum of all of them is the
//! count; two owners at a time lose a count for ever, and every [`CHECK`]th acquisition looks.

use abi::VCPUS_MAX;
use abi::params::Params;
use abi::sync::AtomicU64;
use abi::sync::Ordering::Relaxed;

use crate::cpu::{Cpu, rdtsc};
use crate::lock::SpinLock;
use crate::work::{compute, compute_around};
use crate::workload::Random;

/// How often the sum is made.
const CHECK: u64 = 64;

static LOCK: SpinLock = SpinLock::new();
/// Plain loads and stores only.
static COUNT: AtomicU64 = AtomicU64::new(0);
static OWN: [AtomicU64; VCPUS_MAX as usize] = [const { AtomicU64::new(0) }; VCPUS_MAX as usize];

/// Runs until the record limit, or for ever.
pub(super) fn run(cpu: Cpu, params: &Params) {
    let [_, hold_ns, gap_ns, ..] = params.args;
    let counters = cpu.counters();
    let mut random = Random(params.seed ^ (u64::from(cpu.index) << 56));
    while params.record_limit == 0 || counters.progress.get() < params.record_limit {
        compute_around(&mut random, gap_ns.into());
        let begin = rdtsc();
        if !acquire_once(cpu, hold_ns.into()) {
            counters.work_errors.add(1);
        }
        cpu.results.record_time.record(rdtsc().saturating_sub(begin));
        counters.records.add(1);
        counters.progress.add(1);
    }
}

/// False if the count is wrong.
fn acquire_once(cpu: Cpu, hold_ns: u64) -> bool {
    let guard = LOCK.lock();
    let count = COUNT.load(Relaxed);
    let right = !count.is_multiple_of(CHECK) || count == OWN.iter().map(|own| own.load(Relaxed)).sum::<u64>();
    compute(hold_ns);
    let own = &OWN[cpu.index as usize];
    own.store(own.load(Relaxed) + 1, Relaxed);
    COUNT.store(count + 1, Relaxed);
    drop(guard);
    right
}
