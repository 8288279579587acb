//! The window: slots, their stamps, and their leaf page tables.
//!
//! A slot is written by the vCPU that owns it and read by all. Its stamp says which chunk is mapped: slot number in the
//! upper 16 bits, generation in the lower 48, 0 while nothing is mapped. The first word of each frame of the chunk
//! holds the same stamp, so that a read through the window tells which mapping it went through.

use core::ops::Range;

use abi::layout::{Geometry, PAGE_SIZE};
use abi::sync::AtomicU64;
use abi::sync::Ordering::{Acquire, Relaxed, Release};

use crate::stubs::gate_walk;

const PRESENT_WRITE_USER: u64 = 7;
/// The frame's address in a page-table entry.
pub(crate) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Bytes at the start of each page of a chunk that the workload leaves alone: the stamp and its cache line.
pub(crate) const STAMP_BYTES: u64 = 64;

/// Slot number and generation of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    pub(crate) fn new(slot: u32, generation: u64) -> Self {
        Self(u64::from(slot) << 48 | (generation & 0xffff_ffff_ffff))
    }

    /// True if a translation to this stamp is stale for a reader of `slot` who saw the watermark `flushed` before.
    pub(crate) fn is_stale(self, slot: u32, flushed: u64) -> bool {
        self.0 >> 48 != u64::from(slot) || self.generation() <= flushed
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }
}

#[repr(C, align(64))]
struct SlotState {
    /// The present stamp, 0 if unmapped.
    stamp: AtomicU64,
    /// Watermark: the last generation whose flush has completed.
    flushed: AtomicU64,
}

static SLOTS: [SlotState; Geometry::SLOTS_MAX as usize] =
    [const { SlotState { stamp: AtomicU64::new(0), flushed: AtomicU64::new(0) } }; Geometry::SLOTS_MAX as usize];

/// One slot of this VM.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    geometry: Geometry,
}

impl Slot {
    pub(crate) fn new(geometry: Geometry, number: u32) -> Self {
        assert!(number < geometry.slots());
        Self { number, geometry }
    }

    fn state(&self) -> &'static SlotState {
        &SLOTS[self.number as usize]
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.state().stamp.load(Acquire) != 0
    }

    /// The watermark. Everything read after this call is judged by it.
    pub(crate) fn flushed(&self) -> u64 {
        self.state().flushed.load(Acquire)
    }

    /// Virtual address of a page of the slot.
    pub(crate) fn address(&self, page: u32) -> u64 {
        self.geometry.slot_address(self.number) + u64::from(page) * PAGE_SIZE
    }

    fn entry(&self, page: u32) -> &'static AtomicU64 {
        assert!(page < self.geometry.chunk_pages());
        let address = self.geometry.leaf_pt(self.number) + u64::from(page) * 8;
        // SAFETY: the leaf tables are identity-mapped memory that holds nothing else, for ever; slot and page are in
        // range. The processor (or KVM) walks them concurrently, hence an atomic.
        unsafe { &*(address as *const AtomicU64) }
    }

    /// Owner: maps the chunk whose first frame is `frames`, after writing the stamp of `generation` into each frame.
    pub(crate) fn map(&self, frames: u64, generation: u64) {
        self.map_pages(frames, generation, 0..self.geometry.chunk_pages());
        self.state().stamp.store(Stamp::new(self.number, generation).0, Release);
    }

    /// Owner: maps some pages of it; others do not read the slot before all are.
    pub(crate) fn map_pages(&self, frames: u64, generation: u64, pages: Range<u32>) {
        let stamp = Stamp::new(self.number, generation);
        for page in pages {
            let frame = frames + u64::from(page) * PAGE_SIZE;
            frame_stamp(frame).store(stamp.0, Relaxed);
            // Release: who finds the entry finds the stamp.
            self.entry(page).store(frame | PRESENT_WRITE_USER, Release);
        }
    }

    /// Owner: unmaps the chunk. Translations may live on until the flush.
    pub(crate) fn unmap(&self) {
        self.state().stamp.store(0, Relaxed);
        self.unmap_pages(0..self.geometry.chunk_pages());
    }

    /// Owner: unmaps some pages of it.
    pub(crate) fn unmap_pages(&self, pages: Range<u32>) {
        for page in pages {
            self.entry(page).store(0, Release);
        }
    }

    /// Owner: the flush after the unmapping of `generation` has completed.
    pub(crate) fn flush_completed(&self, generation: u64) {
        self.state().flushed.store(generation, Release);
    }

    /// Looks a page up in the page table, as the processor would. The caller holds off reuse of the frame.
    pub(crate) fn walk(&self, page: u32) -> Option<u64> {
        let entry = self.entry(page).load(Acquire);
        (entry != 0).then_some(entry & ADDRESS)
    }
}

/// A walk by hand with interrupts off, `turns` turns long: the stamps that it found in the frame of `page` at its beginning
/// and at its end, or `None` if nothing was mapped.
pub(crate) fn walk_with_interrupts_off(slot: Slot, page: u32, turns: u32) -> Option<(Stamp, Stamp)> {
    // SAFETY: the entry is one of the slot's leaf table, and what stands there is 0 or a frame of the pool: ring 0 reads
    // identity-mapped memory that exists for ever. Unsafe because it takes addresses.
    let walked = unsafe { gate_walk(slot.entry(page).as_ptr() as u64, u64::from(turns.max(1))) };
    (walked.first != 0).then_some((Stamp(walked.first), Stamp(walked.last)))
}

/// The stamp word of a frame, through the identity map.
pub(crate) fn frame_stamp(frame: u64) -> &'static AtomicU64 {
    // SAFETY: `frame` comes from `Geometry::set_address` or from an entry that `Slot::map` wrote: a frame of the pool,
    // identity-mapped for ever. Other vCPUs access the word concurrently, all as an atomic.
    unsafe { &*(frame as *const AtomicU64) }
}
