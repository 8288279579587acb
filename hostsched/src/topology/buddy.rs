//! The `idle_buddy` of a CPU: the one other CPU that a wake-up tries when its own is busy.
//!
//! Linux 3.4's `select_idle_sibling` walks the whole package for an idle core, which is slow on large ones and makes
//! tasks bounce. The buddies (LKML, May to July 2012; in the tree before 3.6 as part of `update_top_cache_domain`, and
//! reverted) give each CPU one partner a level. Partners are cross-wired, so that two tasks that wake each other settle
//! on two CPUs instead of moving round the package:
//!
//! ```text
//!   groups of the level     g0   g1   g2   g3   g4          five: the last has no right neighbour,
//!   buddy                   g1 - g0   g3 - g2   g3 <- g4    so it points left, never past the end
//! ```
//!
//! The partner is the *first* CPU of the buddy group: at the MC level of an SMT machine the first thread of the buddy
//! core, at the SMT level the sibling. Six cores without SMT: 1 0 3 2 5 4.

/// Which of `count` groups is the buddy of group `at`: the right neighbour of an even one, the left of an odd one, and
/// of an even one at the end. A lone group is its own.
pub(super) fn buddy_group(at: usize, count: usize) -> usize {
    if at.is_multiple_of(2) && at + 1 < count { at + 1 } else { at.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_cross_wired_and_an_odd_last_one_points_left() {
        let map = |count| (0..count).map(|at| buddy_group(at, count)).collect::<Vec<_>>();
        assert_eq!(map(6), [1, 0, 3, 2, 5, 4]);
        assert_eq!(map(5), [1, 0, 3, 2, 3]);
        assert_eq!(map(2), [1, 0]);
        assert_eq!(map(1), [0]);
    }
}
