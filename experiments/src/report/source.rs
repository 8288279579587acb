//! What a report is made of: a run directory or its `vmmlab.result/1`, a `vmmlab.compare/1`, a `vmmlab.reproduce/1`. All of it is
//! untrusted.
//!
//! A missing or broken file of whole histograms costs their charts, never the page: the page says what is missing.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use plan::RunRecord;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::histograms::Latencies;
use super::reproduction::Reproduced;
use crate::compare::{self, Comparison};
use crate::exit::Error;
use crate::experiment::hex;
use crate::result::{self, ResultFile};

/// Largest file that is read whole.
const FILE_MAX: u64 = 256 << 20;

/// Most modes of a page.
const MODES_MAX: usize = 100;

/// Something to report on.
#[derive(Debug)]
pub(super) enum Source {
    Measured(Box<Measured>),
    Compared(Box<Comparison>),
    Reproduced(Box<Reproduced>),
}

/// A result with its whole histograms.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) result: ResultFile,
    /// SHA-256 of the file.
    pub(super) digest: String,
    pub(super) latencies: Latencies,
    /// What could not be read, in words.
    pub(super) gaps: Vec<String>,
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// Reads what `path` names: a run directory or one of its files.
///
/// # Errors
/// One sentence that names the file and what would be right.
pub(super) fn read(path: &Path) -> Result<Source, Error> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    if path.is_dir() && !file.exists() {
        return Err(wrong(path, "holds no result.json; name a run directory that has finished a block"));
    }
    let bytes = bytes(&file)?;
    let head: Head = parse(&file, &bytes, "JSON")?;
    match head.schema.as_deref() {
        Some(result::SCHEMA) => {
            let mut result: ResultFile = parse(&file, &bytes, result::SCHEMA)?;
            let digest = hex(&Sha256::digest(&bytes));
            drop(bytes);
            if result.experiment.plans.len() > MODES_MAX {
                let found = result.experiment.plans.len();
                return Err(wrong(&file, &format!("has {found} modes; a page shows at most {MODES_MAX}")));
            }
            // What the page says is derived again, so that a result of another version is judged by this one's rules.
            result.summarize();
            let mut gaps = Vec::new();
            let latencies = latencies(&file.with_file_name("blocks"), &result, &mut gaps);
            Ok(Source::Measured(Box::new(Measured { result, digest, latencies, gaps })))
        }
        Some(compare::SCHEMA) => parse(&file, &bytes, compare::SCHEMA).map(|c| Source::Compared(Box::new(c))),
        Some(Reproduced::SCHEMA) => {
            parse(&file, &bytes, Reproduced::SCHEMA).map(|given| Source::Reproduced(Box::new(given)))
        }
        other => {
            let found = other.map_or("no schema".into(), |schema| format!("schema '{}'", schema.escape_debug()));
            let right = format!("{}, {} or {}", result::SCHEMA, compare::SCHEMA, Reproduced::SCHEMA);
            Err(wrong(&file, &format!("has {found}; a report takes {right}")))
        }
    }
}

fn wrong(path: &Path, what: &str) -> Error {
    Error::Usage(format!("{} {what}", path.display()))
}

fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| wrong(path, &format!("cannot be read ({source}); name a run directory or a result file")))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(wrong(path, &format!("is larger than {} MiB, which no result is", FILE_MAX >> 20)));
    }
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|e| wrong(path, &format!("is no {what} ({e})")))
}

/// Whole histograms of all blocks, one file at a time.
fn latencies(blocks: &Path, result: &ResultFile, gaps: &mut Vec<String>) -> Latencies {
    let mut found = Latencies::default();
    let numbers: BTreeSet<u32> = result.runs.iter().map(|run| run.block).collect();
    let (mut read, mut missing) = (0, Vec::new());
    for number in &numbers {
        let path: PathBuf = blocks.join(format!("{number:04}.json"));
        match bytes(&path).and_then(|bytes| parse::<Vec<RunRecord>>(&path, &bytes, "block of a result")) {
            Ok(runs) => {
                runs.iter().for_each(|run| found.add(run));
                read += 1;
            }
            Err(_) => missing.push(number.to_string()),
        }
    }
    if !missing.is_empty() {
        let which = if read == 0 { "any block".into() } else { format!("block {}", missing.join(", ")) };
        gaps.push(format!(
            "Whole histograms are missing: blocks/NNNN.json cannot be read for {which}. They lie beside result.json in the run \
             directory."
        ));
    }
    if found.damaged > 0 {
        gaps.push(format!("{} histograms are damaged and left out.", found.damaged));
    }
    found
}
