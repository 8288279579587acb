//! The event queue of what is not tied to a CPU: sleeping threads, timers of halted vCPUs, faults, starts and ends.
//!
//! Units: virtual nanoseconds. A 4-ary heap of (time, order of arrival): flatter than a binary one, and the four children
//! lie in two cache lines. An alarm cannot be taken back; whoever sets one gives it a generation and ignores it on
//! arrival if its own has moved on.
//!
//! Property: of equal times the one set first comes first.

/// A heap of alarms.
#[derive(Debug, Clone)]
pub(crate) struct Alarms<T> {
    heap: Vec<(u64, u64, T)>,
    seq: u64,
}

impl<T: Copy> Default for Alarms<T> {
    fn default() -> Self {
        Self { heap: Vec::new(), seq: 0 }
    }
}

impl<T: Copy> Alarms<T> {
    /// Sets an alarm.
    pub(crate) fn push(&mut self, at: u64, what: T) {
        self.seq += 1;
        let mut i = self.heap.len();
        self.heap.push((at, self.seq, what));
        while i > 0 && self.key(i) < self.key((i - 1) / 4) {
            self.heap.swap(i, (i - 1) / 4);
            i = (i - 1) / 4;
        }
    }

    /// When the next one is due.
    #[inline]
    #[must_use]
    pub(crate) fn first(&self) -> Option<u64> {
        self.heap.first().map(|(at, ..)| *at)
    }

    /// Takes the next one.
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let last = self.heap.len().checked_sub(1)?;
        self.heap.swap(0, last);
        let (at, _, what) = self.heap.pop()?;
        let mut i = 0;
        while let Some(least) = (4 * i + 1..(4 * i + 5).min(self.heap.len())).min_by_key(|c| self.key(*c)) {
            if self.key(i) < self.key(least) {
                break;
            }
            self.heap.swap(i, least);
            i = least;
        }
        Some((at, what))
    }

    fn key(&self, i: usize) -> (u64, u64) {
        (self.heap[i].0, self.heap[i].1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn alarms_come_in_order_of_time_then_arrival(times in prop::collection::vec(0u64..20, 0..100)) {
            let mut alarms = Alarms::default();
            for (i, at) in times.iter().enumerate() {
                alarms.push(*at, i);
            }
            let mut wanted: Vec<_> = times.iter().copied().enumerate().map(|(i, at)| (at, i)).collect();
            wanted.sort_unstable();
            let got: Vec<_> = std::iter::from_fn(|| alarms.pop()).collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
