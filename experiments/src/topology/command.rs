//! `vmmlab topology`: show a topology, or bring it into its normal form.

use std::fmt::Write;

use clap::{Args, Subcommand, ValueEnum};
use hostsched::topology::{
    BrokenTopology, BuildOptions, CpuId, CpuSet, NumaLevels, PRESETS, SchedDomains, build_sched_domains,
};
use plan::CpuList;

use super::{Import, ImportError, draw, import};

/// Examples at the end of `vmmlab topology --help`.
const EXAMPLES: &str = "\
Examples:
  vmmlab topology show
      this host: what shares what, and the scheduling domains of every CPU
  vmmlab topology show 2s:4c:2t --cpu 0,9
      two packages, four cores each, two threads each; the domains of two CPUs
  vmmlab topology show q6600-broken --allow-broken-topology
      the published regression in which one domain spanned two caches
  vmmlab topology import hwloc:machine.xml
      one line for --topology
  vmmlab topology presets
      the machines of the published figures";

/// Options of `vmmlab topology`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TopologyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Print a topology: counts, a drawing if it is small, caches and cores, the domains of each CPU
    Show {
        #[command(flatten)]
        source: Source,
        /// Only the domains of these CPUs, such as 0-3,8
        #[arg(long, value_name = "LIST")]
        cpu: Option<CpuList>,
        /// The gang span shown is the smallest domain with at least this many CPUs
        #[arg(long, value_name = "N", default_value_t = 8)]
        gang_cpus: u32,
    },
    /// Print the normal form: one line, for --topology and for results
    Import {
        #[command(flatten)]
        source: Source,
    },
    /// List the machines that have names
    Presets,
}

#[derive(Debug, Clone, Args)]
struct Source {
    /// auto, sysfs:DIR, lscpu:FILE, hwloc:FILE.xml, a preset, or a text such as 2s:4c:2t
    #[arg(value_name = "TOPOLOGY", default_value = "auto")]
    topology: String,
    /// Load what a kernel would refuse, with a notice for each fault
    #[arg(long)]
    allow_broken_topology: bool,
    /// Which kernel's NUMA levels
    #[arg(long, value_enum, default_value_t = Numa::Nearest16)]
    numa_levels: Numa,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Numa {
    /// Linux 3.4: the 16 nearest nodes, then all
    Nearest16,
    /// Linux 3.5 and later: a level for each distance
    ByDistance,
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The topology cannot be had.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A kernel would refuse it.
    #[error("{0}; correct it, or load it as it is with --allow-broken-topology")]
    Broken(#[from] BrokenTopology),
    /// A CPU that was asked for and is not there.
    #[error("--cpu: CPU {cpu} is not online in this topology; choose among {online}")]
    NoSuchCpu {
        /// The CPU.
        cpu: CpuId,
        /// Those that are.
        online: CpuSet,
    },
}

/// What the command has to say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyAnswer {
    /// The result, for stdout.
    pub result: String,
    /// What was missing, assumed or broken: one sentence each, for stderr.
    pub notices: Vec<String>,
}

impl Source {
    /// The topology with its domains, and all notices about both.
    fn load(&self) -> Result<(Import, SchedDomains, Vec<String>), TopologyError> {
        let import = import(&self.topology, self.allow_broken_topology)?;
        let numa = match self.numa_levels {
            Numa::Nearest16 => NumaLevels::Nearest16,
            Numa::ByDistance => NumaLevels::ByDistance,
        };
        let options = BuildOptions { numa, allow_broken: self.allow_broken_topology };
        let domains = build_sched_domains(&import.machine, import.machine.online(), options)?;
        let broken = domains.broken().iter().map(|broken| format!("broken topology: {broken}"));
        let notices = import.notices.iter().cloned().chain(broken).collect();
        Ok((import, domains, notices))
    }
}

/// Runs the command.
///
/// # Errors
/// When the topology cannot be read, or a kernel would refuse it: all are faults of the request.
pub fn topology_command(args: &TopologyArgs) -> Result<TopologyAnswer, TopologyError> {
    match &args.action {
        Action::Show { source, cpu, gang_cpus } => {
            let (import, domains, notices) = source.load()?;
            let online = import.machine.online();
            let cpus = match cpu {
                None => online.clone(),
                Some(list) => list.as_slice().iter().copied().map(CpuId).collect(),
            };
            if let Some(cpu) = cpus.and_not(online).first() {
                return Err(TopologyError::NoSuchCpu { cpu, online: online.clone() });
            }
            let result = format!("{}\n{}", draw::machine(&import), draw::domains(&domains, &cpus, *gang_cpus));
            Ok(TopologyAnswer { result, notices })
        }
        Action::Import { source } => {
            let (import, _, notices) = source.load()?;
            Ok(TopologyAnswer { result: format!("{}\n", import.machine), notices })
        }
        Action::Presets => {
            let mut result = String::new();
            for preset in PRESETS {
                _ = writeln!(result, "{:<13} {}\n{:13} {}", preset.name, preset.topology, "", preset.about);
            }
            Ok(TopologyAnswer { result, notices: Vec::new() })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        topology: TopologyArgs,
    }

    fn run(line: &str) -> Result<TopologyAnswer, String> {
        let args = std::iter::once("topology").chain(line.split_ascii_whitespace());
        let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
        topology_command(&cli.topology).map_err(|error| error.to_string())
    }

    #[test]
    fn show_draws_a_small_machine_and_its_domains() {
        let answer = run("show 2s:2c:2t --cpu 2 --gang-cpus 4").unwrap();
        let want = "\
topology  2s:2c:2t
online    8 CPU(s): 0-7
cores     4, 2 CPU(s) each
LLCs      2, 4 CPU(s) each
packages  2, 4 CPU(s) each
nodes     0; distances 10

node    |               0               |
package |       0       |       1       |
LLC     |       0       |       1       |
core    |   0   |   1   |   2   |   3   |
CPU     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |

package  node  LLC  cores, CPUs of each in brackets
0        0     0    [0-1] [2-3]
1        0     1    [4-5] [6-7]

CPU 2, gang span 0-3, leader 0
  SIBLING  span 2-3  groups 2 | 3  power 589  flags 0x02af  idle_buddy 3
  MC       span 0-3  groups 2-3 | 0-1  power 1178  flags 0x122f  idle_buddy 0
  CPU      span 0-7  groups 0-3 | 4-7  power 2356  flags 0x102f  idle_buddy -
";
        assert_eq!(answer, TopologyAnswer { result: want.into(), notices: Vec::new() });
    }

    #[test]
    fn a_broken_topology_needs_its_flag() {
        let error = run("import q6600-broken").unwrap_err();
        assert!(
            error.contains("beyond its last-level cache 0,3") && error.contains("--allow-broken-topology"),
            "{error}"
        );
        let answer = run("import q6600-broken --allow-broken-topology").unwrap();
        assert_eq!(answer.result, "pkg=0-3:llc=0,3/1-2:mc=0-3\n");
        assert!(answer.notices[0].starts_with("broken topology: CPU 0: the MC domain 0-3"), "{:?}", answer.notices);
    }

    #[test]
    fn every_preset_is_listed_and_shown() {
        let list = run("presets").unwrap().result;
        for preset in PRESETS {
            assert!(list.contains(preset.name));
            let out = run(&format!("show {} --allow-broken-topology", preset.name)).unwrap().result;
            assert!(out.starts_with(&format!("topology  {}\n", preset.topology)), "{out}");
        }
    }

    #[test]
    fn requests_that_cannot_be_met_say_what_can() {
        for (line, want) in [
            ("show 1s:2c --cpu 0,5", "--cpu: CPU 5 is not online in this topology; choose among 0-1"),
            ("show lscpu:/nowhere/x.p", "Cannot read /nowhere/x.p"),
            ("import e5621", "or a preset such as e5620 at position 1, found 'e5621'"),
        ] {
            let error = run(line).unwrap_err();
            assert!(error.contains(want), "'{line}' gave: {error}");
        }
    }

    #[test]
    fn this_host_can_be_read_where_it_has_a_sys() {
        if !std::path::Path::new("/sys/devices/system/cpu/cpu0").is_dir() {
            println!("skipped this_host_can_be_read_where_it_has_a_sys: no /sys/devices/system/cpu/cpu0");
            return;
        }
        let normal = run("import auto --allow-broken-topology").unwrap().result;
        assert!(normal.trim().parse::<hostsched::topology::Machine>().is_ok(), "{normal}");
    }
}
