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
//! `pause_gap` follows from published figures: 7,928,154 exits in 60 s on 8 CPUs while 45 % of the guests' time went into
//! the wait for flushes are 27 us, or 61,900 cycles at 2.27 GHz, of spinning before an exit, far more than the 1.8 us of the
//! window alone: g = 986. With half the window the same law gives 3 us. The published runs had 6.35 times the exits then;
//! what the model makes of it stands in the table `ple-parameters`, as a check.

/// Fraction bits of the fixed-point numbers.
const BITS: u32 = 40;

/// Mean cycles of spinning until the exit, for a window and a mean distance of disturbances; `None` if it never comes:
/// the loop's own turn is longer than the gap, or the window is at least 20 distances (485 million times one of them).
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
    fn the_law_gives_the_published_spinning_of_an_exit() {
        let t = |window| exit_after_cycles(window, 128, 27, 986).unwrap();
        assert!((61_000..63_000).contains(&t(4096)), "{}", t(4096));
        assert!((6_500..7_300).contains(&t(2048)), "{}", t(2048));
    }

    #[test]
    fn a_quiet_loop_exits_after_its_window() {
        let t = exit_after_cycles(4096, 128, 27, 1_000_000_000).unwrap();
        assert!((4090..=4100).contains(&t), "{t}");
    }

    #[test]
    fn a_slow_loop_or_a_noisy_one_never_exits() {
        assert_eq!(exit_after_cycles(4096, 16, 27, 986), None);
        assert_eq!(exit_after_cycles(1 << 20, 128, 27, 986), None);
    }
}
