//! From a plan to a scheduler: sysctls, policies, groups, tasks, and what the user should know about them.

use std::collections::BTreeMap;
use std::io;

use hostsched::config::Config;
use hostsched::policy::{GangSettings, PolicyKind, PolicySettings, install};
use hostsched::topology::{BuildOptions, CpuId, CpuSet, MachineError};
use hostsched::{Birth, GroupError, GroupId, Host, HostError, Limits, Nanos, Rq, TaskSpec, VmId};
use plan::{CpuList, HostPolicy, RunPlan};

use super::machine::machine;
use super::seat::Seat;
use crate::cgroup::RunCgroup;
use crate::sched::VcpuIndex;
use crate::sync::Arc;

/// Weight of a VM's group: that of one nice-0 task, the default of the cpu cgroup (`cpu.shares`).
const SHARES: u64 = 1024;

/// The group of a VM: groups are made in the order of the VMs, after the root group.
pub(super) const fn group_of(vm: u32) -> GroupId {
    GroupId(GroupId::ROOT.0 + 1 + vm)
}

/// Everything that decides how the lab schedules.
#[derive(Debug, Clone)]
pub struct LabConfig {
    /// The pCPUs.
    pub cpus: CpuList,
    /// Number of VMs.
    pub vms: u32,
    /// vCPUs of each.
    pub vcpus: u32,
    /// VMs of one vCPU that come after them, run on any CPU and are in no gang: 0 or 1.
    pub neighbours: u32,
    /// Ticks a second.
    pub hz: u32,
    /// `sched_latency`, `sched_min_granularity`, `sched_wakeup_granularity` in ns; `None`: as Linux scales it by CPUs.
    pub sysctls_ns: [Option<u64>; 3],
    /// What the scheduler does beyond CFS.
    pub policy: HostPolicy,
    /// vCPU i runs on CPU i mod n only.
    pub pin: bool,
    /// A gang's span is the smallest domain with at least this many CPUs.
    pub gang_cpus: u32,
    /// Where the kernel keeps the gangs; `None`: VMs are the groups.
    pub cgroup: Option<Arc<RunCgroup>>,
    /// Keep every operation for a replay.
    pub record: bool,
}

/// Why a lab cannot be made or started.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The CPUs make no machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The scheduler refuses the configuration.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The scheduler refuses a group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The kernel would not say who is in a VM's cgroup.
    #[error("Cannot read the members of VM {vm}'s cgroup")]
    Members {
        /// The VM.
        vm: u32,
        /// The errno.
        #[source]
        source: io::Error,
    },
    /// A thread is not where it was put.
    #[error("The thread of vCPU {vcpu} of VM {vm} is not in its cgroup: was it moved from outside?")]
    Strayed {
        /// The VM.
        vm: u32,
        /// The vCPU.
        vcpu: u32,
    },
}

/// A scheduler that is ready for tasks.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) host: Host,
    pub(super) queues: Vec<Rq>,
    pub(super) period_ns: u64,
}

/// The scheduler's name of a policy.
const fn kind(policy: HostPolicy) -> PolicyKind {
    match policy {
        HostPolicy::Cfs => PolicyKind::Cfs,
        HostPolicy::GangNext => PolicyKind::GangNext,
        HostPolicy::Gang => PolicyKind::Gang,
        HostPolicy::Ple => PolicyKind::Ple,
        HostPolicy::GangNextPle => PolicyKind::GangNextPle,
        HostPolicy::GangPle => PolicyKind::GangPle,
    }
}

impl LabConfig {
    /// What the plan asks for.
    #[must_use]
    pub fn of(plan: &RunPlan, cgroup: Option<Arc<RunCgroup>>) -> Self {
        Self {
            cpus: plan.pcpus.clone(),
            vms: plan.vms,
            vcpus: plan.vcpus,
            neighbours: plan.neighbour.count(),
            hz: plan.hz,
            sysctls_ns: [plan.sched_latency_ns, plan.sched_min_granularity_ns, plan.sched_wakeup_granularity_ns],
            policy: plan.axes.host_policy,
            pin: plan.axes.pin,
            gang_cpus: plan.gang_cpus,
            cgroup,
            record: false,
        }
    }

    /// VMs, the neighbour among them.
    pub(super) fn groups(&self) -> u32 {
        self.vms + self.neighbours
    }

    /// vCPUs of all of them. vCPU i belongs to VM i / `vcpus`, which holds for the one of the neighbour too.
    pub(super) fn tasks_all(&self) -> u32 {
        self.vms * self.vcpus + self.neighbours
    }

    fn slots(&self) -> u32 {
        u32::try_from(self.cpus.as_slice().len()).unwrap_or(u32::MAX)
    }

    /// The scheduler's settings.
    fn scheduler(&self, now_ns: u64) -> Config {
        let mut config = Config::for_cpus(self.slots());
        config.tick = Nanos(1_000_000_000 / u64::from(self.hz));
        config.epoch = Nanos(now_ns.max(1_000_000_000));
        let s = &mut config.sysctls;
        let [latency, min_granularity, wakeup_granularity] = self.sysctls_ns.map(|v| v.map(Nanos));
        s.latency = latency.unwrap_or(s.latency);
        s.min_granularity = min_granularity.unwrap_or(s.min_granularity);
        s.wakeup_granularity = wakeup_granularity.unwrap_or(s.wakeup_granularity);
        if self.sysctls_ns.iter().any(Option::is_some) {
            s.written(self.slots());
        }
        config
    }

    /// Makes the scheduler: idle CPUs, one group for each VM, no task.
    pub(super) fn prepare(&self, now_ns: u64) -> Result<Prepared, LabError> {
        let config = self.scheduler(now_ns);
        let (tick, epoch) = (config.tick, config.epoch);
        let limits = Limits { tasks: self.tasks_all(), groups: self.groups() + 1 };
        let mut host = Host::new(config, machine(&self.cpus)?, BuildOptions::default(), limits)?;
        let gang = GangSettings { gang_cpus: self.gang_cpus, guest_mode_told: true, ..GangSettings::default() };
        // Its notices speak of slots; `Lab::notices` says the same in the kernel's numbers.
        let _ = install(&mut host, kind(self.policy), &PolicySettings { gang, ..PolicySettings::default() });
        let mut queues = host.run_queues();
        for vm in 0..self.groups() {
            let gang = match &self.cgroup {
                Some(cgroup) => cgroup.gang(vm as usize).map_err(|source| LabError::Members { vm, source })?,
                None => self.policy.is_gang() && vm < self.vms,
            };
            let mut fx = hostsched::Effects::default();
            host.at(epoch, &mut queues, &mut fx).group_create(GroupId::ROOT, SHARES, gang)?;
        }
        Ok(Prepared { host, queues, period_ns: tick.0 })
    }

    /// One task for each vCPU, in order, in the group that the kernel says its thread belongs to.
    pub(super) fn tasks(&self, seats: &[Seat]) -> Result<Vec<(VcpuIndex, TaskSpec)>, LabError> {
        let mut vm_of_tid = BTreeMap::new();
        if let Some(cgroup) = &self.cgroup {
            for vm in 0..self.groups() {
                let members = cgroup.members(vm as usize).map_err(|source| LabError::Members { vm, source })?;
                vm_of_tid.extend(members.into_iter().map(|tid| (tid, vm)));
            }
        }
        let ids = 0..;
        let spec = |(id, seat): (u32, &Seat)| {
            let (vm, vcpu) = (id / self.vcpus, id % self.vcpus);
            let member_of = if self.cgroup.is_some() { vm_of_tid.get(&seat.tid()).copied() } else { Some(vm) };
            let group = member_of.ok_or(LabError::Strayed { vm, vcpu })?;
            let (pin, pinned) = (self.pin && vm < self.vms, CpuId(vcpu % self.slots()));
            let spec = TaskSpec {
                group: group_of(group),
                vm: Some(VmId(vm)),
                affinity: pin.then(|| CpuSet::of(pinned)),
                cpu: if pin { pinned } else { CpuId(0) },
                birth: Birth::ForkBalanced,
                ..TaskSpec::default()
            };
            Ok((VcpuIndex(id), spec))
        };
        ids.zip(seats).map(spec).collect()
    }
}
