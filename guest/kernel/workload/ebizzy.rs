//! `ebizzy`, and the micro `flush`.
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
//! `flush` is the same record with one page, no touching, copying or searching.

use core::hint::black_box;
use core::slice;

use abi::layout::{Geometry, PAGE_SIZE};
use abi::params::Params;

use crate::check::Checker;
use crate::cpu::{Cpu, rdtsc};
use crate::flush::Flusher;
use crate::pool::{Pool, Set};
use crate::window::{STAMP_BYTES, Slot};
use crate::workload::Random;

/// 64-bit words of a page that the workload uses.
const WORDS: usize = ((PAGE_SIZE - STAMP_BYTES) / 8) as usize;

/// Runs until the record limit, or for ever; without `computes` it is the micro `flush`.
pub(crate) fn run(cpu: Cpu, params: &Params, geometry: Geometry, flusher: Flusher, computes: bool) {
    let progress = &cpu.counters().progress;
    let limit_reached = || params.record_limit != 0 && progress.get() >= params.record_limit;
    let mut vcpu = Vcpu::new(cpu, params, geometry, flusher, computes);
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
    computes: bool,
}

impl<'a> Vcpu<'a> {
    fn new(cpu: Cpu, params: &'a Params, geometry: Geometry, flusher: Flusher, computes: bool) -> Self {
        let pool = Pool::new(cpu, geometry);
        let mut random = Random(params.seed ^ (u64::from(cpu.index) << 56));
        if computes {
            for page in 0..geometry.chunk_pages() {
                for word in words_mut(pool.source() + u64::from(page) * PAGE_SIZE) {
                    *word = random.next();
                }
            }
        }
        Self { params, geometry, cpu, flusher, pool, checker: Checker::new(cpu, geometry), random, computes }
    }

    /// One turn: the end of a thread's record, and the beginning of its next one. The first turn has only the latter.
    fn turn(&mut self, thread: &mut Thread) {
        if let Some(chunk) = thread.chunk {
            self.finish(thread, chunk);
            self.cpu.counters().records.add(1);
        }
        if thread.chunk.is_none() {
            let chunk = self.pool.take(self.params.ple_window_cycles);
            thread.chunk = Some(chunk);
            thread.generation += 1;
            thread.slot.map(self.pool.address(chunk), thread.generation);
        }
        if self.computes {
            touch(thread.slot, self.geometry);
            copy(thread.slot, self.geometry, self.pool.source());
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
fn words(page: u64) -> &'static [u64] {
    words_mut(page)
}

fn words_mut(page: u64) -> &'static mut [u64] {
    // SAFETY: the caller names a page that only its own vCPU uses (its source chunk, or its mapped slot; other vCPUs
    // read nothing but the stamp before it) and drops the slice before it unmaps or asks for the page again.
    unsafe { slice::from_raw_parts_mut((page + STAMP_BYTES) as *mut u64, WORDS) }
}

/// The first access of each page, which finds its translation missing.
#[inline(never)]
fn touch(slot: Slot, geometry: Geometry) {
    for page in 0..geometry.chunk_pages() {
        words_mut(slot.address(page))[0] = u64::from(page);
    }
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
