//! hackbench: groups of senders and receivers; every sender sends to every receiver of its group in turn, over a queue that
//! each receiver has.
//!
//! ```text
//!   sender     work: make it    lock_irqsave { put }    wake the receiver       full: sleep until half of it is free
//!   receiver   lock_irqsave { take }    wake the senders    work: copy it       record       empty: sleep
//! ```
//! It measures wake-ups and short locks, taken with interrupts off as those of a socket's queue and of a wait queue are. Not
//! modelled: the run queues' own locks, the slab allocator, wake-affine pulls, the connection phase and the end of a run (a
//! published figure is the time of a whole run; ours is messages a second in the middle of one).
use plan::WorkloadParams;

use super::{Env, Op, SPREAD_PERCENT};
use crate::world::{LockId, WaitId};

/// Messages that a queue holds: 212,992 bytes of `wmem_default`, 768 bytes an skb with 100 bytes of payload.
const QUEUE_LEN: u32 = 277;

/// A receiver's queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Queue {
    len: u32,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The queues of a VM.
pub(super) fn queues(params: &WorkloadParams) -> Vec<Queue> {
    vec![Queue::default(); (params.groups * params.pairs) as usize]
}

/// A queue that does not hold what was sent and not received, as a sentence.
pub(super) fn broken(queues: &[Queue]) -> Option<String> {
    let (i, q) = queues.iter().enumerate().find(|(_, q)| q.sent != q.received + u64::from(q.len))?;
    Some(format!("queue {i}: {} sent, {} received, {} in it", q.sent, q.received, q.len))
}

/// Where a thread is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hackbench {
    next: Step,
    receives: bool,
    /// The first queue of its group.
    base: u32,
    /// Its receiver's queue in the group, or its own.
    queue: u32,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Make,
    Ask,
    Asked,
    Locked,
    Wait,
    Notify,
    Copy,
    Done,
}

impl Hackbench {
    /// The thread of that number; the first half of each group sends.
    pub(super) fn new(role: u32, params: &WorkloadParams) -> Self {
        let (group, member) = (role / (2 * params.pairs), role % (2 * params.pairs));
        let receives = member >= params.pairs;
        // Senders do not all begin with the same receiver, as their start is spread by the forks.
        let (next, queue) = (if receives { Step::Ask } else { Step::Make }, member % params.pairs);
        Self { next, receives, base: group * params.pairs, queue }
    }

    pub(super) fn next(&mut self, env: &mut Env<'_>, queues: &mut [Queue]) -> Op {
        let id = self.base + self.queue;
        let queue = &mut queues[id as usize];
        let message = u64::from(env.params.message_ns);
        let blocked = if self.receives { queue.len == 0 } else { queue.len >= QUEUE_LEN };
        let [not_empty, not_full] = [WaitId(2 * id), WaitId(2 * id + 1)];
        let (op, next) = match self.next {
            Step::Make => (Op::Work(env.rng.around(message, SPREAD_PERCENT)), Step::Ask),
            Step::Ask => (Op::LockIrqsave(LockId(id)), Step::Asked),
            Step::Asked => (Op::Work(env.costs.lock_hold), Step::Locked),
            Step::Locked if blocked => (Op::Unlock(LockId(id)), Step::Wait),
            Step::Locked => {
                if self.receives {
                    queue.len -= 1;
                    queue.received += 1;
                } else {
                    queue.len += 1;
                    queue.sent += 1;
                }
                (Op::Unlock(LockId(id)), Step::Notify)
            }
            // Looked at again after the lock is gone: a message may have come.
            Step::Wait if blocked => (Op::Sleep(if self.receives { not_empty } else { not_full }), Step::Ask),
            Step::Wait => (Op::LockIrqsave(LockId(id)), Step::Asked),
            Step::Notify if !self.receives => {
                self.queue = (self.queue + 1) % env.params.pairs;
                (Op::Wake(not_empty, 1), Step::Make)
            }
            // sock_def_write_space: everybody, once half of it is free.
            Step::Notify => (Op::Wake(not_full, if queue.len <= QUEUE_LEN / 2 { u32::MAX } else { 0 }), Step::Copy),
            Step::Copy => (Op::Work(env.rng.around(message, SPREAD_PERCENT)), Step::Done),
            Step::Done => (Op::Record, Step::Ask),
        };
        self.next = next;
        op
    }
}
