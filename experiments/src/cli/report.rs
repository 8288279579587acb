//! `vmmlab report`: a result as a page to read, print or send.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::print;
use crate::exit::{Error, Exit};
use crate::report::{self, Traces};

/// Options of `vmmlab report`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab report vmmlab-runs/run/20260102T030405Z-1a2b3c4d -o report.html
  vmmlab report vmmlab-runs/run/20260102T030405Z-1a2b3c4d --trace run-base.txt --window 100ms..130ms -o report.html
  vmmlab reproduce gang-cfs --quick --format json > gang-cfs.json
  vmmlab report gang-cfs.json -o gang-cfs.html

The page is one file, needs no network and no scripts, and prints. docs/reading-a-report.md explains it.")]
pub struct ReportArgs {
    /// Run directory, result.json, or a file of schema vmmlab.compare/1 or vmmlab.reproduce/1
    #[arg(value_name = "DIR|FILE")]
    pub from: PathBuf,
    /// Trace of a run in text form, to draw the schedule from; may be repeated, one for each mode
    #[arg(long, value_name = "FILE.txt")]
    pub trace: Vec<PathBuf>,
    /// Part of the traces to draw, from their first event [default: around the longest flush wait]
    #[arg(long, value_name = "100ms..130ms", requires = "trace")]
    pub window: Option<report::Span>,
    /// Where the page goes; replaced if it exists [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub(super) fn report(args: &ReportArgs) -> Result<Exit, Error> {
    let traces = Traces { paths: &args.trace, window: args.window };
    let page = report::report(&args.from, &traces)?;
    match &args.output {
        None => print(&page)?,
        Some(path) => fs::write(path, page).map_err(|source| {
            Error::Usage(format!("-o {}: cannot write it ({source}); name a file that you may write", path.display()))
        })?,
    }
    Ok(Exit::Ok)
}
