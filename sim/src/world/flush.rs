//! TLB shootdown, in every strategy.
//!
//! ```text
//!   initiator                                  target in guest mode     target without a CPU
//!   ipi         send, spin for all             handler, acknowledge     handler when it next runs
//!   halt-kick   send, spin a budget, halt      ... the last one kicks   the same
//!   on-enter    mark who does not run,         handler, acknowledge     host flushes at its next entry
//!               send to the others, spin
//!   pvflush     on-enter, then halt-kick
//!   hypercall   the host marks all and kicks   leaves, host flushes     host flushes at its next entry
//! ```
//! An acknowledgement is computed when the target is known to take the interrupt: it carries the time at which it will be
//! there, which may lie a few microseconds ahead, and the flush is over at the latest of them. So a flush of k targets
//! is k updates and one event.
//!
//! The *as posted* halt-kick ([`Options::halt_once`](crate::setup::Options::halt_once)) halts once and does not look again,
//! and the sender then clears its slot: a target whose handler comes late finds no address space to flush, and
//! acknowledges all the same. Its old translations stay, and what it reads through them is counted (`stale_reads`).
//!
//! Properties: with every other strategy no vCPU executes past a completed flush that it has not done.
use hostsched::CpuId;
use plan::Flush;

use super::{Timer, World, bits};
use crate::ids::VcpuId;
use crate::observe::Event;
use crate::vcpu::{FlushSlot, Phase, Place};

impl World {
    /// `flush_tlb_others` of the whole address space, from the vCPU on this CPU.
    pub(super) fn begin_flush(&mut self, cpu: CpuId, v: VcpuId) {
        let now = self.now;
        let vcpu = &mut self.vcpus[v.i()];
        let vm = &mut self.vms[vcpu.vm];
        vm.generation += 1;
        let generation = vm.generation;
        vcpu.tlb_generation = generation;
        vcpu.phase = Phase::FlushSpin;
        vcpu.busy_until = now.max(vcpu.busy_until) + self.costs.tlb_flush;
        let targets = vm.mm_mask & !vcpu.bit();
        let started_at = now;
        vcpu.flush =
            FlushSlot { ready_at: vcpu.busy_until, started_at, generation, active: true, ..FlushSlot::default() };
        let mut to_send = 0;
        for target in bits(targets) {
            let u = self.sibling(v, target);
            let stopped = matches!(self.vcpus[u.i()].place, Place::Ready | Place::Halted);
            match self.axes.flush {
                Flush::OnEnter | Flush::PvFlush if stopped => self.mark(u),
                Flush::Hypercall => self.flush_by_host(v, u),
                _ => to_send |= 1 << target,
            }
        }
        let sends = u64::from(to_send != 0);
        let call = u64::from(self.axes.flush == Flush::Hypercall);
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.busy_until += sends * self.costs.ipi_send + call * self.costs.hypercall;
        vcpu.flush.outstanding = to_send;
        let sent_at = vcpu.busy_until;
        vcpu.flush.sent_at = sent_at;
        self.tell(|world| Event::FlushBegin { vcpu: world.name(v), outstanding: to_send });
        for target in bits(to_send) {
            let u = self.sibling(v, target);
            let doing = self.vcpus[u.i()].doing() as usize;
            self.vcpus[v.i()].flush.doing[doing] |= 1 << target;
            self.send_flush_irq(cpu, v, u, sent_at);
        }
        if self.measuring() {
            let counters = &mut self.stats.counters;
            counters.flush_targets += u64::from(targets.count_ones());
            counters.flush_ipis += u64::from(to_send.count_ones());
            counters.exits += sends + call;
        }
    }

    /// The target flushes before it executes again (`FLUSH` of its state word).
    fn mark(&mut self, u: VcpuId) {
        self.stats.counters.flush_marks += u64::from(self.measuring());
        self.vcpus[u.i()].flush_on_enter = true;
        self.tell(|world| Event::Mark { vcpu: world.name(u) });
    }

    /// The host flushes `u` for the caller `v`.
    fn flush_by_host(&mut self, v: VcpuId, u: VcpuId) {
        let Place::Guest(there) = self.vcpus[u.i()].place else { return self.mark(u) };
        let left_at = self.vcpus[v.i()].busy_until + self.costs.hypercall + self.costs.ipi_deliver;
        self.delay_guest(there, self.costs.exit + self.costs.tlb_flush);
        self.flushed(u);
        let slot = &mut self.vcpus[v.i()].flush;
        slot.ready_at = slot.ready_at.max(left_at);
    }

    /// Sends the flush interrupt to one target.
    pub(super) fn send_flush_irq(&mut self, cpu: CpuId, v: VcpuId, u: VcpuId, sent_at: u64) {
        let now = self.now;
        let arrives = sent_at + self.costs.ipi_deliver;
        let handler = self.costs.ipi_handler;
        let sender_bit = self.vcpus[v.i()].bit();
        let target = &mut self.vcpus[u.i()];
        match target.place {
            Place::Guest(there) if target.irqs_on => {
                let at = arrives.max(target.busy_until) + handler;
                self.delay_guest(there, handler);
                if self.measuring() {
                    self.stats.counters.exits += 1;
                    let _ = self.stats.ipi_delivery.record(at - handler - now);
                }
                self.acknowledge(u, v, at);
            }
            place => {
                if target.flush_irqs == 0 {
                    target.flush_irq_at = now;
                }
                target.flush_irqs |= sender_bit;
                if place == Place::Halted && target.irqs_on {
                    self.wake_vcpu(u, Some(cpu));
                }
            }
        }
    }

    /// All translations of the vCPU are gone, now. One that idles also lets the address space go (`leave_mm`).
    fn flushed(&mut self, u: VcpuId) {
        let vcpu = &mut self.vcpus[u.i()];
        let vm = &mut self.vms[vcpu.vm];
        vcpu.tlb_generation = vm.generation;
        if vcpu.phase == Phase::Idle {
            vm.mm_mask &= !vcpu.bit();
        }
    }

    /// The handler of `u` for sender `v` is done at `at` (`smp_invalidate_interrupt`).
    pub(super) fn acknowledge(&mut self, u: VcpuId, v: VcpuId, at: u64) {
        let bit = self.vcpus[u.i()].bit();
        let sender = &mut self.vcpus[v.i()];
        if self.options.halt_once && !sender.flush.active {
            // The sender has cleared flush_mm: nothing tells the handler what to flush.
            self.stats.counters.empty_acks += u64::from(self.measuring());
            return;
        }
        let last = sender.flush.outstanding == bit;
        sender.flush.outstanding &= !bit;
        sender.flush.ready_at = sender.flush.ready_at.max(at);
        let (doing, sent_at) = (sender.flush.doing, sender.flush.sent_at);
        if self.measuring()
            && let Some(state) = doing.iter().position(|targets| targets & bit != 0)
        {
            let _ = self.stats.flush_ack[state].record(at.saturating_sub(sent_at));
        }
        self.tell(|world| Event::FlushAck { by: world.name(u), of: world.name(v) });
        if !self.options.lost_flush {
            self.flushed(u);
        }
        if last {
            self.last_acknowledged(u, v);
        }
    }

    /// The flush of `v` has no target left; `u` was the last.
    fn last_acknowledged(&mut self, u: VcpuId, v: VcpuId) {
        let sender = &self.vcpus[v.i()];
        let halts = matches!(self.axes.flush, Flush::HaltKick | Flush::PvFlush) && !sender.flush.ipi;
        // As posted the last one kicks whether or not anybody halts.
        if halts && (self.options.halt_once || sender.phase == Phase::FlushHalt) {
            self.kick(u, v);
        } else if let (Place::Guest(cpu), Phase::FlushSpin) = (sender.place, sender.phase) {
            let end = self.spin_end(v);
            self.timers.set(Timer::End.slot(cpu), end);
        }
    }

    /// `u` kicks `v` out of its halt (`KVM_HC_KICK_CPU`), or sets its latch.
    fn kick(&mut self, u: VcpuId, v: VcpuId) {
        self.stats.counters.guest_kicks += u64::from(self.measuring());
        self.tell(|world| Event::Kick { by: world.name(u), to: world.name(v) });
        self.stats.counters.exits += u64::from(self.measuring());
        let hypercall = self.costs.hypercall;
        let from = self.vcpus[u.i()].last_cpu;
        self.delay_guest(from, hypercall);
        let sender = &mut self.vcpus[v.i()];
        match (sender.place, sender.phase) {
            (Place::Halted, _) => self.wake_vcpu(v, Some(from)),
            (Place::Guest(cpu), Phase::FlushHalt | Phase::FlushSpin) => {
                sender.kick = sender.phase == Phase::FlushSpin;
                self.account(v);
                self.set_end(cpu, v);
            }
            _ => sender.kick = true,
        }
    }

    /// Marks the targets that have stopped since the interrupt was sent to them.
    pub(super) fn scan_flush(&mut self, v: VcpuId) {
        if !matches!(self.axes.flush, Flush::OnEnter | Flush::PvFlush) || self.vcpus[v.i()].flush.ipi {
            return;
        }
        for target in bits(self.vcpus[v.i()].flush.outstanding) {
            let u = self.sibling(v, target);
            if matches!(self.vcpus[u.i()].place, Place::Ready | Place::Halted) {
                self.mark(u);
                self.vcpus[v.i()].flush.outstanding &= !(1 << target);
            }
        }
    }

    /// `u` has lost its CPU: those who spin for it see that at their next look, a spin budget later at most.
    pub(super) fn target_stopped(&mut self, u: VcpuId) {
        if !matches!(self.axes.flush, Flush::OnEnter | Flush::PvFlush) {
            return;
        }
        for sender in bits(self.vcpus[u.i()].flush_irqs) {
            let v = self.sibling(u, sender);
            let vcpu = &mut self.vcpus[v.i()];
            if let (Place::Guest(cpu), Phase::FlushSpin, true) =
                (vcpu.place, vcpu.phase, vcpu.flush.active && !vcpu.flush.ipi)
            {
                self.scan_flush(v);
                let looks_at = self.now + self.spin_budget_ns;
                let slot = &mut self.vcpus[v.i()].flush;
                slot.ready_at = slot.ready_at.max(looks_at);
                if slot.outstanding == 0 {
                    let end = self.spin_end(v);
                    self.timers.set(Timer::End.slot(cpu), end);
                }
            }
        }
    }

    /// The initiator goes on.
    pub(super) fn finish_flush(&mut self, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        let vm = &mut self.vms[vcpu.vm];
        vm.completed = vm.completed.max(vcpu.flush.generation);
        vcpu.flush.active = false;
        vcpu.phase = Phase::Fetch;
        let (outstanding, started_at) = (vcpu.flush.outstanding, vcpu.flush.started_at);
        let waited_ns = self.now - started_at;
        self.tell(|world| Event::FlushEnd { vcpu: world.name(v), waited_ns, outstanding });
        if self.now < self.measure_from {
            return;
        }
        self.stats.counters.flushes += 1;
        self.stats.counters.flush_wait_ns += waited_ns;
        self.stats.counters.early_returns += u64::from(outstanding != 0);
        let _ = self.stats.flush_wait.record(waited_ns);
    }
}
