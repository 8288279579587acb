//! `vmmlab sweep`: an experiment file's points, shared out, recorded, summed up.
//!
//! A command of its own, not an option of `run`: `run` asks one question and prints one page; a sweep has many results, can
//! be shared out and gone on with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use super::engine::{Place, engine_again, simulate, threads};
use super::print;
use super::progress::Progress;
use super::run::{command, now, quoted, summary};
use super::run_args::{EngineChoice, Format};
use crate::driver::{self, Work};
use crate::exit::{Error, Exit};
use crate::experiment::Experiment;
use crate::interrupt::{Stop, Watch};
use crate::recording::versions;
use crate::sweep::{
    ExperimentFile, Overrides, Point, PointEntry, SWEEP_MANIFEST_SCHEMA, Shard, Sweep, SweepFile, SweepManifest,
    SweepPoint, render,
};
use crate::units::Seed;

/// Most runs at once.
const JOBS_MAX: i64 = 4096;

/// Examples at the end of `vmmlab sweep --help`; each is run by a test, as a dry run.
pub const SWEEP_EXAMPLES: &str = "\
Examples:
  vmmlab sweep experiments/slices.toml
      every point of the file, in the simulator on all cores
  vmmlab sweep experiments/slices.toml --set duration=200ms --set vms=2
      the same, shorter, at one number of VMs
  vmmlab sweep experiments/slices.toml --shard 2/8 --out shares/2
      the second of eight shares; `vmmlab merge shares/* --out all` joins them
  vmmlab sweep --resume vmmlab-runs/slices/20261130T120000Z-1a2b3c4d
      goes on with a sweep that was interrupted
";

/// Options of `vmmlab sweep`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = SWEEP_EXAMPLES)]
pub struct SweepArgs {
    /// Experiment file; docs/sweeps.md explains the format
    #[arg(value_name = "FILE.toml", required_unless_present = "resume", conflicts_with = "resume")]
    pub file: Option<PathBuf>,
    /// Set an option of all points, as vms=4; it replaces the file's value or axis
    #[arg(long, value_name = "OPTION=VALUE", value_parser = assignment, conflicts_with = "resume")]
    pub set: Vec<(String, String)>,
    /// Seed of everything random [default: the file's, or a new one, printed]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub seed: Option<Seed>,
    /// Engine [default: the file's, or auto]
    #[arg(long, value_name = "auto|kvm|sim", value_enum, hide_possible_values = true, conflicts_with = "resume")]
    pub engine: Option<EngineChoice>,
    /// Run share K of N only: every N-th block from the K-th [1/1 to 100000/100000]
    #[arg(long, value_name = "K/N", conflicts_with = "resume")]
    pub shard: Option<Shard>,
    /// Go on with the sweep in that directory: blocks that are missing or damaged are run
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Simulated runs at once [1 to 4096; default: one a core]
    ///
    /// The results do not depend on it. Real guests always run one after the other.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=JOBS_MAX))]
    pub jobs: Option<u32>,
    /// What is printed on stdout
    #[arg(long, value_enum, value_name = "table|json", default_value = "table", hide_possible_values = true)]
    pub format: Format,
    /// Directory to make [default: vmmlab-runs/NAME/UTC-ID]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Print the points, the blocks and the time that they will take, and stop
    #[arg(long, conflicts_with = "resume")]
    pub dry_run: bool,
}

pub(super) fn sweep(args: &SweepArgs, arguments: &[String]) -> Result<Exit, Error> {
    let sweep = match (&args.resume, &args.file) {
        (Some(dir), _) => resume(dir)?,
        (None, Some(file)) => match begin(args, file, arguments)? {
            Some(sweep) => sweep,
            None => return Ok(Exit::Ok),
        },
        (None, None) => return Err(Error::Usage("sweep needs an experiment file, or --resume DIR".into())),
    };
    run(&sweep, args)
}

/// Makes the directory of a new sweep, or, in a dry run, prints the plan and answers nothing.
fn begin(args: &SweepArgs, path: &Path, arguments: &[String]) -> Result<Option<Sweep>, Error> {
    let (file, text) = ExperimentFile::read(path)?;
    let in_file = |why: String| Error::Usage(format!("{}: {why}", path.display()));
    let mut overrides = Overrides { options: args.set.clone() };
    if let Some(engine) = args.engine {
        overrides.options.push(("engine".into(), engine.name().into()));
    }
    if let Some(seed) = args.seed {
        overrides.options.push(("seed".into(), seed.to_string()));
    }
    let mut points = file.points(&overrides).map_err(in_file)?;
    let mut chosen = Vec::new();
    if points.iter().any(|point| point.args.seed.is_none()) {
        if args.shard.is_some() {
            return Err(in_file(
                "--shard needs a seed that all shares know: write it into [run], or add --seed".into(),
            ));
        }
        let seed = Seed::random().to_string();
        overrides.options.push(("seed".into(), seed.clone()));
        chosen.push(("--seed", seed));
        points = file.points(&overrides).map_err(in_file)?;
    }
    let simulated = simulate(points.first().map_or(EngineChoice::Auto, |point| point.args.engine));
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let planned = points.iter().map(|point| planned(&file, point, simulated).map_err(|e| in_file(e.to_string())));
    let planned: Vec<(Place, Experiment)> = planned.collect::<Result<_, _>>()?;
    let command = command(arguments, &chosen);
    if args.dry_run {
        let experiments: Vec<_> = planned.into_iter().map(|(_, experiment)| experiment).collect();
        print(&dry_run(&file, &points, &experiments, shard, args.jobs, &command))?;
        return Ok(None);
    }
    let (started, stamp) = now();
    let mut entries = Vec::new();
    let mut engine = "";
    for (index, (point, (place, experiment))) in points.iter().zip(planned).enumerate() {
        place.check(&experiment)?;
        let (found, host) = place.engine(None)?;
        engine = found.name();
        entries.push(PointEntry {
            dir: PointEntry::directory(index, &point.axes),
            axes: point.axes.iter().cloned().collect(),
            command: alone(point, engine),
            experiment,
            host,
        });
    }
    let manifest = SweepManifest {
        schema: SWEEP_MANIFEST_SCHEMA.into(),
        name: file.name,
        title: file.title,
        caveats: file.caveats,
        command,
        started,
        engine: engine.into(),
        versions: versions(),
        shard,
        points: entries,
    };
    Sweep::create(args.out.as_deref(), &stamp, manifest, &text).map(Some)
}

fn planned(file: &ExperimentFile, point: &Point, simulated: bool) -> Result<(Place, Experiment), Error> {
    let place = Place::choose(simulated, &point.args.simulator)?;
    let experiment = place.experiment(&point.args)?;
    let (name, metrics) = (file.name.clone(), file.metrics());
    Ok((place, Experiment { name, metrics, ..experiment }))
}

/// The command that asks for one point.
fn alone(point: &Point, engine: &str) -> String {
    let mut words = vec!["vmmlab run".to_owned()];
    words.extend(point.words.iter().filter(|word| !word.starts_with("--engine=")).map(|word| quoted(word)));
    words.push(format!("--engine={engine}"));
    words.join(" ")
}

/// Opens a sweep to go on with it.
fn resume(dir: &Path) -> Result<Sweep, Error> {
    let sweep = Sweep::open(dir)?;
    if let Some(point) = sweep.manifest().points.first() {
        let (_, host) = engine_again(&point.experiment)?;
        if host != point.host {
            return Err(Error::Usage(format!(
                "--resume {}: it was begun on another host ({}); blocks of two hosts do not mix, go on where it began",
                dir.display(),
                point.host.cpu.as_deref().unwrap_or("unknown processor"),
            )));
        }
    }
    Ok(sweep)
}

/// Runs the blocks that are not there yet.
fn run(sweep: &Sweep, args: &SweepArgs) -> Result<Exit, Error> {
    let manifest = sweep.manifest();
    let share = manifest.jobs();
    let mut engines = Vec::new();
    let mut work = Vec::new();
    // Only points of which this share has something; `index` finds them.
    let mut index = BTreeMap::new();
    let mut jobs = Vec::new();
    for job in &share {
        let Some(point) = manifest.points.get(job.work) else { continue };
        let at = match index.get(&job.work) {
            Some(at) => *at,
            None => {
                let recording = sweep.recording(point)?;
                engines.push(engine_again(&point.experiment)?.0);
                work.push((point, recording));
                index.insert(job.work, work.len() - 1);
                work.len() - 1
            }
        };
        if work.get(at).is_some_and(|(_, recording)| !recording.has(job.block)) {
            jobs.push(driver::Job { work: at, block: job.block });
        }
    }
    let (points, recordings): (Vec<_>, Vec<_>) = work.into_iter().unzip();
    let work: Vec<_> = recordings.into_iter().map(Work::new).collect();
    let engines: Vec<driver::SharedEngine<'_>> = engines.iter().map(|engine| &**engine).collect();

    let threads = threads(&manifest.engine, args.jobs);
    let runs = jobs.iter().filter_map(|job| work.get(job.work)).map(|work| work.experiment().plans.len()).sum();
    let there = share.len() - jobs.len();
    let dir = sweep.store().dir().display();
    anstream::eprintln!("{dir}: {} points, {} blocks to run, {there} are there", points.len(), jobs.len());
    let stop = Stop::default();
    let watch = Watch::start(stop.clone()).map_err(Error::Signals)?;
    let names = points.iter().map(|point| point.dir.trim_start_matches("points/").to_owned()).collect();
    let mut progress = Progress::new(runs, jobs.len(), names);
    let ended = driver::run_jobs(&engines, &work, &jobs, threads, &stop, &mut progress)?;
    progress.end();
    drop(watch);

    let points =
        points.into_iter().zip(&work).map(|(point, work)| SweepPoint::of(&point.dir, &point.axes, &work.result()));
    let file = SweepFile::of(manifest, points.collect());
    let exit = driver::exit(ended.interrupted, file.points.iter().map(|point| point.status));
    finish(sweep, &file, args.format)?;
    match ended.error {
        Some(error) => Err(error.into()),
        None => Ok(exit),
    }
}

/// Writes `sweep.json` and prints the page.
pub(super) fn finish(sweep: &Sweep, file: &SweepFile, format: Format) -> Result<(), Error> {
    sweep.store().write_json("sweep.json", file)?;
    match format {
        Format::Table => {
            let path = sweep.store().dir().join("sweep.json");
            print(&render(file, sweep.manifest().points.len(), &path.to_string_lossy()))
        }
        Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(file).unwrap_or_default())),
    }
}

fn dry_run(
    file: &ExperimentFile,
    points: &[Point],
    experiments: &[Experiment],
    shard: Shard,
    jobs: Option<u32>,
    command: &str,
) -> String {
    let share = crate::sweep::jobs(experiments, shard);
    let engine = if experiments.iter().any(|experiment| experiment.simulated.is_some()) { "sim" } else { "kvm" };
    let threads = u32::try_from(threads(engine, jobs)).unwrap_or(u32::MAX);
    let time = share.iter().filter_map(|job| experiments.get(job.work)).map(Experiment::estimate_block).sum();
    let mut page = format!(
        "{}: {} points, {} blocks in share {shard}, about {}; a dry run: nothing is started\n\n",
        file.name,
        points.len(),
        share.len(),
        super::run::rounded(time, threads),
    );
    for (point, experiment) in points.iter().zip(experiments) {
        let name = point.axes.iter().map(|(key, value)| format!("{key}={value} ")).collect::<String>();
        let modes: Vec<_> = experiment.plans.iter().map(|plan| plan.mode.as_str()).collect();
        page.push_str(&format!("point {name}seed {}: {}; {}\n", experiment.seed, modes.join(" "), summary(experiment)));
    }
    page.push_str(&format!("\nagain    {command}\n"));
    page
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write OPTION=VALUE, as in vms=4")?;
    Ok((key.trim_start_matches('-').into(), value.into()))
}
