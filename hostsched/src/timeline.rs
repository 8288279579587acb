//! The order of the entities that wait on one queue (`cfs_rq->tasks_timeline`).
//!
//! Units: [`Vruntime`]. Problem: the leftmost entity is taken on every switch, and the one put back usually goes far to
//! the right. Approach: a flat array sorted by *descending* vruntime, so that the leftmost sits at the end and is popped
//! in O(1), and a search by halves for the rest. Queues hold a handful of entities; an array in one or two cache lines
//! beats a balanced tree there, and it never allocates once it has grown.
//!
//! Property: equal keys leave in the order in which they came (the kernel's tree inserts them to the right).
use crate::entity::Slot;
use crate::ids::Vruntime;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Vruntime,
    slot: Slot,
}

/// The waiting entities of a queue, leftmost last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    nodes: Vec<Node>,
}

impl Timeline {
    /// Queues an entity to the right of its equals (`__enqueue_entity`).
    #[inline]
    pub(crate) fn insert(&mut self, key: Vruntime, slot: Slot) {
        let at = self.nodes.partition_point(|n| key.before(n.key));
        self.nodes.insert(at, Node { key, slot });
    }

    /// Takes an entity out (`__dequeue_entity`). `key` is its vruntime, which does not change while it waits.
    #[inline]
    pub(crate) fn remove(&mut self, key: Vruntime, slot: Slot) {
        if self.nodes.last().is_some_and(|n| n.slot == slot) {
            self.nodes.pop();
            return;
        }
        let from = self.nodes.partition_point(|n| key.before(n.key));
        let found = self.nodes[from..].iter().position(|n| n.slot == slot);
        debug_assert!(found.is_some(), "an entity that waits is in its timeline");
        if let Some(i) = found {
            self.nodes.remove(from + i);
        }
    }

    /// The entity with the smallest vruntime (`__pick_first_entity`).
    #[inline]
    pub(crate) fn leftmost(&self) -> Option<(Vruntime, Slot)> {
        self.nodes.last().map(|n| (n.key, n.slot))
    }

    /// The entity right of the leftmost (`__pick_next_entity` of the leftmost).
    #[inline]
    pub(crate) fn second(&self) -> Option<Slot> {
        self.nodes.len().checked_sub(2).map(|i| self.nodes[i].slot)
    }

    /// The entities from left to right.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Vruntime, Slot)> + '_ {
        self.nodes.iter().rev().map(|n| (n.key, n.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(t: &Timeline) -> Vec<u32> {
        t.iter().map(|(_, s)| s.0).collect()
    }

    #[test]
    fn entities_leave_by_vruntime_and_equals_in_order_of_arrival() {
        let mut t = Timeline::default();
        for (key, slot) in [(5, 1), (3, 2), (5, 3), (4, 4), (5, 5)] {
            t.insert(Vruntime(key), Slot(slot));
        }
        assert_eq!(order(&t), [2, 4, 1, 3, 5]);
        assert_eq!(t.leftmost(), Some((Vruntime(3), Slot(2))));
        assert_eq!(t.second(), Some(Slot(4)));
        t.remove(Vruntime(5), Slot(3));
        t.remove(Vruntime(3), Slot(2));
        assert_eq!(order(&t), [4, 1, 5]);
    }

    #[test]
    fn the_order_holds_across_the_wrap() {
        let mut t = Timeline::default();
        t.insert(Vruntime(2), Slot(1));
        t.insert(Vruntime(u64::MAX), Slot(2));
        assert_eq!(order(&t), [2, 1]);
    }
}
