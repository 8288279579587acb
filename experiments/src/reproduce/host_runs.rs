//! The runs behind a page of host tasks: each question once a seed, all cores, answers in a fixed order.
//!
//! A page is made twice: first its tables ask, and every question is noted; then the runs are made; then the tables ask
//! again and are answered.
use std::collections::BTreeMap;

use hostsched::Switches;
use plan::{Control, EngineError};
use serde::Deserialize;
use sim::tasks::{Governor, Grouping, HostMachine, Load, Outcome, Setup, run};

use super::{Protocol, broken, in_parallel};

/// Descriptions that the program carries, by name.
const MACHINES: &[(&str, &str)] = &[
    ("e5620", include_str!("../../machines/e5620.toml")),
    ("q6600", include_str!("../../machines/q6600.toml")),
    ("q6600-broken", include_str!("../../machines/q6600-broken.toml")),
    ("six-core", include_str!("../../machines/six-core.toml")),
    ("stoakley", include_str!("../../machines/stoakley.toml")),
    ("tigerton", include_str!("../../machines/tigerton.toml")),
    ("westmere-ex", include_str!("../../machines/westmere-ex.toml")),
    ("x5472", include_str!("../../machines/x5472.toml")),
];

/// The host of that name.
pub(super) fn host_machine(name: &str) -> Result<HostMachine, EngineError> {
    let found = MACHINES.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| broken("a table names an unknown host"))?;
    HostMachine::from_toml(text).map_err(|source| EngineError::Internal {
        what: format!("Cannot read the description of host '{name}'"),
        source: Some(source.into()),
    })
}

/// What a cell wants to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Question {
    pub(super) machine: &'static str,
    pub(super) load: Load,
    pub(super) switches: Switches,
    pub(super) governor: Governor,
    pub(super) grouping: Grouping,
    /// The run length by its name in the protocol.
    pub(super) length: &'static str,
}

impl Question {
    /// Of a kernel that is set to `switches`, at full clock, ungrouped.
    pub(super) fn of(machine: &'static str, load: Load, switches: Switches) -> Self {
        Self { machine, load, switches, governor: Governor::Performance, grouping: Grouping::None, length: "light" }
    }

    fn key(&self) -> String {
        format!("{self:?}")
    }
}

/// What its runs say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Answer {
    /// What the benchmark counts, a second, one run each.
    pub(super) rates: Vec<f64>,
    /// Mean counters a second.
    counters: BTreeMap<&'static str, f64>,
}

impl Answer {
    /// Mean of what the benchmark counts, a second.
    pub(super) fn rate(&self) -> f64 {
        mean(&self.rates)
    }

    /// Variance of the runs' rates.
    pub(super) fn variance(&self) -> f64 {
        let m = self.rate();
        mean(&self.rates.iter().map(|rate| (rate - m).powi(2)).collect::<Vec<_>>())
    }

    /// A counter, a second.
    pub(super) fn per_s(&self, name: &str) -> f64 {
        self.counters.get(name).copied().unwrap_or_default()
    }

    /// A counter for each of another; 0 if there is none of the other.
    pub(super) fn per(&self, name: &str, of: &str) -> f64 {
        let of = self.per_s(of);
        if of > 0.0 { self.per_s(name) / of } else { 0.0 }
    }
}

/// The mean; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(super) fn mean(of: &[f64]) -> f64 {
    if of.is_empty() { 0.0 } else { of.iter().sum::<f64>() / of.len() as f64 }
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Length {
    duration_ms: u64,
    runs: u64,
}

#[derive(Debug, Deserialize)]
struct ProtocolFile {
    warmup_ms: u64,
    quick: BTreeMap<String, Length>,
    full: BTreeMap<String, Length>,
}

#[derive(Debug, Deserialize)]
struct ExperimentFile {
    protocol: ProtocolFile,
}

/// A page's questions and answers.
#[derive(Debug)]
pub(super) struct Runs {
    warmup_ns: u64,
    lengths: BTreeMap<String, Length>,
    seed: u64,
    asked: BTreeMap<String, Question>,
    answers: BTreeMap<String, Answer>,
}

impl Runs {
    /// Reads the protocol of an experiment file.
    pub(super) fn read(experiment: &str, protocol: Protocol, seed: u64) -> Result<Self, EngineError> {
        let file: ExperimentFile = toml::from_str(experiment).map_err(|source| EngineError::Internal {
            what: "Cannot read the experiment file".into(),
            source: Some(source.into()),
        })?;
        let ProtocolFile { warmup_ms, quick, full } = file.protocol;
        let lengths = match protocol {
            Protocol::Quick => quick,
            Protocol::Full => full,
        };
        let (asked, answers) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { warmup_ns: warmup_ms * 1_000_000, lengths, seed, asked, answers })
    }

    /// The answer, or nothing yet.
    pub(super) fn ask(&mut self, question: Question) -> Answer {
        let key = question.key();
        if let Some(answer) = self.answers.get(&key) {
            return answer.clone();
        }
        self.asked.insert(key, question);
        Answer::default()
    }

    /// Makes the runs of everything that was asked.
    pub(super) fn answer(&mut self) -> Result<(), EngineError> {
        let mut jobs = Vec::new();
        for (key, question) in &self.asked {
            let length = self.lengths.get(question.length).copied();
            let length = length.ok_or_else(|| broken("a table asks for a run length that the protocol lacks"))?;
            jobs.extend((0..length.runs).map(|run| (key, question, length, run)));
        }
        let outcomes = in_parallel(&jobs, |(_, question, length, run)| self.run(question, *length, *run));
        let mut by_key: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
        for ((key, ..), outcome) in jobs.iter().zip(outcomes) {
            by_key.entry((*key).clone()).or_default().push(outcome?);
        }
        self.answers = by_key.into_iter().map(|(key, outcomes)| (key, answer(&outcomes))).collect();
        Ok(())
    }

    fn run(&self, question: &Question, length: Length, run_number: u64) -> Result<Outcome, EngineError> {
        let machine = host_machine(question.machine)?;
        let Question { load, switches, governor, grouping, .. } = *question;
        let (warmup_ns, duration_ns) = (self.warmup_ns, length.duration_ms * 1_000_000);
        let seed = self.seed.wrapping_add(run_number);
        let setup = Setup { load, switches, governor, grouping, warmup_ns, duration_ns, seed };
        run(&machine, &setup, &Control::default()).map_err(|source| EngineError::Internal {
            what: format!("Cannot simulate {load:?} on host '{}'", question.machine),
            source: Some(source.into()),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn answer(outcomes: &[Outcome]) -> Answer {
    let per_s = |outcome: &Outcome, n: u64| n as f64 * 1e9 / outcome.duration_ns as f64;
    let rates = outcomes.iter().map(|outcome| per_s(outcome, outcome.units)).collect();
    let names = outcomes.first().into_iter().flat_map(|outcome| outcome.counters.keys().copied());
    let of = |name| mean(&outcomes.iter().map(|o| per_s(o, o.counter(name))).collect::<Vec<_>>());
    Answer { rates, counters: names.map(|name| (name, of(name))).collect() }
}
