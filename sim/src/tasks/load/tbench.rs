//! `tbench N`: N clients, each with a server process of its own; they replay the network part of a file server's day.
//!
//! Caveats: measures wake-ups, TCP over loopback and copying; no disk, no real network, no file system. A client and its
//! server are strictly synchronous, so two tasks never do more than one CPU's work plus an overlap, and latency decides.
//! The published figure is MB/s of file data, not of messages.
//!
//! Model: the mix of dbench's load file by counts (of 1,000 operations 273 reads, 87 writes, the rest small), sizes chosen
//! so that an operation carries 5.5 KB on average, as the benchmark's own summary gives; times are assumed.
use super::{Chan, Kind, Layout};
use crate::rng::Stream;
use crate::tasks::program::{Op, Program};

/// What the client does to build a request and to check the answer; what the server does to find it.
const CLIENT_NS: u64 = 1_000;
const SERVER_NS: u64 = 2_200;
/// A request or answer without data.
const SMALL: u64 = 130;
const READ_BYTES: u32 = 13_500;
const WRITE_BYTES: u64 = 21_000;
/// Stack, socket and buffers that each side writes.
const FOOTPRINT_KB: u64 = 12;

#[derive(Debug, Clone, Copy)]
enum At {
    Think,
    Ask,
    Wait,
    Done,
}

#[derive(Debug)]
struct Client {
    to: Chan,
    from: Chan,
    at: At,
    bytes: u64,
}

impl Program for Client {
    fn next(&mut self, rng: &mut Stream, got: u32) -> Op {
        match self.at {
            At::Think => {
                self.at = At::Ask;
                Op::Work(rng.around(CLIENT_NS, 25))
            }
            At::Ask => {
                self.at = At::Wait;
                let drawn = rng.below(1000);
                let (request, reply) = match drawn {
                    0..273 => (0, READ_BYTES),
                    273..360 => (WRITE_BYTES, 0),
                    _ => (0, 0),
                };
                self.bytes = request;
                Op::Send { to: self.to, bytes: SMALL + request, note: reply }
            }
            At::Wait => {
                self.at = At::Done;
                Op::Recv(self.from)
            }
            At::Done => {
                self.at = At::Think;
                Op::Count(self.bytes + u64::from(got))
            }
        }
    }
}

/// Answers with as many bytes as the request's note asks for.
#[derive(Debug)]
struct Server {
    from: Chan,
    to: Chan,
    at: u8,
}

impl Program for Server {
    fn next(&mut self, rng: &mut Stream, got: u32) -> Op {
        self.at = (self.at + 1) % 3;
        match self.at {
            1 => Op::Recv(self.from),
            2 => Op::Work(rng.around(SERVER_NS, 25)),
            _ => Op::Send { to: self.to, bytes: SMALL + u64::from(got), note: got },
        }
    }
}

pub(super) fn lay_out(layout: &mut Layout, clients: u32) {
    // All clients are forked first; each connection's server follows when it is accepted.
    let mut wires = Vec::new();
    for _ in 0..clients {
        let (ask, answer) = (layout.channel(Kind::Tcp), layout.channel(Kind::Tcp));
        let client = Client { to: ask, from: answer, at: At::Think, bytes: 0 };
        layout.task(Box::new(client), FOOTPRINT_KB);
        wires.push((ask, answer));
    }
    for (ask, answer) in wires {
        layout.servant(Box::new(Server { from: ask, to: answer, at: 0 }), FOOTPRINT_KB);
    }
}
