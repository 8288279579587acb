//! kernbench: builds of the kernel, one after the other: `make -j` keeps a number of compilers busy, then links alone.
//!
//! ```text
//!   make       work: fork, exec ─► idlest vCPU   ... until the build has all its jobs   wait for the last   work: link
//!   compiler   32 pages at a time: zone lock { }   dcache lock { }   work: faults and compiling
//!              exit, 32 pages at a time: zone lock { }   work: unmap;   flush of its own TLB                 record
//! ```
//! It measures computing, fork placement and balancing, and what short kernel locks add. A compiler is a process of its own:
//! nobody else has its address space loaded, so its exit flushes its own vCPU only. Not modelled: the disk (all files are
//! cached), pipes between the passes of a compiler, the parsing of makefiles between builds.
use plan::WorkloadParams;

use super::{Env, Op, SPREAD_PERCENT};
use crate::world::{LockId, WaitId};

/// `zone->lock`, taken with interrupts off for each refill of a per-CPU page list.
const ZONE: LockId = LockId(0);
/// `dcache_lock` of 2.6.32, one for all look-ups.
const DCACHE: LockId = LockId(1);
pub(super) const LOCKS: usize = 2;

const WORKERS: WaitId = WaitId(0);
const MAKE: WaitId = WaitId(1);
pub(super) const WAITS: usize = 2;

/// Pages of one refill (`pcp->batch` is 31).
const BATCH: u32 = 32;
/// make's own work for a job: fork and exec of a shell and a compiler driver.
const FORK_NS: u64 = 300_000;
/// Longest piece of the link.
const PIECE_NS: u64 = 500_000;

/// What make knows of the present build.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Build {
    started: u32,
    /// Started, and no process has taken it yet.
    waiting: u32,
    running: u32,
    done: u32,
    pub(crate) builds: u64,
}

/// A job that is lost or done twice, as a sentence.
pub(super) fn broken(build: &Build) -> Option<String> {
    let Build { started, waiting, running, done, .. } = *build;
    (started != waiting + running + done)
        .then(|| format!("a build: {started} jobs started, {waiting} waiting, {running} running, {done} done"))
}

/// A process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kernbench {
    /// make, with what is left of the link.
    Make(MakeStep, u64),
    /// A compiler, with the batches that it has still to fault in or give back.
    Worker(WorkerStep, u32),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum MakeStep {
    Look,
    Forked,
    Link,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WorkerStep {
    Look,
    Batch,
    Page,
    Paged,
    PageDone,
    Name,
    Named,
    NameDone,
    Exit,
    Exited,
    ExitDone,
    Flush,
    Record,
    Gone,
}

impl Kernbench {
    /// The process of that number: the first is make.
    pub(super) const fn new(role: u32) -> Self {
        if role == 0 { Self::Make(MakeStep::Look, 0) } else { Self::Worker(WorkerStep::Look, 0) }
    }

    pub(super) fn next(&mut self, env: &mut Env<'_>, build: &mut Build) -> Op {
        let op;
        (op, *self) = match *self {
            Self::Make(step, left) => make(step, left, env.params, build),
            Self::Worker(step, batches) => worker(step, batches, env, build),
        };
        op
    }
}

fn make(step: MakeStep, left: u64, params: &WorkloadParams, build: &mut Build) -> (Op, Kernbench) {
    let (op, step, left) = match step {
        MakeStep::Look if build.started < params.build_jobs && build.waiting + build.running < params.jobs => {
            (Op::Work(FORK_NS), MakeStep::Forked, 0)
        }
        MakeStep::Look if build.done < params.build_jobs => (Op::Sleep(MAKE), MakeStep::Look, 0),
        MakeStep::Look => link(u64::from(params.link_us) * 1000),
        MakeStep::Forked => {
            build.started += 1;
            build.waiting += 1;
            (Op::Fork(WORKERS), MakeStep::Look, 0)
        }
        MakeStep::Link if left > 0 => link(left),
        MakeStep::Link => {
            *build = Build { builds: build.builds + 1, ..Build::default() };
            (Op::Work(FORK_NS), MakeStep::Forked, 0)
        }
    };
    (op, Kernbench::Make(step, left))
}

/// The next piece of a link of that length.
fn link(left: u64) -> (Op, MakeStep, u64) {
    (Op::Work(left.min(PIECE_NS)), MakeStep::Link, left.saturating_sub(PIECE_NS))
}

fn worker(step: WorkerStep, batches: u32, env: &mut Env<'_>, build: &mut Build) -> (Op, Kernbench) {
    use WorkerStep as S;
    let all = env.params.job_pages.div_ceil(BATCH).max(1);
    let pages = u64::from(env.params.job_pages / all);
    let (op, step, batches) = match step {
        S::Look if build.waiting == 0 => (Op::Sleep(WORKERS), S::Look, 0),
        S::Look => {
            build.waiting -= 1;
            build.running += 1;
            (Op::LockIrqsave(ZONE), S::Page, all)
        }
        S::Page => (Op::Work(env.costs.lock_hold), S::Paged, batches),
        S::Paged => (Op::Unlock(ZONE), S::PageDone, batches),
        S::PageDone => (Op::Lock(DCACHE), S::Name, batches),
        S::Name => (Op::Work(env.costs.lock_hold), S::Named, batches),
        S::Named => (Op::Unlock(DCACHE), S::NameDone, batches),
        S::NameDone => {
            let compile = u64::from(env.params.job_us) * 1000 / u64::from(all);
            let work = Op::Work(env.rng.around(compile + pages * env.costs.page_touch, SPREAD_PERCENT));
            if batches > 1 { (work, S::Batch, batches - 1) } else { (work, S::Exit, all) }
        }
        S::Batch => (Op::LockIrqsave(ZONE), S::Page, batches),
        S::Exit => (Op::LockIrqsave(ZONE), S::Exited, batches),
        S::Exited => (Op::Work(env.costs.lock_hold), S::ExitDone, batches),
        S::ExitDone => (Op::Unlock(ZONE), S::Flush, batches),
        S::Flush if batches > 1 => (Op::Work(pages * env.costs.page_unmap), S::Exit, batches - 1),
        S::Flush => (Op::Work(pages * env.costs.page_unmap + env.costs.tlb_flush), S::Record, 0),
        S::Record => (Op::Record, S::Gone, 0),
        S::Gone => {
            build.running -= 1;
            build.done += 1;
            (Op::Wake(MAKE, 1), S::Look, 0)
        }
    };
    (op, Kernbench::Worker(step, batches))
}
