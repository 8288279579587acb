//! How fast the guest's computing loop is on this host.
//!
//! Workloads of the guest compute for times that the plan names. A guest that looked at a clock would get the time for free in
//! which it has no CPU, so it counts iterations of a loop (`guest/kernel/work.rs`), whose speed is measured here: the
//! smallest of many short samples, each too short to be preempted often. Once for all runs of a process, so that every mode
//! and every VM does the same work; on a processor whose speed changes, the same work takes another time later.

use std::arch::asm;
use std::sync::OnceLock;

use crate::clock::monotonic_ns;

/// Iterations of a sample: about 30 us.
const SAMPLE_LOOPS: u64 = 20_000;
const SAMPLES: u32 = 200;

/// Iterations a millisecond.
pub fn loops_per_ms() -> u32 {
    static MEASURED: OnceLock<u32> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let shortest = (0..SAMPLES).map(|_| sample_ns()).min().unwrap_or(1).max(1);
        u32::try_from(SAMPLE_LOOPS * 1_000_000 / shortest).unwrap_or(u32::MAX).max(1)
    })
}

fn sample_ns() -> u64 {
    let begin = monotonic_ns();
    // SAFETY: touches the two named registers and the flags. The same loop stands in the guest kernel.
    unsafe {
        asm!("2:", "imul {x}, {x}", "dec {n}", "jnz 2b", n = inout(reg) SAMPLE_LOOPS => _, x = inout(reg) 3_u64 => _,
            options(nomem, nostack));
    }
    monotonic_ns() - begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_takes_a_few_cycles() {
        let loops = loops_per_ms();
        assert!((50_000..10_000_000).contains(&loops), "{loops} iterations a millisecond");
        assert_eq!(loops, loops_per_ms(), "measured once");
    }
}
