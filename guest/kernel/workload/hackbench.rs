//! `hackbench`: groups of senders and receivers; every sender sends to every receiver of its group in turn, over a queue
//! that each receiver has.
//!
//! ```text
//!   sender     work: make it    lock { put }     wake the receiver        full: sleep until half of it is free
//!   receiver   lock { take }    wake the senders     work: copy it    record    empty: sleep
//! ```
//! One record is one message received. The same program as `sim/src/workload/hackbench.rs`, with the same constants; it measures
//! wake-ups and short locks. Not here: sockets, the slab allocator, wake-affine pulls, the end of a run, and interrupts that are
//! off while a lock is held (the simulator's are; here only a paravirt waiter halts with interrupts off).
//!
//! # Check
//! A message is its sender and its number among those that this sender sent to this queue. The receiver knows the next number
//! of each sender: a message that was lost, came twice or overtook another is a work error, found when the next one of
//! that sender comes. When the record limit ends the run, senders stop, receivers drain their queues, and sent must be received.

use abi::layout::PAGE_SIZE;
use abi::params::{FAULT_LOST_WORK, FAULT_PERIOD, Params};
use abi::sync::Ordering::{AcqRel, Relaxed};
use abi::sync::{AtomicU32, AtomicU64};

use crate::cpu::{params, rdtsc};
use crate::lock::{Guard, SpinLock};
use crate::thread::{WaitQueue, record, stopping, work_error};
use crate::work::{HOLD_NS, compute, compute_around};
use crate::workload::Random;

/// Messages that a queue holds: 212,992 bytes of `wmem_default`, 768 bytes an skb with 100 bytes of payload.
const QUEUE_LEN: u32 = 277;
/// Most senders of a group.
const PAIRS_MAX: u32 = 64;
/// Bits of a message that number it; its sender stands above.
const NUMBER_BITS: u32 = 48;

/// A receiver's queue: one page of the heap, all zero at the start.
#[repr(C, align(4096))]
struct Queue {
    /// Guards everything here but the numbers.
    lock: SpinLock,
    len: AtomicU32,
    first: AtomicU32,
    /// Senders of the group that have ended.
    senders_gone: AtomicU32,
    sent: AtomicU64,
    received: AtomicU64,
    not_empty: WaitQueue,
    not_full: WaitQueue,
    ring: [AtomicU64; QUEUE_LEN as usize],
    /// Of each sender: how many it has sent here. Written by that sender.
    sent_by: [AtomicU64; PAIRS_MAX as usize],
    /// Of each sender: how many have come. Written by the receiver.
    received_of: [AtomicU64; PAIRS_MAX as usize],
}

const _: () = assert!(size_of::<Queue>() as u64 == PAGE_SIZE);

impl Queue {
    fn locked(&self) -> Guard<'_> {
        let guard = self.lock.lock_irqsave();
        compute(HOLD_NS);
        guard
    }
}

/// The constants.
#[derive(Clone, Copy)]
struct Shape {
    groups: u32,
    pairs: u32,
    message_ns: u64,
}

impl Shape {
    fn of(params: &Params) -> Self {
        let [groups, pairs, message_ns, ..] = params.args;
        Self { groups, pairs, message_ns: message_ns.into() }
    }
}

/// True if the host has made room for what the parameters ask for.
pub(super) fn fits(params: &Params) -> bool {
    let Shape { groups, pairs, .. } = Shape::of(params);
    let fits = groups <= 64 && pairs <= PAIRS_MAX;
    fits && 2 * groups * pairs == params.kthreads && groups * pairs <= params.heap_pages
}

fn queue(number: u32) -> &'static Queue {
    let heap = params().geometry().map_or(0, |geometry| geometry.heap());
    assert!(number < params().heap_pages && heap != 0);
    // SAFETY: `fits` has compared the number of queues with the heap's pages; the heap is identity-mapped, zero at the
    // start, and holds nothing else, for ever. A queue consists of atomics, for which any bytes are valid.
    unsafe { &*((heap + u64::from(number) * PAGE_SIZE) as *const Queue) }
}

/// The thread of that number; the first half of each group sends.
pub(super) fn thread(number: u32) {
    let shape = Shape::of(params());
    let (group, member) = (number / (2 * shape.pairs), number % (2 * shape.pairs));
    let random = Random(params().seed ^ (u64::from(number) << 32));
    let base = group * shape.pairs;
    if member < shape.pairs {
        send(shape, base, member, random);
    } else {
        receive(shape, queue(base + member - shape.pairs), random);
    }
}

fn send(shape: Shape, base: u32, member: u32, mut random: Random) {
    // Senders do not all begin with the same receiver, as their start is spread by the forks.
    let mut receiver = member;
    while !stopping() {
        compute_around(&mut random, shape.message_ns);
        put(queue(base + receiver), member);
        receiver = (receiver + 1) % shape.pairs;
    }
    for number in base..base + shape.pairs {
        let queue = queue(number);
        let guard = queue.locked();
        queue.senders_gone.fetch_add(1, AcqRel);
        let chain = queue.not_empty.take(1);
        drop(guard);
        chain.wake();
    }
}

/// Puts the next message of a sender into a queue.
fn put(queue: &Queue, member: u32) {
    let own = &queue.sent_by[member as usize];
    let number = own.load(Relaxed);
    own.store(number + 1, Relaxed);
    let lost = params().faults & FAULT_LOST_WORK != 0 && number % FAULT_PERIOD == FAULT_PERIOD - 1;
    let mut guard = queue.locked();
    while queue.len.load(Relaxed) >= QUEUE_LEN {
        queue.not_full.sleep(guard);
        guard = queue.locked();
    }
    queue.sent.store(queue.sent.load(Relaxed) + 1, Relaxed);
    if !lost {
        let len = queue.len.load(Relaxed);
        let at = (queue.first.load(Relaxed) + len) % QUEUE_LEN;
        queue.ring[at as usize].store(u64::from(member) << NUMBER_BITS | number, Relaxed);
        queue.len.store(len + 1, Relaxed);
    }
    let chain = queue.not_empty.take(1);
    drop(guard);
    chain.wake();
}

fn receive(shape: Shape, queue: &Queue, mut random: Random) {
    let mut since = rdtsc();
    while let Some(message) = take(queue, shape.pairs) {
        let expected = &queue.received_of[(message >> NUMBER_BITS) as usize % PAIRS_MAX as usize];
        let number = message & ((1 << NUMBER_BITS) - 1);
        if number != expected.load(Relaxed) {
            work_error();
        }
        expected.store(number + 1, Relaxed);
        compute_around(&mut random, shape.message_ns);
        since = record(since);
    }
    let sent: u64 = queue.sent_by.iter().map(|sent| sent.load(Relaxed)).sum();
    if queue.received.load(Relaxed) != queue.sent.load(Relaxed) || queue.received.load(Relaxed) != sent {
        work_error();
    }
}

/// Takes the oldest message; `None` when the queue is empty and all senders have ended.
fn take(queue: &Queue, senders: u32) -> Option<u64> {
    let mut guard = queue.locked();
    while queue.len.load(Relaxed) == 0 {
        if queue.senders_gone.load(Relaxed) == senders {
            return None;
        }
        queue.not_empty.sleep(guard);
        guard = queue.locked();
    }
    let (first, len) = (queue.first.load(Relaxed), queue.len.load(Relaxed) - 1);
    let message = queue.ring[first as usize].load(Relaxed);
    queue.first.store((first + 1) % QUEUE_LEN, Relaxed);
    queue.len.store(len, Relaxed);
    queue.received.store(queue.received.load(Relaxed) + 1, Relaxed);
    // sock_def_write_space: everybody, once half of it is free.
    let chain = queue.not_full.take(if len <= QUEUE_LEN / 2 { u32::MAX } else { 0 });
    drop(guard);
    chain.wake();
    Some(message)
}
