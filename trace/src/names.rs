//! Who the tasks are: thread name, thread id, and which vCPU of which VM.
use std::borrow::Cow;

use hostsched::{CpuId, TaskId};

use crate::event::Who;

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Thread name (`comm`), at most 15 bytes: `vcpu0.3` is vCPU 3 of VM 0, as the threads of the KVM engine are named.
    pub comm: String,
    /// Thread id: the host kernel's, or one that the simulator made up. Above 0.
    pub pid: u32,
    /// Its VM, and its number there; `None` for a thread of the host.
    pub vcpu: Option<(u32, u32)>,
}

impl Task {
    /// vCPU `number` of VM `vm`.
    #[must_use]
    pub fn vcpu(vm: u32, number: u32, pid: u32) -> Self {
        Self { comm: format!("vcpu{vm}.{number}"), pid, vcpu: Some((vm, number)) }
    }

    /// A kernel thread that belongs to a CPU.
    #[must_use]
    pub fn kernel_thread(name: &str, cpu: CpuId, pid: u32) -> Self {
        Self { comm: format!("{name}/{cpu}"), pid, vcpu: None }
    }

    /// VM and number of the vCPU whose thread is named so.
    #[must_use]
    pub fn vcpu_of_comm(comm: &str) -> Option<(u32, u32)> {
        let (vm, number) = comm.strip_prefix("vcpu")?.split_once('.')?;
        Some((vm.parse().ok()?, number.parse().ok()?))
    }
}

/// The tasks of a run by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    tasks: Vec<Task>,
}

impl Names {
    /// The tasks in the order of their ids, from 0.
    #[must_use]
    pub fn new(tasks: Vec<Task>) -> Self {
        Self { tasks }
    }

    /// All of them.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task of that id, if it is known.
    #[must_use]
    pub fn get(&self, task: TaskId) -> Option<&Task> {
        self.tasks.get(task.index())
    }

    /// Thread name and id of who has a CPU: `swapper/N` (0) when idle.
    #[must_use]
    pub fn thread(&self, who: Who, cpu: CpuId) -> (Cow<'_, str>, u32) {
        match who.as_task().map(|task| (task, self.get(task))) {
            Some((_, Some(task))) => (task.comm.as_str().into(), task.pid),
            // A task that nobody named is told by its number.
            Some((task, None)) => (format!("task{task}").into(), u32::MAX),
            None if who == Who::IDLE => (format!("swapper/{cpu}").into(), 0),
            None => (format!("migration/{cpu}").into(), self.stopper_pid(cpu)),
        }
    }

    /// The stoppers' ids follow those of the tasks.
    fn stopper_pid(&self, cpu: CpuId) -> u32 {
        self.tasks.iter().map(|task| task.pid).max().unwrap_or(0).saturating_add(1).saturating_add(cpu.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_name_tells_the_vcpu() {
        let task = Task::vcpu(255, 63, 1);
        assert!(task.comm.len() <= 15);
        assert_eq!(Task::vcpu_of_comm(&task.comm), Some((255, 63)));
        assert_eq!(Task::vcpu_of_comm("vcpu0"), None);
        assert_eq!(Task::vcpu_of_comm("vcpux.1"), None);
    }

    #[test]
    fn every_thread_has_a_name_and_an_id_of_its_own() {
        let names = Names::new(vec![Task::vcpu(0, 0, 7), Task::kernel_thread("noise", CpuId(0), 8)]);
        let of = |who| names.thread(who, CpuId(1));
        assert_eq!(of(Who::IDLE), ("swapper/1".into(), 0));
        assert_eq!(of(Who::task(TaskId(1))), ("noise/0".into(), 8));
        assert_eq!(of(Who::STOPPER), ("migration/1".into(), 10));
        assert_eq!(of(Who::task(TaskId(9))).0, "task9");
    }
}
