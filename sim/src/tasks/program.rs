//! What a task does: one operation after the other.
use std::fmt;

use super::channel::{Chan, Sem};
use crate::rng::Stream;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Computes so long, at full clock on a core of its own.
    Work(u64),
    /// Sends a message; sleeps while the channel is full.
    Send { to: Chan, bytes: u64, note: u32 },
    /// Receives the next message; sleeps until there is one.
    Recv(Chan),
    /// Takes a unit of a semaphore; sleeps until there is one.
    Down(Sem),
    /// Gives a unit to a semaphore.
    Up(Sem),
    /// Sleeps so long.
    Sleep(u64),
    /// So much of what the benchmark counts is done; takes no time.
    Count(u64),
}

/// A program. It never ends.
pub(crate) trait Program: fmt::Debug + Send {
    /// The next operation. `got` is the note of the message that was received last.
    fn next(&mut self, rng: &mut Stream, got: u32) -> Op;
}

/// A fixed list of operations, round and round.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    ops: Vec<Op>,
    at: usize,
}

impl Loop {
    /// Begins at the first operation.
    ///
    /// # Panics
    /// If there is none, or none that takes time: it would never end.
    pub(crate) fn boxed(ops: Vec<Op>) -> Box<dyn Program> {
        assert!(ops.iter().any(|op| !matches!(op, Op::Count(_))), "a loop does something");
        Box::new(Self { ops, at: 0 })
    }
}

impl Program for Loop {
    fn next(&mut self, _rng: &mut Stream, _got: u32) -> Op {
        let op = self.ops[self.at];
        self.at = (self.at + 1) % self.ops.len();
        op
    }
}
