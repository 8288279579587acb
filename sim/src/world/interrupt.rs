//! Interrupts of the guest: its timer, reschedule interrupts between its vCPUs, and what is pending when it is entered.
//!
//! A vCPU in guest mode with interrupts on takes an interrupt at once; its handler delays whatever the vCPU does. In any
//! other place it stays pending until the vCPU is next entered, and wakes the vCPU if that halts.
use hostsched::CpuId;

use super::{Timer, World, bits};
use crate::ids::VcpuId;
use crate::timers::Timers;
use crate::vcpu::{Phase, Place};

impl World {
    /// The timer interrupt of the vCPU that this CPU executes.
    pub(super) fn guest_timer(&mut self, cpu: CpuId) {
        let Some(v) = self.cpus[cpu.index()].vcpu else { return self.stop_timer(cpu, Timer::Guest) };
        if !self.vcpus[v.i()].irqs_on {
            // It is taken when they are on again.
            return self.stop_timer(cpu, Timer::Guest);
        }
        self.stats.counters.exits += u64::from(self.measuring());
        self.delay_guest(cpu, self.costs.guest_tick);
        self.nohz_kick(cpu, v);
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.tick_at += self.guest_tick_ns;
        self.timers.set(Timer::Guest.slot(cpu), vcpu.tick_at);
        if self.slice_over(v) {
            let end = self.timers.get(Timer::End.slot(cpu));
            self.account(v);
            self.vcpus[v.i()].remaining = end - self.now.max(self.vcpus[v.i()].busy_until);
            self.rotate(v);
            self.set_end(cpu, v);
        }
    }

    /// One tick less for the current thread; true if it is another's turn. Only computing threads are taken off their
    /// vCPU: those that wait for a flush, or hold or await a spinlock, have preemption off.
    fn slice_over(&mut self, v: VcpuId) -> bool {
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.slice = vcpu.slice.saturating_sub(1);
        vcpu.slice == 0 && vcpu.phase == Phase::Work && vcpu.locking.held == 0 && !vcpu.queue.is_empty()
    }

    /// Whatever is pending when the guest is entered, then its phase.
    pub(super) fn resume_guest(&mut self, cpu: CpuId, v: VcpuId) {
        self.take_irqs(v);
        if self.late_tick(v) && self.slice_over(v) {
            self.rotate(v);
        }
        match self.vcpus[v.i()].phase {
            Phase::FlushSpin => self.scan_flush(v),
            Phase::LockSpin => self.look_at_lock(v),
            _ => {}
        }
        self.set_end(cpu, v);
    }

    /// Handles what is pending, if interrupts are on.
    fn take_irqs(&mut self, v: VcpuId) {
        if self.vcpus[v.i()].has_irq() {
            self.take_flush_irqs(v);
            let handler = self.costs.ipi_handler;
            let vcpu = &mut self.vcpus[v.i()];
            if std::mem::take(&mut vcpu.resched_irq) {
                vcpu.busy_until += handler;
            }
        }
    }

    /// Ticks that it slept through, or had interrupts off for, arrive as one. True if there were any.
    fn late_tick(&mut self, v: VcpuId) -> bool {
        let vcpu = &mut self.vcpus[v.i()];
        let late = vcpu.tick_at <= self.now && vcpu.phase != Phase::Idle && vcpu.irqs_on;
        if late {
            vcpu.tick_at += ((self.now - vcpu.tick_at) / self.guest_tick_ns + 1) * self.guest_tick_ns;
            vcpu.busy_until += self.costs.guest_tick;
        }
        late
    }

    /// `local_irq_restore`: what has become pending meanwhile is handled.
    pub(super) fn irqs_restored(&mut self, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.irqs_on = true;
        vcpu.busy_until = vcpu.busy_until.max(self.now);
        self.take_irqs(v);
        if self.late_tick(v) {
            let vcpu = &mut self.vcpus[v.i()];
            vcpu.slice = vcpu.slice.saturating_sub(1);
        }
    }

    /// Starts the guest's timer: one that was idle stopped it.
    pub(super) fn start_guest_timer(&mut self, cpu: CpuId, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        if !vcpu.irqs_on {
            return;
        }
        if vcpu.tick_at <= self.now {
            vcpu.tick_at += ((self.now - vcpu.tick_at) / self.guest_tick_ns + 1) * self.guest_tick_ns;
        }
        if self.timers.get(Timer::Guest.slot(cpu)) == Timers::NEVER {
            self.timers.set(Timer::Guest.slot(cpu), vcpu.tick_at);
        }
    }

    /// The flush handler runs once for each sender.
    fn take_flush_irqs(&mut self, v: VcpuId) {
        let senders = std::mem::take(&mut self.vcpus[v.i()].flush_irqs);
        if senders == 0 {
            return;
        }
        if self.measuring() {
            let _ = self.stats.ipi_delivery.record(self.now - self.vcpus[v.i()].flush_irq_at);
        }
        for sender in bits(senders) {
            let vcpu = &mut self.vcpus[v.i()];
            vcpu.busy_until += self.costs.ipi_handler;
            let at = vcpu.busy_until;
            self.acknowledge(v, self.sibling(v, sender), at);
        }
    }

    /// A thread of `target` has become runnable: an idle vCPU needs an interrupt, sent from `from`.
    pub(super) fn send_resched_irq(&mut self, target: VcpuId, from: CpuId) {
        let vcpu = &mut self.vcpus[target.i()];
        if vcpu.phase != Phase::Idle {
            return;
        }
        match vcpu.place {
            Place::Guest(cpu) => {
                // HLT did not leave the guest (yield_on_hlt = 0).
                self.account(target);
                let vcpu = &mut self.vcpus[target.i()];
                vcpu.busy_until = self.now + self.costs.ipi_deliver + self.costs.ipi_handler;
                self.set_end(cpu, target);
            }
            Place::Halted => {
                vcpu.resched_irq = true;
                self.wake_vcpu(target, Some(from));
            }
            Place::Ready | Place::Host(_) => vcpu.resched_irq = true,
            Place::Gone => {}
        }
    }
}
