//! `vmmlab run`: the options, and the experiment that they describe.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, ValueEnum};
use plan::{CpuList, Flush, HostPolicy, Inject, Lock, Neighbour, RunPlan, Sched, Spin, Workload, WorkloadParams};

use super::sim_args::SimulatorArgs;
use super::trace::TraceOptions;
use crate::exit::Error;
use crate::experiment::{Experiment, Metrics};
use crate::format::OutputFormat;
use crate::row::{Overrides, Row};
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
    /// Guest spinlocks, in workloads that take them: ticket, unfair, pv
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

    /// The experiment that these options describe on a host whose CPUs `allowed` (ascending) may be used.
    ///
    /// # Errors
    /// One sentence that names the flag, the value and what would be right.
    pub fn experiment(&self, allowed: &[u32]) -> Result<Experiment, Error> {
        let pcpus = self.pcpus(allowed)?;
        let Self { host_policy, flush, spin, pin, .. } = *self;
        // Not `lock` and `sched`: they are the same for all modes, and no row is named after them.
        let given = Overrides { host_policy, flush, spin, pin, lock: None, sched: None, vms: None };
        let mut plans: Vec<RunPlan> = Vec::new();
        for (asked, vms) in self.rows()? {
            let row = Row { mode: asked.mode, overrides: given.or(asked.overrides) };
            let axes = row.axes().map_err(|e| Error::Usage(format!("--mode {asked}: {e}")))?;
            let mode = row.to_string();
            if plans.iter().any(|plan| plan.mode == mode) {
                return Err(Error::Usage(format!("--mode names '{mode}' twice; name each mode once")));
            }
            let sched = asked.overrides.sched.unwrap_or(self.sched);
            if sched == Sched::Host && axes.host_policy != HostPolicy::Cfs {
                let policy = axes.host_policy;
                return Err(Error::Usage(format!(
                    "--sched host has no host policy '{policy}' (mode {mode}): leave the mode out, or use --sched lab"
                )));
            }
            let lock = asked.overrides.lock.unwrap_or(self.lock);
            plans.push(RunPlan { sched, lock, ..self.plan(mode, axes, &pcpus, vms)? });
        }
        for plan in &plans {
            plan.validate()?;
        }
        if !(1..=Experiment::BLOCKS_MAX).contains(&self.blocks) {
            let (given, max) = (self.blocks, Experiment::BLOCKS_MAX);
            return Err(Error::Usage(format!("--blocks {given} is out of range: it takes 1 to {max}")));
        }
        if let Some(cgroup) = self.cgroup.as_deref().filter(|dir| !dir.is_dir()) {
            let dir = cgroup.display();
            return Err(Error::Usage(format!(
                "--cgroup {dir} is no directory; name a cgroup v2 directory delegated to you"
            )));
        }
        let seed = self.seed.unwrap_or_else(Seed::random);
        let (name, metrics) = ("run".into(), Metrics::default());
        Ok(Experiment { name, plans, blocks: self.blocks, seed: seed.0, simulated: None, metrics })
    }

    /// The rows with their numbers of VMs: all modes with the first number, then with the next; last those that have one of
    /// their own. Where there are several numbers, a row is named after its own.
    fn rows(&self) -> Result<Vec<(Row, u32)>, Error> {
        if let Some((_, twice)) = self.vms.iter().enumerate().find(|(at, vms)| self.vms[..*at].contains(vms)) {
            return Err(Error::Usage(format!("--vms names {twice} twice; name each number once")));
        }
        let several = self.vms.len() > 1;
        let (own, common): (Vec<Row>, Vec<Row>) = self.mode.iter().partition(|row| row.overrides.vms.is_some());
        let named = |row: &Row, vms| {
            let overrides = Overrides { vms: several.then_some(vms).or(row.overrides.vms), ..row.overrides };
            (Row { overrides, ..*row }, vms)
        };
        let common = self.vms.iter().flat_map(|vms| common.iter().map(|row| named(row, *vms)));
        Ok(common.chain(own.iter().filter_map(|row| Some((*row, row.overrides.vms?)))).collect())
    }

    fn pcpus(&self, allowed: &[u32]) -> Result<CpuList, Error> {
        let all = CpuList::new(allowed.to_vec())
            .ok_or_else(|| Error::Usage("this process may use no CPU at all; see taskset(1)".into()))?;
        let Some(asked) = &self.pcpus else { return Ok(all) };
        match asked.as_slice().iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(asked.clone()),
            Some(cpu) => Err(Error::Usage(format!(
                "--pcpus {asked}: CPU {cpu} is not there for this process; it may use CPUs {all}"
            ))),
        }
    }

    fn params(&self) -> Result<WorkloadParams, Error> {
        let mut params = WorkloadParams {
            chunk_pages: self.chunk_pages,
            search_passes: self.search_passes,
            flush_per_mille: self.flush_per_mille,
            threads_per_vcpu: self.threads_per_vcpu,
            ..WorkloadParams::default()
        };
        for (name, value) in &self.param {
            params.set(name, *value).map_err(|e| Error::Usage(format!("--param {name}={value}: {e}")))?;
            if !self.workload.params().any(|info| info.id == name) {
                let (workload, has): (_, Vec<_>) =
                    (self.workload, self.workload.params().map(|info| info.id).collect());
                let has = has.join(", ");
                return Err(Error::Usage(format!(
                    "--param {name}={value}: workload {workload} does not read it; it has {has}"
                )));
            }
        }
        Ok(params)
    }

    fn plan(&self, mode: String, axes: plan::Axes, pcpus: &CpuList, vms: u32) -> Result<RunPlan, Error> {
        let cpus = u32::try_from(pcpus.as_slice().len()).unwrap_or(u32::MAX);
        let [sched_latency_ns, sched_min_granularity_ns] = match self.slice {
            None => [self.sched_latency, self.sched_min_granularity].map(|time| time.map(|t| t.ns)),
            Some(slice) => {
                let vcpus_per_cpu = (u64::from(vms) * u64::from(self.vcpus)).div_ceil(cpus.into()).max(1);
                let longest = Time { ns: 1_000_000_000 / vcpus_per_cpu };
                let shortest = Time { ns: 100_000 };
                if slice < shortest || slice > longest {
                    return Err(Error::Usage(format!(
                        "--slice {slice} is out of range: with {vcpus_per_cpu} vCPUs per CPU it takes {shortest} to \
                         {longest}"
                    )));
                }
                [Some(slice.ns * vcpus_per_cpu), Some(slice.ns)]
            }
        };
        Ok(RunPlan {
            mode,
            axes,
            vms,
            vcpus: self.vcpus,
            pcpus: pcpus.clone(),
            sched: self.sched,
            gang_cpus: self.gang_cpus.unwrap_or(cpus.min(8)),
            hz: self.hz,
            sched_latency_ns,
            sched_min_granularity_ns,
            sched_wakeup_granularity_ns: self.sched_wakeup_granularity.map(|t| t.ns),
            ple_window_cycles: self.ple_window,
            spin_budget: self.spin_budget,
            duration_ns: self.duration.ns,
            warmup_ns: self.warmup.ns,
            workload: self.workload,
            params: self.params()?,
            lock: self.lock,
            neighbour: self.neighbour,
            inject: self.inject,
            seed: 0,
            block: 0,
            cgroup: self.cgroup.clone(),
        })
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

/// A number whose range [`RunPlan::validate`] checks.
fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it takes a whole number below 2^32".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    fn experiment(args: &str) -> Result<Experiment, String> {
        let cli = Cli::try_parse_from(["run"].into_iter().chain(args.split_whitespace())).map_err(|e| e.to_string())?;
        cli.run.experiment(&[0, 1, 4, 5]).map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let found = experiment("").unwrap();
        let modes: Vec<_> = found.plans.iter().map(|p| p.mode.as_str()).collect();
        assert_eq!(modes, ["base", "gang", "pvflush", "ple"]);
        let plan = &found.plans[0];
        assert_eq!((plan.vms, plan.vcpus, plan.hz, found.blocks), (2, 8, 1000, 8));
        assert_eq!((plan.duration_ns, plan.warmup_ns), (3_000_000_000, 500_000_000));
        assert_eq!((plan.gang_cpus, plan.pcpus.to_string()), (4, "0-1,4-5".into()));
        assert_eq!((plan.sched_latency_ns, plan.sched_min_granularity_ns), (None, None));
    }

    #[test]
    fn a_slice_sets_latency_and_granularity_for_the_load() {
        let plan = &experiment("--vms 2 --vcpus 8 --pcpus 0-1 --slice 4ms").unwrap().plans[0];
        assert_eq!(plan.sched_min_granularity_ns, Some(4_000_000));
        assert_eq!(plan.sched_latency_ns, Some(32_000_000));
    }

    #[test]
    fn an_axis_flag_renames_the_modes_that_it_changes() {
        let found = experiment("--mode base,pvflush,gang+pin=no --flush on-enter").unwrap();
        let modes: Vec<_> = found.plans.iter().map(|p| p.mode.as_str()).collect();
        assert_eq!(modes, ["base+flush=on-enter", "pvflush+flush=on-enter", "gang+flush=on-enter+pin=no"]);
        assert!(found.plans.iter().all(|p| p.axes.flush == Flush::OnEnter && p.axes.spin == Spin::Busy));
    }

    #[test]
    fn several_numbers_of_vms_are_rows_of_their_own() {
        let found = experiment("--vms 1,4 --mode base,gang").unwrap();
        let rows: Vec<_> = found.plans.iter().map(|p| (p.mode.as_str(), p.vms)).collect();
        assert_eq!(rows, [("base+vms=1", 1), ("gang+vms=1", 1), ("base+vms=4", 4), ("gang+vms=4", 4)]);
        assert_eq!(found.bands(), [1, 4]);
        let found = experiment("--vms 1 --mode base,base+vms=3").unwrap();
        let rows: Vec<_> = found.plans.iter().map(|p| (p.mode.as_str(), p.vms)).collect();
        assert_eq!(rows, [("base", 1), ("base+vms=3", 3)]);
    }

    #[test]
    fn bad_input_is_one_sentence_with_flag_value_and_what_would_be_right() {
        for (args, wants) in [
            ("--vms 0", ["--vms 0", "1 to 256"]),
            ("--vms 1,2,1", ["--vms names 1 twice", "each number once"]),
            ("--vms 1,2 --mode base,base+vms=2", ["'base+vms=2' twice", "each mode once"]),
            ("--vms 1,300", ["--vms 300", "1 to 256"]),
            ("--vms 4000000000", ["--vms 4000000000", "1 to 256"]),
            ("--vcpus 65", ["--vcpus 65", "1 to 64"]),
            ("--vms 256 --vcpus 64", ["--vms 256 x --vcpus 64", "more than 4096"]),
            ("--vms=-1", ["'-1' for '--vms", "whole number"]),
            ("--blocks 0", ["--blocks 0", "1 to 1000"]),
            ("--hz 1", ["--hz 1", "10 to 10000"]),
            ("--pcpus 0-3", ["--pcpus 0-3: CPU 2", "may use CPUs 0-1,4-5"]),
            ("--pcpus 3-0", ["'3-0'", "smaller CPU first"]),
            ("--mode gnag", ["'gnag'", "did you mean 'gang'?"]),
            ("--mode base,base", ["'base' twice", "each mode once"]),
            ("--mode base --spin halt", ["--mode base: --flush ipi", "'busy' or 'ple'"]),
            ("--duration 100ms", ["--duration 100ms", "--warmup of 500ms"]),
            ("--duration 3", ["'3' for '--duration", "3s, 500ms or 5us"]),
            ("--sched host", ["--sched host has no host policy 'gang'", "use --sched lab"]),
            ("--slice 1s", ["--slice 1s", "100us to 250ms"]),
            ("--slice 1ms --sched-latency 3ms", ["--slice", "cannot be used with '--sched-latency"]),
            ("--sched-latency 1us", ["--sched-latency 1us", "100us to 1s"]),
            ("--flush-per-mille 1001", ["--flush-per-mille 1001", "0 to 1000"]),
            ("--workload ebbizy", ["'ebbizy'", "did you mean 'ebizzy'?"]),
            ("--inject lost-flsh", ["'lost-flsh'", "did you mean 'lost-flush'?"]),
            ("--workload hackbench --param gruops=2", ["'gruops'", "did you mean 'groups'?"]),
            ("--workload hackbench --param groups=65", ["--param groups 65", "1 to 64"]),
            ("--workload hackbench --param jobs=2", ["jobs=2: workload hackbench does not read it", "groups, pairs"]),
            ("--workload hackbench --param groups", ["'groups'", "write NAME=N"]),
            ("--workload hackbench --vms 256 --vcpus 1 --param groups=64", ["655360 threads", "more than 131072"]),
            ("--lock pv", ["--lock pv changes nothing in workload ebizzy", "leave it out"]),
            ("--neighbour slepeer", ["'slepeer'", "did you mean 'sleeper'?"]),
            ("--lock vp", ["'vp'", "did you mean 'pv'?"]),
            ("--cgroup /absent", ["--cgroup /absent", "delegated to you"]),
            ("--seed x", ["'x' for '--seed", "42 or 0x2a"]),
        ] {
            let error = experiment(args).unwrap_err();
            assert!(wants.iter().all(|want| error.contains(want)), "{args}: {error}");
        }
    }
}
