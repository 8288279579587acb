//! ipi: the first `ipi_senders` vCPUs interrupt each sibling in turn and wait for its answer; the others halt and answer.
//!
//! ```text
//!   sender   interrupt the next sibling, spin until its handler has run    record
//! ```
//! It measures the interrupt and nothing else. Not modelled: the sending of several at once.
use super::Op;
use crate::world::WaitId;

/// Where those sleep that only answer; nobody wakes them.
const ANSWER: WaitId = WaitId(0);
pub(super) const WAITS: usize = 1;

/// A thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ipi {
    /// Sends its interrupt of that number.
    Send(u32),
    /// It was answered.
    Answered(u32),
    /// Only answers.
    Answers,
}

impl Ipi {
    /// The thread of that number: one a vCPU.
    pub(super) const fn new(role: u32, senders: u32) -> Self {
        if role < senders { Self::Send(0) } else { Self::Answers }
    }

    pub(super) fn next(&mut self) -> Op {
        let op;
        (op, *self) = match *self {
            Self::Send(turn) => (Op::Ipi(turn), Self::Answered(turn)),
            Self::Answered(turn) => (Op::Record, Self::Send(turn.wrapping_add(1))),
            Self::Answers => (Op::Sleep(ANSWER), Self::Answers),
        };
        op
    }
}
