//! Directed yield on a pause-loop exit: `kvm_vcpu_on_spin` of Linux 3.2.
//!
//! Problem: a vCPU spins for something that a preempted sibling holds. Approach: the hardware (or the guest) tells after
//! `ple_window` cycles of spinning, and the host lends the spinner's turn to a sibling that waits for a CPU, in the hope
//! that it is the right one. Nobody knows which, so they take turns:
//!
//! ```text
//!   ring of the VM's vCPUs    0   1   2   3   4   5      spinner 4, boosted last 2
//!   first pass                            3   -   5      skipped: the spinner, those that block, those that run
//!   second pass               0   1   2                  the first that `yield_to` accepts is boosted last
//! ```
//! (If vCPU 0 was boosted last, the first pass starts *at* it, as in the kernel.) `yield_to` marks the spinner `skip` on
//! its queue and the receiver `next` on its own, and both CPUs reschedule; either hint may be refused there.
//!
//! Later kernels changed who receives; each change is a switch of [`PleSwitches`], off by default. The `ready` flag of 5.3
//! (preempted *or* woken and not yet running) is no switch: a vCPU that is queued and does not run is just that.
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{HookCx, Hooks, Policy, SpinWalk, YieldTo, counter};
use crate::host::Host;
use crate::ids::{Nanos, TaskId};
use crate::topology::CpuId;

/// What kernels after 3.2 do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PleSwitches {
    /// A vCPU that spun itself receives only every second time (`dy_eligible` and `cpu_relax_intercepted`, 3.7).
    pub dy_eligible: bool,
    /// Only vCPUs that lost their CPU receive, not those that were woken and wait (`vcpu->preempted`, 3.10 to 5.2).
    pub preempted_only: bool,
    /// A spinner in its guest's kernel lends only to those that were preempted there too (`yield_to_kernel_mode`, 4.13).
    /// The engine tells by [`Host::guest_ring`]; a vCPU of which nothing is told counts as in its kernel.
    pub in_kernel: bool,
    /// The receiver is picked whatever its vruntime, so CFS cannot refuse the boost (the aim of the strict boost that
    /// Ishiguro et al. proposed at VEE 2021; theirs shifts the vruntimes of the two).
    pub strict_boost: bool,
}

/// What is known of a task.
mod flag {
    /// Queued or running: does not block.
    pub(super) const QUEUED: u8 = 1;
    /// Lost its CPU while it wanted to run on.
    pub(super) const PREEMPTED: u8 = 1 << 1;
    /// Spun, and has not run since.
    pub(super) const IN_SPIN_LOOP: u8 = 1 << 2;
    /// May receive although it spun.
    pub(super) const DY_ELIGIBLE: u8 = 1 << 3;
    /// Was last seen in user mode.
    pub(super) const IN_USER: u8 = 1 << 4;
}

/// Directed yield.
#[derive(Debug)]
pub struct Ple {
    switches: PleSwitches,
    /// Task, +1, that was boosted last, by VM (`kvm->last_boosted_vcpu`).
    last_boosted: Vec<AtomicU32>,
    flags: Vec<AtomicU8>,
    /// Task, +1, that ran last on each CPU.
    ran: Vec<AtomicU32>,
    spins: AtomicU64,
    calls: AtomicU64,
    yields: AtomicU64,
}

impl Ple {
    /// Directed yield on that host. Add it before the first task.
    #[must_use]
    pub fn new(host: &Host, switches: PleSwitches) -> Self {
        let tasks = host.limits().tasks as usize;
        Self {
            switches,
            last_boosted: (0..tasks).map(|_| AtomicU32::new(0)).collect(),
            flags: (0..tasks).map(|_| AtomicU8::new(0)).collect(),
            ran: (0..host.machine().cpu_slots()).map(|_| AtomicU32::new(0)).collect(),
            spins: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            yields: AtomicU64::new(0),
        }
    }

    fn is(&self, task: TaskId, flag: u8) -> bool {
        self.flags[task.index()].load(Relaxed) & flag != 0
    }

    fn set(&self, task: TaskId, flag: u8, on: bool) {
        let flags = &self.flags[task.index()];
        if on {
            flags.fetch_or(flag, Relaxed);
        } else {
            flags.fetch_and(!flag, Relaxed);
        }
    }

    /// The vCPU after the last one looked at, in the order of the two passes; `None` at their end.
    fn next(&self, host: &Host, spinner: TaskId, walk: &mut SpinWalk) -> Option<TaskId> {
        let vm = host.task_vm(spinner)?;
        let head = host.first_of_vm(vm)?;
        let boosted = self.last_boosted[vm.index()].load(Relaxed).checked_sub(1).map(TaskId);
        // A vCPU that is gone, or whose number another VM's has now, is nowhere in this ring.
        let boosted = boosted.filter(|t| host.task_vm(*t) == Some(vm)).unwrap_or(head);
        let at = match walk.at {
            None if boosted == head => head,
            None => host.next_of_vm(boosted),
            Some(at) => host.next_of_vm(at),
        };
        let wrapped = at == head && (walk.at.is_some() || boosted != head);
        let over = walk.pass == 1 && (walk.at == Some(boosted) || wrapped);
        if over {
            return None;
        }
        walk.pass += u32::from(wrapped);
        walk.at = Some(at);
        Some(at)
    }

    /// May `task` receive from `spinner`?
    fn receives(&self, host: &Host, spinner: TaskId, task: TaskId) -> bool {
        let on = self.switches;
        if task == spinner || !self.is(task, flag::QUEUED) {
            return false;
        }
        if on.preempted_only && !self.is(task, flag::PREEMPTED) {
            return false;
        }
        if on.in_kernel && !self.is(spinner, flag::IN_USER) && self.is(task, flag::IN_USER) {
            return false;
        }
        if on.dy_eligible && self.is(task, flag::IN_SPIN_LOOP) {
            let eligible = self.is(task, flag::DY_ELIGIBLE);
            self.set(task, flag::DY_ELIGIBLE, !eligible);
            if !eligible {
                return false;
            }
        }
        // PF_VCPU: it runs.
        host.task_cpu(task).is_some_and(|cpu| host.current(cpu) != Some(task))
    }
}

impl Policy for Ple {
    fn name(&self) -> &'static str {
        "ple"
    }

    fn hooks(&self) -> Hooks {
        let on = self.switches;
        let mut hooks = Hooks::SPIN_DETECTED.union(Hooks::QUEUED);
        if on.preempted_only || on.dy_eligible {
            hooks = hooks.union(Hooks::AFTER_PICK);
        }
        if on.in_kernel { hooks.union(Hooks::GUEST_RING) } else { hooks }
    }

    fn after_pick(&self, cx: &mut HookCx<'_>, picked: Option<TaskId>) {
        let now = picked.map_or(0, |t| t.0 + 1);
        let before = self.ran[cx.rq.cpu().index()].swap(now, Relaxed);
        if let Some(task) = picked {
            self.flags[task.index()].fetch_and(!(flag::PREEMPTED | flag::IN_SPIN_LOOP | flag::DY_ELIGIBLE), Relaxed);
        }
        if before != now
            && let Some(lost) = before.checked_sub(1).map(TaskId)
            && self.is(lost, flag::QUEUED)
        {
            self.set(lost, flag::PREEMPTED, true);
        }
    }

    fn queued(&self, _cx: &mut HookCx<'_>, task: TaskId, on: bool) {
        // Nothing but QUEUED outlives a sleep, or the task whose number this is now.
        if !on {
            self.flags[task.index()].fetch_and(flag::IN_USER, Relaxed);
        } else {
            self.set(task, flag::QUEUED, true);
        }
    }

    fn spin_detected(&self, cx: &mut HookCx<'_>, spinner: TaskId, walk: &mut SpinWalk) -> Option<YieldTo> {
        if walk.at.is_none() {
            self.spins.fetch_add(1, Relaxed);
            self.set(spinner, flag::IN_SPIN_LOOP, true);
        }
        while let Some(task) = self.next(cx.host, spinner, walk) {
            if self.receives(cx.host, spinner, task) {
                self.calls.fetch_add(1, Relaxed);
                return Some(YieldTo { to: task, strict: self.switches.strict_boost });
            }
        }
        None
    }

    fn spin_done(&self, cx: &mut HookCx<'_>, spinner: TaskId, boosted: Option<TaskId>) {
        let Some(task) = boosted else {
            return self.set(spinner, flag::IN_SPIN_LOOP | flag::DY_ELIGIBLE, false);
        };
        self.yields.fetch_add(1, Relaxed);
        if let Some(vm) = cx.host.task_vm(spinner) {
            self.last_boosted[vm.index()].store(task.0 + 1, Relaxed);
        }
    }

    fn cpu_changed(&mut self, _host: &Host, cpu: CpuId, _online: bool, _now: Nanos) {
        self.ran[cpu.index()].store(0, Relaxed);
    }

    fn guest_ring(&self, task: TaskId, kernel: bool) {
        if let Some(flags) = self.flags.get(task.index()) {
            if kernel {
                flags.fetch_and(!flag::IN_USER, Relaxed);
            } else {
                flags.fetch_or(flag::IN_USER, Relaxed);
            }
        }
    }

    fn counters(&self, _now: Nanos, report: &mut dyn FnMut(&'static str, u64)) {
        report(counter::SPIN_HINTS, self.spins.load(Relaxed));
        report(counter::YIELD_TO_CALLS, self.calls.load(Relaxed));
        report(counter::YIELDS, self.yields.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::BuildOptions;
    use crate::{Config, Effects, Limits, TaskSpec, VmId};

    /// The order in which vCPU 1 of 4 looks at its siblings and itself.
    fn order(last_boosted: Option<u32>) -> Vec<u32> {
        let config = Config { epoch: Nanos(1_000_000_000), ..Config::for_cpus(1) };
        let limits = Limits { tasks: 4, groups: 1 };
        let host = Host::new(config, "1s:1c".parse().unwrap(), BuildOptions::default(), limits).unwrap();
        let (mut rqs, mut fx) = (host.run_queues(), Effects::default());
        let spec = TaskSpec { vm: Some(VmId(2)), ..TaskSpec::default() };
        for _ in 0..4 {
            host.at(Nanos(1_000_000_000), &mut rqs, &mut fx).task_add(&spec).unwrap();
        }
        let ple = Ple::new(&host, PleSwitches::default());
        ple.last_boosted[2].store(last_boosted.map_or(0, |t| t + 1), Relaxed);
        let mut walk = SpinWalk::default();
        std::iter::from_fn(|| ple.next(&host, TaskId(1), &mut walk).map(|t| t.0)).take(20).collect()
    }

    #[test]
    fn the_two_passes_start_behind_the_last_boosted_and_end_with_it() {
        assert_eq!(order(Some(1)), [2, 3, 0, 1]);
        assert_eq!(order(Some(2)), [3, 0, 1, 2]);
        assert_eq!(order(Some(3)), [0, 1, 2, 3]);
        // vCPU 0 is where the count starts, so it is looked at first, and again in the second pass.
        assert_eq!(order(Some(0)), [0, 1, 2, 3, 0]);
        assert_eq!(order(None), [0, 1, 2, 3, 0]);
    }
}
