//! Where one thread puts its events.
//!
//! A buffer keeps the *first* events that it is given and counts the others. The beginning of a run is whole that way:
//! a ring would keep the end, but of several threads' rings the ends begin at different times, and what happened
//! between two CPUs could be seen on one side only.
use crate::event::Event;

/// A bounded list of events, with a count of those that found no room.
#[derive(Debug, Clone, Default)]
pub struct Buffer {
    events: Vec<Event>,
    room: usize,
    dropped: u64,
    /// When the first event found no room.
    full_at_ns: Option<u64>,
}

impl Buffer {
    /// An empty buffer for `room` events, all of whose memory is taken now.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { events: Vec::with_capacity(room), room, dropped: 0, full_at_ns: None }
    }

    /// Keeps the event, or counts it.
    #[inline]
    pub fn push(&mut self, event: Event) {
        if self.events.len() < self.room {
            self.events.push(event);
        } else {
            self.dropped += 1;
            self.full_at_ns.get_or_insert(event.at_ns);
        }
    }

    /// Events that found no room.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets everything; the memory stays.
    pub fn clear(&mut self) {
        self.events.clear();
        (self.dropped, self.full_at_ns) = (0, None);
    }

    /// Puts the buffers of a run's threads in order of time. What came after the first buffer was full is dropped from
    /// all of them and counted: from there on the events of a thread would be missing. Also says how many are missing.
    #[must_use]
    pub fn merge(buffers: impl IntoIterator<Item = Self>) -> (Vec<Event>, u64) {
        let mut events = Vec::new();
        let mut dropped = 0;
        let mut whole_until_ns = u64::MAX;
        for buffer in buffers {
            if events.is_empty() {
                events = buffer.events;
            } else {
                events.extend_from_slice(&buffer.events);
            }
            dropped += buffer.dropped;
            whole_until_ns = whole_until_ns.min(buffer.full_at_ns.unwrap_or(u64::MAX));
        }
        // Stable: events of one thread at one instant stay in their order.
        events.sort_by_key(|event| event.at_ns);
        let whole = events.partition_point(|event| event.at_ns < whole_until_ns);
        dropped += (events.len() - whole) as u64;
        events.truncate(whole);
        (events, dropped)
    }
}

#[cfg(test)]
mod tests {
    use hostsched::{CpuId, TaskId};

    use super::*;
    use crate::event::What;

    fn event(at_ns: u64, task: u32) -> Event {
        Event { at_ns, cpu: CpuId(0), what: What::Entry { task: TaskId(task) } }
    }

    fn filled(room: usize, task: u32, times: impl IntoIterator<Item = u64>) -> Buffer {
        let mut buffer = Buffer::new(room);
        times.into_iter().for_each(|at| buffer.push(event(at, task)));
        buffer
    }

    #[test]
    fn a_merge_is_in_order_and_ends_where_the_first_thread_ran_out_of_room() {
        // The first has room for 0 and 2 and misses 4; of the second only what came before 4 is whole.
        let merged = Buffer::merge([filled(2, 0, [0, 2, 4]), filled(9, 1, [1, 3, 4, 5])]);
        assert_eq!(merged, (vec![event(0, 0), event(1, 1), event(2, 0), event(3, 1)], 3));
    }

    #[test]
    fn nothing_is_dropped_where_there_is_room_and_equal_times_keep_their_order() {
        let merged = Buffer::merge([filled(2, 0, [5, 5]), filled(2, 1, [5])]);
        assert_eq!(merged, (vec![event(5, 0), event(5, 0), event(5, 1)], 0));
    }

    #[test]
    fn a_cleared_buffer_starts_again() {
        let mut buffer = filled(1, 0, [1, 2]);
        assert_eq!(buffer.dropped(), 1);
        buffer.clear();
        buffer.push(event(3, 0));
        assert_eq!(Buffer::merge([buffer]), (vec![event(3, 0)], 0));
    }
}
