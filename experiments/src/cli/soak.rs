//! `vmmlab soak`: random plans on both engines for a time, and what held.

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use plan::{Engine, EngineError, Inject, RunPlan, RunStatus};
use vmm::probe::{allowed_cpus, probe};

use super::engine::Place;
use super::print;
use super::run::{command, quoted};
use super::run_args::{Format, RunArgs};
use crate::exit::{Error, Exit};
use crate::interrupt::{Stop, Watch};
use crate::soak::{FailedPlan, Left, Summary, complaints, draw};
use crate::table::figure;
use crate::units::{Seed, Time};

/// Between two lines of progress.
const TELL: Duration = Duration::from_secs(20);

/// Longest soak.
const FOR_MAX: Time = Time { ns: 7 * 24 * 3600 * 1_000_000_000 };

/// Which engines are soaked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SoakEngine {
    /// KVM where /dev/kvm is usable, and the simulator
    Both,
    /// real guests on /dev/kvm
    Kvm,
    /// the simulated host
    Sim,
}

/// Options of `vmmlab soak`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab soak --for 30m
      random plans on real guests and in the simulator, half an hour long
  vmmlab soak --seed 4711 --plans 1 --engine kvm
      one plan again
  vmmlab soak --for 20s --inject lost-flush --engine sim
      with a fault in every plan: the soak must fail

Exit codes: 0 everything held, 1 a run failed a check, 4 no usable KVM with --engine kvm, 130 interrupted")]
pub struct SoakArgs {
    /// How long [1s to 7d]
    #[arg(long = "for", value_name = "TIME", default_value = "1m")]
    pub time: Time,
    /// At most so many plans [default: as many as there is time for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub plans: Option<u64>,
    /// Number of the first plan; the others follow [default: a random one, printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<Seed>,
    /// Engines
    #[arg(long, value_name = "both|kvm|sim", value_enum, default_value = "both", hide_possible_values = true)]
    pub engine: SoakEngine,
    /// Put a fault into every plan, which the checks must catch: lost-flush
    #[arg(long, value_name = "FAULT", value_parser = fault_of_any_plan)]
    pub inject: Option<Inject>,
    /// What is printed on stdout
    #[arg(long, value_enum, value_name = "table|json", default_value = "table", hide_possible_values = true)]
    pub format: Format,
}

/// A fault that every plan can have.
pub(super) fn fault_of_any_plan(text: &str) -> Result<Inject, String> {
    match text.parse().map_err(|error: plan::ModeError| error.to_string())? {
        Inject::EarlyFree => Err(
            "it acts on workload gup alone: vmmlab run --workload gup --inject early-free; here it takes lost-flush"
                .into(),
        ),
        fault @ Inject::LostFlush => Ok(fault),
    }
}

pub(super) fn soak(args: &SoakArgs, arguments: &[String]) -> Result<Exit, Error> {
    let least = Time { ns: 1_000_000_000 };
    if args.time < least || args.time > FOR_MAX {
        return Err(Error::Usage(format!("--for {} is out of range: it takes 1s to 168h", args.time)));
    }
    let real = kvm(args.engine)?;
    let simulated = args.engine != SoakEngine::Kvm;
    let seed = args.seed.unwrap_or_else(Seed::random);
    let mut summary = Summary::new(seed.0, command(arguments, &[("--seed", seed.to_string())]));
    let stop = Stop::default();
    let watch = Watch::start(stop.clone()).map_err(Error::Signals)?;
    let (began, time) = (Instant::now(), Duration::from_nanos(args.time.ns));
    anstream::eprintln!("soaking for {} from seed {seed}", args.time);
    let mut told = began;
    while began.elapsed() < time && !stop.asked() && args.plans.is_none_or(|most| summary.plans < most) {
        let number = seed.0.wrapping_add(summary.plans);
        for kvm in [real.as_ref(), None] {
            if (kvm.is_some() || simulated) && !stop.asked() {
                one(args, number, kvm, &stop, &mut summary)?;
            }
            if real.is_none() {
                break;
            }
        }
        summary.plans += 1;
        if told.elapsed() >= TELL {
            told = Instant::now();
            anstream::eprintln!("{}", line(&summary, began.elapsed()));
        }
    }
    drop(watch);
    summary.took_s = began.elapsed().as_secs_f64();
    summary.interrupted = stop.asked();
    print(&match args.format {
        Format::Table => page(&summary),
        // Plain data with string keys: it cannot fail to serialize.
        Format::Json => serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n",
    })?;
    Ok(match (summary.failed.is_empty(), summary.interrupted) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Interrupted,
        (true, false) => Exit::Ok,
    })
}

/// The real engine, if it is asked for and there.
fn kvm(engine: SoakEngine) -> Result<Option<vmm::Kvm>, Error> {
    match (engine, probe().kvm) {
        (SoakEngine::Sim, _) => Ok(None),
        (_, Ok(_)) => Ok(Some(vmm::Kvm::default())),
        (SoakEngine::Kvm, Err(reason)) => Err(EngineError::Unsupported(reason.to_string()).into()),
        (SoakEngine::Both, Err(reason)) => {
            anstream::eprintln!("notice: {reason}; only the simulator is soaked");
            Ok(None)
        }
    }
}

/// One plan on one engine: the real one, or the simulator.
fn one(args: &SoakArgs, number: u64, kvm: Option<&vmm::Kvm>, stop: &Stop, summary: &mut Summary) -> Result<(), Error> {
    let allowed = allowed_cpus();
    let cpus = u32::try_from(allowed.len()).unwrap_or(u32::MAX).max(1);
    let (mut words, real) = draw(number, cpus);
    match kvm {
        Some(_) => words.extend(real),
        None => words.push(format!("--topology=1s:{}c", cpus.max(2))),
    }
    words.extend(args.inject.map(|fault| format!("--inject={fault}")));
    let name = if kvm.is_some() { "kvm" } else { "sim" };
    words.push(format!("--engine={name}"));
    // What is drawn is in range: a test asks for a thousand of them.
    let run = RunArgs::from_words(&words).map_err(Error::Usage)?;
    if kvm.is_none() && !run.workload.is_simulated() {
        return Ok(());
    }
    let place = Place::choose(kvm.is_none(), &run.simulator)?;
    let experiment = place.experiment(&run)?;
    let Some(plan) = experiment.block(0).into_iter().next() else { return Ok(()) };
    let before = Left::now();
    let ended = match kvm {
        Some(kvm) => kvm.run(&plan, stop.control()),
        None => place.engine(None).and_then(|(sim, _)| sim.run(&plan, stop.control())),
    };
    let found = match &ended {
        Ok(record) => {
            summary.count(name, &plan, record);
            let cut = record.status == RunStatus::Partial && stop.control().aborted();
            if cut { Vec::new() } else { complaints(&plan, record, before, Left::now()) }
        }
        Err(error) => vec![format!("engine: {error}")],
    };
    if !found.is_empty() {
        let failed = failed(args, number, name, found, &words);
        anstream::eprintln!("{}", said(&failed, &plan));
        summary.failed.push(failed);
    }
    Ok(())
}

fn failed(args: &SoakArgs, seed: u64, engine: &str, complaints: Vec<String>, words: &[String]) -> FailedPlan {
    let inject = args.inject.map(|fault| format!(" --inject {fault}")).unwrap_or_default();
    let again = format!("vmmlab soak --seed {seed} --plans 1 --engine {engine}{inject}");
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    FailedPlan { seed, engine: engine.into(), complaints, again, run: format!("vmmlab run {}", words.join(" ")) }
}

fn said(failed: &FailedPlan, plan: &RunPlan) -> String {
    let what = failed.complaints.join("; ");
    format!("FAILED   plan {}, {} {}, {}: {what}", failed.seed, plan.mode, plan.workload, failed.engine)
}

fn line(summary: &Summary, elapsed: Duration) -> String {
    let runs: u64 = summary.engines.values().sum();
    let (plans, failed) = (summary.plans, summary.failed.len());
    format!("{} s: {plans} plans, {runs} runs, {failed} failed", elapsed.as_secs())
}

fn page(summary: &Summary) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    for failed in &summary.failed {
        let (seed, engine) = (failed.seed, &failed.engine);
        let _ = writeln!(page, "FAILED   plan {seed}, {engine}: {}", failed.complaints.join("; "));
        let _ = writeln!(page, "  again    {}", failed.again);
        let _ = writeln!(page, "  as a run {}", failed.run);
    }
    if summary.interrupted {
        let _ = writeln!(page, "PARTIAL  interrupted");
    }
    let covered = |counts: &std::collections::BTreeMap<String, u64>| {
        let runs = |(name, runs): (&String, &u64)| format!("{name} {runs}");
        counts.iter().map(runs).collect::<Vec<_>>().join(", ")
    };
    for (key, counts) in [
        ("runs", &summary.engines),
        ("modes", &summary.modes),
        ("flush", &summary.flush_strategies),
        ("work", &summary.workloads),
        ("beside", &summary.neighbours),
        ("sched", &summary.schedulers),
    ] {
        let _ = writeln!(page, "{}", crate::table::grid::wrap(&format!("{key:<8} {}", covered(counts)), 9));
    }
    let number = |n: u64| figure::grouped(&n.to_string());
    let held = format!(
        "{} flushes, {} records, {} kicks sent and taken, {} stale reads, in {:.0} s of guests' time",
        number(summary.flushes),
        number(summary.records),
        number(summary.kicks),
        summary.stale_reads,
        summary.measured_s
    );
    let _ = writeln!(page, "{}", crate::table::grid::wrap(&format!("{:<8} {held}", "guests"), 9));
    let (plans, runs, failed) = (summary.plans, summary.engines.values().sum::<u64>(), summary.failed.len());
    let verdict = if failed == 0 { "everything held".into() } else { format!("{failed} runs FAILED") };
    let took = summary.took_s;
    let _ = writeln!(page, "{:<8} {plans} plans, {runs} runs in {took:.0} s: {verdict}", "soak");
    let _ = writeln!(page, "{:<8} {}", "again", summary.command);
    page
}
