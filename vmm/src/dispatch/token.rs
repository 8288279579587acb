//! The token of a pCPU: who may act as that CPU.
//!
//! # Problem
//! `schedule()` of a CPU must be run by exactly one thread at a time, and its answer must be carried out before the next
//! one is asked. A CPU that runs a vCPU has such a thread; an idle CPU has none, so any thread with work for it may
//! have to act in its place, and two may come at once.
//!
//! # Picture
//! ```text
//!            claim (CAS)               give(v)
//!    Free ───────────────► Claimed ───────────────► Held(v) ──┐ give(w): hand-over
//!      ▲                      │                        │ ▲    │
//!      └──────────────────────┴────── release ─────────┘ └────┘
//! ```
//!
//! # Properties
//! - Only who holds or claimed the token gives or releases it; at most one thread does either.
//! - Work is not overlooked: who leaves work in [`Token::pending`] and then sees the token held (or claimed) may rely on
//!   the holder, or the one it gives the token to, to look at `pending` afterwards; who sees it free claims it. Both
//!   sides have a fence between their store and their load.

use crate::sched::VcpuIndex;
use crate::sync::{AtomicU32, Ordering, fence};

const FREE: u32 = u32::MAX;
const CLAIMED: u32 = u32::MAX - 1;

/// Who acts as the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody: the CPU is idle.
    Nobody,
    /// A thread that acts in the CPU's place for a moment.
    Claimer,
    /// The thread of this vCPU, on its way to, in, or back from the guest.
    Vcpu(VcpuIndex),
}

/// What waits for a CPU's attention: bits of [`Token::pending`].
pub(super) mod pending {
    /// `need_resched` was set.
    pub(in crate::dispatch) const RESCHED: u32 = 1 << 0;
    /// An IPI lies in the CPU's mailbox.
    pub(in crate::dispatch) const IPI: u32 = 1 << 1;
    /// The CPU is not alone with its task any more: its timer must go at the next tick.
    pub(in crate::dispatch) const TIMER: u32 = 1 << 2;
}

/// One pCPU's token, with the work that waits for its holder.
#[derive(Debug)]
pub(super) struct Token {
    holder: AtomicU32,
    pending: AtomicU32,
}

impl Token {
    /// Free, nothing pending.
    pub(super) fn new() -> Self {
        Self { holder: AtomicU32::new(FREE), pending: AtomicU32::new(0) }
    }

    /// Leaves work and says who acts as the CPU now: who is to be made to look.
    pub(super) fn post(&self, work: u32) -> Holder {
        self.pending.fetch_or(work, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.holder()
    }

    /// True if work is waiting. The holder looks here before each entry.
    pub(super) fn has_work(&self) -> bool {
        self.pending.load(Ordering::Acquire) != 0
    }

    /// The holder (or claimer) takes all waiting work.
    pub(super) fn take_work(&self) -> u32 {
        self.pending.swap(0, Ordering::AcqRel)
    }

    /// The holder (or claimer) has just done, or is about to look for, this work.
    pub(super) fn clear(&self, work: u32) {
        self.pending.fetch_and(!work, Ordering::AcqRel);
    }

    /// Who acts as the CPU.
    pub(super) fn holder(&self) -> Holder {
        match self.holder.load(Ordering::Acquire) {
            FREE => Holder::Nobody,
            CLAIMED => Holder::Claimer,
            vcpu => Holder::Vcpu(VcpuIndex(vcpu)),
        }
    }

    /// Takes a free token; false if somebody was faster.
    #[must_use]
    pub(super) fn claim(&self) -> bool {
        self.holder.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The holder (or claimer) gives the token to a vCPU, whose thread looks at the work after it took over.
    pub(super) fn give(&self, to: VcpuIndex) {
        self.holder.store(to.0, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// The holder (or claimer) leaves the CPU idle. True if work came in the meantime: then it must try to claim the
    /// token again, for whoever left that work may have seen it held.
    #[must_use]
    pub(super) fn release(&self) -> bool {
        self.holder.store(FREE, Ordering::Release);
        fence(Ordering::SeqCst);
        self.has_work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicU64};

    #[test]
    fn only_one_of_many_claims_a_free_token() {
        let token = Token::new();
        let won: u32 = std::thread::scope(|s| {
            (0..8).map(|_| s.spawn(|| u32::from(token.claim()))).map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(won, 1);
        assert_eq!(token.holder(), Holder::Claimer);
        token.give(VcpuIndex(3));
        assert_eq!(token.holder(), Holder::Vcpu(VcpuIndex(3)));
    }

    /// Each thread leaves work and, where it sees the token free, acts: all work must have been taken at the end, and
    /// never by two at once.
    #[test]
    fn work_left_while_the_token_is_released_is_not_overlooked() {
        const THREADS: u64 = 4;
        const POSTS: u64 = 20_000;
        let token = Arc::new(Token::new());
        let (left, taken, inside) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..POSTS {
                        left.fetch_add(1, Ordering::Relaxed);
                        if token.post(pending::RESCHED) != Holder::Nobody {
                            continue;
                        }
                        while token.claim() {
                            assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0);
                            token.take_work();
                            taken.store(left.load(Ordering::Relaxed), Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::AcqRel);
                            if !token.release() {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert!(!token.has_work(), "work was left behind a free token");
        assert_eq!(taken.into_inner(), THREADS * POSTS);
    }
}
