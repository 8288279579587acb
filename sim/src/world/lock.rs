//! Spinlocks of the guest: ticket locks, unfair ones, and paravirt ticket locks.
//!
//! ```text
//!   ticket    owner ◄─ first in line ◄─ second ◄─ ...      each spins until it is its turn: first come, first served
//!   unfair    whoever looks first when it is free: one that spins on a CPU, else who next runs or asks
//!   pv        the same as ticket line; who has spun its budget halts, and who lets go kicks the first in line if that one halts
//!   pv-early  the same; who waits looks now and then whether the owner has a CPU, and halts at once if not
//! ```
//! Glossary. *Holder preemption*: the host takes the CPU of a vCPU that holds a lock; nobody gets it before that vCPU runs
//! again. *Waiter preemption*: the same of one that stands in line; who stands behind it waits for it too, which is what
//! makes ticket locks worse than unfair ones on an overcommitted host.
//!
//! As the kernel has it: who holds or awaits a spinlock is not taken off its vCPU by the guest's scheduler
//! (`preempt_disable`); interrupts are handled meanwhile, unless the lock was asked for with `spin_lock_irqsave`: then they
//! stay pending until it is let go, the timer's too. Spinning is a pause loop: the processor sees it as it sees the wait
//! for a flush (pause-loop exits). The paravirt form is that of "Paravirtualized ticket spinlocks" (LKML 2012,
//! `kvm_lock_spinning`, `kvm_unlock_kick`).
//!
//! Properties: one owner at a time; tickets are served in order, but for unfair locks; a kick is never lost, because who is about to halt looks
//! once more, and what is granted stays granted.
use std::collections::VecDeque;

use hostsched::CpuId;
use plan::Lock;

use super::{Timer, World};
use crate::ids::VcpuId;
use crate::timers::Timers;
use crate::vcpu::{Phase, Place};

/// A spinlock's number in its VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockId(pub(crate) u32);

impl LockId {
    fn i(self) -> usize {
        self.0 as usize
    }
}

/// A spinlock.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpinLock {
    pub(crate) owner: Option<VcpuId>,
    /// The line behind the owner, with tickets; unordered in effect if the lock is unfair.
    pub(crate) line: VecDeque<(VcpuId, u64)>,
    /// Tickets handed out.
    pub(crate) tickets: u64,
    /// The latest ticket that became the owner.
    pub(crate) serving: u64,
}

/// The part of a vCPU that has to do with spinlocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Locking {
    /// Spinlocks that it holds: above 0 its thread is not preempted in the guest.
    pub(crate) held: u32,
    /// The one that it waits for.
    pub(crate) awaited: Option<LockId>,
    /// Since when.
    pub(crate) since: u64,
    /// Time that it has spun for it, in ns, since the last halt.
    pub(crate) spun: u64,
    /// Interrupts go on again when it lets go.
    pub(crate) irqs_saved: bool,
}

impl World {
    /// `spin_lock`, or `spin_lock_irqsave`. True if the lock was free; else the vCPU is in line.
    pub(super) fn spin_lock(&mut self, v: VcpuId, lock: LockId, irqsave: bool) -> bool {
        let now = self.now;
        let measuring = self.measuring();
        let vcpu = &mut self.vcpus[v.i()];
        if irqsave {
            assert!(vcpu.locking.held == 0, "spin_lock_irqsave inside of a spinlock is not modelled");
            (vcpu.irqs_on, vcpu.locking.irqs_saved) = (false, true);
        }
        let spinlock = &mut self.vms[vcpu.vm].locks[lock.i()];
        spinlock.tickets += 1;
        self.stats.counters.lock_acquisitions += u64::from(measuring);
        if spinlock.owner.is_none() {
            spinlock.owner = Some(v);
            spinlock.serving = spinlock.tickets;
            vcpu.locking.held += 1;
            return true;
        }
        assert!(spinlock.owner != Some(v), "vCPU {v:?} takes a spinlock that it holds");
        spinlock.line.push_back((v, spinlock.tickets));
        self.stats.counters.lock_contended += u64::from(measuring);
        (vcpu.locking.awaited, vcpu.locking.since, vcpu.locking.spun) = (Some(lock), now, 0);
        vcpu.phase = Phase::LockSpin;
        false
    }

    /// `spin_unlock`: the first in line has the lock from now on, wherever it is.
    pub(super) fn spin_unlock(&mut self, cpu: CpuId, v: VcpuId, lock: LockId) {
        let vm = self.vcpus[v.i()].vm;
        let spinlock = &mut self.vms[vm].locks[lock.i()];
        assert!(spinlock.owner == Some(v), "vCPU {v:?} lets go of a spinlock of {:?}", spinlock.owner);
        spinlock.owner = None;
        self.vcpus[v.i()].locking.held -= 1;
        let spins = |u: VcpuId| matches!(self.vcpus[u.i()].place, Place::Guest(_));
        let line = &self.vms[vm].locks[lock.i()].line;
        let next = if self.lock == Lock::Unfair { line.iter().find(|(u, _)| spins(*u)) } else { line.front() };
        if let Some(u) = next.map(|(u, _)| *u) {
            self.own(vm, lock, u);
            self.lock_granted(cpu, v, u);
        }
        if self.vcpus[v.i()].locking.held == 0 && std::mem::take(&mut self.vcpus[v.i()].locking.irqs_saved) {
            self.irqs_restored(v);
        }
    }

    /// The lock, free until now, is that of `u`, who stands in its line.
    fn own(&mut self, vm: usize, lock: LockId, u: VcpuId) {
        let fair = self.lock != Lock::Unfair;
        let spinlock = &mut self.vms[vm].locks[lock.i()];
        assert!(spinlock.owner.is_none(), "a spinlock of {:?} is given to {u:?}", spinlock.owner);
        let place = spinlock.line.iter().position(|(waiter, _)| *waiter == u);
        if let Some((_, ticket)) = place.and_then(|place| spinlock.line.remove(place)) {
            assert!(!fair || ticket > spinlock.serving, "ticket {ticket} is served after {}", spinlock.serving);
            spinlock.serving = ticket;
            spinlock.owner = Some(u);
        }
    }

    /// A waiter has a CPU again: an unfair lock that is free is taken by who looks.
    pub(super) fn look_at_lock(&mut self, u: VcpuId) {
        let vcpu = &self.vcpus[u.i()];
        let (vm, awaited) = (vcpu.vm, vcpu.locking.awaited);
        if let Some(lock) = awaited.filter(|lock| self.vms[vm].locks[lock.i()].owner.is_none()) {
            self.own(vm, lock, u);
        }
    }

    /// `v` has let go, and it is the turn of `u`.
    fn lock_granted(&mut self, cpu: CpuId, v: VcpuId, u: VcpuId) {
        let waiter = &self.vcpus[u.i()];
        match (waiter.place, waiter.phase) {
            (_, Phase::LockHalt) => self.kick_lock(cpu, v, u),
            (Place::Guest(there), _) => {
                let end = self.lock_spin_end(u);
                self.timers.set(Timer::End.slot(there), end);
            }
            // It finds the lock its own when it next runs.
            _ => {}
        }
    }

    /// `kvm_unlock_kick`: out of the halt.
    fn kick_lock(&mut self, cpu: CpuId, v: VcpuId, u: VcpuId) {
        let measuring = u64::from(self.measuring());
        self.stats.counters.lock_kicks += measuring;
        self.stats.counters.guest_kicks += measuring;
        self.stats.counters.exits += measuring;
        let hypercall = self.costs.hypercall;
        let kicker = &mut self.vcpus[v.i()];
        kicker.busy_until = kicker.busy_until.max(self.now) + hypercall;
        match self.vcpus[u.i()].place {
            Place::Halted => self.wake_vcpu(u, Some(cpu)),
            Place::Guest(there) => {
                // HLT did not leave the guest (yield_on_hlt = 0).
                self.account(u);
                self.set_end(there, u);
            }
            Place::Ready | Place::Host(_) | Place::Gone => {}
        }
    }

    /// True if the lock that the vCPU waits for is its own now.
    pub(crate) fn lock_is_mine(&self, v: VcpuId) -> bool {
        let vcpu = &self.vcpus[v.i()];
        vcpu.locking.awaited.is_some_and(|lock| self.vms[vcpu.vm].locks[lock.i()].owner == Some(v))
    }

    /// Until when the vCPU spins for its lock if nothing more happens.
    pub(super) fn lock_spin_end(&self, v: VcpuId) -> u64 {
        let free_at = self.vcpus[v.i()].busy_until.max(self.now);
        if self.lock_is_mine(v) {
            return free_at + self.costs.lock_transfer;
        }
        self.lock_spin_ns_now(v).map_or(Timers::NEVER, |ns| free_at + ns)
    }

    /// How long the vCPU spins before it does something else: halts, looks at the owner, or exits.
    fn lock_spin_ns_now(&self, v: VcpuId) -> Option<u64> {
        let left = self.lock_spin_ns.saturating_sub(self.vcpus[v.i()].locking.spun);
        let budget = self.lock.is_paravirt().then_some(left);
        let look = (self.lock == Lock::PvEarly).then_some(self.lock_look_ns);
        [budget, look, self.ple_exit_ns].into_iter().flatten().min()
    }

    /// True if who has the lock that the vCPU waits for does not execute (`vcpu_is_preempted`).
    fn lock_owner_is_off(&self, v: VcpuId) -> bool {
        let vcpu = &self.vcpus[v.i()];
        let owner = vcpu.locking.awaited.and_then(|lock| self.vms[vcpu.vm].locks[lock.i()].owner);
        owner.is_some_and(|owner| matches!(self.vcpus[owner.i()].place, Place::Ready | Place::Halted))
    }

    /// The vCPU has spun: true if it has the lock now; else it has begun to do something about it.
    pub(super) fn lock_spin_over(&mut self, cpu: CpuId, v: VcpuId) -> bool {
        if self.lock_is_mine(v) {
            self.lock_taken(v);
            return true;
        }
        let spun_now = self.lock_spin_ns_now(v);
        let early = self.lock == Lock::PvEarly && self.lock_owner_is_off(v);
        let locking = &mut self.vcpus[v.i()].locking;
        locking.spun += spun_now.unwrap_or_default();
        let spent = self.lock.is_paravirt() && locking.spun >= self.lock_spin_ns;
        if spent || early {
            locking.spun = 0;
            self.vcpus[v.i()].phase = Phase::LockHalt;
            self.stats.counters.lock_halts += u64::from(self.measuring());
            self.halt_for_lock(cpu, v);
        } else if self.ple_exit_ns == spun_now {
            self.pause_loop_exit(cpu, v);
        } else {
            self.set_end(cpu, v);
        }
        false
    }

    /// Something has ended the halt: is it the vCPU's turn?
    pub(super) fn recheck_lock(&mut self, cpu: CpuId, v: VcpuId) {
        if self.lock_is_mine(v) {
            self.vcpus[v.i()].phase = Phase::LockSpin;
            self.set_end(cpu, v);
        } else {
            self.halt_for_lock(cpu, v);
        }
    }

    /// HLT, with the timer only if interrupts are on.
    fn halt_for_lock(&mut self, cpu: CpuId, v: VcpuId) {
        let irqs_on = self.vcpus[v.i()].irqs_on;
        if self.options.yield_on_hlt {
            self.halt_vcpu(cpu, v, irqs_on);
        } else {
            if irqs_on {
                self.start_guest_timer(cpu, v);
            }
            self.stop_timer(cpu, Timer::End);
        }
    }

    fn lock_taken(&mut self, v: VcpuId) {
        let waited = self.now - self.vcpus[v.i()].locking.since;
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.locking.awaited = None;
        vcpu.locking.held += 1;
        vcpu.phase = Phase::Fetch;
        if self.measuring() {
            self.stats.counters.lock_wait_ns += waited;
            let _ = self.stats.lock_wait.record(waited);
        }
    }

    /// The host takes the vCPU's CPU while it wants to go on: is anybody behind it?
    pub(super) fn count_lock_preemption(&mut self, v: VcpuId) {
        let measuring = u64::from(self.measuring());
        let vcpu = &self.vcpus[v.i()];
        if vcpu.locking.held > 0 || self.lock_is_mine(v) {
            self.stats.counters.lock_holder_preemptions += measuring;
        } else if vcpu.locking.awaited.is_some() {
            self.stats.counters.lock_waiter_preemptions += measuring;
        }
    }
}
