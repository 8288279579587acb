//! The shootdown protocol of an address space: who must be flushed, who has been, and when an initiator may go on.
//!
//! ```text
//!   entries cleared ─► begin: g = generation += 1, targets = online ─► mark_stopped ─► IPI to the rest
//!                                                                          │
//!                        look: flushed_gen >= g ?  ◄── wait ──► mark_stopped again: stopped after the IPI?
//!                                                      └──► arm_halt: halt, the last handler kicks ─► look again
//! ```
//!
//! What is here decides; the guest kernel around it counts, times and makes the calls, so that the model checker sees the
//! very code that guests execute. The one half that is not Rust is the flush handler (assembly in the guest kernel). In
//! this order it reads the generation, flushes, publishes the generation in `flushed_gen`, takes `waiters` with an
//! exchange, and clears its own bit in each waiter's `remaining`: whoever clears the last one kicks that waiter.
//!
//! Properties, each with the mutants that break it, are in `model.rs`:
//! - when no target is missing, no vCPU uses a translation again that was removed before `begin`;
//! - a waiter that halts is kicked, or has been woken by something else, and looks again;
//! - a target that stops after its IPI was sent is marked by the next look for it: nobody waits for its time slice.

#[cfg(all(test, loom))]
mod model;

use crate::state::{Marked, StateWord};
use crate::sync::{AtomicU64, Ordering};
use crate::vcpu::{FlushLine, KickLine};

/// The shared lines of every vCPU, by number.
pub trait Vcpus {
    /// Its state word.
    fn state(&self, vcpu: u32) -> &StateWord;
    /// What its flush handler publishes.
    fn flush(&self, vcpu: u32) -> &FlushLine;
    /// Whom it kicks, and who kicks it.
    fn kick(&self, vcpu: u32) -> &KickLine;
}

/// The flushes of one address space. The flush handler reads the generation, which is the first field.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Shootdown {
    pub(crate) generation: AtomicU64,
    pub(crate) online: AtomicU64,
}

impl Shootdown {
    /// Nobody is online, no flush has begun.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self { generation: AtomicU64::new(0), online: AtomicU64::new(0) }
    }

    /// To be called by a vCPU before its first use of the address space.
    pub fn come_online(&self, vcpu: u32) {
        // A read-modify-write: either a flush's look at the mask sees the bit, or what this vCPU reads from page tables
        // afterwards includes the entries that the flush had cleared.
        self.online.fetch_or(1 << vcpu, Ordering::SeqCst);
    }

    /// Begins a flush by `initiator`, which has cleared the entries and flushed itself.
    pub fn begin(&self, initiator: u32) -> Round {
        // Orders the cleared entries before the generation and the generation before the look at the mask.
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        // A read-modify-write as well: it must not read a mask from before a bit that `come_online` has set.
        let online = self.online.fetch_or(0, Ordering::SeqCst);
        Round { initiator, generation, missing: online & !(1 << initiator) }
    }
}

/// A flush that waits for its targets. The mask is the initiator's own copy: nobody else changes it.
#[derive(Debug)]
#[must_use = "the targets are not flushed before none is missing"]
pub struct Round {
    initiator: u32,
    generation: u64,
    missing: u64,
}

impl Round {
    /// The same for those of its targets that are in a mask: nobody else can have used what was removed.
    pub const fn among(self, mask: u64) -> Self {
        Self { missing: self.missing & mask, ..self }
    }

    /// Targets that have neither acknowledged nor been marked.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.missing
    }

    /// Drops the targets that have acknowledged; returns them.
    pub fn look(&mut self, vcpus: &impl Vcpus) -> u64 {
        let done = |&vcpu: &u32| vcpus.flush(vcpu).flushed_gen.load(Ordering::Acquire) >= self.generation;
        let acknowledged = mask_of(bits(self.missing).filter(done));
        self.missing &= !acknowledged;
        acknowledged
    }

    /// Marks and drops the targets that do not run: they flush before they execute again. Returns them.
    pub fn mark_stopped(&mut self, vcpus: &impl Vcpus) -> u64 {
        let deferred = |&vcpu: &u32| vcpus.state(vcpu).mark_flush() == Marked::Deferred;
        let marked = mask_of(bits(self.missing).filter(deferred));
        self.missing &= !marked;
        marked
    }

    /// Drops a target, whatever it does: for mutants.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(crate) fn forget(&mut self, vcpu: u32) {
        self.missing &= !(1 << vcpu);
    }

    /// Prepares a halt until the last missing target has acknowledged; returns those that have meanwhile, and whether to
    /// halt: if not, nobody is left to kick. After the halt, however it ended, look again.
    #[must_use = "who halts in spite of `false` is never kicked"]
    pub fn arm_halt(&mut self, vcpus: &impl Vcpus) -> (u64, bool) {
        let armed = self.missing;
        if armed == 0 {
            return (0, false);
        }
        let own = vcpus.kick(self.initiator);
        own.arm(armed);
        for target in bits(armed) {
            vcpus.kick(target).register(self.initiator);
        }
        let acknowledged = self.look(vcpus);
        (acknowledged, own.disarm(acknowledged))
    }
}

/// The numbers of the bits of a mask, ascending.
pub fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

fn mask_of(vcpus: impl Iterator<Item = u32>) -> u64 {
    vcpus.fold(0, |mask, vcpu| mask | 1 << vcpu)
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(core::mem::offset_of!(Shootdown, generation) == 0);

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::state::Stop;

    #[derive(Default)]
    struct Two([(StateWord, FlushLine, KickLine); 2]);

    impl Vcpus for Two {
        fn state(&self, vcpu: u32) -> &StateWord {
            &self.0[vcpu as usize].0
        }
        fn flush(&self, vcpu: u32) -> &FlushLine {
            &self.0[vcpu as usize].1
        }
        fn kick(&self, vcpu: u32) -> &KickLine {
            &self.0[vcpu as usize].2
        }
    }

    #[test]
    fn a_flush_without_others_online_has_no_targets() {
        let space = Shootdown::new();
        space.come_online(0);
        assert_eq!(space.begin(0).missing(), 0);
    }

    #[test]
    fn a_running_target_is_missing_until_it_acknowledges_this_generation() {
        let (space, vcpus) = (Shootdown::new(), Two::default());
        space.come_online(0);
        space.come_online(1);
        vcpus.0[1].1.flushed_gen.store(space.begin(0).generation, Ordering::Relaxed);
        let mut round = space.begin(0);
        assert_eq!((round.mark_stopped(&vcpus), round.look(&vcpus), round.missing()), (0, 0, 0b10));
        assert_eq!(round.arm_halt(&vcpus), (0, true));
        vcpus.0[1].1.flushed_gen.store(2, Ordering::Relaxed);
        assert_eq!(round.arm_halt(&vcpus), (0b10, false));
        assert_eq!(round.missing(), 0);
    }

    #[test]
    fn a_stopped_target_is_marked_and_nobody_is_waited_for() {
        let (space, vcpus) = (Shootdown::new(), Two::default());
        space.come_online(1);
        vcpus.0[1].0.stop(Stop::Preempted);
        let mut round = space.begin(0);
        assert_eq!((round.mark_stopped(&vcpus), round.missing()), (0b10, 0));
        assert_eq!(round.arm_halt(&vcpus), (0, false));
        assert!(vcpus.0[1].0.enter().flush);
    }
}
