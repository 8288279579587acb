//! The pages under `docs/` and the numbers behind them under `results/`, and what shows that they have gone stale.
//!
//! ```text
//!   full protocol ──► docs/gang-cfs.md ◄── sha256 ──┐
//!   each fitted value halved and doubled            ├── results/gang-cfs.json
//!     ──► docs/gang-cfs-sensitivity.md ◄── sha256 ──┤
//!   every number that a run depends on ─────────────┤
//!   the nine headline numbers of very short runs ───┘   run again by a test, in a second
//! ```
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use plan::EngineError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::headline::Fit;
use super::runs::{Effort, Plans};
use crate::reproduce::{Protocol, Reproduction, gang_cfs, markdown, sensitivity};

/// Seed of the committed runs.
const SEED: u64 = 1;

/// What `results/gang-cfs.json` says beside the tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// The command that makes all three files anew.
    pub again: String,
    /// sha256 of each page, by path.
    pub pages: BTreeMap<String, String>,
    /// Every number that the runs depend on.
    pub settings: BTreeMap<String, u64>,
    /// The nine headline numbers of very short runs.
    pub canary: Vec<f64>,
}

/// The file.
#[derive(Debug, Serialize)]
struct File {
    #[serde(flatten)]
    committed: Committed,
    reproduction: Reproduction,
    sensitivity: Reproduction,
}

impl Committed {
    /// Path of the file, from the root of the repository.
    pub const PATH: &str = "results/gang-cfs.json";

    /// What it would say of the program as it is, the pages being what they are.
    ///
    /// # Errors
    /// A data file of the program that cannot be read, or a run that the simulator refuses.
    pub fn now(pages: &[(&str, &str)]) -> Result<Self, EngineError> {
        let sha256 = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            again: "cargo run --release -p vmmlab --example gang-cfs-pages".into(),
            pages: pages.iter().map(|(path, text)| ((*path).to_owned(), sha256(text))).collect(),
            settings: Plans::read(Effort::Full, SEED)?.settings(),
            canary: Fit::with(Effort::Canary, SEED)?.rates()?,
        })
    }

    /// Runs everything and writes the pages and the file below `root`.
    ///
    /// # Errors
    /// As [`Self::now`], and what cannot be written.
    pub fn write(root: &Path) -> Result<(), EngineError> {
        let reproduction = gang_cfs(Protocol::Full, SEED)?;
        let sensitivity = sensitivity(Protocol::Full, SEED)?;
        let (page, second) = (markdown(&reproduction), markdown(&sensitivity));
        let pages = [("docs/gang-cfs.md", &*page), ("docs/gang-cfs-sensitivity.md", &*second)];
        let committed = Self::now(&pages)?;
        let file = File { committed, reproduction, sensitivity };
        // Plain data with string keys: it cannot fail to serialize.
        let json = format!("{}\n", serde_json::to_string_pretty(&file).unwrap_or_default());
        let failed = |path: &str, source: io::Error| EngineError::Internal {
            what: format!("Cannot write {path}"),
            source: Some(source.into()),
        };
        for (path, text) in pages.into_iter().chain([(Self::PATH, &*json)]) {
            fs::write(root.join(path), text).map_err(|error| failed(path, error))?;
        }
        Ok(())
    }
}
