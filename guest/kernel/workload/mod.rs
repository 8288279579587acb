//! What the vCPUs do. One file per workload; this one checks what the host gave, and starts the one that it names.
//!
//! ```text
//!   start: parameters ─► Online ─┬─► ebizzy, flush, tlb-storm, spinlock, ipi, gup, doorbell: a loop a vCPU ─► Done
//!                                └─► the others: threads of the guest's scheduler (thread.rs) ─► Done
//! ```
mod dbench;
mod ebizzy;
mod gup;
mod hackbench;
mod ipi;
mod kernbench;
mod neighbour;
mod specjbb;
mod spinlock;

use abi::call::{Call, Report};
use abi::params::{Params, Workload};
use abi::vcpu::Phase;

use crate::cpu::{Cpu, rdtsc};
use crate::flush::Flusher;
use crate::thread;

/// Checks what the host gave and starts.
pub(crate) fn start(cpu: Cpu, params: &'static Params) -> ! {
    let valid = params.version == abi::VERSION && params.flush_per_mille <= 1000;
    let (Some(geometry), Some(workload), Some(flusher), true) =
        (params.geometry(), params.workload(), Flusher::new(params), valid)
    else {
        cpu.stop(Report::BadParams)
    };
    let ready = match workload {
        Workload::Ebizzy | Workload::Flush | Workload::Doorbell => true,
        Workload::Spin | Workload::Sleeper => params.loops_per_ms != 0,
        Workload::Spinlock | Workload::TlbStorm => params.loops_per_ms != 0 && params.lock().is_some(),
        Workload::Ipi | Workload::Gup => params.vcpus > 1,
        Workload::Hackbench => hackbench::fits(params),
        Workload::Dbench => dbench::fits(params),
        Workload::Kernbench => kernbench::fits(params),
        Workload::Specjbb => specjbb::fits(params),
    };
    if !ready {
        cpu.stop(Report::BadParams)
    }
    cpu.call(Call::Report, Report::Online as u32);
    crate::flush::SPACE.come_online(cpu.index);
    cpu.phase(Phase::Work);
    match workload {
        Workload::Doorbell => doorbell(cpu, params),
        Workload::Hackbench => thread::run(cpu, geometry, hackbench::thread),
        Workload::Dbench => thread::run(cpu, geometry, dbench::thread),
        Workload::Kernbench => thread::run(cpu, geometry, kernbench::thread),
        Workload::Specjbb => thread::run(cpu, geometry, specjbb::thread),
        Workload::Spinlock => spinlock::run(cpu, params),
        Workload::Ipi => ipi::run(cpu, params),
        Workload::Gup => gup::run(cpu, params, geometry, flusher),
        Workload::Spin | Workload::Sleeper => neighbour::run(cpu, params, workload == Workload::Sleeper),
        _ => ebizzy::run(cpu, params, geometry, flusher, workload),
    }
    cpu.stop(Report::Done)
}

/// No-op calls, each timed.
fn doorbell(cpu: Cpu, params: &Params) {
    let progress = &cpu.counters().progress;
    while params.record_limit == 0 || progress.get() < params.record_limit {
        let begin = rdtsc();
        cpu.call(Call::Nop, 0);
        cpu.results.record_time.record(rdtsc().saturating_sub(begin));
        progress.add(1);
    }
}

/// splitmix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        // A remainder fits.
        u32::try_from(self.next() % u64::from(n)).unwrap_or(0)
    }
}
