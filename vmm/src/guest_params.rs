//! What a plan tells its guests: the parameter page of each VM, and which plans no guest can be told.
//!
//! ```text
//!   RunPlan  (axes, workload, --param ...)  ─┐
//!   Options  (faults and limits of tests)   ─┼─► Params, one of each VM ─► boot writes it into the guest's memory
//!   the host (loops_per_ms)                 ─┘
//! ```
//! The plan and the guest each have a type of their own for a workload, a lock and a flush strategy: a plan's is a word
//! of the command line, a guest's a number of the ABI. Here, and nowhere else, the one becomes the other. What the
//! innocent neighbour is told stands in [`neighbour`](crate::neighbour).

use abi::layout::Geometry;
use abi::params::{
    ARGS, FAULT_BROKEN_LOCK, FAULT_EARLY_FREE, FAULT_LOST_WORK, Flush as GuestFlush, Lock as GuestLock, Params,
    Workload as GuestWorkload,
};
use plan::{EngineError, Flush, Inject, Lock, RunPlan, Spin, Workload};

use crate::boot::MEMORY_MAX;
use crate::calibrate::loops_per_ms;
use crate::engine::Options;

/// Timer ticks a second of a guest that has threads to run. A tick forces an exit, 20 to 90 us under kvm_pvm: at 100 a second
/// at most 1 % of the vCPU.
const GUEST_HZ: u32 = 100;

/// What VM number `vm` of the plan is told.
#[must_use]
pub fn params(plan: &RunPlan, vm: u32, options: &Options) -> Params {
    let flush = match plan.axes.flush {
        Flush::Ipi => GuestFlush::Ipi,
        Flush::HaltKick => GuestFlush::HaltKick,
        Flush::OnEnter => GuestFlush::OnEnter,
        Flush::Hypercall => GuestFlush::Hypercall,
        Flush::PvFlush => GuestFlush::PvFlush,
    };
    let lock = match plan.lock {
        Lock::Ticket => GuestLock::Ticket,
        Lock::Unfair => GuestLock::Unfair,
        Lock::Pv => GuestLock::Pv,
        Lock::PvEarly => GuestLock::PvEarly,
    };
    let workload = options.workload.unwrap_or(guest_workload(plan.workload));
    let kthreads = kthreads(plan, workload);
    Params {
        vcpus: plan.vcpus,
        workload: workload as u32,
        flush: flush as u32,
        threads: window_threads(plan),
        chunk_pages: if plan.workload == Workload::Kernbench {
            plan.params.job_pages.max(1)
        } else {
            plan.params.chunk_pages
        },
        search_passes: plan.params.search_passes,
        flush_per_mille: plan.params.flush_per_mille,
        spin_budget: plan.spin_budget,
        lock: lock as u32,
        lock_spins: plan.params.lock_spins,
        guest_hz: if kthreads > 0 { GUEST_HZ } else { 0 },
        kthreads,
        heap_pages: heap_pages(plan),
        loops_per_ms: if computes(workload) { loops_per_ms() } else { 0 },
        faults: if options.broken_lock { FAULT_BROKEN_LOCK } else { 0 }
            | if options.lost_work { FAULT_LOST_WORK } else { 0 }
            | if plan.inject == Some(Inject::EarlyFree) { FAULT_EARLY_FREE } else { 0 },
        args: args(plan),
        ple_window_cycles: if plan.axes.spin == Spin::Ple { plan.ple_window_cycles } else { 0 },
        record_limit: options.record_limit,
        // Different guests of one run, the same guests of equal plans. An odd multiplier keeps them apart.
        seed: plan.seed ^ u64::from(vm + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ..Params::MINIMAL
    }
}

/// True if the guest computes for times of the plan.
const fn computes(workload: GuestWorkload) -> bool {
    use GuestWorkload as G;
    !matches!(workload, G::Ebizzy | G::Flush | G::Doorbell | G::Ipi | G::Gup)
}

/// Threads of the guest's scheduler; none where each vCPU runs its own loop.
fn kthreads(plan: &RunPlan, workload: GuestWorkload) -> u32 {
    match workload {
        GuestWorkload::Hackbench | GuestWorkload::Kernbench | GuestWorkload::Specjbb | GuestWorkload::Dbench => {
            u32::try_from(plan.params.threads(plan.workload, plan.vcpus)).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}

/// Places in the window for each vCPU: for its logical threads, or for its share of the compilers.
const fn window_threads(plan: &RunPlan) -> u32 {
    match plan.workload {
        Workload::Kernbench => plan.params.jobs.div_ceil(plan.vcpus),
        _ => plan.params.threads_per_vcpu,
    }
}

/// Pages of heap that the workload's tables take.
const fn heap_pages(plan: &RunPlan) -> u32 {
    let params = &plan.params;
    match plan.workload {
        // A queue a receiver.
        Workload::Hackbench => params.groups * params.pairs,
        // A word a transaction.
        Workload::Specjbb => (params.heap_transactions + params.warehouses).div_ceil(512),
        _ => 0,
    }
}

/// The constants of the plan's workload, in the order of its list.
fn args(plan: &RunPlan) -> [u32; ARGS] {
    let mut args = [0; ARGS];
    for (arg, info) in args.iter_mut().zip(plan.workload.params()) {
        *arg = plan.params.get(info.id).unwrap_or_default();
    }
    args
}

/// The guest's own program for a workload.
const fn guest_workload(workload: Workload) -> GuestWorkload {
    match workload {
        Workload::Ebizzy => GuestWorkload::Ebizzy,
        Workload::Flush => GuestWorkload::Flush,
        Workload::Spinlock => GuestWorkload::Spinlock,
        Workload::TlbStorm => GuestWorkload::TlbStorm,
        Workload::Ipi => GuestWorkload::Ipi,
        Workload::Gup => GuestWorkload::Gup,
        Workload::Hackbench => GuestWorkload::Hackbench,
        Workload::Specjbb => GuestWorkload::Specjbb,
        Workload::Dbench => GuestWorkload::Dbench,
        Workload::Kernbench => GuestWorkload::Kernbench,
    }
}

/// Refuses a workload that is too large for the real guest.
///
/// # Errors
/// A sentence that names it and what would run it.
pub fn check_workload(plan: &RunPlan) -> Result<(), EngineError> {
    let limits = [
        ("jobs", plan.params.jobs, Geometry::THREADS_MAX * plan.vcpus),
        ("job_pages", plan.params.job_pages, Geometry::CHUNK_PAGES_MAX),
    ];
    let beyond =
        limits.into_iter().find(|(_, value, max)| value > max).filter(|_| plan.workload == Workload::Kernbench);
    beyond.map_or(Ok(()), |(name, value, max)| {
        Err(EngineError::BadPlan(format!(
            "--param {name}={value} is more than a real guest with {} vCPUs holds: take {max} at most, or add --engine sim",
            plan.vcpus
        )))
    })
}

/// Refuses guests that would reach into KVM's own pages. What has no memory map at all fails its boot by name.
///
/// # Errors
/// A sentence with the flags that make the guest so large.
pub fn check_size(plan: &RunPlan) -> Result<(), EngineError> {
    let (vcpus, threads, chunk_pages) = (plan.vcpus, plan.params.threads_per_vcpu, plan.params.chunk_pages);
    let params = Params { vcpus, threads, chunk_pages, ..Params::MINIMAL };
    let bytes = params.geometry().map_or(0, |geometry| geometry.memory_size());
    if bytes <= MEMORY_MAX {
        return Ok(());
    }
    Err(EngineError::BadPlan(format!(
        "--vcpus {vcpus} with --threads-per-vcpu {threads} and --chunk-pages {chunk_pages} need a guest of {} MiB; at most {} MiB \
         fit below the pages that KVM keeps for itself",
        bytes >> 20,
        MEMORY_MAX >> 20
    )))
}
