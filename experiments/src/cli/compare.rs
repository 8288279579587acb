//! `vmmlab compare`: results in, verdicts out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use plan::metric;

use super::{pages, print};
use crate::compare::{self, Aspect, Comparison, Outcome, Request};
use crate::exit::{Error, Exit};
use crate::format::OutputFormat;
use crate::result::{self, ResultFile};
use crate::table;

/// Examples at the end of `vmmlab compare --help`; each is run by a test.
pub const COMPARE_EXAMPLES: &str = "\
Examples:
  vmmlab compare old new
      mode by mode: what a change of vmmlab, of the guest or of the host has done
  vmmlab compare old
      the modes of one run against its reference
  vmmlab compare old --base base --new gang --explain flush_wait_p99
      one metric with every number on the way to its verdict
  vmmlab compare old new --ignore host,kernel --format lkml
      two hosts, for a mail
  vmmlab compare old --aa
      every mode against itself: what is found is a false alarm

Exit codes: 0 no regression, 1 regression or a failed run, 2 usage, 3 inconclusive or not comparable
";

/// Options of `vmmlab compare`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// Run directories or their result.json; each later one is compared with the first
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// Mode to compare with [default: the same mode; of a single result its reference]
    #[arg(long, value_name = "MODE")]
    pub base: Option<String>,
    /// Mode to compare [default: every mode]
    #[arg(long, value_name = "MODE")]
    pub new: Option<String>,
    /// Compare although these differ: engine, host, kernel, kvm, topology, guest, experiment
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    pub ignore: Vec<Aspect>,
    /// Split every mode of a single result against itself: even blocks against odd ones
    #[arg(long, conflicts_with = "ignore")]
    pub aa: bool,
    /// Show one metric with every number on the way to its verdict
    #[arg(long, value_name = "METRIC", conflicts_with = "format")]
    pub explain: Option<String>,
    /// What is printed on stdout
    #[arg(long, value_enum, value_name = OutputFormat::NAMES, default_value = "table", hide_possible_values = true)]
    pub format: OutputFormat,
    /// For `git bisect run`: exit code 125, skip, where nothing can be concluded
    #[arg(long)]
    pub bisect: bool,
}

pub(super) fn compare(args: &CompareArgs) -> Result<Exit, Error> {
    let skip = |exit: Exit| args.bisect && matches!(exit, Exit::Inconclusive | Exit::Unsupported);
    match verdicts(args) {
        Ok(exit) if skip(exit) => Ok(Exit::Skip),
        Err(error) if skip(error.exit()) => {
            anstream::eprintln!("vmmlab: {}", error.chain());
            Ok(Exit::Skip)
        }
        other => other,
    }
}

fn verdicts(args: &CompareArgs) -> Result<Exit, Error> {
    if args.aa && args.results.len() > 1 {
        return Err(Error::Usage("--aa splits one result; name one, or leave --aa out".into()));
    }
    let results = args.results.iter().map(|path| result::read(path)).collect::<Result<Vec<ResultFile>, _>>()?;
    let paths: Vec<String> = args.results.iter().map(|path| path.display().to_string()).collect();
    let named: Vec<(&str, &ResultFile)> = paths.iter().map(String::as_str).zip(&results).collect();
    let ignore = args.ignore.iter().copied().collect::<BTreeSet<_>>();
    let request = Request { base: args.base.clone(), new: args.new.clone(), ignore, aa: args.aa };
    let comparison = compare::compare(&named, &request)?;
    print(&match &args.explain {
        Some(id) => table::explain(&comparison, id).ok_or_else(|| no_such_metric(&comparison, id))?,
        None => pages::of_comparison(&comparison, args.format)?,
    })?;
    Ok(match comparison.outcome {
        Outcome::Ok => Exit::Ok,
        Outcome::Regression => Exit::Failed,
        Outcome::Inconclusive => Exit::Inconclusive,
    })
}

fn no_such_metric(comparison: &Comparison, id: &str) -> Error {
    let known: Vec<&str> = comparison.metrics.iter().map(|metric| &*metric.id).collect();
    let known = known.join(", ");
    Error::Usage(match metric::find(id) {
        Some(_) => format!("--explain {id}: these results have no values of it; they have {known}"),
        None => format!("--explain {id}: there is no such metric; these results have {known}"),
    })
}
