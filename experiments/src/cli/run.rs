//! `vmmlab run`: from the options to an engine, and from its result to the page.

use std::time::{Duration, SystemTime};

use plan::format_ns;

use super::engine::{Place, simulate, threads};
use super::event_log::Log;
use super::progress::Progress;
use super::run_args::RunArgs;
use super::{pages, print};
use crate::driver;
use crate::exit::{Error, Exit};
use crate::experiment::Experiment;
use crate::interrupt::{Stop, Watch};
use crate::recording::{Context, Recording};
use crate::store::Store;
use crate::table;
use crate::traced::traced;

pub(super) fn run(args: &RunArgs, arguments: &[String]) -> Result<Exit, Error> {
    let place = Place::choose(simulate(args.engine), &args.simulator)?;
    let experiment = place.experiment(args)?;
    let traces = args.trace.request(experiment.plans.len(), experiment.blocks)?;
    let command = command(arguments, &[("--seed", experiment.seed.to_string())]);
    if args.dry_run {
        print(&dry_run(&experiment, &command))?;
        return Ok(Exit::Ok);
    }
    place.check(&experiment)?;
    let log = args.event_log.as_deref().map(|path| Log::create(path, &place)).transpose()?;
    let (started, stamp) = now();
    let store = Store::create(args.out.as_deref(), &experiment.name, &stamp, &experiment.digest())?;
    let (engine, host) = match place.engine(log.as_ref().map(Log::watch)) {
        Ok(found) => found,
        Err(error) => {
            store.discard();
            return Err(error.into());
        }
    };
    let engine = traced(engine, traces);
    let stop = Stop::default();
    let watch = Watch::start(stop.clone()).map_err(Error::Signals)?;
    anstream::eprintln!("{}: {}", store.dir().display(), summary(&experiment));
    let result_file = store.dir().join("result.json");
    let mut progress = Progress::new(runs(&experiment), experiment.blocks as usize, Vec::new());
    let context = Context { command, started, host };
    let recording = Recording::open(engine.name(), experiment, context, store)?;
    // The log tells one run after the other.
    let threads = if log.is_some() { 1 } else { threads(engine.name(), None) };
    let outcome = driver::run(&*engine, recording, threads, &stop, &mut progress)?;
    progress.end();
    drop(watch);
    log.iter().try_for_each(Log::write)?;

    print(&pages::of_result(&outcome.result, &result_file.to_string_lossy(), args.format)?)?;
    let exit = outcome.exit();
    match outcome.error {
        Some(error) => Err(error.into()),
        None => Ok(exit),
    }
}

/// Now, for people and for file names.
pub(super) fn now() -> (String, String) {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stamp = now.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    (now, stamp)
}

fn runs(experiment: &Experiment) -> usize {
    experiment.plans.len() * experiment.blocks as usize
}

/// Options that say where a result goes or which part of it is made, and not what is asked; true: with a value.
const NO_QUESTION: &[(&str, bool)] = &[
    ("--out", true),
    ("--event-log", true),
    ("--trace", true),
    ("--trace-block", true),
    ("--trace-max-events", true),
    ("--shard", true),
    ("--jobs", true),
    ("--dry-run", false),
];

/// The command that runs this again: as given, with `chosen` options that were not given, without the place of the result.
pub(super) fn command(arguments: &[String], chosen: &[(&str, String)]) -> String {
    let mut words = vec!["vmmlab".to_owned()];
    let mut given = arguments.iter();
    while let Some(word) = given.next() {
        let name = word.split('=').next().unwrap_or_default();
        match NO_QUESTION.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if !word.contains('=') => drop(given.next()),
            Some(_) => {}
            None => words.push(quoted(word)),
        }
    }
    for (option, value) in chosen {
        let said = |word: &String| word == option || word.starts_with(&format!("{option}="));
        if !arguments.iter().any(said) {
            words.extend([(*option).to_owned(), quoted(value)]);
        }
    }
    words.join(" ")
}

/// A word as a POSIX shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

pub(super) fn summary(experiment: &Experiment) -> String {
    let engine = if experiment.simulated.is_some() { "sim" } else { "kvm" };
    let threads = threads(engine, None).min(experiment.blocks as usize);
    let time = rounded(experiment.estimate(), u32::try_from(threads).unwrap_or(1));
    format!("{} modes x {} blocks, about {time}", experiment.plans.len(), experiment.blocks)
}

/// The time that `work` takes when it is shared by so many threads, in whole seconds.
pub(super) fn rounded(work: Duration, threads: u32) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs((work / threads.max(1)).as_secs().max(1)))
}

fn dry_run(experiment: &Experiment, command: &str) -> String {
    let mut page = format!("{}; seed {}; a dry run: nothing is started\n\n", summary(experiment), experiment.seed);
    for plan in &experiment.plans {
        let axes = plan.axes;
        page.push_str(&format!(
            "mode {}: host policy {}, flush {}, spin {}, vCPUs {}\n",
            plan.mode,
            axes.host_policy,
            axes.flush,
            axes.spin,
            if axes.pin { "pinned" } else { "free" }
        ));
    }
    if let Some(plan) = experiment.plans.first() {
        let sysctl = |ns: Option<u64>| ns.map_or_else(|| "as Linux scales it".into(), format_ns);
        page.push_str(&format!(
            "\n{} x {} vCPUs on CPUs {}, {} scheduler, hz {}, gang_cpus {}\n\
             sched_latency {}\nsched_min_granularity {}\nsched_wakeup_granularity {}\n\
             {}: warm-up {}, measured {}\n\n",
            table::numbers(&experiment.bands(), "VM"),
            plan.vcpus,
            plan.pcpus,
            plan.sched,
            plan.hz,
            plan.gang_cpus,
            sysctl(plan.sched_latency_ns),
            sysctl(plan.sched_min_granularity_ns),
            sysctl(plan.sched_wakeup_granularity_ns),
            plan.workload,
            format_ns(plan.warmup_ns),
            format_ns(plan.duration_ns),
        ));
    }
    for block in 0..experiment.blocks {
        let modes: Vec<_> = experiment.block(block).into_iter().map(|plan| plan.mode).collect();
        page.push_str(&format!("block {block}: {}\n", modes.join(" ")));
    }
    page.push_str(&format!("\nagain    {command}\n"));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_run_again_has_the_seed_and_not_the_place() {
        let given = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|w| (*w).to_owned()).collect();
            command(&words, &[("--seed", "7".into())])
        };
        assert_eq!(
            given(&["run", "--out", "x", "--vms", "2", "--out=y", "--event-log", "z", "--trace=t.txt"]),
            "vmmlab run --vms 2 --seed 7"
        );
        assert_eq!(given(&["run", "--seed=9", "--cgroup", "a b'c"]), r"vmmlab run --seed=9 --cgroup 'a b'\''c'");
    }
}
