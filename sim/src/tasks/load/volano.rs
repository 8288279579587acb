//! VolanoMark: a chat server in Java, loopback, rooms of users who hear only their own room.
//!
//! Caveats: measures wake-ups and the placement of hundreds of threads; no real network, no garbage collection, no
//! `sched_yield` of the JVM's locks. Throughput counts every message that a client receives. Thread counts: four a user
//! (sender and receiver in the client, reader and writer in the server), so 10 rooms of 20 users are 800 threads.
//!
//! ```text
//!   sender ── socket ──► reader ── put into the queue of every writer of the room ──► writer ── socket ──► receiver
//!     ▲                                                                                                       │
//!     └──────────────────────────── its own message has come back: the next one ◄─────────────────────────────┘
//! ```
//! Model: a writer's queue is a semaphore, and a room's queues are guarded by one lock, as the server's `synchronized`
//! blocks are. Times and the footprint are chosen so that a message costs about 23 us of CPU, as 340,669 messages/s on 8
//! CPUs say.
use std::sync::Arc;

use super::{Chan, Kind, Layout, Sem};
use crate::rng::Stream;
use crate::tasks::program::{Loop, Op, Program};

const SENDER_NS: u64 = 6_000;
const READER_NS: u64 = 6_000;
/// Putting a message into one queue.
const PUT_NS: u64 = 600;
const WRITER_NS: u64 = 8_000;
const RECEIVER_NS: u64 = 7_000;
const BYTES: u64 = 100;
/// Stack, thread-local allocation buffer, sockets.
const FOOTPRINT_KB: u64 = 44;

/// Distributes each message to every writer of the room.
#[derive(Debug)]
struct Reader {
    from: Chan,
    lock: Sem,
    queues: Arc<[Sem]>,
    at: usize,
}

impl Program for Reader {
    fn next(&mut self, _rng: &mut Stream, _got: u32) -> Op {
        // Receive, work, lock, then for each queue work and put, then unlock.
        let at = self.at;
        let last = 3 + 2 * self.queues.len();
        self.at = if at == last { 0 } else { at + 1 };
        match at {
            0 => Op::Recv(self.from),
            1 => Op::Work(READER_NS),
            2 => Op::Down(self.lock),
            _ if at == last => Op::Up(self.lock),
            _ if at % 2 == 1 => Op::Work(PUT_NS),
            _ => Op::Up(self.queues[(at - 4) / 2]),
        }
    }
}

/// Receives, and lets its sender go on after as many messages as the room has users: one round of the room.
#[derive(Debug)]
struct Receiver {
    from: Chan,
    turn: Sem,
    users: u32,
    seen: u32,
    at: u8,
}

impl Program for Receiver {
    fn next(&mut self, _rng: &mut Stream, _got: u32) -> Op {
        self.at = (self.at + 1) % 4;
        match self.at {
            1 => Op::Recv(self.from),
            2 => Op::Work(RECEIVER_NS),
            3 => Op::Count(1),
            _ => {
                self.seen += 1;
                if self.seen == self.users {
                    self.seen = 0;
                    return Op::Up(self.turn);
                }
                self.at = 1;
                Op::Recv(self.from)
            }
        }
    }
}

pub(super) fn lay_out(layout: &mut Layout, rooms: u32, users: u32) {
    for _ in 0..rooms {
        let lock = layout.semaphore(1);
        let queues: Arc<[Sem]> = (0..users).map(|_| layout.semaphore(0)).collect();
        for queue in queues.iter() {
            let (up, down) = (layout.channel(Kind::Tcp), layout.channel(Kind::Tcp));
            let turn = layout.semaphore(1);
            let message = |to| Op::Send { to, bytes: BYTES, note: 0 };
            layout.task(Loop::boxed(vec![Op::Down(turn), Op::Work(SENDER_NS), message(up)]), FOOTPRINT_KB);
            let reader = Reader { from: up, lock, queues: Arc::clone(&queues), at: 0 };
            layout.task(Box::new(reader), FOOTPRINT_KB);
            let writer = vec![Op::Down(*queue), Op::Work(WRITER_NS), message(down)];
            layout.task(Loop::boxed(writer), FOOTPRINT_KB);
            let receiver = Receiver { from: down, turn, users, seen: 0, at: 0 };
            layout.task(Box::new(receiver), FOOTPRINT_KB);
        }
    }
}
