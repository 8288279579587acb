//! Computing for a given time, as iterations.
//!
//! A thread that computes until the clock says so gets its computing for free while its vCPU has no CPU. So times of the plan
//! become iterations of one loop, whose speed the host has measured (`Params::loops_per_ms`, `vmm/src/calibrate.rs`): the
//! smallest of many short samples, once for all runs of a process, so that every mode does the same work.

use core::arch::asm;

use crate::cpu::params;
use crate::preempt::current;
use crate::thread::work_error;
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

/// Computes for `ns`. A mark in registers and in the red zone must be there at the end: threads are preempted here more than
/// anywhere else, so this is where a context that is not kept whole shows, as a work error.
#[inline(never)]
pub(crate) fn compute(ns: u64) {
    let loops = ns * u64::from(params().loops_per_ms) / 1_000_000;
    if loops == 0 {
        return;
    }
    let mark = loops.rotate_left(32) ^ u64::from(current());
    let (saved_by_trampoline, saved_by_switch, vector, red_zone): (u64, u64, u64, u64);
    // SAFETY: touches the named registers, the flags, and the lowest word of the red zone, which belongs to whoever runs
    // and which the compiler leaves to an `asm!` without `nostack`. The same loop stands in the host's calibration.
    unsafe {
        asm!(
            "mov r11, {mark}", "mov r12, {mark}", "movq xmm15, {mark}", "mov [rsp - 128], {mark}",
            "2:", "imul {x}, {x}", "dec {n}", "jnz 2b",
            "movq {vector}, xmm15", "mov {red_zone}, [rsp - 128]",
            mark = in(reg) mark, n = inout(reg) loops => _, x = inout(reg) 3_u64 => _,
            vector = lateout(reg) vector, red_zone = lateout(reg) red_zone,
            out("r11") saved_by_trampoline, out("r12") saved_by_switch, out("xmm15") _,
        );
    }
    if [saved_by_trampoline, saved_by_switch, vector, red_zone] != [mark; 4] {
        work_error();
    }
}
