//! What all threads of a run share: the CPUs, the seats, and how decisions of `hostsched` reach them.

use std::io;

use hostsched::topology::CpuId;
use hostsched::{Effects, Ipi, TaskId, Violation, Waker};
use trace::What;

use super::core::{Core, Input, Output};
use super::corun::{Change, Corun};
use super::pcpu::Pcpu;
use super::seat::{Seat, Slot, bind, seat_of};
use super::setup::{LabConfig, LabError, Prepared, group_of};
use super::thread::LabThread;
use super::token::{Holder, pending};
use crate::clock::monotonic_ns;
use crate::kick::{Bound, KickCell, Reason};
use crate::sched::{PreemptNotifier, VcpuIndex, VcpuSched, VcpuThread};
use crate::sync::{Arc, AtomicBool, AtomicU32, OnceLock, Ordering};
use crate::tap;

/// The lab's scheduler; see [`dispatch`](crate::dispatch).
#[derive(Debug)]
pub struct Lab {
    pub(super) core: Core,
    pub(super) cpus: Box<[Pcpu]>,
    pub(super) seats: Box<[Seat]>,
    pub(super) coruns: Box<[Corun]>,
    pub(super) cells: Arc<[KickCell]>,
    pub(super) notifier: Arc<dyn PreemptNotifier>,
    pub(super) config: LabConfig,
    /// Length of a tick.
    pub(super) period_ns: u64,
    /// Threads that took their seats; the last one starts the run.
    seated: AtomicU32,
    stopping: AtomicBool,
    failure: OnceLock<String>,
}

impl Lab {
    /// A lab for as many vCPUs as there are kick cells, which must be those of the configuration.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(
        config: LabConfig,
        cells: Arc<[KickCell]>,
        notifier: Arc<dyn PreemptNotifier>,
    ) -> Result<Self, LabError> {
        let Prepared { host, queues, period_ns } = config.prepare(monotonic_ns())?;
        let slots = 0..;
        Ok(Self {
            core: Core::new(host, queues, config.record),
            cpus: slots.zip(config.cpus.as_slice()).map(|(slot, number)| Pcpu::new(slot, *number)).collect(),
            seats: cells.iter().map(|_| Seat::new()).collect(),
            coruns: (0..config.groups()).map(|_| Corun::default()).collect(),
            cells,
            notifier,
            config,
            period_ns,
            seated: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            failure: OnceLock::new(),
        })
    }

    /// Why the run ended by itself: the first thread that failed, in one sentence.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Reads the gang flags of the VMs' cgroups again, so that `vmmlab gang set` acts on a run that is under way.
    pub fn refresh_gangs(&self) {
        let Some(cgroup) = self.config.cgroup.as_deref() else { return };
        for vm in 0..self.config.groups() {
            let group = group_of(vm);
            // A flag that cannot be read is left as it is.
            if let Ok(gang) = cgroup.gang(vm as usize)
                && gang != self.core.host().is_gang(group)
            {
                self.core.ask(Input::SetGang(group, gang), &mut Effects::default());
            }
        }
    }

    /// Checks what must hold of the run queues when all threads have ended: every task in one place, and on each CPU
    /// runtime + idle + stolen time = elapsed time, to the nanosecond.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        self.core.check()
    }

    /// Ends the run because of a fault.
    pub(super) fn fail(&self, why: String) {
        let _ = self.failure.set(why);
        self.stop();
    }

    pub(super) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The CPU that a vCPU holds now, asked on its own thread.
    fn slot_of(&self, vcpu: VcpuIndex) -> Option<Slot> {
        let cpu = self.core.host().task_cpu(TaskId(vcpu.0))?;
        (self.cpus[cpu.index()].token.holder() == Holder::Vcpu(vcpu)).then_some(cpu.0)
    }

    /// The co-run clock of a vCPU's VM.
    pub(super) fn corun(&self, vcpu: VcpuIndex) -> &Corun {
        &self.coruns[(vcpu.0 / self.config.vcpus) as usize]
    }

    /// The last thread took its seat: all vCPUs become runnable at once, in order, and the CPUs start.
    fn start(&self) {
        let mut fx = Effects::default();
        let specs = match self.config.tasks(&self.seats) {
            Ok(specs) => specs,
            Err(error) => return self.fail(error.to_string()),
        };
        for (vcpu, spec) in specs {
            let now = monotonic_ns();
            self.seats[vcpu.index()].waits_since(now);
            self.corun(vcpu).note(Change::Wakes, now);
            let (output, _) = self.core.ask(Input::TaskAdd(spec), &mut fx);
            if output != Output::Added(Some(TaskId(vcpu.0))) {
                return self.fail(format!("the scheduler did not take vCPU {} in: {output:?}", vcpu.0));
            }
        }
        self.publish(&mut fx, None);
    }

    /// Carries effects to the CPUs that they are for, until none are left. `own`: the CPU whose token the calling
    /// thread holds; that one it serves itself, afterwards.
    pub(super) fn publish(&self, fx: &mut Effects, own: Option<Slot>) {
        let mut idle: Vec<Slot> = Vec::new();
        loop {
            for (cpu, ipi) in fx.ipis.drain(..) {
                tap::sends(cpu, ipi);
                self.cpus[cpu.index()].put(ipi);
                if self.post(cpu.0, pending::IPI, Reason::SchedIpi, own) {
                    idle.push(cpu.0);
                }
            }
            for cpu in fx.resched.drain(..) {
                if own != Some(cpu.0) {
                    tap::record(What::Resched { to: cpu });
                }
                if self.post(cpu.0, pending::RESCHED, Reason::Resched, own) {
                    idle.push(cpu.0);
                }
            }
            let Some(slot) = idle.pop() else { return };
            if self.cpus[slot as usize].token.claim() && self.act_for(slot, fx) {
                idle.push(slot);
            }
        }
    }

    /// Leaves work for a CPU and kicks the thread that runs there; true if the CPU is idle and the caller has to act.
    fn post(&self, slot: Slot, work: u32, reason: Reason, own: Option<Slot>) -> bool {
        let pcpu = &self.cpus[slot as usize];
        match pcpu.token.post(work) {
            Holder::Vcpu(_) if own == Some(slot) => false,
            Holder::Vcpu(vcpu) => {
                pcpu.note_kick(monotonic_ns());
                self.cells[vcpu.index()].post(reason);
                false
            }
            // The claimer looks again before it lets the CPU go.
            Holder::Claimer => false,
            Holder::Nobody => {
                pcpu.note_kick(monotonic_ns());
                true
            }
        }
    }

    /// Acts in place of an idle CPU, whose token the caller has claimed; true if it must be claimed again.
    fn act_for(&self, slot: Slot, fx: &mut Effects) -> bool {
        let pcpu = &self.cpus[slot as usize];
        let cpu = CpuId(slot);
        if pcpu.token.take_work() & (pending::RESCHED | pending::IPI) != 0 {
            tap::record_on(slot, What::HostIrq { all: true });
        }
        while let Some(ipi) = pcpu.take_mail() {
            self.receive(pcpu, ipi, fx);
        }
        if !self.core.need_resched(cpu) {
            // Nobody enters because of the kick that led here.
            pcpu.take_kick();
            return pcpu.token.release();
        }
        let (output, now) = self.core.ask(Input::Schedule(cpu), fx);
        // The ticks that an idle CPU slept through are left out.
        if pcpu.next_tick_ns() <= now {
            pcpu.advance_tick(now, self.period_ns);
        }
        self.hand_over(slot, next_of(output), now)
    }

    /// Delivers an IPI at a CPU, as that CPU.
    pub(super) fn receive(&self, pcpu: &Pcpu, ipi: Ipi, fx: &mut Effects) {
        self.core.ask(Input::IpiReceived(CpuId(pcpu.slot), ipi), fx);
    }

    /// The holder (or claimer) of a CPU's token gives it to the task that was picked, or leaves the CPU idle. True if
    /// the CPU is idle and work has come in the meantime: then the caller must act for it once more.
    #[must_use]
    pub(super) fn hand_over(&self, slot: Slot, next: Option<VcpuIndex>, now_ns: u64) -> bool {
        let pcpu = &self.cpus[slot as usize];
        pcpu.end_stretch();
        let Some(next) = next else { return pcpu.token.release() };
        let seat = &self.seats[next.index()];
        let moves = seat.moves_to(slot);
        // A thread that has ended because the run stops needs no CPU.
        if moves
            && let Err(error) = bind(seat.tid(), pcpu.number)
            && !self.stopping()
        {
            self.fail(format!("cannot bind the thread of vCPU {} to CPU {}: {error}", next.0, pcpu.number));
        }
        let moved_ns = if moves { monotonic_ns().saturating_sub(now_ns) } else { 0 };
        pcpu.count(|stats| {
            stats.switches += 1;
            stats.migrations += u64::from(moves);
            stats.migration_ns += moved_ns;
        });
        pcpu.token.give(next);
        seat.grant(slot, now_ns);
        false
    }

    /// Leaves a CPU: hands it over and serves what came for it meanwhile.
    pub(super) fn leave(&self, slot: Slot, next: Option<VcpuIndex>, now_ns: u64, fx: &mut Effects) {
        if self.hand_over(slot, next, now_ns) && self.cpus[slot as usize].token.claim() {
            let mut again = self.act_for(slot, fx);
            while again && self.cpus[slot as usize].token.claim() {
                again = self.act_for(slot, fx);
            }
        }
        self.publish(fx, None);
    }

    /// Gives idle CPUs their tick: a CPU without a thread cannot balance for itself, so a busy one that ticks and has
    /// more than it runs does it (the kernel's `nohz_balancer_kick` and `nohz_idle_balance`).
    pub(super) fn tick_idle(&self, busy: Slot, now_ns: u64, fx: &mut Effects) {
        if self.core.host().nr_running(CpuId(busy)) < 2 {
            return;
        }
        for pcpu in self.cpus.iter().filter(|p| p.slot != busy && p.token.holder() == Holder::Nobody) {
            if pcpu.next_tick_ns() <= now_ns && pcpu.token.claim() {
                pcpu.advance_tick(now_ns, self.period_ns);
                self.core.ask(Input::Tick(CpuId(pcpu.slot)), fx);
                if self.act_for(pcpu.slot, fx) {
                    // Work that came while the token was claimed is as good as a new wish to schedule there.
                    fx.resched.push(CpuId(pcpu.slot));
                }
            }
        }
    }
}

/// The task that `schedule` picked.
pub(super) fn next_of(output: Output) -> Option<VcpuIndex> {
    match output {
        Output::Next(next) => next.map(seat_of),
        Output::Done | Output::Added(_) | Output::Woken(_) => None,
    }
}

impl VcpuSched for Lab {
    fn attach<'a>(&'a self, me: VcpuIndex, _bound: &'a Bound<'a>) -> io::Result<Box<dyn VcpuThread + 'a>> {
        if !self.seats[me.index()].sit() {
            return Err(io::Error::other(format!("vCPU {} has a thread already", me.0)));
        }
        if let Some(cgroup) = &self.config.cgroup {
            cgroup.join((me.0 / self.config.vcpus) as usize)?;
        }
        let thread = LabThread::new(self, me)?;
        if self.seated.fetch_add(1, Ordering::AcqRel) + 1 == self.config.tasks_all() {
            self.start();
        }
        Ok(Box::new(thread))
    }

    fn wake(&self, target: VcpuIndex, from: Option<VcpuIndex>) {
        let seat = &self.seats[target.index()];
        let Some(gate) = seat.begin_wake() else { return };
        let mut fx = Effects::default();
        let own = from.and_then(|v| self.slot_of(v));
        let now = monotonic_ns();
        seat.waits_since(now);
        self.corun(target).note(Change::Wakes, now);
        // A waker that is no vCPU stands for an interrupt, which comes where the target last ran.
        let task = TaskId(target.0);
        let cpu = own.map(CpuId).or_else(|| self.core.host().task_cpu(task)).unwrap_or_default();
        tap::record(What::Waking { task, target: self.core.host().task_cpu(task).unwrap_or(cpu) });
        let (output, _) = self.core.ask(Input::Wake(task, Waker::on(cpu)), &mut fx);
        gate.awake();
        self.publish(&mut fx, own);
        if let Output::Woken(Some(cpu)) = output
            && self.cpus[cpu.index()].tick_is_too_late()
        {
            // Published effects have already dealt with an idle CPU: this one runs something and goes on with it.
            let _ = self.post(cpu.0, pending::TIMER, Reason::Resched, own);
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for (seat, cell) in self.seats.iter().zip(self.cells.iter()) {
            cell.post(Reason::Stop);
            seat.wake_thread();
        }
    }
}
