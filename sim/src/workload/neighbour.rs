//! The innocent neighbour: a VM of one vCPU and one thread that computes without end, or sleeps and computes in turn.
//!
//! ```text
//!   spin      work   record
//!   sleeper   nap   awake   work   record
//! ```
//! `awake` is where its lateness is measured: from the end of the nap until its next instruction. Not modelled: what it does
//! to the caches of others beyond its time on them.
use plan::Neighbour;

use super::Op;

/// Where the thread is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beside {
    Sleep,
    WakeUp,
    Compute {
        /// It sleeps after that.
        sleeper: bool,
    },
    Record {
        /// It sleeps after that.
        sleeper: bool,
    },
}

impl Beside {
    pub(super) fn new(kind: Neighbour) -> Self {
        if kind == Neighbour::Sleeper { Self::Sleep } else { Self::Compute { sleeper: false } }
    }

    pub(super) fn next(&mut self) -> Op {
        let op;
        (op, *self) = match *self {
            Self::Sleep => (Op::Nap(Neighbour::SLEEP_NS), Self::WakeUp),
            Self::WakeUp => (Op::Awake, Self::Compute { sleeper: true }),
            Self::Compute { sleeper } => (Op::Work(Neighbour::BURST_NS), Self::Record { sleeper }),
            Self::Record { sleeper: true } => (Op::Record, Self::Sleep),
            Self::Record { sleeper: false } => (Op::Record, Self::Compute { sleeper: false }),
        };
        op
    }
}
