//! `vmmlab run`: the options.

mod experiment;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, ValueEnum};
use plan::{CpuList, Flush, HostPolicy, Inject, Lock, Neighbour, Sched, Spin, Workload, WorkloadParams};

use super::record_args::TraceOptions;
use super::sim_args::SimulatorArgs;
use crate::format::OutputFormat;
use crate::row::Row;
use crate::units::{Seed, Time};

/// Examples at the end of `vmmlab run --help`; each is run by a test, as a dry run.
pub const RUN_EXAMPLES: &str = "\
Examples:
  vmmlab run --vms 8 --mode base,gang,pvflush,ple
      eight 8-vCPU guests, four remedies, eight interleaved blocks: the main job
  vmmlab run --vms 4 --vcpus 2 --mode base,pin,gang
      gangs that fit two CPUs
  vmmlab run --mode base,pvflush --slice 4ms
      the same question at a slice of 4 ms
  vmmlab run --mode base,base+flush=on-enter,on-enter+pin=yes
      single axes of a mode changed, each in a row of its own
  vmmlab run --vms 1,2,4 --vcpus 2 --mode base,gang,pvflush
      from idle CPUs to overcommitted ones in one run: a table for each number of VMs, and how a VM's share shrinks
  vmmlab run --engine sim --topology 1s:8c --vms 8
      the main job on a simulated host of eight CPUs, reproducible to the bit
  vmmlab run --vms 1 --vcpus 2 --mode base,base+sched=host --blocks 20
      what the lab's scheduler costs against the kernel's own
  vmmlab run --vms 1 --mode base --sched host --format json
      the kernel's own scheduler, and a result for scripts
";

/// Which engine runs the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// KVM where /dev/kvm is usable, else the simulator
    Auto,
    /// real guests on /dev/kvm
    Kvm,
    /// the simulated host
    Sim,
}

impl EngineChoice {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Sim => "sim",
        }
    }
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// tables of at most 100 columns
    Table,
    /// the whole result, schema vmmlab.result/1
    Json,
}

/// Options of `vmmlab run`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Modes to compare, interleaved; `vmmlab list` explains them
    ///
    /// The first one, or `base` if it is among them, is what the others are compared with. An axis of one mode is
    /// changed by appending it: gang+flush=on-enter.
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', default_value = "base,gang,pvflush,ple")]
    pub mode: Vec<Row>,
    /// Host policy: cfs, gang-next, gang, ple, gang-next-ple, gang-ple
    #[arg(long, value_name = "POLICY", help_heading = "Axes (change every mode of the list)")]
    pub host_policy: Option<HostPolicy>,
    /// Flush strategy: ipi, halt-kick, on-enter, hypercall, pvflush
    #[arg(long, value_name = "FLUSH", help_heading = "Axes (change every mode of the list)")]
    pub flush: Option<Flush>,
    /// Way of waiting: busy, ple, halt
    #[arg(long, value_name = "SPIN", help_heading = "Axes (change every mode of the list)")]
    pub spin: Option<Spin>,
    /// vCPU i of a VM only on the i-th CPU, or not: --pin, --pin=no
    #[arg(
        long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
        value_parser = yes_no, help_heading = "Axes (change every mode of the list)"
    )]
    pub pin: Option<bool>,
    /// Spinlocks of the guest: ticket, unfair, pv, pv-early
    #[arg(
        long,
        value_name = "LOCK",
        default_value = "ticket",
        hide_default_value = true,
        help_heading = "Axes (change every mode of the list)"
    )]
    pub lock: Lock,

    /// Virtual machines [1 to 256]; several as 1,2,4
    ///
    /// With several numbers every block runs every mode with each of them. Modes are compared among those with as many
    /// VMs, and a VM's throughput with that of the fewest.
    #[arg(long, value_name = "N,...", default_value = "2", value_delimiter = ',', value_parser = count)]
    pub vms: Vec<u32>,
    /// vCPUs of each machine [1 to 64]
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count)]
    pub vcpus: u32,
    /// Host CPUs to use, as 0-3,8 [default: all of this process]
    #[arg(long, value_name = "CPULIST")]
    pub pcpus: Option<CpuList>,
    /// Measured time of a run, after its warm-up
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub duration: Time,
    /// Time at the start of a run that is not measured
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub warmup: Time,
    /// Blocks: each boots every mode once [1 to 1000]
    ///
    /// Odd blocks run the modes in reverse order. Fewer than 6 give no verdict, and with three modes against a reference it takes 7.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count)]
    pub blocks: u32,
    /// Seed of everything random [default: a new one, printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<Seed>,
    /// Engine
    #[arg(long, value_name = "auto|kvm|sim", value_enum, default_value = "auto", hide_possible_values = true)]
    pub engine: EngineChoice,
    /// What is simulated, where nothing real runs.
    #[command(flatten)]
    pub simulator: SimulatorArgs,

    /// Who schedules the vCPU threads
    #[arg(long, value_name = "lab|host", default_value = "lab", help_heading = "Scheduler")]
    pub sched: Sched,
    /// Slice that a vCPU gets while all of them want to run
    ///
    /// Sets sched_min_granularity to this and sched_latency to this times the vCPUs per CPU. With neither this nor the
    /// sysctls below, both are what Linux would scale them to for that many CPUs.
    #[arg(
        long, value_name = "TIME", help_heading = "Scheduler",
        conflicts_with_all = ["sched_latency", "sched_min_granularity"]
    )]
    pub slice: Option<Time>,
    /// sysctl sched_latency [100us to 1s; default: as Linux scales it]
    #[arg(long, value_name = "TIME", help_heading = "Scheduler", hide_short_help = true)]
    pub sched_latency: Option<Time>,
    /// sysctl sched_min_granularity [100us to 1s; default: as Linux scales it]
    #[arg(long, value_name = "TIME", help_heading = "Scheduler", hide_short_help = true)]
    pub sched_min_granularity: Option<Time>,
    /// sysctl sched_wakeup_granularity [0ns to 1s; default: as Linux scales it]
    #[arg(long, value_name = "TIME", help_heading = "Scheduler", hide_short_help = true)]
    pub sched_wakeup_granularity: Option<Time>,
    /// Scheduler ticks a second [10 to 10000]
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = count, help_heading = "Scheduler",
        hide_short_help = true)]
    pub hz: u32,
    /// Gang span: smallest domain with N CPUs [default: 8, or all]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Scheduler")]
    pub gang_cpus: Option<u32>,
    /// Cycles of spinning after which the host is told, in modes that spin so [1 to 2^40]
    #[arg(long, value_name = "CYCLES", default_value_t = 4096, help_heading = "Scheduler", hide_short_help = true)]
    pub ple_window: u64,
    /// Delegated cgroup v2 directory for the gangs [default: the one of this process, if writable]
    #[arg(long, value_name = "DIR", help_heading = "Scheduler", hide_short_help = true)]
    pub cgroup: Option<PathBuf>,

    /// What the guests do; `vmmlab list` has the names
    #[arg(long, value_name = "NAME", default_value = "ebizzy", help_heading = "Workload")]
    pub workload: Workload,
    /// Spins before a waiting vCPU halts, in modes that halt [0 to 2^30]
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = count, help_heading = "Workload",
        hide_short_help = true)]
    pub spin_budget: u32,
    /// Pages of 4 KiB in a chunk: what one record allocates and frees [1 to 1024]
    #[arg(long, value_name = "N", default_value_t = WorkloadParams::default().chunk_pages, value_parser = count,
        help_heading = "Workload", hide_short_help = true)]
    pub chunk_pages: u32,
    /// Passes over the chunk in search: the computing in a record [0 to 100000]
    #[arg(long, value_name = "N", default_value_t = WorkloadParams::default().search_passes, value_parser = count,
        help_heading = "Workload", hide_short_help = true)]
    pub search_passes: u32,
    /// Records in a thousand that end in a flush of all vCPUs [0 to 1000]
    #[arg(long, value_name = "N", default_value_t = WorkloadParams::default().flush_per_mille, value_parser = count,
        help_heading = "Workload", hide_short_help = true)]
    pub flush_per_mille: u32,
    /// Guest threads a vCPU [1 to 16]
    #[arg(long, value_name = "N", default_value_t = WorkloadParams::default().threads_per_vcpu, value_parser = count,
        help_heading = "Workload", hide_short_help = true)]
    pub threads_per_vcpu: u32,
    /// Somebody else on the same CPUs, whose wait and share are measured: none, spin, sleeper
    #[arg(long, value_name = "WHO", default_value = "none", hide_default_value = true, help_heading = "Workload")]
    pub neighbour: Neighbour,
    /// Other constants of the workload; `vmmlab list` has them with their ranges
    #[arg(long, value_name = "NAME=N,...", value_delimiter = ',', value_parser = param, help_heading = "Workload",
        hide_short_help = true)]
    pub param: Vec<(String, u32)>,
    /// Put in a fault that the checks must catch: lost-flush
    #[arg(long, value_name = "FAULT", help_heading = "Workload", hide_short_help = true)]
    pub inject: Option<Inject>,

    /// On stdout: table, lkml, json, csv, markdown, html
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub format: OutputFormat,
    /// Directory to make [default: vmmlab-runs/run/UTC-ID]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write every event of the simulated runs to this file, a line each; needs --engine sim
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub event_log: Option<PathBuf>,
    /// Traces
    #[command(flatten)]
    pub trace: TraceOptions,
    /// Print the runs and the time that they will take, and stop
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
}

/// The options alone, to read them from elsewhere than the command line.
#[derive(Debug, Parser)]
#[command(name = "run", disable_help_flag = true, color = clap::ColorChoice::Never)]
struct Alone {
    #[command(flatten)]
    run: RunArgs,
}

impl RunArgs {
    /// Reads options, as `--vms=2`.
    ///
    /// # Errors
    /// One sentence: flag, value, and what would be right.
    pub fn from_words(words: &[String]) -> Result<Self, String> {
        let all = std::iter::once("run").chain(words.iter().map(String::as_str));
        Alone::try_parse_from(all).map(|alone| alone.run).map_err(|error| {
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default();
            sentence.strip_prefix("error: ").unwrap_or(sentence).into()
        })
    }

    /// The names of all options, without dashes.
    #[must_use]
    pub fn option_names() -> Vec<String> {
        Alone::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
    }
}

/// `NAME=N`; whether the name exists is told with the plan.
fn param(text: &str) -> Result<(String, u32), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=N")?;
    Ok((name.to_owned(), count(value)?))
}

pub(super) fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".into()),
    }
}

/// A number whose range [`validate`](plan::RunPlan::validate) checks.
fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it takes a whole number below 2^32".into())
}
