//! `vmmlab reproduce`: published tables beside ours.
use clap::{Args, ValueEnum};

use super::print;
use crate::exit::{Error, Exit};
use crate::format::OutputFormat;
use crate::reproduce::{self, Protocol};
use crate::units::Seed;
use crate::{report, table};

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Published {
    /// "Gang scheduling in CFS", LKML 2011/12
    GangCfs,
    /// CPU buddies against the walk for an idle core, LKML 2012
    IdleBuddy,
    /// The imbalance threshold where a cache has two CPUs, LKML 2016
    LlcImbalance,
    /// `LB_BIAS` and VolanoMark, LKML 2008
    LbBias,
}

/// Options of `vmmlab reproduce`.
#[derive(Debug, Clone, Args)]
pub struct ReproduceArgs {
    /// Which tables
    #[arg(value_enum, value_name = "WHAT")]
    pub what: Published,
    /// Shorter and fewer runs: under two minutes on two cores
    #[arg(long)]
    pub quick: bool,
    /// What the fitted numbers rest on: each of them halved and doubled
    #[arg(long)]
    pub sensitivity: bool,
    /// Seed of all runs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: Seed,
    /// What is printed on stdout; markdown is the page as it stands under docs/
    #[arg(
        long,
        value_enum,
        value_name = "table|json|csv|markdown|html",
        default_value = "table",
        hide_possible_values = true
    )]
    pub format: OutputFormat,
}

pub(super) fn reproduce(args: &ReproduceArgs) -> Result<Exit, Error> {
    if args.format == OutputFormat::Lkml {
        return Err(Error::Usage("reproduce has no form of 78 columns: take --format table or markdown".into()));
    }
    let protocol = if args.quick { Protocol::Quick } else { Protocol::Full };
    let reproduction = match args.what {
        Published::GangCfs if args.sensitivity => reproduce::sensitivity(protocol, args.seed.0),
        _ if args.sensitivity => {
            return Err(Error::Usage("--sensitivity is for gang-cfs: nothing of the others is fitted".into()));
        }
        Published::GangCfs => reproduce::gang_cfs(protocol, args.seed.0),
        Published::IdleBuddy => reproduce::idle_buddy(protocol, args.seed.0),
        Published::LlcImbalance => reproduce::llc_imbalance(protocol, args.seed.0),
        Published::LbBias => reproduce::lb_bias(protocol, args.seed.0),
    }?;
    print(&match args.format {
        OutputFormat::Table | OutputFormat::Lkml => reproduce::text(&reproduction),
        OutputFormat::Markdown => reproduce::markdown(&reproduction),
        OutputFormat::Json => reproduce::json(&reproduction),
        OutputFormat::Csv => table::reproduction_csv(&reproduction.tables),
        OutputFormat::Html => report::of_reproduction(&reproduction)?,
    })?;
    Ok(Exit::Ok)
}
