//! A run: the host, its VMs and the loop that takes one event after the other.
//!
//! Units: virtual nanoseconds, from [`EPOCH_NS`] on. One thread, integers only. Every event belongs to a CPU ([`Timers`])
//! or is an alarm ([`Alarms`]); handling it may move any of them.
//!
//! ```text
//!    Timers ──► End of what the CPU does │ Tick │ Inbox (IPIs) │ guest timer      cpu.rs: the pCPU and hostsched
//!    Alarms ──► halted vCPU's timer │ start and end of a VM                       interrupt.rs, guest.rs, flush.rs ...
//! ```
//! Properties: time never goes back; the same setup gives the same events, hence the same [`Run::digest`].
mod cpu;
mod disk;
mod fault;
mod flush;
mod guest;
mod inbox;
mod interrupt;
mod ipi;
mod lock;
mod mmap_sem;
mod nap;
mod new;
mod sched_guest;

use hostsched::{CpuId, Effects, Host, Rq};
use plan::{Axes, Lock, WorkloadParams};

use crate::alarms::Alarms;
use crate::cache::Cache;
use crate::fault::FaultKind;
use crate::ids::{ThreadId, VcpuId};
use crate::machine::Costs;
use crate::observe::{Event, Sink, VcpuName};
use crate::rng::Stream;
use crate::setup::Options;
use crate::stats::Stats;
use crate::timers::Timers;
use crate::vcpu::{Phase, Thread, Vcpu, Vm};

pub(crate) use cpu::Activity;
use cpu::Pcpu;
use disk::Disk;
pub(crate) use inbox::Message;
pub(crate) use lock::{LockId, Locking, SpinLock};
pub(crate) use sched_guest::WaitId;

/// Virtual time starts here, not at 0: the scheduler looks up to a second back.
pub(crate) const EPOCH_NS: u64 = 1_000_000_000;

/// Timers of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// What it does now ends.
    End,
    /// Scheduler tick.
    Tick,
    /// The first message of its inbox.
    Inbox,
    /// Timer interrupt of the guest that it executes.
    Guest,
}

/// Timers per CPU.
const TIMERS: usize = 4;

impl Timer {
    const ALL: [Self; TIMERS] = [Self::End, Self::Tick, Self::Inbox, Self::Guest];

    fn slot(self, cpu: CpuId) -> usize {
        cpu.index() * TIMERS + self as usize
    }
}

/// What an alarm is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alarm {
    /// A VM's vCPUs start.
    Start(usize),
    /// The timer of a vCPU that halts with its tick on; void if the generation has moved on.
    GuestTimer(VcpuId, u32),
    /// Something breaks.
    Fault(FaultKind),
    /// The disk has answered a guest thread.
    Disk(ThreadId),
    /// A guest thread has slept long enough.
    Nap(ThreadId),
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    timers: Timers,
    alarms: Alarms<Alarm>,
    pub(crate) host: Host,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) fx: Effects,
    pub(crate) costs: Costs,
    pub(crate) axes: Axes,
    pub(crate) options: Options,
    pub(crate) params: WorkloadParams,
    pub(crate) lock: Lock,
    /// Slow-down of work for each running sibling, in per mille: where threads share an address space and what lies below
    /// it. The workloads that take their locks one by one have it in these.
    contention: u64,
    /// Guest threads move between the vCPUs of their VM.
    pub(crate) guest_balances: bool,
    tick_ns: u64,
    pub(crate) guest_tick_ns: u64,
    spin_budget_ns: u64,
    /// How long a paravirt spinlock spins.
    lock_spin_ns: u64,
    /// Time that a waiter of a `pv-early` lock spins between two looks at the owner.
    lock_look_ns: u64,
    ple_exit_ns: Option<u64>,
    pub(crate) cpus: Vec<Pcpu>,
    /// CPUs of the plan.
    pub(crate) present: Vec<CpuId>,
    /// Those of them that are on line, ascending.
    pub(crate) online: Vec<CpuId>,
    caches: Vec<Cache>,
    pub(crate) vms: Vec<Vm>,
    pub(crate) vcpus: Vec<Vcpu>,
    threads: Vec<Thread>,
    pub(crate) disk: Disk,
    /// VMs of the plan; the neighbour's comes after them.
    pub(crate) tested: usize,
    /// When the neighbour's sleep ends, or ended.
    nap_due: u64,
    /// The host's own randomness.
    rng: Stream,
    pub(crate) stats: Stats,
    /// Counters run from here on.
    pub(crate) measure_from: u64,
    /// What the user should know about the policies, and the faults that came up.
    pub(crate) notices: Vec<String>,
    /// Faults that were not refused.
    pub(crate) faults_done: u64,
    pub(crate) events: u64,
    pub(crate) digest: u64,
    /// Who watches.
    pub(crate) sinks: Vec<Box<dyn Sink>>,
}

impl World {
    /// Handles every event up to `until`, and leaves the clock there. False if `stop` said so before.
    pub(crate) fn run_until(&mut self, until: u64, mut stop: impl FnMut() -> bool) -> bool {
        loop {
            // Some hundred times a second of real time.
            if self.events.is_multiple_of(1 << 15) && stop() {
                return false;
            }
            let (at, slot) = self.timers.first();
            let alarm = self.alarms.first().filter(|due| *due <= at);
            let next = alarm.unwrap_or(at);
            if next >= until {
                self.now = until;
                return true;
            }
            assert!(next >= self.now, "time goes back from {} to {next}", self.now);
            self.now = next;
            self.events += 1;
            if alarm.is_some() {
                self.note(u64::from(u32::MAX));
                if let Some((_, alarm)) = self.alarms.pop() {
                    self.ring(alarm);
                }
            } else {
                self.note(slot as u64);
                let cpu = CpuId(u32::try_from(slot / TIMERS).unwrap_or(u32::MAX));
                match Timer::ALL[slot % TIMERS] {
                    Timer::End => self.activity_ended(cpu),
                    Timer::Tick => self.host_tick(cpu),
                    Timer::Inbox => self.take_message(cpu),
                    Timer::Guest => self.guest_timer(cpu),
                }
            }
        }
    }

    /// Folds what happens into the digest of the run.
    #[inline]
    fn note(&mut self, what: u64) {
        // A multiplication by an odd number and a fold of the high half: every bit of every event reaches the digest.
        let mixed = (self.digest ^ self.now ^ what << 52).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = mixed ^ mixed >> 29;
    }

    /// Tells the observers, if there are any. The event is made only then.
    #[inline]
    fn tell(&mut self, event: impl FnOnce(&Self) -> Event) {
        if !self.sinks.is_empty() {
            let (now, event) = (self.now - EPOCH_NS, event(self));
            self.sinks.iter_mut().for_each(|sink| sink.event(now, event));
        }
    }

    /// What observers call a vCPU.
    pub(crate) fn name(&self, v: VcpuId) -> VcpuName {
        let vcpu = &self.vcpus[v.i()];
        VcpuName { vm: u32::try_from(vcpu.vm).unwrap_or(u32::MAX), vcpu: vcpu.number }
    }

    /// True while counters run.
    #[inline]
    fn measuring(&self) -> bool {
        self.now >= self.measure_from
    }

    fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Start(vm) => {
                self.tell(|_| Event::Start { vm: u32::try_from(vm).unwrap_or(u32::MAX) });
                for v in self.vcpus_of(vm) {
                    self.wake_vcpu(v, None);
                }
            }
            Alarm::Fault(kind) => self.fault(kind),
            Alarm::GuestTimer(v, generation) => {
                if self.vcpus[v.i()].alarm == generation {
                    self.wake_vcpu(v, None);
                }
            }
            Alarm::Disk(thread) => self.disk_done(thread),
            Alarm::Nap(thread) => self.nap_over(thread),
        }
    }

    /// Changes whenever a guest gets on: work that was done, flushes that are over.
    pub(crate) fn progress(&self) -> u64 {
        self.stats.phase_ns[Phase::Work as usize] + self.stats.counters.flushes
    }

    /// The vCPUs of a VM.
    pub(crate) fn vcpus_of(&self, vm: usize) -> impl Iterator<Item = VcpuId> + use<> {
        let first = self.vms[vm].first.0;
        let next = self.vms.get(vm + 1).map_or(self.vcpus.len(), |next| next.first.i());
        (first..u32::try_from(next).unwrap_or(u32::MAX)).map(VcpuId)
    }

    /// The vCPU of that number in the VM of another.
    #[inline]
    fn sibling(&self, v: VcpuId, number: u32) -> VcpuId {
        VcpuId(self.vms[self.vcpus[v.i()].vm].first.0 + number)
    }
}

/// The numbers of the bits of a mask, ascending.
fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}
