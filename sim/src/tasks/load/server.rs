//! One dispatcher, many workers: the shape of `pgbench` with one client process, and of many servers.
//!
//! Caveats: not a published table. It is here for what it shows of fixed buddies: all wake-ups come from one CPU, whose
//! one buddy cannot take them all. The buddies were reverted before 3.6 because pgbench, which has this shape, lost.
//!
//! Model: the dispatcher gives a worker its next request as soon as it has answered: each answer costs it 4 us. A worker
//! works 100 us on a request.
use super::{Chan, Kind, Layout};
use crate::rng::Stream;
use crate::tasks::program::{Loop, Op, Program};

const DISPATCH_NS: u64 = 4_000;
const WORK_NS: u64 = 100_000;
const FOOTPRINT_KB: u64 = 32;

/// Gives every worker a request, then answers whoever is ready.
#[derive(Debug)]
struct Dispatcher {
    to: Vec<Chan>,
    answers: Chan,
    /// Workers that have yet to get their first request.
    fresh: usize,
    at: u8,
}

impl Program for Dispatcher {
    fn next(&mut self, rng: &mut Stream, got: u32) -> Op {
        if let Some(left) = self.fresh.checked_sub(1) {
            self.fresh = left;
            return Op::Send { to: self.to[left], bytes: 256, note: 0 };
        }
        self.at = (self.at + 1) % 4;
        match self.at {
            1 => Op::Recv(self.answers),
            2 => Op::Count(1),
            3 => Op::Work(rng.around(DISPATCH_NS, 25)),
            _ => Op::Send { to: self.to[got as usize % self.to.len()], bytes: 256, note: 0 },
        }
    }
}

pub(super) fn lay_out(layout: &mut Layout, workers: u32) {
    let answers = layout.channel(Kind::Tcp);
    let to: Vec<Chan> = (0..workers).map(|_| layout.channel(Kind::Tcp)).collect();
    for (note, from) in (0..workers).zip(&to) {
        let reply = Op::Send { to: answers, bytes: 256, note };
        layout.servant(Loop::boxed(vec![Op::Recv(*from), Op::Work(WORK_NS), reply]), FOOTPRINT_KB);
    }
    if workers > 0 {
        layout.task(Box::new(Dispatcher { fresh: to.len(), to, answers, at: 0 }), FOOTPRINT_KB);
    }
}
