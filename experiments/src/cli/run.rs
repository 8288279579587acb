//! `vmmlab run`: from the options to an engine, and from its result to the page.

use std::time::SystemTime;

use plan::{Control, RunRecord, RunStatus, format_ns};

use super::engine::Place;
use super::event_log::Log;
use super::run_args::{Format, RunArgs};
use super::{limits, print};
use crate::driver::{self, Context, Observer};
use crate::exit::{Error, Exit};
use crate::experiment::Experiment;
use crate::interrupt::Watch;
use crate::store::Store;
use crate::table;
use crate::table::figure;

pub(super) fn run(args: &RunArgs, arguments: &[String]) -> Result<Exit, Error> {
    let place = Place::choose(args.engine, args.topology.as_deref())?;
    let experiment = args.experiment(&place.cpus())?;
    let command = command(arguments, experiment.seed);
    if args.dry_run {
        print(&dry_run(&experiment, &command))?;
        return Ok(Exit::Ok);
    }
    if matches!(place, Place::Kvm) {
        vmm::check_workload(args.workload)?;
        limits::check(&experiment)?;
    }
    let log = args.event_log.as_deref().map(|path| Log::create(path, &place)).transpose()?;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stamp: String = now.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let store = Store::create(args.out.as_deref(), &experiment.name, &stamp, &experiment.digest())?;
    let (engine, host) = match place.engine(log.as_ref().map(Log::watch)) {
        Ok(found) => found,
        Err(error) => {
            store.discard();
            return Err(error.into());
        }
    };
    let control = Control::default();
    let watch = Watch::start(control.clone()).map_err(Error::Signals)?;
    let context = Context { command, started: now, host };
    anstream::eprintln!("{}: {}", store.dir().display(), summary(&experiment));
    let outcome = driver::run(&*engine, &experiment, context, &store, &control, &mut Progress { done: 0 })?;
    drop(watch);
    log.iter().try_for_each(Log::write)?;

    match args.format {
        Format::Table => print(&table::render(&outcome.result, &store.dir().join("result.json").to_string_lossy()))?,
        Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(&outcome.result).unwrap_or_default()))?,
    }
    let exit = outcome.exit();
    match outcome.error {
        Some(error) => Err(error.into()),
        None => Ok(exit),
    }
}

/// The command that runs this again: as given, with the seed, without the place of the result.
fn command(arguments: &[String], seed: u64) -> String {
    let mut words = vec!["vmmlab".to_owned()];
    let mut given = arguments.iter();
    let mut seeded = false;
    while let Some(word) = given.next() {
        match word.as_str() {
            "--out" | "--event-log" => drop(given.next()),
            other if other.starts_with("--out=") || other.starts_with("--event-log=") || other == "--dry-run" => {}
            other => {
                seeded |= other == "--seed" || other.starts_with("--seed=");
                words.push(quoted(other));
            }
        }
    }
    if !seeded {
        words.extend(["--seed".into(), seed.to_string()]);
    }
    words.join(" ")
}

/// A word as a POSIX shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn summary(experiment: &Experiment) -> String {
    let time = humantime::format_duration(std::time::Duration::from_secs(experiment.estimate().as_secs().max(1)));
    format!("{} modes x {} blocks, about {time}", experiment.plans.len(), experiment.blocks)
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
            "\n{} VMs x {} vCPUs on CPUs {}, {} scheduler, hz {}, gang_cpus {}\n\
             sched_latency {}\nsched_min_granularity {}\nsched_wakeup_granularity {}\n\
             {}: warm-up {}, measured {}\n\n",
            plan.vms,
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

/// One line a run on stderr.
struct Progress {
    done: usize,
}

impl Observer for Progress {
    fn run_done(&mut self, experiment: &Experiment, record: &RunRecord) {
        self.done += 1;
        let of = experiment.plans.len() * experiment.blocks as usize;
        let what = match record.status {
            RunStatus::Ok => {
                let records = experiment.plans.first().map_or("records", |plan| plan.workload.about().records);
                format!("{:>10} {records}/s", figure::rate(record.records_per_s))
            }
            RunStatus::Partial => "stopped".into(),
            RunStatus::Failed => {
                let checks: Vec<_> = record.failures.iter().map(|failure| failure.check.as_str()).collect();
                format!("FAILED: {}", checks.join(", "))
            }
        };
        anstream::eprintln!("[{:>3}/{of}] block {} {:<14} {what}", self.done, record.block, record.mode);
    }

    fn block_done(&mut self, _: &Experiment, _: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_run_again_has_the_seed_and_not_the_place() {
        let given = |words: &[&str]| command(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), 7);
        assert_eq!(
            given(&["run", "--out", "x", "--vms", "2", "--out=y", "--event-log", "z"]),
            "vmmlab run --vms 2 --seed 7"
        );
        assert_eq!(given(&["run", "--seed=9", "--cgroup", "a b'c"]), r"vmmlab run --seed=9 --cgroup 'a b'\''c'");
    }
}
