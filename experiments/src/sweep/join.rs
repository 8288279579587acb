//! `vmmlab merge`: the shares of a sweep joined into one directory, as if it had not been divided.

use std::path::{Path, PathBuf};

use plan::RunRecord;

use super::{PointEntry, Shard, Sweep, SweepManifest};
use crate::exit::Error;
use crate::recording::whole_block;
use crate::store::Store;

/// A joined sweep.
#[derive(Debug)]
pub struct Joined {
    /// Its directory.
    pub sweep: Sweep,
    /// Blocks that none of the shares has: directory of the point, number.
    pub missing: Vec<(String, u32)>,
}

/// Joins the sweeps in `dirs` into the new directory `out`. With `partial`, blocks may be missing.
///
/// # Errors
/// When they are not shares of one sweep, differ where they overlap, or lack blocks; and when files cannot be read or
/// written. Nothing is written before all of that is clear.
pub fn join(dirs: &[PathBuf], out: &Path, partial: bool) -> Result<Joined, Error> {
    let mut shares = Vec::new();
    for dir in dirs {
        shares.push((dir.as_path(), Sweep::read(dir)?));
    }
    let Some((first_dir, first)) = shares.first() else {
        return Err(Error::Usage("merge needs at least one directory that `vmmlab sweep` has made".into()));
    };
    for (dir, share) in &shares {
        same_question(first_dir, first, dir, share)?;
    }
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for point in &first.points {
        for block in 0..point.experiment.blocks {
            match one(&shares, point, block)? {
                Some(dir) => found.push((point, block, dir)),
                None => missing.push((point.dir.clone(), block)),
            }
        }
    }
    if let (Some((dir, block)), false) = (missing.first(), partial) {
        let n = missing.len();
        return Err(Error::Usage(format!(
            "{n} blocks are in none of the directories, the first is block {block} of {dir}: run the missing shares, go \
             on with cut ones by --resume, or join what there is with --partial"
        )));
    }
    let started = shares.iter().map(|(_, share)| share.started.clone()).min().unwrap_or_default();
    let manifest = SweepManifest { started, shard: Shard::WHOLE, ..first.clone() };
    let text = std::fs::read_to_string(first_dir.join("experiment.toml")).unwrap_or_default();
    let sweep = Sweep::create(Some(out), "", manifest, &text)?;
    for (point, block, dir) in found {
        // Read again: all blocks of a large sweep at once would fill the memory.
        let records = read(dir, point, block).unwrap_or_default();
        sweep.recording(point)?.add_quietly(block, records)?;
    }
    for point in &sweep.manifest().points {
        sweep.recording(point)?.write_result()?;
    }
    Ok(Joined { sweep, missing })
}

fn read(dir: &Path, point: &PointEntry, block: u32) -> Option<Vec<RunRecord>> {
    whole_block(&point.experiment, block, &Store::open(&dir.join(&point.dir)))
}

/// The directory that has that block. Two may have it if they say the same.
fn one<'a>(shares: &[(&'a Path, SweepManifest)], point: &PointEntry, block: u32) -> Result<Option<&'a Path>, Error> {
    let mut found: Option<(&Path, Vec<RunRecord>)> = None;
    for (dir, _) in shares {
        let Some(records) = read(dir, point, block) else { continue };
        match &found {
            None => found = Some((dir, records)),
            Some((_, same)) if *same == records => {}
            Some((other, _)) => {
                return Err(Error::Usage(format!(
                    "block {block} of {} is in {} and in {}, and they differ: leave one of them out",
                    point.dir,
                    other.display(),
                    dir.display()
                )));
            }
        }
    }
    Ok(found.map(|(dir, _)| dir))
}

/// Refuses what is no share of the same sweep.
fn same_question(first_dir: &Path, first: &SweepManifest, dir: &Path, share: &SweepManifest) -> Result<(), Error> {
    let differs = if (&share.name, &share.engine) != (&first.name, &first.engine) {
        Some("name or engine".to_owned())
    } else if share.points.len() != first.points.len() {
        Some("number of points".into())
    } else {
        let pairs = first.points.iter().zip(&share.points);
        pairs
            .filter(|(a, b)| a != b)
            .map(|(a, b)| {
                let what = if a.experiment.seed != b.experiment.seed {
                    "seed"
                } else if a.host != b.host {
                    "host"
                } else {
                    "question"
                };
                format!("{what} of {}", b.dir)
            })
            .next()
    };
    match differs {
        None => Ok(()),
        Some(what) => Err(Error::Usage(format!(
            "{} and {} are not shares of one sweep: they differ in the {what}; merge what one experiment file, seed and \
             kind of host have made",
            first_dir.display(),
            dir.display()
        ))),
    }
}
