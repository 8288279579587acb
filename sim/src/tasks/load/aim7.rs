//! AIM7 at low load: users that each run a random sequence of small jobs.
//!
//! Caveats: AIM7 is dozens of micro-jobs (computing, pipes, sockets, file and fork tests) whose mix the thread does not
//! give. At 64 tasks on 80 CPUs nothing is saturated, so it measures latency between short pieces. This model has three
//! kinds of job only, with assumed lengths; fork and exec are missing.
//!
//! Model: a user has a helper (the child of the pipe and socket tests, the kernel thread behind synchronous file
//! operations). A job is 50 to 250 us of computing, or 10 round trips to the helper with 10 us on each side, or 4.4 ms
//! for a write that must reach the disk: so long that 64 users keep 20 CPUs busy with buddies, as was published.
use super::{Chan, Kind, Layout};
use crate::rng::Stream;
use crate::tasks::program::{Loop, Op, Program};

const COMPUTE_NS: u64 = 150_000;
const ROUND_TRIPS: u32 = 10;
const PIECE_NS: u64 = 10_000;
const DISK_NS: u64 = 4_400_000;
const FOOTPRINT_KB: u64 = 32;

#[derive(Debug, Clone, Copy)]
enum At {
    Start,
    Piece(u32),
    Ask(u32),
    Wait(u32),
    End,
}

#[derive(Debug)]
struct User {
    to: Chan,
    from: Chan,
    at: At,
}

impl Program for User {
    fn next(&mut self, rng: &mut Stream, _got: u32) -> Op {
        match self.at {
            At::Start => match rng.below(10) {
                0..3 => {
                    self.at = At::End;
                    Op::Work(rng.around(COMPUTE_NS, 66))
                }
                3 => {
                    self.at = At::End;
                    Op::Sleep(DISK_NS)
                }
                _ => {
                    self.at = At::Ask(ROUND_TRIPS);
                    Op::Work(PIECE_NS)
                }
            },
            At::Piece(left) => {
                self.at = At::Ask(left);
                Op::Work(rng.around(PIECE_NS, 50))
            }
            At::Ask(left) => {
                self.at = At::Wait(left);
                Op::Send { to: self.to, bytes: 512, note: 0 }
            }
            At::Wait(left) => {
                self.at = if left > 1 { At::Piece(left - 1) } else { At::End };
                Op::Recv(self.from)
            }
            At::End => {
                self.at = At::Start;
                Op::Count(1)
            }
        }
    }
}

pub(super) fn lay_out(layout: &mut Layout, tasks: u32) {
    for _ in 0..tasks {
        let (ask, answer) = (layout.channel(Kind::Pipe), layout.channel(Kind::Pipe));
        layout.task(Box::new(User { to: ask, from: answer, at: At::Start }), FOOTPRINT_KB);
        let helper = vec![Op::Recv(ask), Op::Work(PIECE_NS), Op::Send { to: answer, bytes: 512, note: 0 }];
        layout.servant(Loop::boxed(helper), FOOTPRINT_KB);
    }
}
