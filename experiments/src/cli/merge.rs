//! `vmmlab merge`: shares of a sweep become one.

use std::path::PathBuf;

use clap::Args;

use super::run_args::Format;
use super::sweep::finish;
use crate::exit::{Error, Exit};
use crate::sweep::{SweepFile, SweepPoint, join};

/// Options of `vmmlab merge`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab merge shares/1 shares/2 shares/3 --out all
  vmmlab merge shares/* --out all --partial

Blocks that two directories have must be the same; results of the simulator always are.")]
pub struct MergeArgs {
    /// Directories that `vmmlab sweep --shard` has made
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Join what there is, even if blocks are missing
    #[arg(long)]
    pub partial: bool,
    /// What is printed on stdout
    #[arg(long, value_enum, value_name = "table|json", default_value = "table", hide_possible_values = true)]
    pub format: Format,
}

pub(super) fn merge(args: &MergeArgs) -> Result<Exit, Error> {
    let joined = join(&args.dirs, &args.out, args.partial)?;
    let sweep = &joined.sweep;
    let mut points = Vec::new();
    for point in &sweep.manifest().points {
        points.push(SweepPoint::of(&point.dir, &point.axes, &sweep.recording(point)?.result()));
    }
    let file = SweepFile::of(sweep.manifest(), points);
    finish(sweep, &file, args.format)?;
    let n = joined.missing.len();
    if n > 0 {
        anstream::eprintln!("notice: {n} blocks are missing; `vmmlab sweep --resume {}` runs them", args.out.display());
    }
    Ok(crate::driver::exit(false, file.points.iter().map(|point| point.status)))
}
