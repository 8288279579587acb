//! The tracks and the names of a trace, and what is known before its first event.
use std::collections::BTreeMap;

use hostsched::{CpuId, TaskId};

use crate::event::{ExitReason, What, Who};
use crate::perfetto::{CounterDescriptor, Ordering, TrackDescriptor, UNIT_COUNT};
use crate::whole::Trace;

/// Numbers of tracks: the kind in the upper half, an index in the lower.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Track {
    Cpus,
    Cpu(u32),
    Gang(u32),
    Vm(u32),
    VmRunning(u32),
    Vcpu(u32),
    Flushes(u32),
    Runnable,
    Running,
}

impl Track {
    pub(super) fn uuid(self) -> u64 {
        let (kind, index) = match self {
            Self::Cpus => (1, 0),
            Self::Cpu(cpu) => (2, cpu),
            Self::Gang(cpu) => (3, cpu),
            Self::Vm(vm) => (4, vm),
            Self::VmRunning(vm) => (5, vm),
            Self::Vcpu(task) => (6, task),
            Self::Flushes(task) => (7, task),
            Self::Runnable => (8, 0),
            Self::Running => (9, 0),
        };
        kind << 32 | u64::from(index)
    }
}

/// Names of slices and instants, sent once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Guest,
    Flush,
    Ipi,
    FlushIrq,
    Kick,
    HaltOver,
    Halt,
    Spin,
    SpinYields,
    Resched,
    GangRequest,
    Irq,
    Woken,
    Moved,
    Exit(ExitReason),
    Stopper,
    OnCpu(u32),
    Vm(u32),
    Task(u32),
}

impl Name {
    /// What is shown.
    pub(super) fn text(self, trace: &Trace) -> String {
        match self {
            Self::Guest => "guest".into(),
            Self::Flush => "flush".into(),
            Self::Ipi => "send IPI".into(),
            Self::FlushIrq => "flush interrupt".into(),
            Self::Kick => "kick".into(),
            Self::HaltOver => "halt over".into(),
            Self::Halt => "halt".into(),
            Self::Spin => "spins too long".into(),
            Self::SpinYields => "spins too long, yields".into(),
            Self::Resched => "resched".into(),
            Self::GangRequest => "gang request".into(),
            Self::Irq => "interrupt".into(),
            Self::Woken => "woken".into(),
            Self::Moved => "moved".into(),
            Self::Exit(reason) => format!("exit {}", reason.name()),
            Self::Stopper => "migration".into(),
            Self::OnCpu(cpu) => format!("on CPU {cpu}"),
            Self::Vm(vm) => format!("gang vm{vm}"),
            Self::Task(task) => trace.names.thread(Who::task(TaskId(task)), CpuId(0)).0.into_owned(),
        }
    }
}

/// Every name that this trace can need, numbered from 1.
pub(super) fn names(trace: &Trace) -> BTreeMap<Name, u64> {
    use ExitReason as R;
    let exits = [
        R::ExternalInterrupt,
        R::InterruptWindow,
        R::Hlt,
        R::PauseInstruction,
        R::Vmcall,
        R::MsrWrite,
        R::IoInstruction,
        R::Other,
    ];
    let fixed = [
        Name::Guest,
        Name::Flush,
        Name::Ipi,
        Name::FlushIrq,
        Name::Kick,
        Name::HaltOver,
        Name::Halt,
        Name::Spin,
        Name::SpinYields,
        Name::Resched,
        Name::GangRequest,
        Name::Irq,
        Name::Woken,
        Name::Moved,
        Name::Stopper,
    ];
    let tasks = (0..).take(trace.names.tasks().len()).map(Name::Task);
    let vms = trace.names.tasks().iter().filter_map(|task| task.vcpu).map(|(vm, _)| Name::Vm(vm));
    let cpus = trace.cpus.iter().map(|cpu| Name::OnCpu(cpu.0));
    let mut all: Vec<Name> =
        fixed.into_iter().chain(exits.map(Name::Exit)).chain(tasks).chain(vms).chain(cpus).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().zip(1..).collect()
}

/// The tracks, parents before children.
pub(super) fn tracks(trace: &Trace) -> Vec<TrackDescriptor> {
    let named = |track: Track, name: String, parent: Option<Track>, rank: i32| TrackDescriptor {
        uuid: Some(track.uuid()),
        name: Some(name),
        parent_uuid: parent.map(Track::uuid),
        sibling_order_rank: Some(rank),
        child_ordering: Some(Ordering::Explicit.into()),
        ..TrackDescriptor::default()
    };
    let counter = |track, name: &str, parent, rank| TrackDescriptor {
        counter: Some(CounterDescriptor { unit: Some(UNIT_COUNT) }),
        child_ordering: None,
        ..named(track, name.into(), parent, rank)
    };
    let mut all = vec![named(Track::Cpus, "CPUs".into(), None, 0)];
    for (rank, cpu) in (0..).step_by(2).zip(&trace.cpus) {
        all.push(named(Track::Cpu(cpu.0), format!("CPU {cpu}"), Some(Track::Cpus), rank));
        all.push(named(Track::Gang(cpu.0), format!("CPU {cpu} gang"), Some(Track::Cpus), rank + 1));
    }
    let mut last_vm = None;
    for (id, task) in (0u32..).zip(trace.names.tasks()) {
        let Some((vm, number)) = task.vcpu else { continue };
        let rank = |number: u32| i32::try_from(number).unwrap_or(i32::MAX - 1) + 1;
        if last_vm.replace(vm) != Some(vm) {
            all.push(named(Track::Vm(vm), format!("vm{vm}"), None, rank(vm)));
            all.push(counter(Track::VmRunning(vm), "running vCPUs", Some(Track::Vm(vm)), 0));
        }
        all.push(named(Track::Vcpu(id), task.comm.clone(), Some(Track::Vm(vm)), rank(number)));
        all.push(named(Track::Flushes(id), "flushes".into(), Some(Track::Vcpu(id)), 0));
    }
    all.push(counter(Track::Runnable, "runnable vCPUs", None, i32::MAX - 1));
    all.push(counter(Track::Running, "running threads", None, i32::MAX));
    all
}

/// Which tasks can run before the first event: what first happens to each tells. One that nothing happens to cannot.
pub(super) fn runnable_at_start(trace: &Trace) -> Vec<bool> {
    let mut known: Vec<Option<bool>> = vec![None; trace.names.tasks().len()];
    let mut learn = |task: Option<TaskId>, runnable: bool| {
        if let Some(slot) = task.and_then(|task| known.get_mut(task.index())) {
            slot.get_or_insert(runnable);
        }
    };
    for event in &trace.events {
        match event.what {
            What::Switch { prev, next, .. } => {
                learn(prev.as_task(), true);
                learn(next.as_task(), true);
            }
            What::Wakeup { task } => learn(Some(task), false),
            What::Entry { task } | What::Exit { task, .. } => learn(Some(task), true),
            _ => {}
        }
    }
    known.into_iter().map(|runnable| runnable.unwrap_or(false)).collect()
}
