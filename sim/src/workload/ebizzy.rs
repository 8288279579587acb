//! ebizzy: a web server's memory: allocate a chunk, fill it, copy it, search it, free it. Two threads a vCPU.
//!
//! ```text
//!   [mmap_sem for write, rarely]  work: touch + copy + search   mmap_sem for read { work: unmap;  flush, mostly }   record
//! ```
//! It measures page faults, unmapping and TLB shootdown. Not modelled: the allocator's arenas (hence "rarely" and
//! "mostly" are numbers: `mmap_write` of the machine and `flush_per_mille` of the plan), false sharing between chunks,
//! memory pressure. The published runs used chunks of 64 pages.
use super::{Env, Op, SPREAD_PERCENT};

/// Where a thread is in its record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ebizzy {
    next: Step,
}

#[derive(Debug, Clone, Copy, Default)]
enum Step {
    #[default]
    Begin,
    Grow,
    Grown,
    Fault,
    Faulted,
    Compute,
    Free,
    Unmap,
    Flush,
    Freed,
    Done,
}

impl Ebizzy {
    pub(super) fn next(&mut self, env: &mut Env<'_>) -> Op {
        let pages = u64::from(env.params.chunk_pages);
        let (op, next) = match self.next {
            Step::Begin if env.rng.per_mille(env.costs.mmap_write) => (Op::DownWrite, Step::Grow),
            // A fault takes mmap_sem for read for a moment: it waits behind a writer, and nobody waits for it.
            Step::Begin | Step::Fault => (Op::DownRead, Step::Faulted),
            Step::Grow => (Op::Work(env.costs.page_unmap), Step::Grown),
            Step::Grown => (Op::UpWrite, Step::Fault),
            Step::Faulted => (Op::UpRead, Step::Compute),
            Step::Compute => {
                let search = u64::from(env.params.search_passes) * env.costs.page_search;
                let mean = pages * (env.costs.page_touch + env.costs.page_copy + search);
                (Op::Work(env.rng.around(mean, SPREAD_PERCENT)), Step::Free)
            }
            Step::Free => (Op::DownRead, Step::Unmap),
            Step::Unmap => {
                let flush = env.rng.per_mille(env.params.flush_per_mille.into());
                (Op::Work(pages * env.costs.page_unmap), if flush { Step::Flush } else { Step::Freed })
            }
            Step::Flush => (Op::Flush, Step::Freed),
            Step::Freed => (Op::UpRead, Step::Done),
            Step::Done => (Op::Record, Step::Begin),
        };
        self.next = next;
        op
    }
}
