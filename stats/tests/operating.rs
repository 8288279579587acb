//! Operating characteristics: what the verdicts do on data whose truth is known, with fixed seeds.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use stats::{ALPHA, BLOCKS_MIN, Better, Margin, Test, Tests, Verdict, blocks_to_settle, verdict};

/// Draws that are the same on every machine.
struct Source(Xoshiro256PlusPlus);

impl Source {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        // 52 bits are exact.
        #[allow(clippy::cast_precision_loss)]
        let bits = (self.0.next_u64() >> 12) as f64;
        (bits + 0.5) / 4_503_599_627_370_496.0
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Mostly quiet, one time in ten a neighbour: what a shared machine does.
    fn heavy(&mut self) -> f64 {
        if self.uniform() < 0.1 { 8.0 * self.normal() } else { self.normal() }
    }

    /// Values of `blocks` blocks: log of a rate, with noise of that standard deviation.
    fn blocks(&mut self, blocks: usize, centre: f64, noise: f64, draw: fn(&mut Self) -> f64) -> Vec<f64> {
        (0..blocks).map(|_| centre + noise * draw(self)).collect()
    }
}

/// Both designs: paired by differences, unpaired by values.
fn test(tests: &mut Tests, paired: bool, old: &[f64], new: &[f64]) -> Test {
    let differences: Vec<f64> = old.iter().zip(new).map(|(a, b)| b - a).collect();
    if paired { tests.paired(&differences) } else { tests.unpaired(old, new) }.unwrap()
}

fn judge(test: &Test, margin: Margin) -> Verdict {
    verdict(test, test.p, ALPHA, margin, Better::Higher)
}

/// How many of `trials` end in one of `wanted`.
fn count(
    (trials, seed): (u32, u64),
    (paired, blocks): (bool, usize),
    (shift, noise, margin): (f64, f64, Margin),
    draw: fn(&mut Source) -> f64,
    wanted: &[Verdict],
) -> u32 {
    let (mut source, mut tests) = (Source::new(seed), Tests::default());
    let mut found = 0;
    for _ in 0..trials {
        let old = source.blocks(blocks, 7.0, noise, draw);
        let new = source.blocks(blocks, 7.0 + shift, noise, draw);
        found += u32::from(wanted.contains(&judge(&test(&mut tests, paired, &old, &new), margin)));
    }
    found
}

const ALARMS: &[Verdict] = &[Verdict::Better, Verdict::Worse];

#[test]
fn without_a_margin_false_alarms_come_at_most_at_alpha_and_a_point() {
    for (seed, paired, blocks, draw) in [
        (1, true, 6, Source::normal as fn(&mut Source) -> f64),
        (2, true, 10, Source::normal),
        (3, true, 10, Source::heavy),
        (4, true, 20, Source::heavy),
        (5, false, 6, Source::normal),
        (6, false, 8, Source::heavy),
        (7, false, 10, Source::normal),
    ] {
        let alarms = count((2000, seed), (paired, blocks), (0.0, 0.01, Margin::plain(0.0)), draw, ALARMS);
        assert!(alarms <= 120, "{alarms} of 2000, paired {paired}, {blocks} blocks");
        assert!(alarms >= 20, "{alarms} of 2000 is a test that cannot find anything, {blocks} blocks");
    }
}

#[test]
fn five_percent_at_one_percent_of_noise_are_found_in_ten_blocks() {
    let margin = Margin::percent(2.0);
    for (seed, paired) in [(11, true), (12, false)] {
        for (shift, want) in [(0.05f64.ln_1p(), Verdict::Better), ((-0.05f64).ln_1p(), Verdict::Worse)] {
            let right = count((1000, seed), (paired, 10), (shift, 0.01, margin), Source::normal, &[want]);
            assert!(right >= 990, "{right} of 1000 are {want:?}, paired {paired}");
        }
    }
}

#[test]
fn equal_sides_are_shown_to_be_the_same_and_are_never_a_finding_beyond_the_margin() {
    let margin = Margin::percent(2.0);
    let of = |wanted| count((1000, 21), (true, 10), (0.0, 0.01, margin), Source::normal, wanted);
    let (same, alarms) = (of(&[Verdict::Same]), of(ALARMS));
    assert!(same >= 970 && alarms == 0, "{same} SAME, {alarms} alarms");
    // On the margin itself: equality may be claimed wrongly one time in twenty.
    let wrong = count((2000, 22), (true, 10), (0.02f64.ln_1p(), 0.01, margin), Source::normal, &[Verdict::Same]);
    assert!(wrong <= 120, "{wrong} of 2000 SAME with a change as large as the margin");
}

#[test]
fn below_six_blocks_there_is_never_a_verdict() {
    for blocks in 1..BLOCKS_MIN {
        for paired in [true, false] {
            let unclear = count(
                (200, 31),
                (paired, blocks),
                (2.0, 0.001, Margin::percent(2.0)),
                Source::normal,
                &[Verdict::Unclear],
            );
            assert_eq!(unclear, 200, "{blocks} blocks, paired {paired}");
        }
    }
}

#[test]
fn the_proposed_number_of_blocks_settles_it_most_of_the_time() {
    // A change of 3 % under 4 % of noise: eight blocks are rarely enough.
    let (shift, noise, margin) = (0.03f64.ln_1p(), 0.04, Margin::percent(2.0));
    for (seed, paired) in [(41, true), (42, false)] {
        let (mut source, mut tests) = (Source::new(seed), Tests::default());
        let (mut unclear, mut proposed) = (0, Vec::new());
        for _ in 0..200 {
            let old = source.blocks(8, 7.0, noise, Source::normal);
            let new = source.blocks(8, 7.0 + shift, noise, Source::normal);
            let found = test(&mut tests, paired, &old, &new);
            if judge(&found, margin) == Verdict::Unclear {
                unclear += 1;
                proposed.extend(blocks_to_settle(&found, ALPHA, margin));
            }
        }
        proposed.sort_unstable();
        let middle = proposed[proposed.len() / 2];
        // By theory: 2 noise^2 (1.96 + 1.28)^2 / shift^2 = 38 blocks, for either design.
        assert!(unclear > 100 && (20..=120).contains(&middle), "{unclear} unclear, {middle} blocks");
    }
}

#[test]
fn a_proposal_is_never_fewer_blocks_than_can_conclude_and_none_on_the_margin() {
    let mut tests = Tests::default();
    let three = tests.paired(&[0.10, 0.11, 0.105]).unwrap();
    assert_eq!(blocks_to_settle(&three, ALPHA, Margin::percent(2.0)), Some(BLOCKS_MIN));
    // Corrected for ten rows, p must reach 0.005: nine blocks at least.
    assert_eq!(blocks_to_settle(&three, ALPHA / 10.0, Margin::percent(2.0)), Some(9));
    let on_the_margin = tests.paired(&[0.01, 0.03, 0.02, 0.01, 0.03, 0.02, 0.02]).unwrap();
    assert_eq!(blocks_to_settle(&on_the_margin, ALPHA, Margin::plain(0.02)), None);
}
