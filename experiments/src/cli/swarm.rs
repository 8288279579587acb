//! `vmmlab swarm`: random cases of the simulator under its checkers, each a function of its seed.
use std::path::PathBuf;

use clap::Args;
use plan::Inject;
use sim::swarm::{Broken, Case, Summary};

use super::event_log::Log;
use super::print;
use super::soak::fault_of_any_plan;
use crate::exit::{Error, Exit};
use crate::simulator;
use crate::units::Seed;

/// The most cases of one command.
const CASES_MAX: u64 = 10_000_000;

/// Options of `vmmlab swarm`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab swarm
      cases 1 to 100
  vmmlab swarm --seed 4711 --cases 1 --event-log 4711.log
      one case again, with every event of it")]
pub struct SwarmArgs {
    /// Seed of the first case; the others follow
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: Seed,
    /// Cases [1 to 10000000]
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub cases: u64,
    /// Put in a fault that the checks must catch: lost-flush
    #[arg(long, value_name = "FAULT", value_parser = fault_of_any_plan)]
    pub inject: Option<Inject>,
    /// Write every event of the cases to this file, a line each
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,
}

/// Runs the cases, all of them, and prints what did not hold, with the command that shows it again.
pub(super) fn swarm(args: &SwarmArgs) -> Result<Exit, Error> {
    if !(1..=CASES_MAX).contains(&args.cases) {
        return Err(Error::Usage(format!("--cases {} is out of range: it takes 1 to {CASES_MAX}", args.cases)));
    }
    let base = simulator::machine("generic")?;
    let log = args.event_log.as_deref().map(Log::open).transpose()?;
    let watch = log.as_ref().map(Log::watch);
    let (mut all, mut broken) = (Summary::default(), Vec::new());
    for seed in (0..args.cases).map(|case| args.seed.0.wrapping_add(case)) {
        let mut case = Case::draw(seed, &base);
        case.plan.inject = args.inject;
        match case.run(watch.as_ref()) {
            Ok(summary) => all = sum(all, summary),
            Err(failure) => {
                anstream::eprintln!("case {seed}: {}", described(&case));
                print(&said(&failure))?;
                broken.push(failure);
            }
        }
    }
    log.iter().try_for_each(Log::write)?;
    let Summary { events, digest, faults, cut } = all;
    let (held, of) = (args.cases - broken.len() as u64, args.cases);
    print(&format!("{held} of {of} cases hold: {events} events, {faults} faults, {cut} cut, digest {digest:016x}\n"))?;
    Ok(if broken.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Both together; the digest depends on the order.
fn sum(a: Summary, b: Summary) -> Summary {
    Summary {
        events: a.events + b.events,
        digest: a.digest.rotate_left(1) ^ b.digest,
        faults: a.faults + b.faults,
        cut: a.cut + b.cut,
    }
}

fn said(failure: &Broken) -> String {
    format!("FAILED   {}\n  again    {}\n", failure.what, failure.replay())
}

/// What the case is about, in a line.
fn described(case: &Case) -> String {
    let (plan, axes) = (&case.plan, case.plan.axes);
    let faults: Vec<_> = case.faults.iter().map(ToString::to_string).collect();
    format!(
        "{} VMs x {} vCPUs on CPUs {} of {}, host policy {}, flush {}, spin {}, pinned {}, {}; faults: {}",
        plan.vms,
        plan.vcpus,
        plan.pcpus,
        case.machine.topology,
        axes.host_policy,
        axes.flush,
        axes.spin,
        axes.pin,
        plan.workload,
        if faults.is_empty() { "none".into() } else { faults.join(", ") },
    )
}
