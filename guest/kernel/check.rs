//! The stale check: reads of other vCPUs' slots, through the real TLB and through a soft one.
//!
//! docs/guest-abi.md section 7 defines what is stale. The soft TLB is direct-mapped; an entry is valid while the epoch
//! has the value that it had *before* the walk that filled it, so that a flush in the middle of a fill makes the entry
//! invalid, as a processor does it.

use abi::layout::Geometry;
use abi::sync::Ordering::{Acquire, Relaxed, SeqCst};

use crate::cpu::Cpu;
use crate::pool::Walk;
use crate::stubs::probe_read;
use crate::window::{Slot, Stamp, frame_stamp};

const ENTRIES: usize = 64;

#[derive(Clone, Copy)]
struct Entry {
    /// Slot and page, plus 1; 0 is empty.
    tag: u64,
    epoch: u64,
    stamp: Stamp,
}

/// Reads slots of the window and counts what is stale.
pub(crate) struct Checker {
    cpu: Cpu,
    geometry: Geometry,
    entries: [Entry; ENTRIES],
}

impl Checker {
    pub(crate) fn new(cpu: Cpu, geometry: Geometry) -> Self {
        Self { cpu, geometry, entries: [Entry { tag: 0, epoch: 0, stamp: Stamp(0) }; ENTRIES] }
    }

    /// Reads the same page of `count` slots, each through both TLBs; `where_from` picks page and first slot. One in 32
    /// values of it also reads slots that are not mapped: unless a translation is stale, these reads fault.
    pub(crate) fn peek(&mut self, where_from: u64, count: u32) {
        let slots = self.geometry.slots();
        let page = (where_from >> 32) as u32 % self.geometry.chunk_pages();
        let first = (where_from & 0xffff) as u32;
        let unmapped_too = where_from >> 59 == 0;
        for number in (first..first + count.min(slots)).map(|number| number % slots) {
            let slot = Slot::new(self.geometry, number);
            self.read_real(slot, page, unmapped_too);
            self.read_soft(slot, page);
        }
    }

    fn read_real(&self, slot: Slot, page: u32, unmapped_too: bool) {
        let counters = self.cpu.counters();
        let flushed = slot.flushed();
        if !slot.is_mapped() && !unmapped_too {
            return;
        }
        counters.real_reads.add(1);
        let probe = probe_read(slot.address(page));
        if probe.ok == 0 {
            counters.read_faults.add(1);
        } else if Stamp(probe.value).is_stale(slot.number, flushed) {
            counters.stale_reads.add(1);
        }
    }

    fn read_soft(&mut self, slot: Slot, page: u32) {
        let counters = self.cpu.counters();
        let tag = (u64::from(slot.number) << 32 | u64::from(page)) + 1;
        // The order matters: watermark, epoch, entry. A flush that completed before the first has changed the second.
        let flushed = slot.flushed();
        let epoch = self.epoch();
        let entry = &mut self.entries[(slot.number as usize * 5 + page as usize) % ENTRIES];
        counters.soft_reads.add(1);
        if entry.tag == tag && entry.epoch == epoch {
            counters.soft_hits.add(1);
            if entry.stamp.is_stale(slot.number, flushed) {
                counters.soft_stale_reads.add(1);
            }
            return;
        }
        let walk = Walk::begin(self.cpu);
        let Some(frame) = slot.walk(page) else { return };
        let stamp = Stamp(frame_stamp(frame).load(Acquire));
        let again = Stamp(frame_stamp(frame).load(SeqCst));
        drop(walk);
        if stamp.0 >> 48 != u64::from(slot.number) || again != stamp {
            counters.walk_stale_reads.add(1);
        }
        *entry = Entry { tag, epoch, stamp };
    }

    /// Changes with every flush that this vCPU executes, wherever it is done.
    fn epoch(&self) -> u64 {
        let by_guest = self.cpu.page.flush.0.epoch.load(Acquire);
        by_guest.wrapping_add(self.cpu.page.host.0.entry_flushes.load(Relaxed))
    }
}
