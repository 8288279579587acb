//! Runs golden scenarios through hostsched and compares the schedules.
//!
//! ```text
//! cargo run --release -p hostsched --example golden -- [--exact] FILE|DIR...
//! ```
//! A line per file: `PASS name`, or `FAIL name` and the first difference. Exit code 1 if any failed, or if a directory holds no
//! scenario. Files may be gzipped (`.json.gz`). `--exact` demands bit for bit also where the file allows tolerances.
#![forbid(unsafe_code)]
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "../tests/golden/mod.rs"]
mod golden;

fn main() -> ExitCode {
    let (flags, paths): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a.starts_with("--"));
    if paths.is_empty() || flags.iter().any(|f| f != "--exact") {
        eprintln!("usage: golden [--exact] FILE|DIR...");
        return ExitCode::from(2);
    }
    let mut failed = false;
    for file in paths.iter().flat_map(|p| files(Path::new(p))) {
        let name = scenario_name(&file).unwrap_or_else(|| file.display().to_string());
        let verdict = read(&file)
            .map_err(|e| e.to_string())
            .and_then(|json| golden::compare::judge(&json, !flags.is_empty()).and_then(|difference| difference));
        match verdict {
            Ok(()) => println!("PASS {name}"),
            Err(why) => {
                failed = true;
                println!("FAIL {name} {why}");
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

/// The content, unpacked if the name ends in `.gz`.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let packed = std::fs::read(file)?;
    if file.extension().is_none_or(|e| e != "gz") {
        return Ok(packed);
    }
    // Far above any scenario, far below memory.
    let mut json = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).take(256 << 20).read_to_end(&mut json)?;
    Ok(json)
}

/// The file's name without `.json` or `.json.gz`; none for other files.
fn scenario_name(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".json").map(str::to_owned)
}

/// The file, or the scenarios of the directory in order of their names; the directory itself, which fails to be read, if
/// it has none.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let scenario = |p: &PathBuf| scenario_name(p).is_some_and(|name| name != "index" && name != "unit_vectors");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).filter(scenario).collect();
    found.sort();
    if found.is_empty() { vec![path.to_owned()] } else { found }
}
