//! Where a run takes place: on this host's KVM, or on a host that is simulated.
//!
//! | `--engine` | `/dev/kvm` usable | not usable |
//! |---|---|---|
//! | `auto` | KVM | the simulator, and a notice says why |
//! | `kvm` | KVM | exit code 4 |
//! | `sim` | the simulator | the simulator |
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use hostsched::topology::Machine as Topology;
use plan::{Engine, EngineError};
use sha2::{Digest, Sha256};
use sim::Sim;
use sim::observe::Watch;
use vmm::probe::{allowed_cpus, probe};

use super::limits;
use super::run_args::{EngineChoice, RunArgs};
use super::sim_args::SimulatorArgs;
use crate::exit::Error;
use crate::experiment::{Experiment, Simulated, hex};
use crate::host::Fingerprint;
use crate::simulator;
use crate::topology::import;

/// Where runs take place.
#[derive(Debug)]
pub(super) enum Place {
    /// This host.
    Kvm,
    /// A host of that topology.
    Simulated(Box<Simulated>, Topology),
}

/// An engine that may be asked from several threads.
pub(super) type SharedEngine = Box<dyn Engine + Sync>;

/// True if runs are simulated; tells on stderr if that is not what the user may expect.
pub(super) fn simulate(choice: EngineChoice) -> bool {
    match choice {
        EngineChoice::Sim => true,
        EngineChoice::Kvm => false,
        EngineChoice::Auto => match probe().kvm {
            Ok(_) => false,
            Err(reason) => {
                anstream::eprintln!("notice: {reason}; simulating instead (--engine kvm would stop here)");
                true
            }
        },
    }
}

impl Place {
    /// The place that the options describe.
    ///
    /// # Errors
    /// A topology that cannot be read, or options of a simulated host where none is simulated.
    pub(super) fn choose(simulate: bool, args: &SimulatorArgs) -> Result<Self, Error> {
        match (simulate, args.given()) {
            (true, _) => args.simulated().map(|(simulated, topology)| Self::Simulated(Box::new(simulated), topology)),
            (false, Some(flag)) => {
                Err(Error::Usage(format!("{flag} describes the host to simulate: add --engine sim, or leave it out")))
            }
            (false, None) => Ok(Self::Kvm),
        }
    }

    /// The experiment that `args` asks for here.
    ///
    /// # Errors
    /// One sentence that names the flag, the value and what would be right, or what this engine cannot run.
    pub(super) fn experiment(&self, args: &RunArgs) -> Result<Experiment, Error> {
        match self {
            Self::Kvm => {
                let experiment = args.experiment(&allowed_cpus())?;
                experiment.plans.iter().try_for_each(vmm::check_workload)?;
                Ok(experiment)
            }
            Self::Simulated(simulated, topology) => {
                let cpus: Vec<u32> = topology.online().iter().map(|cpu| cpu.0).collect();
                let experiment = Experiment { simulated: Some((**simulated).clone()), ..args.experiment(&cpus)? };
                let sim = simulator::engine(simulated)?;
                experiment.plans.iter().try_for_each(|plan| sim.check(plan))?;
                Ok(experiment)
            }
        }
    }

    /// Refuses what another host could run, but this process may not.
    ///
    /// # Errors
    /// One sentence that names what is missing and how to get it.
    pub(super) fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        match self {
            Self::Kvm => limits::check(experiment),
            Self::Simulated(..) => Ok(()),
        }
    }

    /// The engine and the host that it found, or the exact reason why this host has none. A simulator shows its events
    /// to `watch`.
    pub(super) fn engine(&self, watch: Option<Arc<dyn Watch>>) -> Result<(SharedEngine, Fingerprint), EngineError> {
        match self {
            Self::Kvm => {
                let offer = probe().kvm.map_err(|reason| EngineError::Unsupported(reason.to_string()))?;
                let host = Fingerprint {
                    kvm: Some(offer.virtualization.to_string()),
                    guest_digest: Some(hex(&Sha256::digest(guest::IMAGE))),
                    topology: import("auto", true).ok().map(|found| found.machine.to_string()),
                    ..Fingerprint::read(Path::new("/"))
                };
                Ok((Box::new(vmm::Kvm::default()), host))
            }
            Self::Simulated(simulated, _) => {
                let sim = watch.into_iter().fold(simulator::engine(simulated)?, Sim::watched);
                Ok((Box::new(sim), simulated_host(simulated)))
            }
        }
    }
}

/// The fingerprint of a simulated host: the same wherever it is simulated.
fn simulated_host(simulated: &Simulated) -> Fingerprint {
    let topology = Some(simulated.topology.clone());
    Fingerprint { cpu: Some("simulated".into()), topology, ..Fingerprint::default() }
}

/// The engine that goes on with an experiment which was begun before, and the host that it finds.
///
/// # Errors
/// As [`Place::engine`].
pub(super) fn engine_again(experiment: &Experiment) -> Result<(SharedEngine, Fingerprint), EngineError> {
    match &experiment.simulated {
        None => Place::Kvm.engine(None),
        Some(simulated) => Ok((Box::new(simulator::engine(simulated)?), simulated_host(simulated))),
    }
}

/// How many runs may be under way at once: real ones would disturb each other.
pub(super) fn threads(engine: &str, asked: Option<u32>) -> usize {
    match engine {
        "kvm" => 1,
        _ => asked.map_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get), |n| n as usize),
    }
}
