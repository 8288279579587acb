//! The order of the entities that wait on one queue (`cfs_rq->tasks_timeline`).
//!
//! Units: [`Vruntime`]. Problem: the leftmost entity is taken on every switch, and the one put back usually goes to the
//! far right. Approach: a flat array sorted by vruntime whose used part starts at `head`: the leftmost is taken by moving
//! `head`, and a new rightmost is appended; anything else shifts its neighbours. Queues hold a handful of entities; an
//! array in one or two cache lines beats a balanced tree there, and it never allocates once it has grown.
//!
//! Property: equal keys leave in the order in which they came (the kernel's tree inserts them to the right).
use crate::entity::Slot;
use crate::ids::Vruntime;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Vruntime,
    slot: Slot,
}

/// The waiting entities of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// `nodes[head..]` are the entities from left to right; what lies before was taken.
    nodes: Vec<Node>,
    head: usize,
}

impl Timeline {
    fn waiting(&self) -> &[Node] {
        self.nodes.get(self.head..).unwrap_or_default()
    }

    /// Queues an entity to the right of its equals (`__enqueue_entity`).
    #[inline]
    pub(crate) fn insert(&mut self, key: Vruntime, slot: Slot) {
        if self.nodes.len() == self.nodes.capacity() {
            self.make_room();
        }
        self.nodes.push(Node { key, slot });
        if let [.., before, _] = &self.nodes[self.head..]
            && key.before(before.key)
        {
            self.sift_last();
        }
    }

    /// Moves what waits to the front, over what was taken.
    #[cold]
    fn make_room(&mut self) {
        self.nodes.drain(..self.head);
        self.head = 0;
    }

    /// Moves the last node left to its place.
    fn sift_last(&mut self) {
        let waiting = &mut self.nodes[self.head..];
        let mut at = waiting.len() - 1;
        while at > 0 && waiting[at].key.before(waiting[at - 1].key) {
            waiting.swap(at, at - 1);
            at -= 1;
        }
    }

    /// Takes an entity out (`__dequeue_entity`). `key` is its vruntime, which does not change while it waits.
    #[inline]
    pub(crate) fn remove(&mut self, key: Vruntime, slot: Slot) {
        if self.waiting().first().is_some_and(|n| n.slot == slot) {
            self.head += 1;
        } else {
            let waiting = self.waiting();
            let from = waiting.partition_point(|n| n.key.before(key));
            let found = waiting[from..].iter().position(|n| n.slot == slot);
            debug_assert!(found.is_some(), "an entity that waits is in its timeline");
            if let Some(i) = found {
                self.nodes.remove(self.head + from + i);
            }
        }
        if self.head == self.nodes.len() {
            self.nodes.clear();
            self.head = 0;
        }
    }

    /// The entity with the smallest vruntime (`__pick_first_entity`).
    #[inline]
    pub(crate) fn leftmost(&self) -> Option<(Vruntime, Slot)> {
        self.waiting().first().map(|n| (n.key, n.slot))
    }

    /// The entity right of the leftmost (`__pick_next_entity` of the leftmost).
    #[inline]
    pub(crate) fn second(&self) -> Option<Slot> {
        self.waiting().get(1).map(|n| n.slot)
    }

    /// The entities from left to right.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Vruntime, Slot)> + '_ {
        self.waiting().iter().map(|n| (n.key, n.slot))
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
    fn taking_from_the_left_and_adding_to_the_right_needs_no_more_room() {
        let mut t = Timeline::default();
        (0..4).for_each(|i| t.insert(Vruntime(i), Slot(1)));
        let room = t.nodes.capacity();
        for i in 4..1000 {
            let (key, slot) = t.leftmost().expect("four wait");
            t.remove(key, slot);
            t.insert(Vruntime(i), Slot(1));
        }
        assert!(t.nodes.capacity() <= room.max(8));
    }

    #[test]
    fn the_order_holds_across_the_wrap() {
        let mut t = Timeline::default();
        t.insert(Vruntime(2), Slot(1));
        t.insert(Vruntime(u64::MAX), Slot(2));
        assert_eq!(order(&t), [2, 1]);
    }
}
