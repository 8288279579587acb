//! Computing for a given time, as iterations.
//!
//! A thread that computes until the clock says so gets its computing for free while its vCPU has no CPU. So times of the plan
//! become iterations of one loop, whose speed the host has measured (`Params::loops_per_ms`, `vmm/src/calibrate.rs`): the
//! smallest of many short samples, once for all runs of a process, so that every mode does the same work.

use core::arch::asm;

use crate::cpu::params;
use crate::workload::Random;

/// How far pieces of work lie around their mean, in percent: as in the simulator.
const SPREAD_PERCENT: u64 = 30;

/// A short section under a kernel lock: `lock_hold` of `experiments/machines/generic.toml`.
pub(crate) const HOLD_NS: u64 = 400;

/// Computes for `ns`, spread around it.
pub(crate) fn compute_around(random: &mut Random, ns: u64) {
    let width = ns * SPREAD_PERCENT / 100;
    compute(ns - width + random.next() % (2 * width + 1));
}

/// Computes for `ns`.
#[inline(never)]
pub(crate) fn compute(ns: u64) {
    let loops = ns * u64::from(params().loops_per_ms) / 1_000_000;
    if loops == 0 {
        return;
    }
    // SAFETY: touches the two named registers and the flags. The same loop stands in the host's calibration.
    unsafe {
        asm!("2:", "imul {x}, {x}", "dec {n}", "jnz 2b", n = inout(reg) loops => _, x = inout(reg) 3_u64 => _,
            options(nomem, nostack));
    }
}
