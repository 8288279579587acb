//! When a pause loop makes the processor leave the guest.
//!
//! Units: cycles. The processor counts the cycles since the first PAUSE of a loop; two PAUSEs further apart than
//! `ple_gap` begin a new loop; a loop that lasts `ple_window` exits. A loop on a contended line is disturbed now and then
//! by more than `ple_gap`, so an exit needs a window free of disturbances. With disturbances at a mean distance g, at
//! random, the mean spinning before an exit is that of the first run of length w in a Poisson process:
//!
//! ```text
//!     t(w) = g (e^(w/g) - 1)
//! ```
//! The published counts show this law: `ple_window` 2048 in place of 4096 gave 6.35 times the exits. t(4096) / t(2048) =
//! e^(2048/g) + 1 = 6.35 gives g = 1221 cycles (`pause_gap`), hence t(4096) = 33,700 cycles or 15 us at 2.27 GHz: far
//! more than the 1.8 us that the window alone would suggest.

/// Fraction bits of the fixed-point numbers.
const BITS: u32 = 40;

/// Mean cycles of spinning until the exit, for a window and a mean distance of disturbances; `None` if it never comes:
/// the loop's own turn is longer than the gap, or the window is above 20 distances (485 million times one of them).
#[must_use]
pub(crate) fn exit_after_cycles(window: u64, gap: u64, turn: u64, pause_gap: u64) -> Option<u64> {
    if turn > gap || window / pause_gap >= 20 {
        return None;
    }
    let x = (u128::from(window) << BITS) / u128::from(pause_gap);
    // e^x - 1 as its series; the terms fall once n > x <= 21, and below one unit in the last place by n = 80.
    let (mut term, mut sum) = (1u128 << BITS, 0u128);
    for n in 1..=80u128 {
        term = ((term * x) >> BITS) / n;
        sum += term;
    }
    u64::try_from((sum * u128::from(pause_gap)) >> BITS).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_gives_the_published_ratio_of_exits() {
        let t = |window| exit_after_cycles(window, 128, 27, 1221).unwrap();
        let ratio_percent = t(4096) * 100 / t(2048);
        assert!((630..640).contains(&ratio_percent), "{ratio_percent}");
        assert!((33_000..34_500).contains(&t(4096)), "{}", t(4096));
    }

    #[test]
    fn a_quiet_loop_exits_after_its_window() {
        let t = exit_after_cycles(4096, 128, 27, 1_000_000_000).unwrap();
        assert!((4090..=4100).contains(&t), "{t}");
    }

    #[test]
    fn a_slow_loop_or_a_noisy_one_never_exits() {
        assert_eq!(exit_after_cycles(4096, 16, 27, 1221), None);
        assert_eq!(exit_after_cycles(1 << 20, 128, 27, 1221), None);
    }
}
