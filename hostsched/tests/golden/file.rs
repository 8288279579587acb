//! A golden file as it is written: see the data's FORMAT.md.
use std::collections::BTreeMap;

use hostsched::testing::{GroupSpec, Scenario, Step, TaskPlan};
use hostsched::{CpuId, CpuSet, Nice, SchedPolicy};
use serde::Deserialize;

/// One file.
#[derive(Deserialize)]
pub struct Golden {
    pub format: u32,
    pub scenario: Spec,
    pub outcome: Published,
    #[serde(default)]
    pub ensemble: Option<Ensemble>,
}

#[derive(Deserialize)]
pub struct Spec {
    pub name: String,
    pub compare: Class,
    hz: u64,
    pub ncpu: u32,
    cores_per_pkg: u32,
    pub duration_ns: u64,
    #[serde(default)]
    tick_skew_ns: u64,
    #[serde(default)]
    sysctl_overrides: BTreeMap<String, i64>,
    #[serde(default)]
    feature_overrides: BTreeMap<String, i64>,
    #[serde(default)]
    groups: Vec<Group>,
    tasks: Vec<Task>,
    #[serde(default)]
    pub log: bool,
}

/// How closely the outcome is to match.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    Exact,
    Placement,
    Statistical,
}

#[derive(Deserialize)]
struct Group {
    parent: i64,
    shares: u64,
}

#[derive(Deserialize)]
struct Task {
    nice: i32,
    policy: Policy,
    group: i64,
    start_ns: u64,
    start_cpu: i64,
    affinity: Option<u128>,
    program: Vec<RawStep>,
    loop_from: usize,
}

/// `["wait"]` or `["run", 1000]`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawStep {
    Bare([String; 1]),
    With(String, u64),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Policy {
    Normal,
    Batch,
    Idle,
}

#[derive(Deserialize)]
pub struct Published {
    pub cpus: Vec<CpuResult>,
    pub tasks: Vec<TaskResult>,
    #[serde(default)]
    pub domains: Vec<DomainResult>,
    #[serde(default)]
    pub effective: BTreeMap<String, i64>,
    #[serde(default)]
    pub switch_log: Option<Vec<Vec<i64>>>,
    #[serde(default)]
    pub migration_log: Option<Vec<[u64; 4]>>,
}

#[derive(Deserialize)]
pub struct CpuResult {
    pub idle_ns: u64,
    pub switches: u64,
    pub min_vruntime: i64,
}

#[derive(Deserialize)]
pub struct DomainResult {
    pub cpu: u32,
    pub level: usize,
    pub name: String,
    pub span: u128,
    pub flags: u32,
    pub ngroups: usize,
    pub cpu_power: u32,
}

#[derive(Deserialize)]
pub struct TaskResult {
    pub exec_ns: u64,
    pub switches_in: u64,
    pub migrations: u64,
    pub wakeups: u64,
    pub wakeup_latency_sum_ns: u64,
    pub wakeup_latency_max_ns: u64,
    pub wait_sum_ns: u64,
    pub vruntime: i64,
    pub final_cpu: u32,
    pub on_rq: u8,
    pub running: u8,
}

/// The spread over slightly different runs.
#[derive(Deserialize)]
pub struct Ensemble {
    #[serde(default)]
    pub exec_ns_sorted_rank: Vec<Spread>,
    #[serde(default)]
    pub exec_ns_per_group: Vec<Spread>,
    pub total_exec_ns: Spread,
    pub total_migrations: Spread,
    pub total_idle_ns: Spread,
}

#[derive(Deserialize, Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub max: f64,
}

impl Spec {
    /// The machine: packages of `cores_per_pkg` CPUs in a row.
    fn machine(&self) -> String {
        let packages: Vec<String> = (0..self.ncpu)
            .step_by(self.cores_per_pkg.max(1) as usize)
            .map(|first| (first..self.ncpu.min(first + self.cores_per_pkg)).map(CpuId).collect::<CpuSet>().to_string())
            .collect();
        format!("pkg={}", packages.join("/"))
    }

    /// The group of each task; `None` is the root group.
    pub fn task_groups(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        self.tasks.iter().map(|t| usize::try_from(t.group).ok())
    }

    /// The scenario.
    pub fn scenario(&self) -> Result<Scenario, String> {
        Ok(Scenario {
            hz: self.hz,
            machine: self.machine(),
            duration_ns: self.duration_ns,
            tick_skew_ns: self.tick_skew_ns,
            sysctls: self.sysctl_overrides.iter().map(|(n, v)| (n.clone(), *v)).collect(),
            features: self.feature_overrides.iter().map(|(n, v)| (n.clone(), *v != 0)).collect(),
            groups: self
                .groups
                .iter()
                .map(|g| GroupSpec { parent: usize::try_from(g.parent).ok(), shares: g.shares })
                .collect(),
            tasks: self.tasks.iter().enumerate().map(|(i, t)| t.plan(i)).collect::<Result<_, _>>()?,
        })
    }
}

impl Task {
    fn plan(&self, index: usize) -> Result<TaskPlan, String> {
        let step = |raw: &RawStep| {
            let (name, arg) = match raw {
                RawStep::Bare([name]) => (name, None),
                RawStep::With(name, arg) => (name, Some(*arg)),
            };
            let arg = || arg.ok_or_else(|| format!("task {index}: step '{name}' needs a number"));
            let task = || arg().map(|a| usize::try_from(a).unwrap_or(usize::MAX));
            Ok::<_, String>(match name.as_str() {
                "run" => Step::Run(arg()?),
                "sleep" => Step::Sleep(arg()?),
                "wait" => Step::Wait,
                "wake" => Step::Wake(task()?),
                "wake_sync" => Step::WakeSync(task()?),
                "yield" => Step::Yield,
                "exit" => Step::Exit,
                _ => return Err(format!("task {index}: there is no step '{name}'")),
            })
        };
        let affinity = |mask: u128| (0..128).filter(|c| mask >> c & 1 == 1).map(CpuId).collect::<CpuSet>();
        Ok(TaskPlan {
            vm: None,
            nice: Nice::new(self.nice).map_err(|e| format!("task {index}: {e}"))?,
            policy: match self.policy {
                Policy::Normal => SchedPolicy::Normal,
                Policy::Batch => SchedPolicy::Batch,
                Policy::Idle => SchedPolicy::Idle,
            },
            group: usize::try_from(self.group).ok(),
            start_ns: self.start_ns,
            start_cpu: u32::try_from(self.start_cpu).ok(),
            affinity: self.affinity.map(affinity),
            program: self.program.iter().map(step).collect::<Result<_, _>>()?,
            loop_from: self.loop_from,
        })
    }
}
