//! Faults: what happens to a host while guests run on it, at times that are inputs of the run.
//!
//! | fault | what follows |
//! |---|---|
//! | CPU off line | it stops at once; who runs or waits there moves; its kernel thread ends; messages to it are lost |
//! | CPU on line | idle, with a new kernel thread and its tick at the old phase |
//! | group removed | the VM's vCPUs go to the root group; a gang request under way finds nobody |
//! | vCPU killed | its VM ends: all its vCPUs stop before another instruction; the other VMs go on |
//!
//! A fault that cannot be (the last CPU, a CPU that is off already, a group or VM that is gone) is refused, as a host
//! would refuse it, and changes nothing. Faults are alarms, so they come before other events of the same instant.
use hostsched::topology::{BuildOptions, build_sched_domains};
use hostsched::{CpuId, GroupId, Nanos, NoTrace, TaskSpec};

use super::cpu::{Activity, sched};
use super::{Alarm, EPOCH_NS, Timer, World};
use crate::fault::{Fault, FaultKind};
use crate::ids::VcpuId;
use crate::observe::{Event, Who};
use crate::vcpu::Place;

impl World {
    /// Lets the faults happen, each at its time after the start.
    pub(crate) fn expect_faults(&mut self, faults: &[Fault]) {
        for fault in faults {
            self.alarms.push((EPOCH_NS + fault.at_ns).max(self.now), Alarm::Fault(fault.kind));
        }
    }

    /// Does it, or refuses.
    pub(super) fn fault(&mut self, kind: FaultKind) {
        let done = match kind {
            FaultKind::CpuOffline(cpu) => self.cpu_offline(CpuId(cpu)),
            FaultKind::CpuOnline(cpu) => self.cpu_online(CpuId(cpu)),
            FaultKind::GroupRemoved { vm } => self.remove_group(vm),
            FaultKind::VcpuKilled { vm, vcpu } => self.kill(vm, vcpu),
        };
        let what = if done { "fault" } else { "refused fault" };
        self.notices.push(format!("{what}: {}", Fault { at_ns: self.now - EPOCH_NS, kind }));
        self.faults_done += u64::from(done);
    }

    fn cpu_offline(&mut self, cpu: CpuId) -> bool {
        let left = self.host.online().iter().filter(|c| *c != cpu).collect();
        let valid = || build_sched_domains(self.host.machine(), &left, BuildOptions::default()).is_ok();
        if !self.online.contains(&cpu) || self.online.len() == 1 || !valid() {
            return false;
        }
        if self.cpus[cpu.index()].activity == Activity::Guest {
            self.leave_guest(cpu);
        }
        // Its kernel thread ends with it, and one that is at its end does not move to another CPU.
        let daemon = self.cpus[cpu.index()].daemon;
        let ended = sched!(self).task_exit(daemon);
        debug_assert!(ended.is_ok(), "a CPU on line has its kernel thread");
        self.cpus[cpu.index()].daemon_left = 0;
        if self.rqs[cpu.index()].need_resched() {
            self.reschedule(cpu, 0);
        }
        self.tell(|world| Event::Pick { cpu, prev: world.who(cpu, world.host.current(cpu)), next: Who::Idle });
        let gone = self.host.cpu_offline(cpu, Nanos(self.now), &mut self.rqs, &mut self.fx, NoTrace);
        assert!(gone.is_ok(), "the CPU is on line, and not the last: {gone:?}");
        for timer in Timer::ALL {
            self.stop_timer(cpu, timer);
        }
        let pcpu = &mut self.cpus[cpu.index()];
        (pcpu.activity, pcpu.loaded, pcpu.asked_at) = (Activity::Idle, None, None);
        pcpu.inbox.clear();
        self.online.retain(|c| *c != cpu);
        if let Some(v) = self.cpus[cpu.index()].vcpu.take() {
            self.sched_out(v);
        }
        self.apply_effects(None);
        self.tell(|_| Event::Offline { cpu });
        true
    }

    fn cpu_online(&mut self, cpu: CpuId) -> bool {
        let Some(at) = self.present.iter().position(|c| *c == cpu) else { return false };
        if self.online.contains(&cpu) || self.host.cpu_online(cpu, Nanos(self.now), &mut self.rqs).is_err() {
            return false;
        }
        let id = Some(self.cpus[cpu.index()].daemon);
        let added = sched!(self).task_add(&TaskSpec { id, ..Self::daemon_of(cpu) });
        assert!(added.is_ok(), "the kernel thread of a CPU that was off is gone: {added:?}");
        let place = self.online.partition_point(|c| *c < cpu);
        self.online.insert(place, cpu);
        let first = self.first_tick(at);
        let ticks = (self.now + 1).saturating_sub(first).div_ceil(self.tick_ns);
        self.timers.set(Timer::Tick.slot(cpu), first + ticks * self.tick_ns);
        self.apply_effects(None);
        self.tell(|_| Event::Online { cpu });
        true
    }

    fn remove_group(&mut self, vm: u32) -> bool {
        let known = (vm as usize) < self.vms.len() && !self.options.flat;
        if !known || sched!(self).group_remove(GroupId(vm + 1)).is_err() {
            return false;
        }
        self.apply_effects(None);
        self.tell(|_| Event::GroupRemoved { vm });
        true
    }

    /// `exit_group` of the VM's process: who waits ends where it is, who runs leaves the CPU.
    fn kill(&mut self, vm: u32, vcpu: u32) -> bool {
        let vm = vm as usize;
        if self.vms.get(vm).is_none_or(|vm| vm.killed) || self.vcpus_of(vm).nth(vcpu as usize).is_none() {
            return false;
        }
        self.vms[vm].killed = true;
        let all: Vec<VcpuId> = self.vcpus_of(vm).collect();
        self.tell(|world| Event::Killed { vcpu: world.name(all[vcpu as usize]) });
        let waits = |world: &Self, v: VcpuId| matches!(world.vcpus[v.i()].place, Place::Ready | Place::Halted);
        let (waiting, running): (Vec<_>, Vec<_>) = all.iter().copied().partition(|v| waits(self, *v));
        for v in waiting {
            let ended = sched!(self).task_exit(v.task());
            debug_assert!(ended.is_ok(), "a vCPU that is not gone has its thread");
            self.vcpus[v.i()].place = Place::Gone;
        }
        for v in running {
            let place = self.vcpus[v.i()].place;
            if let Place::Guest(cpu) = place {
                self.leave_guest(cpu);
            }
            let ended = sched!(self).task_exit(v.task());
            debug_assert!(ended.is_ok(), "a vCPU that has a CPU has its thread");
            if let Place::Guest(cpu) = place {
                self.reschedule(cpu, self.costs.exit);
            }
        }
        self.apply_effects(None);
        true
    }
}
