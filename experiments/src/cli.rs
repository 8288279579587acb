//! The command line. stdout is the result, stderr is everything else.

mod compare;
mod doctor;
mod engine;
mod event_log;
mod export;
mod gang;
mod limits;
mod list;
mod merge;
mod pages;
mod progress;
mod record_args;
mod report;
mod reproduce;
mod run;
mod run_args;
mod shell;
mod sim_args;
mod soak;
mod swarm;
mod sweep;
pub(crate) mod trace;

use std::io::Write;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub use compare::{COMPARE_EXAMPLES, CompareArgs};
pub use doctor::DoctorArgs;
pub use export::{ExportArgs, HlogArgs};
pub use gang::GangArgs;
pub use merge::MergeArgs;
pub use record_args::TraceOptions;
pub use report::ReportArgs;
pub use reproduce::{Published, ReproduceArgs};
pub use run_args::{EngineChoice, Format, RUN_EXAMPLES, RunArgs};
pub use shell::{CompletionsArgs, ManArgs};
pub use sim_args::SimulatorArgs;
pub use soak::{SoakArgs, SoakEngine};
pub use swarm::SwarmArgs;
pub use sweep::{SWEEP_EXAMPLES, SweepArgs};
pub use trace::{SUMMARY_SCHEMA, SummaryArgs, TraceArgs};

use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::topology::{TopologyArgs, topology_command};

/// Compare remedies for overcommitted SMP virtual machines
#[derive(Debug, Parser)]
#[command(name = "vmmlab", version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 ok, 1 a run failed its checks, or a regression, 2 usage, 3 inconclusive or \
    not comparable, 4 cannot run on this host, 70 fault of vmmlab, 130 interrupted")]
pub struct Cli {
    /// Colours
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "auto|always|never",
        hide_possible_values = true
    )]
    pub color: clap::ColorChoice,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run guests under one or several modes and compare them
    Run(Box<RunArgs>),
    /// Run an experiment file: every combination of its axes, on all cores or shared out
    Sweep(Box<SweepArgs>),
    /// Join the shares of a sweep
    Merge(MergeArgs),
    /// Compare results: two versions, two hosts, or the modes of one run
    Compare(CompareArgs),
    /// Say what this host offers, and what will be missing (exit code 4 without a usable KVM)
    Doctor(DoctorArgs),
    /// Show or change which cgroups are gangs
    Gang(GangArgs),
    /// Show a topology, or bring one from another tool into the normal form
    Topology(TopologyArgs),
    /// Set published tables beside what the simulator makes of them
    Reproduce(ReproduceArgs),
    /// Check the simulator: random hosts, guests, modes and faults by seed (exit code 1 if a check fails)
    Swarm(SwarmArgs),
    /// Run random plans on real guests and in the simulator, and look for what was lost or left behind
    Soak(SoakArgs),
    /// Read recorded traces, ours and those of trace-cmd and perf
    Trace(TraceArgs),
    /// Write a result in the format of another tool
    Export(ExportArgs),
    /// Make a page to read from a result: verdict, charts, limits, how to reproduce
    Report(ReportArgs),
    /// List modes, workloads, machines, topologies and the columns of the table
    List,
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Write man pages
    Man(ManArgs),
}

/// Does what `cli` says. `arguments` are those of the process, without its name.
///
/// # Errors
/// Whatever kept it from being done; the error knows its exit code.
pub fn execute(cli: &Cli, arguments: &[String]) -> Result<Exit, Error> {
    match cli.color {
        clap::ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
        clap::ColorChoice::Auto => {}
    }
    log_to_stderr();
    interrupt::outlive_file_limit().map_err(Error::Signals)?;
    match &cli.command {
        Command::Run(args) => run::run(args, arguments),
        Command::Sweep(args) => sweep::sweep(args, arguments),
        Command::Merge(args) => merge::merge(args),
        Command::Compare(args) => compare::compare(args),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Gang(args) => gang::gang(args),
        Command::Topology(args) => topology(args),
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Swarm(args) => swarm::swarm(args),
        Command::Soak(args) => soak::soak(args, arguments),
        Command::Trace(args) => trace::trace(args),
        Command::Export(args) => export::export(args),
        Command::Report(args) => report::report(args),
        Command::List => list::list(),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
    }
}

fn topology(args: &TopologyArgs) -> Result<Exit, Error> {
    let answer = topology_command(args)?;
    for notice in &answer.notices {
        anstream::eprintln!("notice: {notice}");
    }
    print(&answer.result)?;
    Ok(Exit::Ok)
}

/// Warnings of the engines; `VMMLAB_LOG=debug` shows more.
fn log_to_stderr() {
    let filter = EnvFilter::builder().with_env_var("VMMLAB_LOG").with_default_directive(LevelFilter::WARN.into());
    let log = tracing_subscriber::fmt().with_env_filter(filter.from_env_lossy()).with_writer(std::io::stderr);
    // A second subscriber in one process is refused; the first one stays, which is as good.
    let _ = log.with_ansi(false).without_time().try_init();
}

/// Prints a result. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> Result<(), Error> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Error::Stdout),
    }
}
