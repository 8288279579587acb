//! The published figures, as data that the program carries.
use std::collections::BTreeMap;

use plan::{EngineError, Workload};
use serde::Deserialize;

/// A table of gains in per cent, by workload: VMs, V1 against base and pin, V2 against base and pin.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Gains {
    pub(super) id: String,
    pub(super) machine: String,
    pub(super) rows: BTreeMap<Workload, Vec<[f64; 5]>>,
}

/// Events of the host that were counted over a run of known length.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Counters {
    pub(super) machine: String,
    pub(super) workload: Workload,
    pub(super) vms: u32,
    pub(super) seconds: f64,
    /// Base and gang V2.
    pub(super) switches: [f64; 2],
    pub(super) migrations: [f64; 2],
}

/// A table of records/s: VMs, base, gang, pv_flush.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Rates {
    pub(super) id: String,
    pub(super) machine: String,
    pub(super) ebizzy: Vec<[f64; 4]>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PleRow {
    pub(super) ple_gap: u64,
    pub(super) ple_window: u64,
    pub(super) rec_s: f64,
    pub(super) pause_exits: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PleParameters {
    pub(super) id: String,
    pub(super) machine: String,
    pub(super) vms: u32,
    pub(super) seconds: f64,
    pub(super) rows: Vec<PleRow>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct YieldOnHlt {
    pub(super) id: String,
    pub(super) machine: String,
    pub(super) vms: u32,
    pub(super) on: f64,
    pub(super) off: f64,
}

/// Share of guest time in the wait for a flush, per cent, 8 VMs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FlushWait {
    pub(super) machine: String,
    pub(super) base: f64,
    pub(super) gang: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Published {
    pub(super) gains: Vec<Gains>,
    pub(super) rates: Rates,
    pub(super) ple_parameters: PleParameters,
    pub(super) yield_on_hlt: YieldOnHlt,
    pub(super) flush_wait: Vec<FlushWait>,
    pub(super) counters: Vec<Counters>,
}

impl Published {
    pub(super) fn read() -> Result<Self, EngineError> {
        let text = include_str!("../../../published/gang-cfs.toml");
        toml::from_str(text).map_err(|source| EngineError::Internal {
            what: "Cannot read the published figures".into(),
            source: Some(source.into()),
        })
    }
}
