//! The runs behind the cells: each question once, all cores, answers in a fixed order.
use std::collections::{BTreeMap, BTreeSet};

use hostsched::policy::PleSwitches;
use plan::{Axes, Control, CpuList, Engine, EngineError, Lock, Neighbour, RunPlan, Sched, Workload, WorkloadParams};
use serde::Deserialize;
use sim::{Machine, Options, Sim};

use crate::reproduce::{Protocol, broken, in_parallel};
use crate::simulator;

/// What a cell wants to know: everything that decides a run but its seed and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) machine: String,
    pub(super) axes: Axes,
    pub(super) vms: u32,
    pub(super) workload: Workload,
    /// With the experiment's start offsets, or all VMs at once.
    pub(super) staggered: bool,
    pub(super) halt_once: bool,
    pub(super) yield_on_hlt: bool,
    pub(super) ple_gap: u64,
    pub(super) ple_window: u64,
    pub(super) ple: PleSwitches,
}

impl Question {
    /// That mode on that machine, staggered, with everything else as it was in the published runs.
    pub(super) fn of(machine: &str, axes: Axes, vms: u32) -> Self {
        Self {
            machine: machine.into(),
            axes,
            vms,
            workload: Workload::Ebizzy,
            staggered: true,
            halt_once: false,
            yield_on_hlt: true,
            ple_gap: 128,
            ple_window: 4096,
            ple: PleSwitches::default(),
        }
    }

    /// A name that tells it from all others; the order of runs follows it.
    pub(super) fn key(&self) -> String {
        format!("{self:?}")
    }
}

/// The machine of the fitted numbers.
const FITTED_TO: &str = "nonple";

/// What its runs say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Answer {
    /// Mean records/s of a VM.
    pub(super) rate: f64,
    /// Share of guest time in the wait for flushes.
    pub(super) flush_wait: f64,
    /// Pause-loop exits a second, all CPUs.
    pub(super) pause_exits_per_s: f64,
    /// Directed yields a second that boosted somebody, all CPUs.
    pub(super) yields_per_s: f64,
    /// Reads through old translations.
    pub(super) stale_reads: f64,
    /// Context switches a second, a CPU.
    pub(super) switches_per_s: f64,
    /// Migrations a second, all CPUs.
    pub(super) migrations_per_s: f64,
    /// Exits a second, all CPUs.
    pub(super) exits_per_s: f64,
}

/// Either collects questions or answers them.
#[derive(Debug)]
pub(super) enum Asked {
    Collecting(Vec<Question>),
    Answered(BTreeMap<String, Answer>),
}

impl Asked {
    pub(super) fn ask(&mut self, question: Question) -> Answer {
        match self {
            Self::Collecting(questions) => {
                questions.push(question);
                Answer::default()
            }
            Self::Answered(answers) => answers.get(&question.key()).copied().unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Length {
    #[serde(default)]
    modes: Vec<String>,
    duration_ms: u64,
    runs: u64,
}

#[derive(Debug, Clone, Deserialize)]
struct Lengths {
    noisy: Length,
    other: Length,
    other_workloads: Length,
}

#[derive(Debug, Clone, Deserialize)]
struct ProtocolFile {
    stagger_percent: u64,
    warmup_ms: u64,
    quick: Lengths,
    full: Lengths,
    fit: Lengths,
    canary: Lengths,
}

#[derive(Debug, Clone, Deserialize)]
struct HostFile {
    hz: u32,
}

/// Constants of the workload that are fitted.
#[derive(Debug, Clone, Deserialize)]
struct FitFile {
    ebizzy: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct ExperimentFile {
    protocol: ProtocolFile,
    host: HostFile,
    ebizzy: WorkloadParams,
    fit: FitFile,
}

/// Which of the file's lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    Quick,
    Full,
    Fit,
    Canary,
}

impl From<Protocol> for Effort {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Quick => Self::Quick,
            Protocol::Full => Self::Full,
        }
    }
}

/// The file; its other sections are those of a sweep.
#[derive(Debug, Clone, Deserialize)]
struct WholeFile {
    reproduce: ExperimentFile,
}

/// The experiment file, and the machines.
#[derive(Debug, Clone)]
pub(super) struct Plans {
    file: ExperimentFile,
    lengths: Lengths,
    machines: BTreeMap<String, Machine>,
    seed: u64,
}

impl Plans {
    pub(super) fn read(effort: Effort, seed: u64) -> Result<Self, EngineError> {
        let file: WholeFile = toml::from_str(include_str!("../../../gang-cfs.toml")).map_err(|source| {
            EngineError::Internal { what: "Cannot read the experiment file".into(), source: Some(source.into()) }
        })?;
        let file = file.reproduce;
        let lengths = match effort {
            Effort::Quick => file.protocol.quick.clone(),
            Effort::Full => file.protocol.full.clone(),
            Effort::Fit => file.protocol.fit.clone(),
            Effort::Canary => file.protocol.canary.clone(),
        };
        let machine = |name: &str| Ok((name.to_owned(), simulator::machine(name)?));
        let machines = ["nonple", "ple"].into_iter().map(machine).collect::<Result<_, EngineError>>()?;
        Ok(Self { file, lengths, machines, seed })
    }

    /// Everything that was fitted to the nine numbers, and its present value.
    pub(super) fn fitted(&self) -> BTreeMap<String, u64> {
        let params = self.file.fit.ebizzy.iter().filter_map(|id| Some((id.clone(), self.file.ebizzy.get(id)?.into())));
        let machine = self.machines.get(FITTED_TO);
        let cost = |machine: &Machine| {
            let of = |id: &str| Some((id.to_owned(), machine.costs.get(id)?));
            machine.fitted().filter_map(of).collect::<Vec<_>>()
        };
        params.chain(machine.map(cost).unwrap_or_default()).collect()
    }

    /// Every number that a run depends on, by name.
    pub(super) fn settings(&self) -> BTreeMap<String, u64> {
        let params = plan::PARAMS.iter().map(|info| info.id).filter_map(|id| self.file.ebizzy.get(id).map(|v| (id, v)));
        let mut all: BTreeMap<String, u64> = params.map(|(id, value)| (format!("ebizzy {id}"), value.into())).collect();
        all.insert("host hz".into(), self.file.host.hz.into());
        all.insert("stagger_percent".into(), self.file.protocol.stagger_percent);
        for (name, machine) in &self.machines {
            let costs = sim::machine::COSTS.iter().filter_map(|info| Some((info.id, machine.costs.get(info.id)?)));
            all.extend(costs.map(|(id, value)| (format!("{name} {id}"), value)));
        }
        all
    }

    /// Gives something that was fitted another value, on every machine that has it.
    pub(super) fn vary(&mut self, id: &str, value: u64) {
        if self.file.ebizzy.set(id, u32::try_from(value).unwrap_or(u32::MAX)).is_err() {
            for machine in self.machines.values_mut() {
                if let Some(cost) = machine.costs.get_mut(id) {
                    *cost = value;
                }
            }
        }
    }

    /// The runs of a question: how many, and how long.
    fn length(&self, q: &Question) -> &Length {
        if q.workload != Workload::Ebizzy {
            return &self.lengths.other_workloads;
        }
        let mut noisy = self.lengths.noisy.modes.iter().filter_map(|mode| mode.parse::<plan::Mode>().ok());
        if noisy.any(|mode| mode.axes() == q.axes) { &self.lengths.noisy } else { &self.lengths.other }
    }

    fn plan(&self, q: &Question, run: u64) -> RunPlan {
        RunPlan {
            mode: q.key(),
            axes: q.axes,
            vms: q.vms,
            vcpus: 8,
            pcpus: CpuList::new((0..8).collect()).unwrap_or_else(|| unreachable!("eight CPUs are not none")),
            sched: Sched::Lab,
            gang_cpus: 8,
            hz: self.file.host.hz,
            sched_latency_ns: None,
            sched_min_granularity_ns: None,
            sched_wakeup_granularity_ns: None,
            ple_window_cycles: q.ple_window,
            spin_budget: 1024,
            duration_ns: self.length(q).duration_ms * 1_000_000,
            // A staggered run is the published one, which measured from its first record on.
            warmup_ns: if q.staggered { 0 } else { self.file.protocol.warmup_ms * 1_000_000 },
            workload: q.workload,
            params: self.file.ebizzy.clone(),
            lock: Lock::Ticket,
            neighbour: Neighbour::None,
            inject: None,
            seed: self.seed.wrapping_add(run),
            block: u32::try_from(run).unwrap_or(u32::MAX),
            cgroup: None,
        }
    }

    fn run(&self, q: &Question, run: u64) -> Result<Answer, EngineError> {
        let plan = self.plan(q, run);
        let machine = self.machines.get(&q.machine).ok_or_else(|| broken("a table names an unknown machine"))?;
        let stagger = if q.staggered { plan.duration_ns / 100 * self.file.protocol.stagger_percent } else { 0 };
        let options = Options {
            halt_once: q.halt_once,
            yield_on_hlt: q.yield_on_hlt,
            ple_gap_cycles: q.ple_gap,
            ple: q.ple,
            stagger_ns: stagger,
            ..Options::default()
        };
        let record = Sim::new(machine.clone(), options).run(&plan, &Control::default())?;
        let whole_ns = plan.duration_ns + u64::from(q.vms - 1) * stagger;
        let count = |name: &str| float(record.counters.get(name).copied().unwrap_or_default());
        let per_s = |name: &str| count(name) * 1e9 / float(whole_ns);
        let waits = |(name, share): (&String, &f64)| name.starts_with("flush_wait").then_some(*share);
        Ok(Answer {
            rate: record.records_per_s / f64::from(q.vms),
            flush_wait: record.guest_profile.iter().filter_map(waits).sum(),
            pause_exits_per_s: per_s(plan::metric::SPIN_HINTS),
            yields_per_s: per_s(plan::metric::YIELDS),
            stale_reads: float(record.stale_reads),
            switches_per_s: per_s(plan::metric::SWITCHES) / 8.0,
            migrations_per_s: per_s(plan::metric::MIGRATIONS),
            exits_per_s: per_s(plan::metric::EXITS),
        })
    }
}

/// A count as a float; exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}

/// Answers every question once. The order in which the threads take them does not reach the answers.
pub(super) fn answer(plans: &Plans, questions: Vec<Question>) -> Result<BTreeMap<String, Answer>, EngineError> {
    let mut seen = BTreeSet::new();
    let questions: Vec<_> = questions.into_iter().filter(|q| seen.insert(q.key())).collect();
    let jobs: Vec<(&Question, u64)> =
        questions.iter().flat_map(|q| (0..plans.length(q).runs).map(move |run| (q, run))).collect();
    let done = in_parallel(&jobs, |(question, run)| plans.run(question, *run));
    let mut answers: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
    for ((question, _), answer) in jobs.iter().zip(done) {
        answers.entry(question.key()).or_default().push(answer?);
    }
    Ok(answers.into_iter().map(|(key, runs)| (key, mean(&runs))).collect())
}

fn mean(runs: &[Answer]) -> Answer {
    let n = float(runs.len() as u64).max(1.0);
    let of = |field: fn(&Answer) -> f64| runs.iter().map(field).sum::<f64>() / n;
    Answer {
        rate: of(|a| a.rate),
        flush_wait: of(|a| a.flush_wait),
        pause_exits_per_s: of(|a| a.pause_exits_per_s),
        yields_per_s: of(|a| a.yields_per_s),
        stale_reads: of(|a| a.stale_reads),
        switches_per_s: of(|a| a.switches_per_s),
        migrations_per_s: of(|a| a.migrations_per_s),
        exits_per_s: of(|a| a.exits_per_s),
    }
}
