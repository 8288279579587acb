//! A pCPU: it executes the host, a guest, or nothing, and asks `hostsched` who is next.
//!
//! ```text
//!                       End: need_resched? ──yes──► schedule ──► another vCPU: context switch, as Host
//!   Idle ◄── none ─┐      │ no                          │
//!                  │      ▼                             ├──► the same: on with it
//!     Host ◄───────┴─── Guest ── tick, IPI, exit ───────┘
//! ```
//! *Host* time is never interrupted: a tick or an IPI that arrives in it makes it longer, and what it asks for is looked
//! at when it ends. So a context switch is paid to its end once it has begun, and costs never pile up unpaid.
//!
//! *Noise* is a kernel thread a CPU, a task of the root group, that a tick now and then gives work. It preempts whatever
//! runs; afterwards CFS picks whom it likes, which is how a moment of noise can break up a gang for a whole slice.
//!
//! An interrupt in guest time that changes nothing for the vCPU (a tick without `need_resched`) makes the guest's present
//! activity longer by its cost, in place of an exit and an entry that would be two more events.
use std::collections::VecDeque;

use hostsched::{CpuId, TaskId, Waker};

use super::{Alarm, Message, Timer, World};
use crate::ids::VcpuId;
use crate::observe::{Event, Who};
use crate::timers::Timers;
use crate::vcpu::{Phase, Place};

/// What a pCPU executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Idle,
    Host,
    Guest,
    /// A kernel thread of the host.
    Daemon,
}

/// A pCPU.
#[derive(Debug)]
pub(crate) struct Pcpu {
    pub(crate) activity: Activity,
    /// Its kernel thread that works now and then.
    pub(crate) daemon: TaskId,
    /// What is left of the daemon's present work, in ns.
    pub(crate) daemon_left: u64,
    /// Whose thread has it.
    pub(crate) vcpu: Option<VcpuId>,
    /// Whose state it holds: coming back to the same one needs no switch.
    pub(crate) loaded: Option<VcpuId>,
    /// Interrupts under way, in order of arrival.
    pub(crate) inbox: VecDeque<(u64, Message)>,
    /// Its last-level cache.
    pub(crate) llc: usize,
    /// Earliest interrupt under way that asks for a new vCPU: for the dispatch time.
    pub(crate) asked_at: Option<u64>,
}

/// An operation of hostsched at this instant.
macro_rules! sched {
    ($world:expr) => {
        $world.host.at(hostsched::Nanos($world.now), &mut $world.rqs, &mut $world.fx)
    };
}
pub(super) use sched;

impl World {
    /// The CPU's present activity has ended.
    pub(super) fn activity_ended(&mut self, cpu: CpuId) {
        self.stop_timer(cpu, Timer::End);
        match self.cpus[cpu.index()].activity {
            Activity::Guest => self.guest_step(cpu),
            Activity::Host if self.rqs[cpu.index()].need_resched() => self.reschedule(cpu, 0),
            Activity::Host if self.cpus[cpu.index()].vcpu.is_none() => self.start_daemon(cpu),
            Activity::Host => self.enter_guest(cpu),
            Activity::Daemon => {
                self.cpus[cpu.index()].daemon_left = 0;
                sched!(self).block_current(cpu);
                self.reschedule(cpu, 0);
            }
            Activity::Idle => {}
        }
    }

    /// `scheduler_tick`; sometimes it finds work for the CPU's daemon.
    pub(super) fn host_tick(&mut self, cpu: CpuId) {
        self.timers.set(Timer::Tick.slot(cpu), self.now + self.tick_ns);
        self.stats.counters.ticks += u64::from(self.measuring());
        let mut cost = self.costs.tick;
        sched!(self).tick(cpu);
        if self.rng.per_mille(self.costs.noise) {
            self.cpus[cpu.index()].daemon_left += self.costs.noise_time;
            let daemon = self.cpus[cpu.index()].daemon;
            sched!(self).wake(daemon, Waker::on(cpu));
            self.tell(|_| Event::Noise { cpu });
        }
        cost += self.apply_effects(Some(cpu));
        self.interrupted(cpu, cost);
    }

    /// The host took `cost` ns of this CPU, beginning now, outside of what it did.
    pub(super) fn interrupted(&mut self, cpu: CpuId, cost: u64) {
        let need_resched = self.rqs[cpu.index()].need_resched();
        match self.cpus[cpu.index()].activity {
            Activity::Idle if need_resched => self.reschedule(cpu, cost),
            Activity::Idle => {}
            Activity::Host => {
                let end = self.timers.get(Timer::End.slot(cpu));
                self.timers.set(Timer::End.slot(cpu), end + cost);
            }
            Activity::Daemon if need_resched => {
                let end = self.timers.get(Timer::End.slot(cpu));
                self.cpus[cpu.index()].daemon_left = (end - self.now).max(1);
                self.reschedule(cpu, cost);
            }
            Activity::Daemon => {
                let end = self.timers.get(Timer::End.slot(cpu));
                self.timers.set(Timer::End.slot(cpu), end + cost);
            }
            Activity::Guest if need_resched => {
                self.leave_guest(cpu);
                self.reschedule(cpu, self.costs.exit + cost);
            }
            Activity::Guest => {
                self.stats.counters.exits += u64::from(self.measuring());
                self.delay_guest(cpu, self.costs.exit + cost);
            }
        }
    }

    /// The CPU executes the host for `cost` ns, then looks at `need_resched`.
    pub(super) fn start_host(&mut self, cpu: CpuId, cost: u64) {
        self.cpus[cpu.index()].activity = Activity::Host;
        self.timers.set(Timer::End.slot(cpu), self.now + cost);
    }

    /// `schedule()`, after `cost` ns of other host work that belongs to it.
    pub(super) fn reschedule(&mut self, cpu: CpuId, mut cost: u64) {
        let switch = sched!(self).schedule(cpu);
        cost += self.apply_effects(Some(cpu));
        let prev = self.cpus[cpu.index()].vcpu;
        let daemon = switch.next == Some(self.cpus[cpu.index()].daemon);
        self.tell(|world| Event::Pick { cpu, prev: world.who(cpu, switch.prev), next: world.who(cpu, switch.next) });
        let next = switch.next.filter(|_| !daemon).map(|task| VcpuId(task.0));
        if let Some(v) = prev.filter(|_| prev != next) {
            self.sched_out(v);
        }
        self.cpus[cpu.index()].vcpu = next;
        self.note(next.map_or(u64::MAX, |v| v.0.into()));
        if daemon {
            // A kernel thread borrows the address space that is there: no switch to speak of.
            return self.start_host(cpu, cost.max(1));
        }
        let Some(v) = next else {
            self.cpus[cpu.index()].activity = Activity::Idle;
            self.stop_timer(cpu, Timer::End);
            return;
        };
        if prev != next {
            self.sched_in(v, cpu);
        }
        if self.cpus[cpu.index()].loaded != next {
            cost += self.costs.context_switch;
            self.stats.counters.switches += u64::from(self.measuring());
        }
        self.cpus[cpu.index()].loaded = next;
        // Something is always paid, so a CPU that is asked again and again still moves on.
        self.start_host(cpu, cost.max(1));
    }

    /// The daemon has the CPU.
    fn start_daemon(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].activity = Activity::Daemon;
        let end = self.now + self.cpus[cpu.index()].daemon_left.max(1);
        self.timers.set(Timer::End.slot(cpu), end);
    }

    /// The vCPU has lost its CPU (`kvm_sched_out`).
    pub(super) fn sched_out(&mut self, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        let vm = &mut self.vms[vcpu.vm];
        vm.running -= 1;
        if vm.killed {
            vcpu.place = Place::Gone;
            return;
        }
        if vcpu.place != Place::Halted {
            vcpu.place = Place::Ready;
            vcpu.ready_since = self.now;
            self.count_lock_preemption(v);
        }
        self.target_stopped(v);
    }

    /// The vCPU has got a CPU (`kvm_sched_in`).
    fn sched_in(&mut self, v: VcpuId, cpu: CpuId) {
        let measuring = self.measuring();
        let vcpu = &mut self.vcpus[v.i()];
        self.vms[vcpu.vm].running += 1;
        vcpu.place = Place::Host(cpu);
        if measuring {
            let _ = self.stats.runqueue_wait.record(self.now - vcpu.ready_since);
        }
        if vcpu.last_cpu != cpu {
            self.stats.counters.migrations += u64::from(measuring);
            vcpu.last_cpu = cpu;
            // The VMCS goes to another CPU, whose TLB knows nothing of this vCPU (`vmx_vcpu_load`).
            vcpu.tlb_generation = self.vms[vcpu.vm].generation;
        }
    }

    /// From host to guest.
    fn enter_guest(&mut self, cpu: CpuId) {
        let Some(v) = self.cpus[cpu.index()].vcpu else { return };
        self.cpus[cpu.index()].activity = Activity::Guest;
        sched!(self).guest_mode(cpu, true);
        self.tell(|world| Event::Enter { cpu, vcpu: world.name(v) });
        if let Some(asked) = self.cpus[cpu.index()].asked_at.take()
            && self.measuring()
        {
            let _ = self.stats.dispatch.record(self.now - asked);
        }
        let (now, flush) = (self.now, self.costs.tlb_flush);
        let generation = self.vms[self.vcpus[v.i()].vm].generation;
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.place = Place::Guest(cpu);
        vcpu.alarm += 1;
        (vcpu.busy_until, vcpu.mark) = (now, now);
        if std::mem::take(&mut vcpu.flush_on_enter) {
            vcpu.tlb_generation = generation;
            vcpu.busy_until += flush;
        }
        self.resume_guest(cpu, v);
    }

    /// From guest to host: what is left of the guest's activity is kept.
    pub(super) fn leave_guest(&mut self, cpu: CpuId) {
        let Some(v) = self.cpus[cpu.index()].vcpu else { return };
        self.account(v);
        let end = self.timers.get(Timer::End.slot(cpu));
        let vcpu = &mut self.vcpus[v.i()];
        if vcpu.phase == Phase::Work {
            // With it what is left of a handler that the guest is in.
            vcpu.remaining = end - self.now;
        }
        vcpu.place = Place::Host(cpu);
        self.stop_timer(cpu, Timer::Guest);
        self.stop_timer(cpu, Timer::End);
        self.cpus[cpu.index()].activity = Activity::Host;
        sched!(self).guest_mode(cpu, false);
        self.tell(|world| Event::Exit { cpu, vcpu: world.name(v) });
        self.stats.counters.exits += u64::from(self.measuring());
    }

    /// Charges the time since the last mark to the vCPU's phase.
    #[inline]
    pub(super) fn account(&mut self, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        let ns = self.now - vcpu.mark;
        vcpu.mark = self.now;
        if self.now - ns >= self.measure_from {
            vcpu.cpu_ns += ns;
            self.stats.counters.guest_ns += ns;
            if vcpu.vm < self.tested {
                self.stats.phase_ns[vcpu.phase as usize] += ns;
            }
        }
    }

    /// The guest on this CPU goes on `ns` later than it would have.
    #[inline]
    pub(super) fn delay_guest(&mut self, cpu: CpuId, ns: u64) {
        let Some(v) = self.cpus[cpu.index()].vcpu else { return };
        let busy = &mut self.vcpus[v.i()].busy_until;
        *busy = self.now.max(*busy) + ns;
        let end = self.timers.get(Timer::End.slot(cpu));
        if end != Timers::NEVER {
            self.timers.set(Timer::End.slot(cpu), end + ns);
        }
    }

    /// Wakes a halted vCPU from a CPU (its own last one if `None`: a timer).
    pub(super) fn wake_vcpu(&mut self, v: VcpuId, from: Option<CpuId>) {
        let now = self.now;
        let vcpu = &mut self.vcpus[v.i()];
        if vcpu.place != Place::Halted {
            return;
        }
        vcpu.place = Place::Ready;
        vcpu.ready_since = now;
        vcpu.alarm += 1;
        // The timers of a CPU that has gone off line are on another one.
        let own = vcpu.last_cpu;
        let waker = from.unwrap_or_else(|| if self.online.contains(&own) { own } else { self.online[0] });
        self.stats.counters.wakeups += u64::from(self.measuring());
        let on = sched!(self).wake(v.task(), Waker::on(waker));
        self.tell(|world| Event::Wake { vcpu: world.name(v), by: waker, on: on.unwrap_or(waker) });
        let cost = self.apply_effects(Some(waker));
        self.interrupted_by_self(waker, cost);
    }

    /// The vCPU on this CPU halts in the host. A timer wakes it at its next tick if that is on.
    pub(super) fn halt_vcpu(&mut self, cpu: CpuId, v: VcpuId, tick_on: bool) {
        self.leave_guest(cpu);
        self.stats.counters.guest_halts += u64::from(self.measuring());
        self.tell(|world| Event::Halt { cpu, vcpu: world.name(v) });
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.place = Place::Halted;
        vcpu.alarm += 1;
        if tick_on {
            self.alarms.push(vcpu.tick_at.max(self.now + 1), Alarm::GuestTimer(v, vcpu.alarm));
        }
        // Handlers that ran before the HLT are paid here.
        let owed = vcpu.busy_until.saturating_sub(self.now);
        sched!(self).block_current(cpu);
        self.reschedule(cpu, owed + self.costs.halt);
    }

    /// Whose thread that is, on that CPU.
    pub(super) fn who(&self, cpu: CpuId, task: Option<TaskId>) -> Who {
        match task {
            None => Who::Idle,
            Some(task) if task == self.cpus[cpu.index()].daemon => Who::Daemon,
            Some(task) => Who::Vcpu(self.name(VcpuId(task.0))),
        }
    }

    #[inline]
    pub(super) fn stop_timer(&mut self, cpu: CpuId, timer: Timer) {
        self.timers.set(timer.slot(cpu), Timers::NEVER);
    }
}
