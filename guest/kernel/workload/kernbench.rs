//! `kernbench`: builds of the kernel, one after the other: `make -j` keeps a number of compilers busy, then links alone.
//!
//! ```text
//!   make       work: fork, exec ─► idlest vCPU   ... until the build has all its jobs   wait for the last   work: link
//!   compiler   32 pages at a time: zone lock { }   map, touch   dcache lock { }   work: compiling
//!              exit, 32 pages at a time: zone lock { }   read, unmap;   flush of the vCPUs that it ran on         record
//! ```
//! One record is one job. The same program as `sim/src/workload/kernbench.rs`, with the same constants. It measures computing,
//! page faults (each page is really mapped, into the window, and touched), fork placement and balancing, and what short kernel
//! locks add. A job's exit flushes the vCPUs that have touched its pages, as a kernel flushes those of `mm_cpumask`: its own only,
//! unless it was moved (the simulator's never is). The zone's lock is taken with interrupts off where a paravirt waiter halts.
//! Not here: the disk (all files are cached), pipes between the passes of a compiler, makefiles, processes of their own (compilers
//! are threads of one address space, each with a part of the window for itself).
//!
//! # Check
//! Jobs are numbered. Whoever ends one counts it under its number; when a build has all its jobs, each must have been counted
//! once. A page must carry the mark of its job when the job reads it again.

use abi::layout::Geometry;
use abi::params::{FAULT_LOST_WORK, FAULT_PERIOD, Params};
use abi::sync::AtomicU32;
use abi::sync::Ordering::Relaxed;

use super::ebizzy::{words, words_mut};
use crate::cpu::{params, rdtsc};
use crate::flush::Flusher;
use crate::lock::SpinLock;
use crate::preempt::Off;
use crate::thread::{WaitQueue, record, stopping, work_error};
use crate::window::Slot;
use crate::work::{HOLD_NS, compute, compute_around};
use crate::workload::Random;

/// Pages of one refill (`pcp->batch` is 31).
const BATCH: u32 = 32;
/// make's own work for a job: fork and exec of a shell and a compiler driver.
const FORK_NS: u64 = 300_000;
/// Longest piece of the link.
const PIECE_NS: u64 = 500_000;
/// Most jobs of a build.
const JOBS_MAX: usize = 10_000;

/// What make knows of the present build. The lock guards everything here.
struct Build {
    lock: SpinLock,
    started: AtomicU32,
    /// Taken by a compiler: number of the next job.
    taken: AtomicU32,
    done: AtomicU32,
    /// Not 0: make has ended.
    over: AtomicU32,
    workers: WaitQueue,
    make: WaitQueue,
    /// How often each job was done.
    times: [AtomicU32; JOBS_MAX],
}

static BUILD: Build = Build {
    lock: SpinLock::new(),
    started: AtomicU32::new(0),
    taken: AtomicU32::new(0),
    done: AtomicU32::new(0),
    over: AtomicU32::new(0),
    workers: WaitQueue::new(),
    make: WaitQueue::new(),
    times: [const { AtomicU32::new(0) }; JOBS_MAX],
};

/// `zone->lock`, taken for each refill of a per-CPU page list.
static ZONE: SpinLock = SpinLock::new();
/// `dcache_lock` of 2.6.32, one for all look-ups.
static DCACHE: SpinLock = SpinLock::new();

/// The constants.
#[derive(Clone, Copy)]
struct Shape {
    jobs: u32,
    build_jobs: u32,
    job_ns: u64,
    pages: u32,
    link_ns: u64,
}

impl Shape {
    fn of(params: &Params) -> Self {
        let [jobs, build_jobs, job_us, pages, link_us, ..] = params.args;
        Self { jobs, build_jobs, job_ns: u64::from(job_us) * 1000, pages, link_ns: u64::from(link_us) * 1000 }
    }
}

/// True if the host has made room for what the parameters ask for.
pub(super) fn fits(params: &Params) -> bool {
    let Shape { jobs, build_jobs, pages, .. } = Shape::of(params);
    let room = params.geometry().is_some_and(|geometry| jobs <= geometry.slots() && pages <= geometry.chunk_pages());
    room && build_jobs as usize <= JOBS_MAX && params.kthreads == jobs + 1 && params.loops_per_ms != 0
}

/// The process of that number: the first is make.
pub(super) fn thread(number: u32) {
    let shape = Shape::of(params());
    match number.checked_sub(1) {
        None => make(shape),
        Some(worker) => compiler(shape, worker),
    }
}

fn add(count: &AtomicU32) {
    count.store(count.load(Relaxed) + 1, Relaxed);
}

fn make(shape: Shape) {
    loop {
        let guard = BUILD.lock.lock();
        let [started, done] = [&BUILD.started, &BUILD.done].map(|count| count.load(Relaxed));
        if started < shape.build_jobs && started - done < shape.jobs && !stopping() {
            drop(guard);
            compute(FORK_NS);
            let guard = BUILD.lock.lock();
            add(&BUILD.started);
            let chain = BUILD.workers.take(1);
            drop(guard);
            chain.fork();
            continue;
        }
        if done < started {
            BUILD.make.sleep(guard);
            continue;
        }
        end_build(started);
        if stopping() {
            BUILD.over.store(1, Relaxed);
            let chain = BUILD.workers.take(u32::MAX);
            drop(guard);
            return chain.wake();
        }
        drop(guard);
        let mut left = shape.link_ns;
        while left > 0 {
            compute(left.min(PIECE_NS));
            left = left.saturating_sub(PIECE_NS);
        }
    }
}

/// Each of that many jobs must have been done once. The lock is held.
fn end_build(jobs: u32) {
    let times = BUILD.times.iter().take(jobs as usize);
    if !times.clone().all(|times| times.load(Relaxed) == 1) || BUILD.taken.load(Relaxed) != jobs {
        work_error();
    }
    for count in times.chain([&BUILD.started, &BUILD.taken, &BUILD.done]) {
        count.store(0, Relaxed);
    }
}

fn compiler(shape: Shape, worker: u32) {
    let geometry = params().geometry().expect("`fits` has looked");
    let mut process = Process {
        shape,
        slot: Slot::new(geometry, worker),
        frames: frames(geometry, worker),
        generation: 0,
        ran_on: 0,
        random: Random(params().seed ^ (u64::from(worker) << 32)),
    };
    let lossy = params().faults & FAULT_LOST_WORK != 0;
    loop {
        let guard = BUILD.lock.lock();
        if BUILD.over.load(Relaxed) != 0 {
            return;
        }
        let job = BUILD.taken.load(Relaxed);
        if job == BUILD.started.load(Relaxed) {
            BUILD.workers.sleep(guard);
            continue;
        }
        add(&BUILD.taken);
        drop(guard);
        let begin = rdtsc();
        process.run();
        let guard = BUILD.lock.lock();
        add(&BUILD.done);
        if !(lossy && u64::from(job).is_multiple_of(FAULT_PERIOD)) {
            add(&BUILD.times[job as usize]);
        }
        let chain = BUILD.make.take(1);
        drop(guard);
        chain.wake();
        record(begin);
    }
}

/// Where the frames of a compiler begin: one set of the pool each.
fn frames(geometry: Geometry, worker: u32) -> u64 {
    geometry.set_address(worker / geometry.threads(), worker % geometry.threads())
}

/// A compiler: what is mapped for it, and where.
struct Process {
    shape: Shape,
    slot: Slot,
    frames: u64,
    /// Of the present job; the first has 1.
    generation: u64,
    /// vCPUs that have touched its pages.
    ran_on: u64,
    random: Random,
}

impl Process {
    /// One job, from its first fault to its exit.
    fn run(&mut self) {
        (self.generation, self.ran_on) = (self.generation + 1, 0);
        let batches = self.shape.pages.div_ceil(BATCH).max(1);
        for batch in 0..batches {
            zone_lock();
            self.fault_in(batch);
            let guard = DCACHE.lock();
            compute(HOLD_NS);
            drop(guard);
            compute_around(&mut self.random, self.shape.job_ns / u64::from(batches));
        }
        for batch in 0..batches {
            zone_lock();
            self.give_back(batch);
        }
        let off = Off::new();
        let flusher = Flusher::new(params()).expect("checked before the first thread ran");
        flusher.begin(off.cpu()).finish_on(self.ran_on);
        self.slot.flush_completed(self.generation);
    }

    fn pages(&self, batch: u32) -> core::ops::Range<u32> {
        batch * BATCH..((batch + 1) * BATCH).min(self.shape.pages)
    }

    /// Maps pages and touches them on this vCPU: nothing of a fault is preempted.
    fn fault_in(&mut self, batch: u32) {
        let off = Off::new();
        self.ran_on |= 1 << off.cpu().index;
        self.slot.map_pages(self.frames, self.generation, self.pages(batch));
        for page in self.pages(batch) {
            words_mut(self.slot.address(page))[0] = self.mark(page);
        }
    }

    /// Reads the marks, and unmaps.
    fn give_back(&mut self, batch: u32) {
        let off = Off::new();
        self.ran_on |= 1 << off.cpu().index;
        let wrong = self.pages(batch).filter(|page| words(self.slot.address(*page))[0] != self.mark(*page)).count();
        off.cpu().counters().stale_reads.add(wrong as u64);
        self.slot.unmap_pages(self.pages(batch));
    }

    fn mark(&self, page: u32) -> u64 {
        self.generation << 16 | u64::from(page)
    }
}

fn zone_lock() {
    let _guard = ZONE.lock_irqsave();
    compute(HOLD_NS);
}
