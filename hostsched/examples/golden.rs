//! Runs golden scenarios through hostsched and compares the schedules.
//!
//! ```text
//! cargo run --release -p hostsched --example golden -- [--exact] FILE|DIR...
//! ```
//! A line per file: `PASS name`, or `FAIL name` and the first difference. Exit code 1 if any failed. `--exact` demands bit for
//! bit also where the file allows tolerances.
#![forbid(unsafe_code)]
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
        let name = file.file_stem().map_or_else(|| file.display().to_string(), |n| n.to_string_lossy().into_owned());
        let verdict = std::fs::read(&file)
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

/// The file, or the scenarios of the directory in order of their names.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let other = ["index", "unit_vectors"];
    let scenario = |p: &PathBuf| {
        p.extension().is_some_and(|e| e == "json") && p.file_stem().is_some_and(|s| !other.iter().any(|o| s == *o))
    };
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).filter(scenario).collect();
    found.sort();
    found
}
