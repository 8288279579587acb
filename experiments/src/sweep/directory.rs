//! The directory of a sweep: what was asked, and a run directory for each point.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Shard, file};
use crate::driver::Job;
use crate::exit::Error;
use crate::experiment::Experiment;
use crate::host::Fingerprint;
use crate::recording::{Context, Recording, versions};
use crate::store::Store;

/// The schema of a sweep's `manifest.json`.
pub const SWEEP_MANIFEST_SCHEMA: &str = "vmmlab.sweep-manifest/1";

/// What was asked at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointEntry {
    /// Its directory, below the sweep's.
    pub dir: String,
    /// Axis: value.
    pub axes: BTreeMap<String, String>,
    /// The command that asks for this point alone.
    pub command: String,
    /// The question.
    pub experiment: Experiment,
    /// Where it runs.
    pub host: Fingerprint,
}

impl PointEntry {
    /// The name of a point's directory.
    #[must_use]
    pub fn directory(index: usize, axes: &[(String, String)]) -> String {
        // An axis may be a path.
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_=,.+:".contains(c) { c } else { '_' };
        let name: String = file::name(axes).chars().map(plain).take(80).collect();
        let dash = if name.is_empty() { "" } else { "-" };
        format!("points/{index:04}{dash}{name}")
    }
}

/// A sweep's `manifest.json`: everything that a process needs in order to go on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepManifest {
    /// Always [`SWEEP_MANIFEST_SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// The question in words.
    pub title: String,
    /// What it does not measure.
    pub caveats: Vec<String>,
    /// The command that asks for the whole sweep.
    pub command: String,
    /// When it began, UTC.
    pub started: String,
    /// `kvm` or `sim`.
    pub engine: String,
    /// Versions of what runs it.
    pub versions: BTreeMap<String, String>,
    /// Which share this directory has.
    pub shard: Shard,
    /// All points, also those of which this share has nothing.
    pub points: Vec<PointEntry>,
}

impl SweepManifest {
    /// The blocks of this share.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        super::jobs(self.points.iter().map(|point| &point.experiment), self.shard)
    }
}

/// An open sweep. While it lives, no other process can open it.
#[derive(Debug)]
pub struct Sweep {
    store: Store,
    manifest: SweepManifest,
    _lock: File,
}

impl Sweep {
    /// Begins a sweep in a new directory.
    ///
    /// # Errors
    /// When it cannot be made, or holds something already.
    pub fn create(out: Option<&Path>, stamp: &str, manifest: SweepManifest, text: &str) -> Result<Self, Error> {
        let digest = manifest.points.first().map(|point| point.experiment.digest()).unwrap_or_default();
        let store = Store::create_with("points", out, &manifest.name, stamp, &digest)?;
        store.write("experiment.toml", text.as_bytes())?;
        store.write_json("manifest.json", &manifest)?;
        let lock = lock(&store)?;
        Ok(Self { store, manifest, _lock: lock })
    }

    /// Opens one to go on with it.
    ///
    /// # Errors
    /// When there is none, another process is at it, or another version has begun it.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let store = Store::open(dir);
        let manifest = Self::read(dir)?;
        let lock = lock(&store)?;
        Ok(Self { store, manifest, _lock: lock })
    }

    /// Reads the manifest of a sweep.
    ///
    /// # Errors
    /// When there is none, or another version has written it.
    pub fn read(dir: &Path) -> Result<SweepManifest, Error> {
        let manifest: SweepManifest = Store::open(dir).read_json("manifest.json")?;
        let (found, wanted) = (&manifest.schema, SWEEP_MANIFEST_SCHEMA);
        if found != wanted {
            let dir = dir.display();
            return Err(Error::Usage(format!("{dir}/manifest.json has the schema '{found}', it must be {wanted}")));
        }
        if manifest.versions != versions() {
            let list = |of: &BTreeMap<String, String>| {
                of.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
            };
            return Err(Error::Usage(format!(
                "{} was begun by {}, this is {}: use the same version, or begin again",
                dir.display(),
                list(&manifest.versions),
                list(&versions())
            )));
        }
        // The directories come from a file: they must stay below the sweep's.
        let inside = |point: &PointEntry| {
            let name = point.dir.strip_prefix("points/").unwrap_or_default();
            !name.is_empty() && !name.contains('/') && !name.starts_with('.')
        };
        match manifest.points.iter().find(|point| !inside(point)) {
            Some(point) => Err(Error::Usage(format!(
                "{}/manifest.json: the point's directory '{}' must be points/NAME",
                dir.display(),
                point.dir
            ))),
            None => Ok(manifest),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What was asked.
    #[must_use]
    pub fn manifest(&self) -> &SweepManifest {
        &self.manifest
    }

    /// The recording of a point, begun or gone on with.
    ///
    /// # Errors
    /// When its directory cannot be made or written.
    pub fn recording(&self, point: &PointEntry) -> Result<Recording, Error> {
        let dir = self.store.dir().join(&point.dir);
        fs::create_dir_all(dir.join("blocks")).map_err(Error::file("write", &dir))?;
        let (command, started) = (point.command.clone(), self.manifest.started.clone());
        let context = Context { command, started, host: point.host.clone() };
        Recording::open(&self.manifest.engine, point.experiment.clone(), context, Store::open(&dir))
    }
}

/// Keeps other processes out.
fn lock(store: &Store) -> Result<File, Error> {
    let path = store.dir().join("manifest.json");
    let file = File::open(&path).map_err(Error::input(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Usage(format!(
            "{}: another vmmlab is at it; wait for its end, or resume another directory",
            store.dir().display()
        ))),
        Err(TryLockError::Error(source)) => Err(Error::file("lock", &path)(source)),
    }
}
