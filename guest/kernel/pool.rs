//! Frames of a vCPU, in sets of one chunk, and their deferred freeing.
//!
//! ```text
//!   free ── take ──► mapped ── give (after the flush) ──► waiting ── every walk of that moment has ended ──► free
//! ```
//!
//! Without the IPI of a flush nothing holds off a vCPU that walks the page tables without a lock: it may be preempted
//! between the entry and the frame. So a set is reused only when each vCPU that was walking when the set was given back
//! (`walk_seq` odd) has ended that walk. Usually nobody walks, and the set is free at once. Linux gets the same from
//! RCU freeing of page tables (`CONFIG_MMU_GATHER_RCU_TABLE_FREE`).
//!
//! Free sets are a stack: the last one given back is reused first, which gives a stale translation the least time to
//! hide.

use abi::VCPUS_MAX;
use abi::layout::{Geometry, SPARE_SETS};
use abi::shootdown::bits;
use abi::sync::Ordering::SeqCst;
use abi::vcpu::Phase;

use crate::cpu::{Cpu, page};
use crate::flush::SpinHint;

const SETS_MAX: usize = (Geometry::THREADS_MAX + SPARE_SETS) as usize;

/// A set of frames.
#[derive(Clone, Copy)]
pub(crate) struct Set(u32);

/// A set that waits for walkers.
#[derive(Clone, Copy)]
struct Waiting {
    set: Set,
    /// vCPUs that were walking and have not been seen to end that walk.
    walkers: u64,
    /// Their `walk_seq` then.
    seqs: [u32; VCPUS_MAX as usize],
}

/// The sets of one vCPU.
pub(crate) struct Pool {
    cpu: Cpu,
    geometry: Geometry,
    free: Stack<Set>,
    waiting: Stack<Waiting>,
}

impl Pool {
    pub(crate) fn new(cpu: Cpu, geometry: Geometry) -> Self {
        let mut free = Stack::new(Set(0));
        for set in (0..geometry.sets()).rev() {
            free.push(Set(set));
        }
        let nothing = Waiting { set: Set(0), walkers: 0, seqs: [0; VCPUS_MAX as usize] };
        Self { cpu, geometry, free, waiting: Stack::new(nothing) }
    }

    /// Address of the first frame of a set.
    pub(crate) fn address(&self, set: Set) -> u64 {
        self.geometry.set_address(self.cpu.index, set.0)
    }

    /// Address of the source chunk, which is never mapped in the window.
    pub(crate) fn source(&self) -> u64 {
        self.geometry.set_address(self.cpu.index, self.geometry.sets())
    }

    /// Takes a set; waits for walkers if there is none, with a spin hint every `ple_window_cycles`.
    pub(crate) fn take(&mut self, ple_window_cycles: u64) -> Set {
        if self.free.len == 0 {
            self.reap();
        }
        if self.free.len == 0 {
            self.cpu.counters().alloc_waits.add(1);
            self.cpu.phase(Phase::AllocWait);
            let mut hint = SpinHint::new(ple_window_cycles);
            while self.free.len == 0 {
                hint.spin(self.cpu);
                self.reap();
            }
            self.cpu.phase(Phase::Work);
        }
        self.free.pop()
    }

    /// Gives a set back at once, whoever still walks: the fault that `gup` is there to show.
    pub(crate) fn give_early(&mut self, set: Set) {
        self.free.push(set);
    }

    /// Gives a set back, after the flush that followed its unmapping.
    pub(crate) fn give(&mut self, set: Set) {
        let mut waiting = Waiting { set, walkers: 0, seqs: [0; VCPUS_MAX as usize] };
        for vcpu in 0..self.geometry.vcpus() {
            // The flush was a full barrier after the entries were cleared, as the start of a walk is before it reads
            // them: a walk that this look does not see cannot find the frames.
            let seq = page(vcpu).call.0.walk_seq.load(SeqCst);
            if !seq.is_multiple_of(2) {
                waiting.walkers |= 1 << vcpu;
                waiting.seqs[vcpu as usize] = seq;
            }
        }
        if waiting.walkers == 0 {
            self.free.push(set);
        } else {
            self.cpu.counters().frees_deferred.add(1);
            self.waiting.push(waiting);
        }
    }

    /// Frees the sets whose walkers have all ended.
    fn reap(&mut self) {
        for _ in 0..self.waiting.len {
            let mut waiting = self.waiting.pop();
            for vcpu in bits(waiting.walkers) {
                if page(vcpu).call.0.walk_seq.load(SeqCst) != waiting.seqs[vcpu as usize] {
                    waiting.walkers &= !(1 << vcpu);
                }
            }
            if waiting.walkers == 0 {
                self.free.push(waiting.set);
            } else {
                self.waiting.rotate_in(waiting);
            }
        }
    }
}

/// A walk of the page tables without a lock: frames found in it are not reused before it ends.
pub(crate) struct Walk(Cpu);

impl Walk {
    pub(crate) fn begin(cpu: Cpu) -> Self {
        // A read-modify-write, so that it is a full barrier before the walk's first read.
        cpu.page.call.0.walk_seq.fetch_add(1, SeqCst);
        Self(cpu)
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.0.page.call.0.walk_seq.fetch_add(1, SeqCst);
    }
}

/// At most as many items as a vCPU has sets.
struct Stack<T> {
    items: [T; SETS_MAX],
    len: usize,
}

impl<T: Copy> Stack<T> {
    fn new(filler: T) -> Self {
        Self { items: [filler; SETS_MAX], len: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.len] = item;
        self.len += 1;
    }

    fn pop(&mut self) -> T {
        self.len -= 1;
        self.items[self.len]
    }

    /// Puts an item below all others.
    fn rotate_in(&mut self, item: T) {
        self.push(item);
        self.items[..self.len].rotate_right(1);
    }
}
