//! Options that describe the simulated host: they mean nothing on KVM and are refused there.

use clap::Args;
use hostsched::topology::Machine as Topology;
use sim::Fault;

use super::run_args::yes_no;
use crate::exit::Error;
use crate::experiment::Simulated;
use crate::simulator::{self, DEFAULT_MACHINE, DEFAULT_TOPOLOGY};
use crate::topology::import;
use crate::units::Time;

/// Largest `ple_gap` in cycles.
const PLE_GAP_MAX: u64 = 1 << 40;

/// Most faults of a run.
const FAULTS_MAX: usize = 1000;

/// Latest start of a VM after the one before, in ns.
const STAGGER_MAX: Time = Time { ns: 3_600_000_000_000 };

/// What is simulated.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Simulator (with --engine sim)")]
pub struct SimulatorArgs {
    /// Host to simulate: 2s:4c, a preset, auto, sysfs:DIR, lscpu:FILE, hwloc:FILE
    ///
    /// Default: 1s:8c, or the machine's own if --machine names another one than generic.
    #[arg(long, value_name = "TOPOLOGY", hide_short_help = true)]
    pub topology: Option<String>,
    /// What things cost there: generic, nonple, ple, or the FILE.toml of a machine [default: generic]
    #[arg(long, value_name = "MACHINE", hide_short_help = true)]
    pub machine: Option<String>,
    /// Each VM starts so much after the one before, and is measured over its own run [0ns to 1h; default: 0ns]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub stagger: Option<Time>,
    /// ple_gap: slower pause loops are not seen by the processor [1 to 2^40; default: 128]
    #[arg(long, value_name = "CYCLES", hide_short_help = true)]
    pub ple_gap: Option<u64>,
    /// kvm-intel.yield_on_hlt: no keeps the CPU in HLT [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_no, hide_short_help = true)]
    pub yield_on_hlt: Option<bool>,
    /// halt-kick as it was posted in 2012: unsafe, its stale reads fail the run
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_name = "yes|no",
        value_parser = yes_no, hide_short_help = true)]
    pub halt_once: Option<bool>,
    /// What breaks on the host: 100ms:cpu-off=3, 300ms:cpu-on=3, 200ms:group-gone=1, 250ms:vcpu-killed=0.2
    ///
    /// Times count from the start of each run, its warm-up included. What a host would refuse (its last CPU, a VM that is
    /// not there) changes nothing; a notice tells either.
    #[arg(long, value_name = "TIME:WHAT=N,...", value_delimiter = ',', hide_short_help = true)]
    pub fault: Vec<Fault>,
}

impl SimulatorArgs {
    /// The first option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--topology", self.topology.is_some()),
            ("--machine", self.machine.is_some()),
            ("--stagger", self.stagger.is_some()),
            ("--ple-gap", self.ple_gap.is_some()),
            ("--yield-on-hlt", self.yield_on_hlt.is_some()),
            ("--halt-once", self.halt_once.is_some()),
            ("--fault", !self.fault.is_empty()),
        ];
        given.into_iter().find_map(|(name, given)| given.then_some(name))
    }

    /// What they describe.
    ///
    /// # Errors
    /// One sentence that names the flag, the value and what would be right.
    pub(super) fn simulated(&self) -> Result<(Simulated, Topology), Error> {
        let machine = self.machine.as_deref().unwrap_or(DEFAULT_MACHINE);
        let described = simulator::describe(machine).map_err(|e| Error::Usage(format!("--machine {machine}: {e}")))?;
        let topology = match (&self.topology, &self.machine) {
            (None, Some(_)) if machine != DEFAULT_MACHINE => described.machine.topology,
            (spec, _) => {
                let found = import(spec.as_deref().unwrap_or(DEFAULT_TOPOLOGY), false);
                found.map_err(|e| Error::Usage(format!("--topology: {e}")))?.machine
            }
        };
        let stagger = self.stagger.unwrap_or(Time { ns: 0 });
        if stagger > STAGGER_MAX {
            return Err(Error::Usage(format!("--stagger {stagger} is out of range: it takes 0ns to {STAGGER_MAX}")));
        }
        let defaults = sim::Options::default();
        let gap = self.ple_gap.unwrap_or(defaults.ple_gap_cycles);
        if !(1..=PLE_GAP_MAX).contains(&gap) {
            return Err(Error::Usage(format!("--ple-gap {gap} is out of range: it takes 1 to {PLE_GAP_MAX}")));
        }
        if self.fault.len() > FAULTS_MAX {
            return Err(Error::Usage(format!("--fault names {} faults, more than {FAULTS_MAX}", self.fault.len())));
        }
        let simulated = Simulated {
            machine: machine.into(),
            machine_digest: described.digest,
            topology: topology.to_string(),
            stagger_ns: stagger.ns,
            ple_gap_cycles: gap,
            yield_on_hlt: self.yield_on_hlt.unwrap_or(defaults.yield_on_hlt),
            halt_once: self.halt_once.unwrap_or(defaults.halt_once),
            faults: self.fault.iter().map(Fault::written).collect(),
        };
        Ok((simulated, topology))
    }
}
