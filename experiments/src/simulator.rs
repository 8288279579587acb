//! The machines that the simulator knows, and the one that `vmmlab run --engine sim` takes.
use plan::EngineError;
use sim::{Machine, Options, Sim};

/// Descriptions that the program carries, by name.
const MACHINES: &[(&str, &str)] = &[
    ("generic", include_str!("../machines/generic.toml")),
    ("nonple", include_str!("../machines/nonple.toml")),
    ("ple", include_str!("../machines/ple.toml")),
];

/// The topology of `--engine sim` without `--topology`: the same on every host, so that its results are too.
pub const DEFAULT_TOPOLOGY: &str = "1s:8c";

/// The machine of that name.
///
/// # Errors
/// If there is none, or its description cannot be read.
pub fn machine(name: &str) -> Result<Machine, EngineError> {
    let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<_> = MACHINES.iter().map(|(known, _)| *known).collect();
        return Err(EngineError::BadPlan(format!("there is no machine '{name}'; known are {}", known.join(", "))));
    };
    Machine::from_toml(text).map_err(|source| EngineError::Internal {
        what: format!("Cannot read the description of machine '{name}'"),
        source: Some(source.into()),
    })
}

/// The simulator of a machine of today with that topology.
///
/// # Errors
/// As [`machine`].
pub fn generic(topology: hostsched::topology::Machine) -> Result<Sim, EngineError> {
    Ok(Sim::new(Machine { topology, ..machine("generic")? }, Options::default()))
}
