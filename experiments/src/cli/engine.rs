//! Where a run takes place: on this host's KVM, or on a host that is simulated.
//!
//! | `--engine` | `/dev/kvm` usable | not usable |
//! |---|---|---|
//! | `auto` | KVM | the simulator, and a notice says why |
//! | `kvm` | KVM | exit code 4 |
//! | `sim` | the simulator | the simulator |
use std::path::Path;
use std::sync::Arc;

use hostsched::topology::Machine;
use plan::{Engine, EngineError};
use sha2::{Digest, Sha256};
use sim::Sim;
use sim::observe::Watch;
use vmm::probe::{allowed_cpus, probe};

use super::run_args::EngineChoice;
use crate::exit::Error;
use crate::experiment::hex;
use crate::host::Fingerprint;
use crate::simulator;
use crate::topology::import;

/// Where runs take place.
#[derive(Debug)]
pub(super) enum Place {
    /// This host.
    Kvm,
    /// A host of that topology.
    Simulated(Machine),
}

impl Place {
    /// Decides, and tells on stderr if it is not what the user may expect.
    ///
    /// # Errors
    /// A topology that cannot be read, or one for a host that is not simulated.
    pub(super) fn choose(choice: EngineChoice, topology: Option<&str>) -> Result<Self, Error> {
        let simulate = match choice {
            EngineChoice::Sim => true,
            EngineChoice::Kvm => false,
            EngineChoice::Auto => match probe().kvm {
                Ok(_) => false,
                Err(reason) => {
                    anstream::eprintln!("notice: {reason}; simulating instead (--engine kvm would stop here)");
                    true
                }
            },
        };
        match (simulate, topology) {
            (true, spec) => {
                let found = import(spec.unwrap_or(simulator::DEFAULT_TOPOLOGY), false);
                found.map(|found| Self::Simulated(found.machine)).map_err(|e| Error::Usage(format!("--topology: {e}")))
            }
            (false, Some(_)) => {
                Err(Error::Usage("--topology describes the host to simulate: add --engine sim, or leave it out".into()))
            }
            (false, None) => Ok(Self::Kvm),
        }
    }

    /// The CPUs that a run may use, ascending.
    pub(super) fn cpus(&self) -> Vec<u32> {
        match self {
            Self::Kvm => allowed_cpus(),
            Self::Simulated(machine) => machine.online().iter().map(|cpu| cpu.0).collect(),
        }
    }

    /// The engine and the host that it found, or the exact reason why this host has none. A simulator shows its events
    /// to `watch`.
    pub(super) fn engine(self, watch: Option<Arc<dyn Watch>>) -> Result<(Box<dyn Engine>, Fingerprint), EngineError> {
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
            Self::Simulated(machine) => {
                let topology = Some(machine.to_string());
                let host = Fingerprint { cpu: Some("simulated".into()), topology, ..Fingerprint::default() };
                let sim = watch.into_iter().fold(simulator::generic(machine)?, Sim::watched);
                Ok((Box::new(sim), host))
            }
        }
    }
}
