//! Spinlocks of the guest, each in the four forms of `Params::lock`; what decides is in `abi::lock`. Whoever awaits or
//! holds one keeps its vCPU: preemption is off.
//!
//! ```text
//!   lock ─► free: mine                       guard dropped ─► served += 1 ─► SLOW was set: who awaits that ticket? KickCpu
//!       └─► lock_wait_spin: spin, with a SpinHint every PLE window
//!              └─► pv, budget spent, or pv-early and who has it is off its CPU: lock_wait_halt
//! ```
//! The vCPU's `LockLine` says how many it holds and whether it stands in line: the host counts by it whom it has taken
//! the CPU from.
//!
//! Interrupts stay on while a lock is awaited and held: ring 3 cannot turn them off. What is left of `spin_lock_irqsave` is
//! the part that other vCPUs feel most: the halt of a paravirt waiter ([`SpinLock::lock_irqsave`]) is taken in ring 0 with
//! interrupts off, so that no flush interrupt wakes it, only the kick of who lets go. Who holds such a lock must not wait
//! for a flush: its target may halt for that very lock.

use abi::call::Call;
use abi::lock::{LockId, Ticket, TicketLock, UnfairLock, Waiter, who_awaits};
use abi::params::{FAULT_BROKEN_LOCK, FAULT_PERIOD, Lock};
use abi::sync::AtomicU32;
use abi::sync::Ordering::Relaxed;
use abi::vcpu::Phase;

use crate::cpu::{Cpu, page, params, rdtsc};
use crate::flush::SpinHint;
use crate::preempt::Off;
use crate::stubs::gate_halt;

/// A lock. All zero is free. Which half is used is the same for all locks of a VM.
pub(crate) struct SpinLock {
    tickets: TicketLock,
    unfair: UnfairLock,
    /// The vCPU that took it last: who has it, unless it is free or on its way to the next in line.
    owner: AtomicU32,
}

impl SpinLock {
    pub(crate) const fn new() -> Self {
        Self { tickets: TicketLock::new(), unfair: UnfairLock::new(), owner: AtomicU32::new(0) }
    }

    /// Takes it.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.take(false)
    }

    /// The same; a paravirt waiter halts with interrupts off.
    pub(crate) fn lock_irqsave(&self) -> Guard<'_> {
        self.take(true)
    }

    fn take(&self, irqs_off: bool) -> Guard<'_> {
        let off = Off::new();
        let cpu = off.cpu();
        let counters = cpu.counters();
        let kind = params().lock().unwrap_or(Lock::Ticket);
        counters.lock_acquisitions.add(1);
        let (ticket, mine) = match kind {
            Lock::Unfair => (None, self.unfair.take()),
            Lock::Ticket | Lock::Pv | Lock::PvEarly => {
                let (ticket, mine) = self.tickets.take();
                (Some(ticket), mine)
            }
        };
        if !mine {
            counters.lock_contended.add(1);
            let broken = params().faults & FAULT_BROKEN_LOCK != 0;
            if !(broken && counters.lock_contended.get().is_multiple_of(FAULT_PERIOD)) {
                lock_wait_spin(self, cpu, ticket, kind, irqs_off);
            }
        }
        if kind == Lock::PvEarly {
            self.owner.store(cpu.index, Relaxed);
        }
        let line = &cpu.page.lock.0;
        line.held.store(line.held.load(Relaxed) + 1, Relaxed);
        line.waits.store(0, Relaxed);
        Guard { lock: self, cpu, ticket, _off: off }
    }

    /// Its name in announcements: its address, which is below 4 GiB in every guest that has locks.
    fn id(&self) -> LockId {
        let address = core::ptr::from_ref(self) as usize;
        LockId(u32::try_from(address).unwrap_or(u32::MAX))
    }
}

/// The lock is held as long as this lives.
pub(crate) struct Guard<'a> {
    lock: &'a SpinLock,
    cpu: Cpu,
    ticket: Option<Ticket>,
    /// Dropped after the lock is free: preemption comes back last.
    _off: Off,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let line = &self.cpu.page.lock.0;
        let next = match self.ticket {
            Some(ticket) => self.lock.tickets.unlock(ticket),
            None => {
                self.lock.unfair.unlock();
                None
            }
        };
        line.held.store(line.held.load(Relaxed) - 1, Relaxed);
        if let Some(next) = next {
            unlock_kick(self.cpu, self.lock.id(), next);
        }
    }
}

/// Waits for a lock. A function of its own: the guest profile finds the time spent here by its name.
#[inline(never)]
fn lock_wait_spin(lock: &SpinLock, cpu: Cpu, ticket: Option<Ticket>, kind: Lock, irqs_off: bool) {
    let begin = rdtsc();
    let phase = &cpu.page.call.0.phase;
    let before = phase.load(Relaxed);
    cpu.page.lock.0.waits.store(1, Relaxed);
    cpu.phase(Phase::LockSpin);
    let hint = SpinHint::new(params().ple_window_cycles);
    let mut turns = Turns { cpu, lock, hint, early: kind == Lock::PvEarly, irqs_off };
    match (ticket, kind) {
        (None, _) => lock.unfair.wait(&mut turns),
        (Some(ticket), Lock::Pv | Lock::PvEarly) => {
            lock.tickets.wait_pv(lock.id(), ticket, &cpu.page.lock.0, params().lock_spins, &mut turns);
        }
        (Some(ticket), _) => lock.tickets.wait(ticket, &mut turns),
    }
    phase.store(before, Relaxed);
    let cycles = rdtsc().saturating_sub(begin);
    cpu.results.lock_wait.record(cycles);
    cpu.counters().lock_wait_cycles.add(cycles);
}

struct Turns<'a> {
    cpu: Cpu,
    lock: &'a SpinLock,
    hint: SpinHint,
    early: bool,
    irqs_off: bool,
}

impl Waiter for Turns<'_> {
    fn spin(&mut self) {
        self.hint.spin(self.cpu);
    }

    /// Who was kicked and has no CPU yet does not execute either.
    fn in_vain(&self, served: Ticket) -> bool {
        self.early && {
            let owner = announced(self.lock.id(), served).unwrap_or(self.lock.owner.load(Relaxed));
            page(owner).state.0.stopped().is_some()
        }
    }

    fn halt(&mut self) {
        lock_wait_halt(self.cpu, self.irqs_off);
    }
}

/// Halts once (`kvm_lock_spinning`).
#[inline(never)]
fn lock_wait_halt(cpu: Cpu, irqs_off: bool) {
    cpu.counters().lock_halts.add(1);
    if irqs_off {
        cpu.phase(Phase::LockHaltIrqsOff);
        gate_halt();
    } else {
        cpu.phase(Phase::LockHalt);
        cpu.call(Call::Halt, 0);
    }
    cpu.phase(Phase::LockSpin);
}

/// Kicks who waits for that ticket, if it has announced itself (`kvm_unlock_kick`).
#[inline(never)]
fn unlock_kick(cpu: Cpu, id: LockId, next: Ticket) {
    if let Some(vcpu) = announced(id, next) {
        cpu.counters().lock_kicks.add(1);
        cpu.call(Call::KickCpu, vcpu);
    }
}

/// The vCPU that has announced that it halts for that ticket.
fn announced(id: LockId, ticket: Ticket) -> Option<u32> {
    who_awaits(id, ticket, (0..params().vcpus).map(|vcpu| &page(vcpu).lock.0))
}
