//! What is to be done at a time: the ends of timed blocks, the answers of the disk.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things to do, each at its time. Those of the same time come in their own order.
#[derive(Debug)]
pub struct Due<T>(BinaryHeap<Reverse<(u64, T)>>);

impl<T: Ord> Default for Due<T> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<T: Ord> Due<T> {
    /// To be done at `at_ns`.
    pub fn push(&mut self, at_ns: u64, what: T) {
        self.0.push(Reverse((at_ns, what)));
    }

    /// Takes the earliest that is due at `now_ns`.
    pub fn take(&mut self, now_ns: u64) -> Option<T> {
        self.next_ns().filter(|at_ns| *at_ns <= now_ns)?;
        self.0.pop().map(|Reverse((_, what))| what)
    }

    /// When the earliest is due.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_ns, _))| *at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_by_its_time_and_nothing_before() {
        let mut due = Due::default();
        [(30, 'c'), (10, 'b'), (10, 'a')].into_iter().for_each(|(at_ns, what)| due.push(at_ns, what));
        assert_eq!((due.next_ns(), due.take(9)), (Some(10), None));
        assert_eq!([due.take(29), due.take(29), due.take(29)], [Some('a'), Some('b'), None]);
        assert_eq!((due.take(30), due.next_ns()), (Some('c'), None));
    }
}
