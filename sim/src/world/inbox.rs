//! Interrupts between the host's CPUs: what `hostsched` asks for becomes a message, and arrives later.
//!
//! ```text
//!   hostsched: fx.resched, fx.ipis ─► apply_effects ─► send ─► post ─► inbox of the other CPU
//!                                     (costs ipi_send)   ipi_deliver later │
//!                   interrupted (cpu.rs) ◄── take_message: ipi_received ◄──┘
//! ```
//! What a CPU does to itself while it executes the host needs no message: it looks at `need_resched` when that ends.
//! Where a guest's call was the cause, it posts one to itself, without the way ([`World::interrupted_by_self`]).

use hostsched::{CpuId, Ipi};

use super::cpu::{Activity, sched};
use super::{Timer, World};
use crate::observe::{Event, Interrupt};
use crate::timers::Timers;

/// An interrupt under way to a pCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// `smp_send_reschedule`.
    Resched,
    /// What hostsched sends.
    Sched(Ipi),
}

impl Message {
    /// What observers call it. The group of VM n is number n + 1.
    fn what(self) -> Interrupt {
        match self {
            Self::Resched => Interrupt::Resched,
            Self::Sched(Ipi::Wakeup) => Interrupt::Wakeup,
            Self::Sched(Ipi::Gang { group, .. }) => Interrupt::Gang { vm: group.0.saturating_sub(1) },
        }
    }
}

impl World {
    /// The first interrupt under way has arrived.
    pub(super) fn take_message(&mut self, cpu: CpuId) {
        let message = self.cpus[cpu.index()].inbox.pop_front();
        let next = self.cpus[cpu.index()].inbox.front().map_or(Timers::NEVER, |(at, _)| *at);
        self.timers.set(Timer::Inbox.slot(cpu), next);
        let mut cost = 0;
        if let Some((_, message)) = message {
            self.tell(|world| world.arrival(cpu, message));
        }
        if let Some((_, Message::Sched(ipi))) = message {
            sched!(self).ipi_received(cpu, ipi);
            cost = self.costs.ipi_handler + self.apply_effects(Some(cpu));
        }
        self.interrupted(cpu, cost);
    }

    /// Carries out what hostsched asked for while `from` executed the host. Returns what sending took there.
    pub(super) fn apply_effects(&mut self, from: Option<CpuId>) -> u64 {
        if self.fx.is_empty() {
            return 0;
        }
        let mut cost = 0;
        for i in 0..self.fx.resched.len() {
            let cpu = self.fx.resched[i];
            if Some(cpu) != from {
                self.send(from, cpu, Message::Resched);
            }
        }
        for i in 0..self.fx.ipis.len() {
            let (cpu, ipi) = self.fx.ipis[i];
            cost = self.costs.ipi_send;
            self.send(from, cpu, Message::Sched(ipi));
        }
        self.fx.clear();
        cost
    }

    /// Work of the host that a guest's own call caused on its CPU: it is paid now, and `need_resched` is looked at.
    pub(super) fn interrupted_by_self(&mut self, cpu: CpuId, cost: u64) {
        if cost != 0 || self.rqs[cpu.index()].need_resched() {
            self.post(cpu, self.now, Message::Resched);
        }
    }

    fn send(&mut self, from: Option<CpuId>, cpu: CpuId, message: Message) {
        self.tell(|_| Event::Send { from, to: cpu, what: message.what() });
        self.post(cpu, self.now + self.costs.ipi_deliver, message);
    }

    /// Puts an interrupt under way; one that was sent before arrives before.
    fn post(&mut self, cpu: CpuId, at: u64, message: Message) {
        let pcpu = &mut self.cpus[cpu.index()];
        pcpu.asked_at.get_or_insert(self.now);
        let at = pcpu.inbox.back().map_or(at, |(last, _)| at.max(*last));
        if pcpu.inbox.is_empty() {
            self.timers.set(Timer::Inbox.slot(cpu), at);
        }
        pcpu.inbox.push_back((at, message));
    }

    /// What an observer is told of a message that has arrived.
    fn arrival(&self, cpu: CpuId, message: Message) -> Event {
        let heeded = match message {
            Message::Sched(Ipi::Gang { group, generation }) => {
                let meant = self.host.is_gang(group) && self.host.group_generation(group) == generation;
                meant && self.rqs[cpu.index()].nr_running_in(group) > 0
            }
            Message::Resched | Message::Sched(Ipi::Wakeup) => false,
        };
        let deferred = self.cpus[cpu.index()].activity == Activity::Host;
        Event::Receive { cpu, what: message.what(), deferred, heeded }
    }
}
