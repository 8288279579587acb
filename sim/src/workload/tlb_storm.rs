//! tlb-storm: take the pages of a chunk, touch them, read them, unmap them, flush everybody; nothing else.
//!
//! ```text
//!   zone lock_irqsave {  work: hold  }   work: touch   work: unmap   flush   record
//! ```
//! It measures page faults, unmapping and the flush, which empties TLBs that are in use; `flush` is the same without a page. Who
//! waits for the zone's lock has interrupts off, as for a refill of the per-CPU page list, so a flush waits for it too: with
//! `zone_hold_ns` 0 nobody takes it. Reading costs nothing here. Not modelled: mmap_sem, refilled TLBs.
use super::{Env, Op, SPREAD_PERCENT};
use crate::world::LockId;

/// `zone->lock`.
const ZONE: LockId = LockId(0);
pub(super) const LOCKS: usize = 1;

/// Where a thread is in its record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum TlbStorm {
    #[default]
    Ask,
    Hold,
    LetGo,
    Touch,
    Unmap,
    Flush,
    Done,
}

impl TlbStorm {
    pub(super) fn next(&mut self, env: &mut Env<'_>) -> Op {
        let pages = u64::from(env.params.chunk_pages);
        let touch = Op::Work(env.rng.around(pages * env.costs.page_touch, SPREAD_PERCENT));
        let op;
        (op, *self) = match *self {
            Self::Ask if env.params.zone_hold_ns == 0 => (touch, Self::Unmap),
            Self::Ask => (Op::LockIrqsave(ZONE), Self::Hold),
            Self::Hold => (Op::Work(env.params.zone_hold_ns.into()), Self::LetGo),
            Self::LetGo => (Op::Unlock(ZONE), Self::Touch),
            Self::Touch => (touch, Self::Unmap),
            Self::Unmap => (Op::Work(pages * env.costs.page_unmap), Self::Flush),
            Self::Flush => (Op::Flush, Self::Done),
            Self::Done => (Op::Record, Self::Ask),
        };
        op
    }
}
