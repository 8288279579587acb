//! `gup`: lockless page-table walks that rely on interrupts being off (`get_user_pages_fast`), while the pages that they
//! find are unmapped, flushed and freed.
//!
//! ```text
//!   walker   interrupts off │ entry ─► frame: stamp ─► some turns ─► frame: the same stamp? │ interrupts on
//!   owner         clear the entry ─► flush all ─────────────────────► free the frame ─► map it anew: another stamp
//! ```
//! With the IPI of `flush_tlb_others` the flush cannot end before the walk: a walker acknowledges only with interrupts on.
//! Where a flush does not wait for a vCPU that is not running (`on-enter`, `pvflush`, `hypercall`), a walker that lost its CPU
//! in the middle finds its frame reused when it goes on. What holds the owner off instead is deferred freeing (pool.rs);
//! `--inject early-free` leaves it out, and the walks that went wrong are counted (`gup_hazards`).
//!
//! One record is one walk. Each vCPU maps, unmaps and frees its own slots and walks those of its siblings. Nobody reads
//! through the window: the TLB is not what this is about. It does not measure anything but the walk and the flush.

use abi::layout::Geometry;
use abi::params::{FAULT_EARLY_FREE, Params};

use crate::cpu::{Cpu, rdtsc};
use crate::flush::Flusher;
use crate::pool::{Pool, Set, Walk};
use crate::window::{Slot, walk_with_interrupts_off};
use crate::workload::Random;

/// A slot of this vCPU, and what is mapped there.
struct Mapped {
    slot: Slot,
    generation: u64,
    chunk: Option<Set>,
}

/// Runs until the record limit, or for ever.
pub(crate) fn run(cpu: Cpu, params: &Params, geometry: Geometry, flusher: Flusher) {
    let mut pool = Pool::new(cpu, geometry);
    let mut random = Random(params.seed ^ (u64::from(cpu.index) << 56));
    let mut own = [const { None }; Geometry::THREADS_MAX as usize];
    for (number, mapped) in (0..geometry.threads()).zip(&mut own) {
        let slot = Slot::new(geometry, cpu.index * geometry.threads() + number);
        *mapped = Some(Mapped { slot, generation: 0, chunk: None });
    }
    let progress = &cpu.counters().progress;
    while params.record_limit == 0 || progress.get() < params.record_limit {
        for mapped in own.iter_mut().flatten() {
            let begin = rdtsc();
            map_anew(cpu, params, flusher, &mut pool, mapped);
            walk(cpu, params, geometry, &mut random);
            cpu.results.record_time.record(rdtsc().saturating_sub(begin));
            progress.add(1);
        }
    }
}

/// Frees what is mapped, and maps the set that became free last: the worst that can happen to a walker.
fn map_anew(cpu: Cpu, params: &Params, flusher: Flusher, pool: &mut Pool, mapped: &mut Mapped) {
    if let Some(chunk) = mapped.chunk.take() {
        mapped.slot.unmap();
        flusher.begin(cpu).finish();
        mapped.slot.flush_completed(mapped.generation);
        if params.faults & FAULT_EARLY_FREE == 0 {
            pool.give(chunk);
        } else {
            pool.give_early(chunk);
        }
    }
    let chunk = pool.take(params.ple_window_cycles);
    mapped.generation += 1;
    mapped.slot.map(pool.address(chunk), mapped.generation);
    mapped.chunk = Some(chunk);
}

/// One walk to a page of a sibling.
fn walk(cpu: Cpu, params: &Params, geometry: Geometry, random: &mut Random) {
    // In the order of the plan's list: pages, threads, turns of a walk.
    let [_, _, turns, ..] = params.args;
    let others = geometry.slots() - geometry.threads();
    let after_own = (cpu.index + 1) * geometry.threads();
    let number = (after_own + random.below(others)) % geometry.slots();
    let (slot, page) = (Slot::new(geometry, number), random.below(geometry.chunk_pages()));
    let walked = {
        let _walk = Walk::begin(cpu);
        walk_with_interrupts_off(slot, page, turns)
    };
    let counters = cpu.counters();
    if let Some((first, last)) = walked {
        counters.records.add(1);
        counters.gup_hazards.add(u64::from(first != last));
    }
}
