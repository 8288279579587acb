//! The event queue of what each CPU does next: one slot a timer, the earliest first.
//!
//! Units: virtual nanoseconds. Problem: nearly every event of a host belongs to a CPU that has one of its kind at a time
//! (the end of what it does, its tick), and most of these move before they fire: an interrupt shifts the end of the work
//! that it interrupts. Approach: a *tournament*. Each slot is a leaf of a complete binary tree, each node holds the
//! smaller of its two children, so the root is the next event.
//!
//! ```text
//!                 20·2            key = time << 12 | slot
//!            ┌─────┴─────┐
//!           35·1        20·2      moving a slot replays one path to the root: log2(slots) minima,
//!         ┌──┴──┐     ┌──┴──┐     and leaves nothing behind that would have to be skipped later
//!        40·0  35·1  20·2   ∞
//! ```
//! Property: of equal times the lower slot comes first, so the order of events never depends on history.

/// Bits of a key that hold the slot.
const SLOT_BITS: u32 = 12;

/// Timers by slot.
#[derive(Debug, Clone)]
pub(crate) struct Timers {
    /// Nodes in heap order: the root at 1, the leaves from `leaves` on.
    keys: Vec<u64>,
    leaves: usize,
}

impl Timers {
    /// The most slots that a queue has.
    pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
    /// The latest time that can be asked for: 52 days.
    pub(crate) const TIME_MAX: u64 = (1 << (u64::BITS - SLOT_BITS)) - 2;
    /// The time of a slot that waits for nothing.
    pub(crate) const NEVER: u64 = u64::MAX >> SLOT_BITS;

    /// A queue of at most [`Self::SLOTS_MAX`] slots, all at [`Self::NEVER`].
    ///
    /// # Panics
    /// If there are more slots than a key has room for.
    #[must_use]
    pub(crate) fn new(slots: usize) -> Self {
        assert!(slots <= Self::SLOTS_MAX, "a timer queue has at most {} slots", Self::SLOTS_MAX);
        let leaves = slots.next_power_of_two().max(2);
        Self { keys: vec![u64::MAX; 2 * leaves], leaves }
    }

    /// Moves a slot to `at`; [`Self::NEVER`] stops it.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, at: u64) {
        debug_assert!(slot < self.leaves && (at <= Self::TIME_MAX || at == Self::NEVER));
        let key = if at == Self::NEVER { u64::MAX } else { at << SLOT_BITS | slot as u64 };
        let mut node = self.leaves + slot;
        self.keys[node] = key;
        while node > 1 {
            let least = self.keys[node].min(self.keys[node ^ 1]);
            node /= 2;
            self.keys[node] = least;
        }
    }

    /// When the slot fires.
    #[inline]
    #[must_use]
    pub(crate) fn get(&self, slot: usize) -> u64 {
        self.keys[self.leaves + slot] >> SLOT_BITS
    }

    /// Time and slot of the next event; it stays until its slot is moved. At [`Self::NEVER`] there is none.
    #[inline]
    #[must_use]
    pub(crate) fn first(&self) -> (u64, usize) {
        let key = self.keys[1];
        // The mask leaves 12 bits, which fit any usize.
        (key >> SLOT_BITS, usize::try_from(key & (Self::SLOTS_MAX as u64 - 1)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_whatever_was_moved_before(
            moves in prop::collection::vec((0usize..37, prop::option::of(0u64..50)), 1..200),
        ) {
            let mut timers = Timers::new(37);
            let mut model = [Timers::NEVER; 37];
            for (slot, at) in moves {
                let at = at.unwrap_or(Timers::NEVER);
                timers.set(slot, at);
                model[slot] = at;
                prop_assert_eq!(timers.get(slot), at);
                let least = model.iter().enumerate().map(|(slot, at)| (*at, slot)).min().unwrap();
                if least.0 == Timers::NEVER {
                    prop_assert_eq!(timers.first().0, Timers::NEVER);
                } else {
                    prop_assert_eq!(timers.first(), least);
                }
            }
        }
    }
}
