//! The clocks of a run, all as nanoseconds in a `u64`.
//!
//! Every time that threads tell each other (`..._ns` in a message, a deadline, a record of the trace) is CLOCK_MONOTONIC. CPU time is
//! compared with itself only. A guest counts cycles of its TSC, which become ns where the host reads them.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in ns; async-signal-safe.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time of the calling thread in ns.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Neither clock is ever negative: one starts at boot, the other with the thread.
fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Cycles of a TSC of `tsc_khz` as ns.
#[must_use]
pub fn cycles_to_ns(cycles: u64, tsc_khz: u32) -> u64 {
    let ns = u128::from(cycles) * 1_000_000 / u128::from(tsc_khz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
