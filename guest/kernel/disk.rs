//! The host's disk, as threads of the guest see it: ask, sleep, be woken by the answer.
//!
//! ```text
//!   thread            preemption off: count it, Call::DiskIo, queue up at this vCPU, sleep ─► others run, or the vCPU halts
//!   host, later       VcpuPage.host.disk_done += 1, DISK_VECTOR, kick
//!   this vCPU         at that vector, at a tick, before it halts: wakes as many of its sleepers as were answered
//! ```
//! The host answers the requests of a vCPU in the order in which it asked, so a count says whose answer it is. The queue is
//! touched by its own vCPU only, with preemption off; no lock is needed. The vector makes a running vCPU look; the kick is
//! latched, so an answer between a vCPU's last look and its halt ends that halt.

use abi::VCPUS_MAX;
use abi::call::Call;
use abi::sync::AtomicU64;
use abi::sync::Ordering::{Acquire, Relaxed};

use crate::cpu::{Cpu, rdtsc};
use crate::preempt::Off;
use crate::thread::{WaitQueue, work_error};

/// The requests of a vCPU.
#[repr(C, align(64))]
struct Requests {
    asked: AtomicU64,
    /// Answers that have woken their thread.
    answered: AtomicU64,
    sleepers: WaitQueue,
}

static REQUESTS: [Requests; VCPUS_MAX as usize] =
    [const { Requests { asked: AtomicU64::new(0), answered: AtomicU64::new(0), sleepers: WaitQueue::new() } };
        VCPUS_MAX as usize];

/// Asks the disk, and sleeps until it has answered.
pub(crate) fn access() {
    let off = Off::new();
    let cpu = off.cpu();
    let requests = &REQUESTS[cpu.index as usize];
    let mine = requests.asked.load(Relaxed) + 1;
    requests.asked.store(mine, Relaxed);
    let begin = rdtsc();
    cpu.call(Call::DiskIo, 0);
    requests.sleepers.sleep(off);
    // The thread may be on another vCPU by now; what it reads there only grows.
    if requests.answered.load(Acquire) < mine {
        work_error();
    }
    let off = Off::new();
    off.cpu().results.disk_sleep.record(rdtsc().saturating_sub(begin));
}

/// True if answers have come that nobody was woken for. The caller has preemption off on `cpu`.
pub(crate) fn is_answered(cpu: Cpu) -> bool {
    cpu.page.host.0.disk_done.load(Acquire) != REQUESTS[cpu.index as usize].answered.load(Relaxed)
}

/// Wakes who was answered; true if there was anybody. The caller has preemption off on `cpu`.
pub(crate) fn wake_answered(cpu: Cpu) -> bool {
    let requests = &REQUESTS[cpu.index as usize];
    let done = cpu.page.host.0.disk_done.load(Acquire);
    let mut answered = requests.answered.load(Relaxed);
    let any = answered != done;
    while answered != done {
        answered += 1;
        requests.answered.store(answered, Relaxed);
        let chain = requests.sleepers.take(1);
        if chain.is_empty() {
            // An answer that nobody has asked for.
            cpu.counters().work_errors.add(1);
        }
        chain.wake();
    }
    any
}
