//! `pipe-test`: two tasks pass a token through two pipes.
//!
//! Caveats: entirely synchronous and without work, so there is nothing to overlap: two CPUs can only lose.
use super::{Kind, Layout};
use crate::tasks::program::{Loop, Op};

/// Reading the clock and counting.
const LOOP_NS: u64 = 50;
const FOOTPRINT_KB: u64 = 4;
const TOKEN: u64 = 4;

pub(super) fn lay_out(layout: &mut Layout) {
    token(layout, LOOP_NS, FOOTPRINT_KB);
}

/// Two tasks and a token; each round trip counts as one.
pub(super) fn token(layout: &mut Layout, work_ns: u64, footprint_kb: u64) {
    let (there, back) = (layout.channel(Kind::Pipe), layout.channel(Kind::Pipe));
    let send = |to| Op::Send { to, bytes: TOKEN, note: 0 };
    layout.task(Loop::boxed(vec![Op::Work(work_ns), send(there), Op::Recv(back), Op::Count(1)]), footprint_kb);
    layout.task(Loop::boxed(vec![Op::Recv(there), Op::Work(work_ns), send(back)]), footprint_kb);
}
