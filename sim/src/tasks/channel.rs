//! What tasks wait for: channels (sockets, pipes) and semaphores (futexes).
//!
//! A *channel* goes one way, from any number of writers to one reader, and holds a number of bytes. A writer that finds it
//! full sleeps until half of it is free (`sock_def_write_space`); a datagram's never does: over loopback its memory is given
//! back as it is sent (`loopback_xmit`: `skb_orphan`), and what finds the reader's buffer full is dropped
//! (`sock_queue_rcv_skb`). Data wakes the reader with `WF_SYNC`, as sockets and pipes do: the waker is said to be about to
//! sleep. A *semaphore* hands each unit to the longest waiter, without
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

    /// True if what is sent takes a route: all of loopback's sockets take the same.
    pub(crate) fn routed(self) -> bool {
        self != Self::Pipe
    }

    /// True if messages that find no room are dropped.
    pub(crate) fn drops(self) -> bool {
        matches!(self, Self::Udp)
    }

    /// What a message takes of the capacity. A datagram is charged what was allocated for it (`skb->truesize`): a power of two
    /// that holds data, headers and `skb_shared_info`, and the `sk_buff`. 65,507 bytes are charged 131,328.
    pub(crate) fn charge(self, bytes: u64) -> u64 {
        const HEADERS: u64 = 384;
        const SK_BUFF: u64 = 256;
        match self {
            Self::Udp => (bytes + HEADERS).next_power_of_two() + SK_BUFF,
            Self::Tcp | Self::Pipe => bytes,
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
    /// Of a channel that drops: what is being copied out still takes room.
    pub(crate) copied: u64,
    /// Where a message was read last: its buffer is the next to be written.
    pub(crate) read_at: Option<Spot>,
    /// Sleeps until something comes.
    pub(crate) reader: Option<TaskId>,
    /// Sleep until there is room.
    pub(crate) writers: VecDeque<TaskId>,
}

impl Channel {
    pub(crate) fn new(kind: Kind) -> Self {
        let (queue, writers) = Default::default();
        Self { kind, queue, bytes: 0, copied: 0, read_at: None, reader: None, writers }
    }

    /// True if a message of that size must wait. One message always fits into an empty channel.
    pub(crate) fn full(&self, bytes: u64) -> bool {
        !self.kind.drops() && self.bytes != 0 && self.bytes + bytes > self.kind.capacity()
    }

    /// Takes room for a message that drops; false if there is none left at all.
    pub(crate) fn admit(&mut self, bytes: u64) -> bool {
        let fits = self.bytes < self.kind.capacity();
        self.bytes += if fits { self.kind.charge(bytes) } else { 0 };
        fits
    }

    /// The reader is back: what it copied is freed.
    pub(crate) fn free_copied(&mut self) {
        self.bytes -= std::mem::take(&mut self.copied);
    }

    /// The first message is taken out to be copied at `spot`.
    pub(crate) fn take_first(&mut self, spot: Spot) -> Option<Message> {
        let message = self.queue.pop_front()?;
        self.read_at = Some(spot);
        if self.kind.drops() {
            self.copied = self.kind.charge(message.bytes);
        } else {
            self.bytes -= message.bytes;
        }
        Some(message)
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Spot = Spot { core: 0, llc: 0, package: 0 };

    #[test]
    fn a_datagram_socket_takes_two_large_ones_and_frees_one_when_it_has_been_copied() {
        let mut socket = Channel::new(Kind::Udp);
        let send = |socket: &mut Channel| {
            let fits = socket.admit(65_507);
            if fits {
                socket.queue.push_back(Message { bytes: 65_507, note: 0, from: HERE });
            }
            fits
        };
        assert_eq!(Kind::Udp.charge(65_507), 131_328);
        assert!(!socket.full(65_507), "the writer never waits");
        assert_eq!([send(&mut socket), send(&mut socket), send(&mut socket)], [true, true, false]);
        assert!(socket.take_first(HERE).is_some());
        assert!(!send(&mut socket), "it is still being copied");
        socket.free_copied();
        assert!(send(&mut socket));
    }

    #[test]
    fn a_pipe_makes_its_writer_wait_and_wakes_it_at_half() {
        let mut pipe = Channel::new(Kind::Pipe);
        assert!(!pipe.full(1 << 20), "one message always fits");
        pipe.bytes = 65_536;
        assert!(pipe.full(1) && !pipe.roomy());
        pipe.bytes = 32_768;
        assert!(!pipe.full(1) && pipe.roomy());
    }
}
