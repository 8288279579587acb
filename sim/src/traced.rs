//! From what observers are told to a [`trace::Trace`], the form that both engines share.
//!
//! Three things are derived. Why a vCPU left guest mode follows from what comes next: a halt, a pause loop, else an
//! interrupt. A migration is seen where the vCPU next runs. A kick has ended a halt when the vCPU is next in its guest.
//! And what is no event of the simulator is none here: an interrupt that changes nothing for a vCPU in guest mode makes
//! its activity longer in place, so there is no exit for it.
use std::sync::{Arc, Mutex, PoisonError};

use hostsched::{CpuId, TaskId};
use plan::RunPlan;
use trace::{Buffer, ExitReason, Limits, Names, PrevState, Recorder, Task, Trace, What, Who as Runner};

use crate::observe::{Event, Interrupt, Sink, VcpuName, Watch, Who};

/// Records runs; the latest one can be taken.
#[derive(Debug)]
pub(crate) struct Tracer {
    limits: Limits,
    trace: Arc<Mutex<Option<Trace>>>,
}

impl Tracer {
    /// Keeps that many events of each run.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, trace: Arc::default() }
    }

    /// The trace of the run that ended last.
    pub(crate) fn take(&self) -> Option<Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Watch for Tracer {
    fn begin(&self, plan: &RunPlan) -> Option<Box<dyn Sink>> {
        let cpus: Vec<CpuId> = plan.pcpus.as_slice().iter().map(|cpu| CpuId(*cpu)).collect();
        let vcpus = plan.vms as usize * plan.vcpus as usize + plan.neighbour.count() as usize;
        Some(Box::new(Recording {
            recorder: Recorder::new(self.limits.events_max),
            from_ns: plan.warmup_ns,
            vcpus_per_vm: plan.vcpus,
            vcpus: vec![Vcpu { cpu: cpus[0], halts: false, kicked: false }; vcpus],
            exit: None,
            cpus,
            trace: Arc::clone(&self.trace),
        }))
    }
}

/// What is known of a vCPU.
#[derive(Debug, Clone)]
struct Vcpu {
    /// The CPU that it has or had last.
    cpu: CpuId,
    /// It leaves its CPU because it halts.
    halts: bool,
    /// A kick is on its way.
    kicked: bool,
}

/// The trace of the run under way.
#[derive(Debug)]
struct Recording {
    recorder: Recorder,
    /// The measured time begins.
    from_ns: u64,
    vcpus_per_vm: u32,
    vcpus: Vec<Vcpu>,
    cpus: Vec<CpuId>,
    /// An exit whose reason is not known yet.
    exit: Option<(u64, CpuId, VcpuName)>,
    trace: Arc<Mutex<Option<Trace>>>,
}

impl Recording {
    fn task(&self, name: VcpuName) -> TaskId {
        TaskId(name.vm * self.vcpus_per_vm + name.vcpu)
    }

    /// The kernel threads follow the vCPUs, in the order of the CPUs.
    fn daemon(&self, cpu: CpuId) -> TaskId {
        let slot = self.cpus.binary_search(&cpu).unwrap_or(0);
        TaskId::from_index(self.vcpus.len() + slot)
    }

    fn runner(&self, cpu: CpuId, who: Who) -> Runner {
        match who {
            Who::Idle => Runner::IDLE,
            Who::Daemon => Runner::task(self.daemon(cpu)),
            Who::Vcpu(name) => Runner::task(self.task(name)),
        }
    }

    fn vcpu(&mut self, name: VcpuName) -> &mut Vcpu {
        let index = self.task(name).index();
        &mut self.vcpus[index]
    }

    fn record(&mut self, now_ns: u64, cpu: CpuId, what: What) {
        if now_ns >= self.from_ns {
            self.recorder.record(now_ns, cpu, what);
        }
    }

    /// On the CPU that the vCPU has or had last.
    fn record_of(&mut self, now_ns: u64, name: VcpuName, what: What) {
        let cpu = self.vcpu(name).cpu;
        self.record(now_ns, cpu, what);
    }

    /// The exit that came before this event, with its reason.
    fn explain_exit(&mut self, next: Event) {
        let Some((left_ns, cpu, vcpu)) = self.exit.take() else { return };
        let reason = match next {
            Event::Halt { vcpu: halts, .. } if halts == vcpu => ExitReason::Hlt,
            Event::PauseExit { vcpu: spins, .. } if spins == vcpu => ExitReason::PauseInstruction,
            _ => ExitReason::ExternalInterrupt,
        };
        let task = self.task(vcpu);
        self.record(left_ns, cpu, What::Exit { task, reason });
    }

    fn pick(&mut self, now_ns: u64, cpu: CpuId, prev: Who, next: Who) {
        if prev == next {
            return;
        }
        let state = match prev {
            Who::Vcpu(name) if std::mem::take(&mut self.vcpu(name).halts) => PrevState::Sleeping,
            // A kernel thread hardly ever loses its CPU in the middle of its short work.
            Who::Daemon => PrevState::Sleeping,
            Who::Vcpu(_) | Who::Idle => PrevState::Runnable,
        };
        if let Who::Vcpu(name) = next {
            let task = self.task(name);
            let from = std::mem::replace(&mut self.vcpu(name).cpu, cpu);
            if from != cpu {
                self.record(now_ns, cpu, What::Migrate { task, from });
            }
        }
        let (prev, next) = (self.runner(cpu, prev), self.runner(cpu, next));
        self.record(now_ns, cpu, What::Switch { prev, state, next });
    }

    fn flush_begins(&mut self, now_ns: u64, vcpu: VcpuName, outstanding: u64) {
        let task = self.task(vcpu);
        let targets = u16::try_from(outstanding.count_ones()).ok();
        self.record_of(now_ns, vcpu, What::FlushBegin { task, targets });
        for number in (0..u64::BITS).filter(|bit| outstanding >> bit & 1 == 1) {
            let to = self.task(VcpuName { vcpu: number, ..vcpu });
            self.record_of(now_ns, vcpu, What::GuestIpi { from: task, to });
        }
    }

    fn names(&self) -> Names {
        let pid = |task: TaskId| task.0 + 1;
        let vcpus = (0..self.vcpus.len()).map(TaskId::from_index);
        let vcpus = vcpus.map(|task| Task::vcpu(task.0 / self.vcpus_per_vm, task.0 % self.vcpus_per_vm, pid(task)));
        let daemons = self.cpus.iter().map(|cpu| Task::kernel_thread("noise", *cpu, pid(self.daemon(*cpu))));
        Names::new(vcpus.chain(daemons).collect())
    }
}

impl Sink for Recording {
    fn event(&mut self, now_ns: u64, event: Event) {
        self.explain_exit(event);
        match event {
            Event::Pick { cpu, prev, next } => self.pick(now_ns, cpu, prev, next),
            Event::Enter { cpu, vcpu } => {
                let task = self.task(vcpu);
                if std::mem::take(&mut self.vcpu(vcpu).kicked) {
                    self.record(now_ns, cpu, What::HaltOver { task });
                }
                self.record(now_ns, cpu, What::Entry { task });
            }
            Event::Exit { cpu, vcpu } => self.exit = Some((now_ns, cpu, vcpu)),
            Event::Halt { cpu, vcpu } => {
                self.vcpu(vcpu).halts = true;
                let task = self.task(vcpu);
                self.record(now_ns, cpu, What::Halt { task });
            }
            Event::Wake { vcpu, by, on } => {
                let (task, target) = (self.task(vcpu), self.vcpu(vcpu).cpu);
                self.record(now_ns, by, What::Waking { task, target });
                self.record(now_ns, on, What::Wakeup { task });
            }
            Event::Send { from, to, what } => {
                let what = match what {
                    Interrupt::Resched | Interrupt::Wakeup => What::Resched { to },
                    Interrupt::Gang { vm } => What::Gang { to, vm },
                };
                self.record(now_ns, from.unwrap_or(to), what);
            }
            Event::Receive { cpu, .. } => self.record(now_ns, cpu, What::HostIrq { all: false }),
            Event::Noise { cpu } => {
                let task = self.daemon(cpu);
                self.record(now_ns, cpu, What::Waking { task, target: cpu });
                self.record(now_ns, cpu, What::Wakeup { task });
            }
            Event::FlushBegin { vcpu, outstanding } => self.flush_begins(now_ns, vcpu, outstanding),
            Event::FlushAck { by, .. } => {
                let task = self.task(by);
                self.record_of(now_ns, by, What::GuestIrq { task });
            }
            Event::FlushEnd { vcpu, .. } => {
                let task = self.task(vcpu);
                self.record_of(now_ns, vcpu, What::FlushEnd { task });
            }
            Event::Kick { by, to } => {
                self.vcpu(to).kicked = true;
                let (from, to) = (self.task(by), self.task(to));
                self.record_of(now_ns, by, What::Kick { from, to });
            }
            Event::PauseExit { cpu, vcpu, yielded } => {
                let task = self.task(vcpu);
                self.record(now_ns, cpu, What::Spin { task, yielded });
            }
            // A killed vCPU leaves its CPU for good.
            Event::Killed { vcpu } => self.vcpu(vcpu).halts = true,
            Event::Mark { .. }
            | Event::Start { .. }
            | Event::Offline { .. }
            | Event::Online { .. }
            | Event::GroupRemoved { .. } => {}
        }
    }

    fn end(&mut self, _now_ns: u64) {
        let buffer: Buffer = std::mem::take(&mut self.recorder).into_buffer();
        let trace = Trace::new([buffer], self.names(), self.cpus.clone());
        *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace);
    }
}
