//! A host with a policy and a hand on its time: for tests that say each event themselves.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
use hostsched::policy::{PolicyKind, PolicySettings, install};
use hostsched::topology::{BuildOptions, Machine};
use hostsched::{
    Birth, Config, CpuId, CpuSet, Effects, GroupId, Host, Ipi, Limits, Nanos, Rq, Sched, TaskId, TaskSpec, VmId,
};

pub const START: Nanos = Nanos(1_000_000_000);
pub const MS: u64 = 1_000_000;

pub struct Rig {
    pub host: Host,
    pub rqs: Vec<Rq>,
    pub fx: Effects,
    pub now: Nanos,
    pub notices: Vec<String>,
}

impl Rig {
    pub fn new(machine: &str, kind: PolicyKind, settings: &PolicySettings) -> Self {
        let machine: Machine = machine.parse().unwrap();
        let config = Config { epoch: START, ..Config::for_cpus(machine.online().weight()) };
        let mut host = Host::new(config, machine, BuildOptions::default(), Limits { tasks: 64, groups: 8 }).unwrap();
        let notices = install(&mut host, kind, settings);
        let rqs = host.run_queues();
        Self { host, rqs, fx: Effects::default(), now: START, notices }
    }

    pub fn at(&mut self) -> Sched<'_, Vec<Rq>> {
        self.host.at(self.now, &mut self.rqs, &mut self.fx)
    }

    pub fn group(&mut self, parent: GroupId, gang: bool) -> GroupId {
        self.at().group_create(parent, 1024, gang).unwrap()
    }

    /// A task pinned to a CPU.
    pub fn task(&mut self, group: GroupId, cpu: u32) -> TaskId {
        self.vcpu(group, None, cpu)
    }

    pub fn vcpu(&mut self, group: GroupId, vm: Option<VmId>, cpu: u32) -> TaskId {
        let cpu = CpuId(cpu);
        let affinity = Some(CpuSet::of(cpu));
        let spec = TaskSpec { group, vm, cpu, affinity, birth: Birth::Boot, ..TaskSpec::default() };
        self.at().task_add(&spec).unwrap()
    }

    pub fn hotplug(&mut self, cpu: u32, online: bool) {
        let (cpu, now) = (CpuId(cpu), self.now);
        if online {
            self.host.cpu_online(cpu, now, &mut self.rqs).unwrap();
        } else {
            self.host.cpu_offline(cpu, now, &mut self.rqs, &mut self.fx, hostsched::NoTrace).unwrap();
        }
    }

    pub fn schedule(&mut self, cpu: u32) -> Option<TaskId> {
        self.at().schedule(CpuId(cpu)).next
    }

    pub fn running(&self, cpu: u32) -> Option<TaskId> {
        self.host.current(CpuId(cpu))
    }

    /// Lets time pass with a tick on each CPU, and schedules where that is asked for.
    pub fn ticks(&mut self, n: u32) {
        for _ in 0..n {
            self.now += self.host.config().tick;
            for cpu in 0..u32::try_from(self.rqs.len()).unwrap() {
                self.at().tick(CpuId(cpu));
            }
            self.settle();
        }
    }

    /// Delivers the IPIs and schedules, until there is nothing left to do.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            let fx = std::mem::take(&mut self.fx);
            if fx.is_empty() {
                return;
            }
            for (cpu, ipi) in fx.ipis {
                self.at().ipi_received(cpu, ipi);
            }
            for cpu in fx.resched {
                self.at().schedule(cpu);
            }
        }
        panic!("the CPUs keep waking each other");
    }

    pub fn ipis(&mut self) -> Vec<(CpuId, Ipi)> {
        std::mem::take(&mut self.fx.ipis)
    }

    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.host.policy_counters(self.now);
        counters.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
}
