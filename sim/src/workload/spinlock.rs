//! spinlock: every vCPU takes the VM's one lock, holds it, lets it go, computes for a while.
//!
//! ```text
//!   lock {  work: hold  }   record   work: gap
//! ```
//! It measures the lock and nothing else: the worst case of holder and waiter preemption. Fairness among the vCPUs of a VM
//! is in `vcpu_records`.
use super::{Env, Op, SPREAD_PERCENT};
use crate::world::LockId;

const LOCK: LockId = LockId(0);
pub(super) const LOCKS: usize = 1;

/// Where a thread is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Spinlock {
    #[default]
    Gap,
    Ask,
    Hold,
    LetGo,
    Record,
}

impl Spinlock {
    pub(super) fn next(&mut self, env: &mut Env<'_>) -> Op {
        let op;
        (op, *self) = match *self {
            Self::Gap => (Op::Work(env.rng.around(env.params.gap_ns.into(), SPREAD_PERCENT)), Self::Ask),
            Self::Ask => (Op::Lock(LOCK), Self::Hold),
            Self::Hold => (Op::Work(env.params.hold_ns.into()), Self::LetGo),
            Self::LetGo => (Op::Unlock(LOCK), Self::Record),
            Self::Record => (Op::Record, Self::Gap),
        };
        op
    }
}
