//! One vCPU's thread under the lab's scheduler.
//!
//! ```text
//!            ┌────────────── before_entry ──────────────┐
//!            ▼                                          │
//!      [has no CPU] ── granted: sched_in ──► [holds a CPU] ── nothing to do ──► Enter
//!            ▲                                  │    │
//!            └──── sched_out, hand_over ◄── picked another (schedule) or halted (halt)
//! ```

use std::io;

use hostsched::Effects;
use hostsched::topology::CpuId;
use trace::What;

use super::core::{Input, Output};
use super::corun::Change;
use super::lab::{Lab, next_of};
use super::pcpu::Pcpu;
use super::seat::{Slot, seat_of};
use super::token::pending;
use crate::clock::{monotonic_ns, own_cpu_ns};
use crate::kick::Tick;
use crate::sched::{Permit, SchedOut, VcpuIndex, VcpuThread};
use crate::sync::park;
use crate::tap;
use crate::tick::TickTimer;

/// The thread's half of the contract; lives on its stack.
#[derive(Debug)]
pub(super) struct LabThread<'a> {
    lab: &'a Lab,
    me: VcpuIndex,
    timer: TickTimer<'a>,
    /// What the timer is set to.
    armed_ns: u64,
    /// The CPU whose token it holds.
    slot: Option<Slot>,
    meter: Meter,
    fx: Effects,
    /// `sched_out` was called and `sched_in` not yet.
    out: bool,
    /// `Enter` was said and `after_exit` not yet called.
    entered: bool,
}

impl<'a> LabThread<'a> {
    pub(super) fn new(lab: &'a Lab, me: VcpuIndex) -> io::Result<Self> {
        let timer = TickTimer::new(&lab.cells[me.index()], Tick::Host)?;
        Ok(Self {
            lab,
            me,
            timer,
            armed_ns: 0,
            slot: None,
            meter: Meter::start(monotonic_ns()),
            fx: Effects::default(),
            out: false,
            entered: false,
        })
    }

    fn pcpu(&self, slot: Slot) -> &'a Pcpu {
        &self.lab.cpus[slot as usize]
    }

    /// Sets the timer to the CPU's next tick, or further ahead if the CPU has one runnable task.
    fn arm_tick(&mut self, slot: Slot) {
        let alone = || self.lab.core.host().nr_running(CpuId(slot)) <= 1;
        self.armed_ns = self.pcpu(slot).tick_deadline_ns(alone, self.lab.period_ns);
        self.timer.arm(self.armed_ns);
    }

    /// Parks until a CPU is granted or the run stops.
    fn wait_for_cpu(&mut self) {
        let lab = self.lab;
        let seat = &lab.seats[self.me.index()];
        let (slot, granted_at_ns) = loop {
            if lab.stopping() {
                return;
            }
            match seat.take_grant() {
                Some(grant) => break grant,
                None => park(),
            }
        };
        let now = monotonic_ns();
        self.slot = Some(slot);
        tap::acts_as(Some(slot));
        // Nobody is charged for the way from one thread to the other.
        let hand_over_ns = now.saturating_sub(granted_at_ns);
        lab.core.ask(Input::Steal(CpuId(slot), hostsched::Nanos(hand_over_ns)), &mut self.fx);
        self.meter = Meter::start(now);
        let pcpu = self.pcpu(slot);
        pcpu.count(|stats| {
            stats.runqueue_wait.saturating_record(now.saturating_sub(seat.runnable_since_ns()));
            stats.hand_over.saturating_record(hand_over_ns);
        });
        self.arm_tick(slot);
        lab.corun(self.me).note(Change::Runs, now);
        if lab.config.policy.is_gang() {
            lab.core.ask(Input::GuestMode(CpuId(slot)), &mut self.fx);
        }
        if self.out {
            self.out = false;
            lab.notifier.sched_in(self.me);
        }
    }

    /// Gives the CPU up to `next`. The task itself is already off, or back in the queue.
    fn give_up(&mut self, slot: Slot, why: SchedOut, next: Option<VcpuIndex>, picked_at_ns: u64) {
        let lab = self.lab;
        self.timer.disarm();
        let now = monotonic_ns();
        if why == SchedOut::Preempted {
            lab.seats[self.me.index()].waits_since(now);
            lab.corun(self.me).note(Change::Waits, now);
        }
        self.out = true;
        lab.notifier.sched_out(self.me, why);
        self.slot = None;
        lab.leave(slot, next, picked_at_ns, &mut self.fx);
    }

    /// Charges the task the CPU time of its thread since the last call: the rest of the time that passed was stolen.
    fn charge(&mut self, slot: Slot) {
        let steal_ns = self.meter.stolen(monotonic_ns());
        if steal_ns > 0 {
            self.lab.core.ask(Input::Steal(CpuId(slot), hostsched::Nanos(steal_ns)), &mut self.fx);
            self.pcpu(slot).count(|stats| stats.steal_ns += steal_ns);
        }
    }

    /// Does what waits for the CPU that this thread holds: its tick, its mail, its `schedule`.
    fn serve(&mut self, slot: Slot, now_ns: u64) {
        let lab = self.lab;
        let pcpu = self.pcpu(slot);
        let work = pcpu.token.take_work();
        if work & (pending::RESCHED | pending::IPI) != 0 {
            tap::record(What::HostIrq { all: true });
        }
        self.charge(slot);
        if now_ns >= pcpu.next_tick_ns() {
            pcpu.count(|stats| stats.ticks += 1);
            if now_ns >= self.armed_ns {
                // The timer was a kick like any other; a tick found due on the way through was none.
                pcpu.note_kick(self.armed_ns);
            }
            pcpu.advance_tick(now_ns, lab.period_ns);
            lab.core.ask(Input::Tick(CpuId(slot)), &mut self.fx);
            lab.tick_idle(slot, now_ns, &mut self.fx);
            self.arm_tick(slot);
        } else if work & pending::TIMER != 0 {
            self.arm_tick(slot);
        }
        if work & pending::IPI != 0 {
            while let Some(ipi) = pcpu.take_mail() {
                lab.receive(pcpu, ipi, &mut self.fx);
            }
        }
        lab.publish(&mut self.fx, Some(slot));
        pcpu.token.clear(pending::RESCHED);
        if !lab.core.need_resched(CpuId(slot)) {
            return;
        }
        let (output, now) = lab.core.ask(Input::Schedule(CpuId(slot)), &mut self.fx);
        lab.publish(&mut self.fx, Some(slot));
        self.go_on_with(slot, next_of(output), now);
    }

    /// The CPU goes on with the task that was picked, this thread's or another's.
    fn go_on_with(&mut self, slot: Slot, next: Option<VcpuIndex>, picked_at_ns: u64) {
        if next != Some(self.me) {
            self.give_up(slot, SchedOut::Preempted, next, picked_at_ns);
        }
    }
}

impl VcpuThread for LabThread<'_> {
    fn before_entry(&mut self) -> Permit {
        loop {
            if self.lab.stopping() {
                return Permit::Stop;
            }
            let Some(slot) = self.slot else {
                self.wait_for_cpu();
                continue;
            };
            let pcpu = self.pcpu(slot);
            let now = monotonic_ns();
            if pcpu.token.has_work() || now >= pcpu.next_tick_ns() {
                self.serve(slot, now);
                continue;
            }
            if let Some(kicked_at_ns) = pcpu.take_kick() {
                pcpu.count(|stats| stats.dispatch.saturating_record(now.saturating_sub(kicked_at_ns)));
            }
            pcpu.enter();
            self.entered = true;
            return Permit::Enter;
        }
    }

    fn after_exit(&mut self) {
        if let Some(slot) = self.slot
            && std::mem::take(&mut self.entered)
        {
            self.pcpu(slot).leave();
        }
    }

    fn halt(&mut self, woken: &dyn Fn() -> bool) {
        let (lab, me) = (self.lab, self.me);
        let Some(slot) = self.slot else { return };
        if woken() {
            return;
        }
        self.charge(slot);
        let Some(gate) = lab.seats[me.index()].begin_halt(&|| woken() || lab.stopping()) else { return };
        lab.corun(me).note(Change::Halts, monotonic_ns());
        let (output, now) = lab.core.ask(Input::Block(CpuId(slot)), &mut self.fx);
        gate.fall_asleep();
        self.pcpu(slot).count(|stats| stats.halts += 1);
        lab.publish(&mut self.fx, Some(slot));
        self.give_up(slot, SchedOut::Halted, next_of(output), now);
        self.wait_for_cpu();
    }

    fn spin(&mut self) {
        let Some(slot) = self.slot else { return };
        self.charge(slot);
        let (output, now) = self.lab.core.ask(Input::Spin(CpuId(slot)), &mut self.fx);
        tap::record_at(now, What::Spin { task: tap::task(self.me), yielded: matches!(output, Output::Next(_)) });
        self.lab.publish(&mut self.fx, Some(slot));
        if let Output::Next(next) = output {
            self.go_on_with(slot, next.map(seat_of), now);
        }
    }
}

impl Drop for LabThread<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.lab.fail(format!("the thread of vCPU {} panicked", self.me.0));
        }
        if self.lab.stopping() {
            return;
        }
        let Some(slot) = self.slot else {
            return self.lab.fail(format!("the thread of vCPU {} ended while it waited for a CPU", self.me.0));
        };
        self.charge(slot);
        self.timer.disarm();
        self.lab.corun(self.me).note(Change::Halts, monotonic_ns());
        let (output, now) = self.lab.core.ask(Input::Exit(CpuId(slot)), &mut self.fx);
        self.lab.publish(&mut self.fx, Some(slot));
        self.lab.leave(slot, next_of(output), now, &mut self.fx);
    }
}

/// Measures how much of the time that a thread holds a CPU it really runs.
#[derive(Debug)]
struct Meter {
    /// Wall clock and CPU clock of the thread when it took the CPU.
    wall_ns: u64,
    cpu_ns: u64,
    /// Stolen time that was told.
    told_ns: u64,
}

impl Meter {
    fn start(wall_ns: u64) -> Self {
        Self { wall_ns, cpu_ns: own_cpu_ns(), told_ns: 0 }
    }

    /// Time in which the calling thread did not run, since the last call. The two clocks are read one after the other,
    /// so the sum since the start may step back by some hundred ns: then nothing is told until it has caught up.
    fn stolen(&mut self, wall_ns: u64) -> u64 {
        let (wall, cpu) = (wall_ns.saturating_sub(self.wall_ns), own_cpu_ns().saturating_sub(self.cpu_ns));
        let fresh = wall.saturating_sub(cpu).saturating_sub(self.told_ns);
        self.told_ns += fresh;
        fresh
    }
}
