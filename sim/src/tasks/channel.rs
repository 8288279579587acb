//! What tasks wait for: channels (sockets, pipes) and semaphores (futexes).
//!
//! A *channel* goes one way, from any number of writers to one reader, and holds a number of bytes. A writer that finds it
//! full sleeps until half of it is free (`sock_def_write_space`). Data wakes the reader with `WF_SYNC`, as sockets and
//! pipes do: the waker is said to be about to sleep. A *semaphore* hands each unit to the longest waiter, without
//! `WF_SYNC`, as futexes do.
use std::collections::VecDeque;

use hostsched::TaskId;

use super::machine::HostCosts;
use super::warmth::Spot;

/// Index of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chan(pub(crate) usize);

/// Index of a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sem(pub(crate) usize);

/// What carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    Pipe,
}

impl Kind {
    /// What a send takes before the data is there, without copying.
    pub(crate) fn send(self, costs: &HostCosts) -> u64 {
        match self {
            Self::Tcp => costs.tcp_send,
            Self::Udp => costs.udp_send,
            Self::Pipe => costs.pipe_op,
        }
    }

    /// What a receive takes once the data is there, without copying.
    pub(crate) fn recv(self, costs: &HostCosts) -> u64 {
        match self {
            Self::Tcp => costs.tcp_recv,
            Self::Udp => costs.udp_recv,
            Self::Pipe => costs.pipe_op,
        }
    }

    /// Lines beside the data that the receiver finds in the sender's cache: buffer heads, socket or pipe, wait queue.
    /// Counted from the structures of Linux 3.4 that both sides write.
    pub(crate) fn lines(self) -> u64 {
        match self {
            Self::Tcp => 14,
            Self::Udp => 10,
            Self::Pipe => 6,
        }
    }

    /// Bytes that fit: the pipe's 16 pages, the default socket buffers.
    pub(crate) fn capacity(self) -> u64 {
        match self {
            Self::Tcp => 85_000,
            Self::Udp => 212_992,
            Self::Pipe => 65_536,
        }
    }
}

/// A message under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) bytes: u64,
    /// What the program wants to tell.
    pub(crate) note: u32,
    /// Where it was written.
    pub(crate) from: Spot,
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) kind: Kind,
    pub(crate) queue: VecDeque<Message>,
    pub(crate) bytes: u64,
    /// Sleeps until something comes.
    pub(crate) reader: Option<TaskId>,
    /// Sleep until there is room.
    pub(crate) writers: VecDeque<TaskId>,
}

impl Channel {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, queue: VecDeque::new(), bytes: 0, reader: None, writers: VecDeque::new() }
    }

    /// True if a message of that size must wait. One message always fits into an empty channel.
    pub(crate) fn full(&self, bytes: u64) -> bool {
        self.bytes != 0 && self.bytes + bytes > self.kind.capacity()
    }

    /// True if sleeping writers are to be woken.
    pub(crate) fn roomy(&self) -> bool {
        2 * self.bytes <= self.kind.capacity()
    }
}

/// A semaphore.
#[derive(Debug, Default)]
pub(crate) struct Semaphore {
    pub(crate) count: u64,
    pub(crate) waiters: VecDeque<TaskId>,
}
