//! What one vCPU shares, in models of the shootdown: the product's own lines, and what the host keeps for it. The same for both
//! model checkers.
use std::vec::Vec;

use crate::shootdown::Vcpus;
use crate::state::StateWord;
use crate::sync::AtomicBool;
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
