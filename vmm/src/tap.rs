//! Tracing of a live run: every thread records into a buffer of its own.
//!
//! ```text
//!   vCPU thread ── install ─► its recorder ◄── record: vcpu.rs, dispatch, hostsched (through Tap)
//!   control loop ─ install ─► its recorder        │
//!                                                 └─ remove at the end; Trace merges the buffers by time
//! ```
//! The recorder is found through a thread-local, so that code that acts for a CPU need not know on whose behalf it runs.
//! Without one (no `--trace`) a hook is a load and a branch that always goes the same way. With one it stores 24 bytes
//! in memory that was taken before the run: no lock, no system call but the clock's. Only the measured time is
//! recorded. The signal handler records nothing.
//!
//! CPUs are the dispatcher's slots, and become the kernel's numbers when the trace is put together; where the kernel
//! schedules, they are its numbers from the start.

use std::cell::RefCell;

use hostsched::topology::CpuId;
use hostsched::{Ipi, Nanos, Running, TaskId, Vruntime};
use trace::{Buffer, Recorder, What};

use crate::clock::monotonic_ns;
use crate::sched::VcpuIndex;
use crate::stats::PhaseCell;
use crate::sync::Arc;

/// A thread's recorder.
#[derive(Debug)]
struct Installed {
    recorder: Recorder,
    phase: Arc<PhaseCell>,
    /// The slot that the thread holds; `None`: ask the kernel.
    slot: Option<CpuId>,
}

thread_local! {
    static INSTALLED: RefCell<Option<Installed>> = const { RefCell::new(None) };
}

/// How much each thread of a run may record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Events of one thread.
    pub events_max: usize,
}

impl Room {
    /// The smallest buffer that is worth having.
    const EVENTS_MIN: usize = 32;

    /// The share of one of `threads` threads.
    #[must_use]
    pub fn share(limits: trace::Limits, threads: usize) -> Self {
        Self { events_max: (limits.events_max / threads.max(1)).max(Self::EVENTS_MIN) }
    }
}

/// The calling thread records from now on, in the measured time.
pub fn install(room: Room, phase: Arc<PhaseCell>) {
    let installed = Installed { recorder: Recorder::new(room.events_max), phase, slot: None };
    INSTALLED.with_borrow_mut(|slot| *slot = Some(installed));
}

/// The calling thread stops recording; what it recorded.
pub fn remove() -> Option<Buffer> {
    INSTALLED.with_borrow_mut(Option::take).map(|installed| installed.recorder.into_buffer())
}

/// Does something with the calling thread's recorder, if there is one and the time is measured.
#[inline]
fn with(f: impl FnOnce(&mut Installed)) {
    INSTALLED.with_borrow_mut(|slot| {
        if let Some(installed) = slot
            && installed.phase.measures()
        {
            f(installed);
        }
    });
}

/// True if the calling thread records.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    INSTALLED.with_borrow(Option::is_some)
}

/// The calling thread acts as that slot from now on, or as none.
pub fn acts_as(slot: Option<u32>) {
    INSTALLED.with_borrow_mut(|installed| {
        if let Some(installed) = installed {
            installed.slot = slot.map(CpuId);
        }
    });
}

/// Something happens now, where the calling thread runs.
#[inline]
pub fn record(what: What) {
    with(|installed| installed.record_at(monotonic_ns(), what));
}

/// Something happened at that time, where the calling thread runs.
#[inline]
pub fn record_at(at_ns: u64, what: What) {
    with(|installed| installed.record_at(at_ns, what));
}

/// Something happens now on that slot.
pub fn record_on(slot: u32, what: What) {
    with(|installed| installed.recorder.record(monotonic_ns(), CpuId(slot), what));
}

/// The calling thread sends an IPI of the scheduler to a slot.
pub(crate) fn sends(to: CpuId, ipi: Ipi) {
    record(match ipi {
        Ipi::Wakeup => What::Resched { to },
        // Groups are made in the order of the VMs, after the root group.
        Ipi::Gang { group, .. } => What::Gang { to, vm: group.0.saturating_sub(1) },
    });
}

/// The next switch from `task` is because it blocks, or ends.
pub(crate) fn leaves(task: Option<TaskId>, ends: bool) {
    let Some(task) = task else { return };
    with(|installed| if ends { installed.recorder.exits(task) } else { installed.recorder.blocks(task) });
}

impl Installed {
    fn record_at(&mut self, at_ns: u64, what: What) {
        let cpu = self.slot.unwrap_or_else(kernel_cpu);
        self.recorder.record(at_ns, cpu, what);
    }
}

/// The CPU that the calling thread runs on, by the kernel.
fn kernel_cpu() -> CpuId {
    CpuId(u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0))
}

/// What `hostsched` tells goes to the calling thread's recorder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tap;

impl hostsched::Trace for Tap {
    fn sched_switch(&mut self, now: Nanos, cpu: CpuId, prev: Running, next: Running, next_vruntime: Vruntime) {
        with(|installed| installed.recorder.sched_switch(now, cpu, prev, next, next_vruntime));
    }

    fn sched_wakeup(&mut self, now: Nanos, task: TaskId, target: CpuId) {
        with(|installed| installed.recorder.sched_wakeup(now, task, target));
    }

    fn sched_migrate_task(&mut self, now: Nanos, task: TaskId, from: CpuId, to: CpuId) {
        with(|installed| installed.recorder.sched_migrate_task(now, task, from, to));
    }
}

/// The task of a vCPU.
pub(crate) const fn task(vcpu: VcpuIndex) -> TaskId {
    TaskId(vcpu.0)
}

/// A vCPU's flush as its host sees it: it begins with the call that sends the interrupts, and is over when the guest has
/// counted one flush more. How long it took is the guest's own measurement.
#[derive(Debug, Default)]
pub(crate) struct FlushWatch {
    /// Begin, and the guest's counters then.
    open: Option<(u64, Flushes)>,
}

/// What a guest has counted; untrusted numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flushes {
    pub(crate) completed: u64,
    pub(crate) wait_ns: u64,
}

impl FlushWatch {
    /// The vCPU sends interrupts to `targets` others.
    pub(crate) fn begin(&mut self, vcpu: VcpuIndex, targets: u32, counted: Flushes) {
        let now = monotonic_ns();
        if self.open.is_none() {
            self.open = Some((now, counted));
            record_at(now, What::FlushBegin { task: task(vcpu), targets: u16::try_from(targets).ok() });
        }
    }

    /// The vCPU has left the guest that it entered at `entered_ns`: is its flush over? If so, it ended in between.
    pub(crate) fn look(&mut self, vcpu: VcpuIndex, entered_ns: u64, counted: Flushes) {
        let Some((began, before)) = self.open else { return };
        if counted.completed != before.completed {
            self.open = None;
            let took = counted.wait_ns.saturating_sub(before.wait_ns);
            let ended = began.saturating_add(took).max(entered_ns).min(monotonic_ns());
            record_at(ended, What::FlushEnd { task: task(vcpu) });
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::Event;

    use super::*;
    use crate::stats::Phase;

    fn recorded() -> Vec<Event> {
        Buffer::merge(remove()).0
    }

    #[test]
    fn only_the_measured_time_of_a_thread_with_a_recorder_is_recorded() {
        let phase = Arc::new(PhaseCell::default());
        let halt = What::Halt { task: TaskId(0) };
        record(halt);
        assert!(!is_on() && remove().is_none());
        install(Room { events_max: 8 }, Arc::clone(&phase));
        record(halt);
        phase.set(Phase::Measure);
        acts_as(Some(3));
        record(halt);
        record_on(1, halt);
        std::thread::spawn(move || record(halt)).join().unwrap();
        phase.set(Phase::Done);
        record(halt);
        let cpus: Vec<u32> = recorded().iter().map(|event| event.cpu.0).collect();
        assert_eq!(cpus, [3, 1]);
    }

    #[test]
    fn a_flush_lasts_as_long_as_the_guest_says_but_not_beyond_now() {
        let phase = Arc::new(PhaseCell::default());
        phase.set(Phase::Measure);
        install(Room { events_max: 8 }, phase);
        let counted = |completed, wait_ns| Flushes { completed, wait_ns };
        let mut watch = FlushWatch::default();
        let vcpu = VcpuIndex(0);
        watch.look(vcpu, 0, counted(9, 9));
        watch.begin(vcpu, 3, counted(7, 100));
        watch.look(vcpu, 0, counted(7, 100));
        std::thread::sleep(std::time::Duration::from_millis(1));
        watch.look(vcpu, 0, counted(8, 350));
        // A guest that lies about the time moves no end into the future.
        watch.begin(vcpu, 3, counted(8, 350));
        watch.look(vcpu, 0, counted(9, u64::MAX));
        let events = recorded();
        assert_eq!(events.len(), 4);
        assert_eq!(events[1].at_ns - events[0].at_ns, 250);
        assert!(events[3].at_ns <= monotonic_ns());
    }
}
