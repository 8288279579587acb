//! `ebizzy`, and the micros `flush` and `tlb-storm`.
//!
//! One *record* of `ebizzy` is what the program of that name does per look-up: allocate a chunk (map), touch each page,
//! copy the source chunk into it, search the copy, free it (unmap, one flush of all vCPUs). Each vCPU has a few logical
//! threads and serves them in turn:
//!
//! ```text
//!   turn of thread A   search, unmap A, flush │ map A anew, touch, copy
//!   turn of thread B                                      search, unmap B, flush │ map B anew, touch, copy
//! ```
//!
//! so the chunks of the other threads stay mapped while one flushes, and remote TLBs hold translations that matter. A
//! thread that waits for its flush holds its vCPU, as the kernel's `flush_tlb_others` does with preemption off.
//! Records that do not flush keep their chunk for the next one, as malloc keeps freed memory below its trim threshold.
//!
//! `flush` is the same record without touching, copying or searching: nobody has a translation that the flush takes away.
//! `tlb-storm` takes its pages under one lock of the VM for `zone_hold_ns`, touches every page, and reads it again before it is
//! unmapped: each flush empties TLBs that are in use. What is read must carry the mark that was written into this
//! mapping, or it is a stale read. A paravirt waiter for that lock halts with interrupts off, as one for `zone->lock` does:
//! a flush waits for it too.

use core::hint::black_box;
use core::slice;

use abi::layout::{Geometry, PAGE_SIZE};
use abi::params::{Params, Workload};

use crate::check::Checker;
use crate::cpu::{Cpu, rdtsc};
use crate::flush::Flusher;
use crate::lock::SpinLock;
use crate::pool::{Pool, Set};
use crate::window::{STAMP_BYTES, Slot};
use crate::work::compute;
use crate::workload::Random;

/// 64-bit words of a page that the workload uses.
const WORDS: usize = ((PAGE_SIZE - STAMP_BYTES) / 8) as usize;

/// Of the page allocator.
static ZONE: SpinLock = SpinLock::new();

/// Runs until the record limit, or for ever.
pub(crate) fn run(cpu: Cpu, params: &Params, geometry: Geometry, flusher: Flusher, workload: Workload) {
    let progress = &cpu.counters().progress;
    let limit_reached = || params.record_limit != 0 && progress.get() >= params.record_limit;
    let mut vcpu = Vcpu::new(cpu, params, geometry, flusher, workload);
    let mut threads = [const { None }; Geometry::THREADS_MAX as usize];
    for (number, thread) in (0..geometry.threads()).zip(&mut threads) {
        let slot = Slot::new(geometry, cpu.index * geometry.threads() + number);
        *thread = Some(Thread { slot, generation: 0, chunk: None });
    }
    loop {
        for thread in threads.iter_mut().flatten() {
            let begin = rdtsc();
            vcpu.turn(thread);
            cpu.results.record_time.record(rdtsc().saturating_sub(begin));
            progress.add(1);
            if limit_reached() {
                return;
            }
        }
    }
}

/// A logical thread: its slot, and what is mapped there.
struct Thread {
    slot: Slot,
    /// Of the last mapping; the first one has generation 1.
    generation: u64,
    chunk: Option<Set>,
}

/// What the threads of a vCPU share.
struct Vcpu<'a> {
    params: &'a Params,
    geometry: Geometry,
    cpu: Cpu,
    flusher: Flusher,
    pool: Pool,
    checker: Checker,
    random: Random,
    /// Copies and searches.
    computes: bool,
    /// Touches and reads.
    storms: bool,
}

impl<'a> Vcpu<'a> {
    fn new(cpu: Cpu, params: &'a Params, geometry: Geometry, flusher: Flusher, workload: Workload) -> Self {
        let (computes, storms) = (workload == Workload::Ebizzy, workload == Workload::TlbStorm);
        let pool = Pool::new(cpu, geometry);
        let mut random = Random(params.seed ^ (u64::from(cpu.index) << 56));
        if computes {
            for page in 0..geometry.chunk_pages() {
                for word in words_mut(pool.source() + u64::from(page) * PAGE_SIZE) {
                    *word = random.next();
                }
            }
        }
        Self { params, geometry, cpu, flusher, pool, checker: Checker::new(cpu, geometry), random, computes, storms }
    }

    /// One turn: the end of a thread's record, and the beginning of its next one. The first turn has only the latter.
    fn turn(&mut self, thread: &mut Thread) {
        if let Some(chunk) = thread.chunk {
            self.finish(thread, chunk);
            self.cpu.counters().records.add(1);
        }
        if thread.chunk.is_none() {
            self.enter_zone();
            let chunk = self.pool.take(self.params.ple_window_cycles);
            thread.chunk = Some(chunk);
            thread.generation += 1;
            thread.slot.map(self.pool.address(chunk), thread.generation);
        }
        if self.storms {
            touch(thread.slot, self.geometry, thread.generation);
        } else if self.computes {
            touch(thread.slot, self.geometry, thread.generation);
            copy(thread.slot, self.geometry, self.pool.source());
        }
    }

    /// A storm's chunk is accounted for under the allocator's lock; for how long stands in the parameters.
    fn enter_zone(&self) {
        // In the order of the plan's list: pages, threads, spins of the lock, hold time.
        let [_, _, _, hold_ns, ..] = self.params.args;
        if self.storms && hold_ns > 0 {
            let _guard = ZONE.lock_irqsave();
            compute(hold_ns.into());
        }
    }

    /// Searches the copy and frees it. The check reads the same pages before and after each part: what was cached
    /// before it may be stale after it. The own flush empties the TLBs, hence the second reading between it and the
    /// wait.
    fn finish(&mut self, thread: &mut Thread, chunk: Set) {
        let peeked = self.random.next();
        self.checker.peek(peeked, self.params.peeks);
        if self.computes {
            search(thread.slot, self.geometry, self.random.next(), self.params.search_passes);
        } else if self.storms {
            let stale = read_back(thread.slot, self.geometry, thread.generation);
            self.cpu.counters().stale_reads.add(stale);
        }
        self.checker.peek(peeked, self.params.peeks);
        if self.random.next() % 1000 >= u64::from(self.params.flush_per_mille) {
            return;
        }
        thread.slot.unmap();
        let flush = self.flusher.begin(self.cpu);
        self.checker.peek(peeked, self.params.peeks);
        flush.finish();
        self.checker.peek(peeked, self.params.peeks);
        thread.slot.flush_completed(thread.generation);
        self.pool.give(chunk);
        thread.chunk = None;
    }
}

/// The words of a page behind its stamp.
pub(super) fn words(page: u64) -> &'static [u64] {
    words_mut(page)
}

pub(super) fn words_mut(page: u64) -> &'static mut [u64] {
    // SAFETY: the caller names a page that only its own vCPU or thread uses (its source chunk, or its mapped slot; others
    // read nothing but the stamp before it) and drops the slice before it unmaps or asks for the page again.
    unsafe { slice::from_raw_parts_mut((page + STAMP_BYTES) as *mut u64, WORDS) }
}

/// The mark of a page of a mapping.
fn mark(page: u32, generation: u64) -> u64 {
    generation << 16 | u64::from(page)
}

/// The first access of each page, which finds its translation missing.
#[inline(never)]
fn touch(slot: Slot, geometry: Geometry, generation: u64) {
    for page in 0..geometry.chunk_pages() {
        words_mut(slot.address(page))[0] = mark(page, generation);
    }
}

/// Reads what `touch` has written; how many pages have another mark.
#[inline(never)]
fn read_back(slot: Slot, geometry: Geometry, generation: u64) -> u64 {
    let read = |page: u32| black_box(words(slot.address(page)))[0];
    (0..geometry.chunk_pages()).filter(|page| read(*page) != mark(*page, generation)).count() as u64
}

#[inline(never)]
fn copy(slot: Slot, geometry: Geometry, source: u64) {
    for page in 0..geometry.chunk_pages() {
        words_mut(slot.address(page)).copy_from_slice(words(source + u64::from(page) * PAGE_SIZE));
    }
}

/// Counts a key in the copy, again and again: the computing share of a record.
#[inline(never)]
fn search(slot: Slot, geometry: Geometry, key: u64, passes: u32) {
    for pass in 0..passes {
        let key = black_box(key.wrapping_add(u64::from(pass)));
        for page in 0..geometry.chunk_pages() {
            black_box(words(slot.address(page)).iter().filter(|word| **word == key).count());
        }
    }
}
