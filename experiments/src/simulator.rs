//! The machines that the simulator knows, and the simulator that an experiment asks for.
use std::fs::File;
use std::io::Read;

use plan::EngineError;
use sha2::{Digest, Sha256};
use sim::{Fault, Machine, Options, Sim};

use crate::experiment::{Simulated, hex};

/// Descriptions that the program carries, by name.
const MACHINES: &[(&str, &str)] = &[
    ("generic", include_str!("../machines/generic.toml")),
    ("nonple", include_str!("../machines/nonple.toml")),
    ("ple", include_str!("../machines/ple.toml")),
];

/// The machine of `--engine sim` without `--machine`: nothing in it is fitted.
pub const DEFAULT_MACHINE: &str = "generic";

/// The topology of `--engine sim` without `--topology`: the same on every host, so that its results are too.
pub const DEFAULT_TOPOLOGY: &str = "1s:8c";

/// No description is longer, in bytes.
const DESCRIPTION_MAX: u64 = 1 << 20;

/// A machine, and the digest of its description.
#[derive(Debug)]
pub struct Described {
    /// The machine.
    pub machine: Machine,
    /// SHA-256 of the text.
    pub digest: String,
}

/// The names of the machines that the program carries.
pub fn names() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, _)| *name)
}

/// The machine of that name.
///
/// # Errors
/// If there is none, or its description cannot be read.
pub fn machine(name: &str) -> Result<Machine, EngineError> {
    describe(name).map(|described| described.machine)
}

/// The machine of that name, or of the file `name` if that ends in `.toml`.
///
/// # Errors
/// If there is none, or its description cannot be read.
pub fn describe(name: &str) -> Result<Described, EngineError> {
    let carried = MACHINES.iter().find(|(known, _)| *known == name);
    let text = match carried {
        Some((_, text)) => (*text).to_owned(),
        None if name.ends_with(".toml") => read(name)?,
        None => {
            let known = names().collect::<Vec<_>>().join(", ");
            return Err(EngineError::BadPlan(format!(
                "there is no machine '{name}'; known are {known}, or name a file that ends in .toml"
            )));
        }
    };
    let machine = Machine::from_toml(&text).map_err(|error| match carried {
        None => EngineError::BadPlan(error.to_string()),
        Some(_) => EngineError::Internal {
            what: format!("Cannot read the description of machine '{name}'"),
            source: Some(error.into()),
        },
    })?;
    Ok(Described { machine, digest: hex(&Sha256::digest(text)) })
}

/// The simulator of the default machine with that topology.
///
/// # Errors
/// As [`describe`].
pub fn generic(topology: hostsched::topology::Machine) -> Result<Sim, EngineError> {
    Ok(Sim::new(Machine { topology, ..machine(DEFAULT_MACHINE)? }, Options::default()))
}

fn read(path: &str) -> Result<String, EngineError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(DESCRIPTION_MAX + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(EngineError::BadPlan(format!("cannot read it ({error}); name a file that you may read"))),
        Ok(n) if n as u64 > DESCRIPTION_MAX => {
            Err(EngineError::BadPlan(format!("it is larger than {DESCRIPTION_MAX} bytes; no machine's description is")))
        }
        Ok(_) => Ok(text),
    }
}

/// The simulator that `simulated` asks for.
///
/// # Errors
/// As [`describe`]; or if the description has changed since it was asked for.
pub fn engine(simulated: &Simulated) -> Result<Sim, EngineError> {
    let Described { machine, digest } = describe(&simulated.machine)?;
    if digest != simulated.machine_digest {
        let name = &simulated.machine;
        return Err(EngineError::BadPlan(format!(
            "the description of machine '{name}' is another one than when this was begun; begin it again"
        )));
    }
    let topology = simulated.topology.parse();
    let topology = topology.map_err(|e| EngineError::BadPlan(format!("topology '{}': {e}", simulated.topology)))?;
    let options = Options {
        stagger_ns: simulated.stagger_ns,
        ple_gap_cycles: simulated.ple_gap_cycles,
        yield_on_hlt: simulated.yield_on_hlt,
        halt_once: simulated.halt_once,
        ..Options::default()
    };
    let faults = simulated.faults.iter().map(|text| text.parse().map_err(|e| format!("fault '{text}': {e}")));
    let faults: Vec<Fault> = faults.collect::<Result<_, String>>().map_err(EngineError::BadPlan)?;
    Ok(Sim::new(Machine { topology, ..machine }, options).with_faults(faults))
}
