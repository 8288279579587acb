//! What one vCPU shares, in models of the shootdown: the product's own lines, and what the host keeps for it. The same for both
//! model checkers.
use std::vec::Vec;

use crate::shootdown::{Vcpus, bits};
use crate::state::StateWord;
use crate::sync::{AtomicBool, Ordering};
use crate::vcpu::{FlushLine, KickLine};

/// The lines of one vCPU, the interrupt that it has pending, and its kick latch in the host.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) state: StateWord,
    pub(crate) flush: FlushLine,
    pub(crate) kick: KickLine,
    pub(crate) irq: AtomicBool,
    /// Read-modify-writes only, as the VMM's: loom may order a plain store against a swap either way.
    pub(crate) latch: AtomicBool,
}

impl Vcpus for Vec<Lines> {
    fn state(&self, vcpu: u32) -> &StateWord {
        &self[vcpu as usize].state
    }
    fn flush(&self, vcpu: u32) -> &FlushLine {
        &self[vcpu as usize].flush
    }
    fn kick(&self, vcpu: u32) -> &KickLine {
        &self[vcpu as usize].kick
    }
}

/// The flush handler of `vcpu` after its flush: acknowledges `generation`, then lets its waiters go, each of which it kicks
/// if nobody else is awaited. `publish_first` is false in a mutant.
pub(crate) fn acknowledge(vcpus: &Vec<Lines>, vcpu: u32, generation: u64, publish_first: bool) {
    let own = &vcpus[vcpu as usize];
    let publish = || own.flush.flushed_gen.store(generation, Ordering::Release);
    let take = || own.kick.waiters.swap(0, Ordering::SeqCst);
    let waiters = if publish_first {
        publish();
        take()
    } else {
        let waiters = take();
        publish();
        waiters
    };
    let bit = 1_u64 << vcpu;
    for waiter in bits(waiters) {
        if vcpus.kick(waiter).remaining.fetch_and(!bit, Ordering::SeqCst) & !bit == 0 {
            vcpus[waiter as usize].latch.swap(true, Ordering::SeqCst);
        }
    }
}
