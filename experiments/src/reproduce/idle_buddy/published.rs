//! The published figures, as data that the program carries.
use plan::EngineError;
use serde::Deserialize;

/// Clients, traverse, buddy.
#[derive(Debug, Deserialize)]
pub(super) struct TbenchE5620 {
    pub(super) rows: Vec<[f64; 3]>,
}

/// Clients, stock, traverse, buddy.
#[derive(Debug, Deserialize)]
pub(super) struct TbenchWestmereEx {
    pub(super) rows: Vec<[f64; 4]>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Ondemand {
    pub(super) mainline: [f64; 2],
    pub(super) lowered: [f64; 2],
}

#[derive(Debug, Deserialize)]
pub(super) struct TcpRr {
    pub(super) unbound: [f64; 2],
    pub(super) bound: [f64; 2],
}

/// Three runs each.
#[derive(Debug, Deserialize)]
pub(super) struct Runs3 {
    pub(super) traverse: [f64; 3],
    pub(super) buddy: [f64; 3],
}

#[derive(Debug, Deserialize)]
pub(super) struct Aim7 {
    pub(super) rows: [f64; 2],
}

#[derive(Debug, Deserialize)]
pub(super) struct PipeTest {
    pub(super) buddy: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct BuddyMap {
    pub(super) six_core: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Published {
    pub(super) tbench_e5620: TbenchE5620,
    pub(super) tbench_e5620_ondemand: Ondemand,
    pub(super) tcp_rr_performance: TcpRr,
    pub(super) tcp_rr_ondemand: TcpRr,
    pub(super) ctx_switch: Runs3,
    pub(super) bw_tcp: Runs3,
    pub(super) tbench_westmere_ex: TbenchWestmereEx,
    pub(super) aim7: Aim7,
    pub(super) pipe_test_broken: PipeTest,
    pub(super) buddy_map: BuddyMap,
}

impl Published {
    pub(super) fn read() -> Result<Self, EngineError> {
        let text = include_str!("../../../published/idle-buddy.toml");
        toml::from_str(text).map_err(|source| EngineError::Internal {
            what: "Cannot read the published figures".into(),
            source: Some(source.into()),
        })
    }
}
