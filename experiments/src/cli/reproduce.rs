//! `vmmlab reproduce`: published tables beside ours.
use clap::{Args, ValueEnum};

use super::print;
use crate::exit::{Error, Exit};
use crate::reproduce::{self, Protocol};
use crate::units::Seed;

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

/// How it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// tables of at most 100 columns
    Text,
    /// the page as it stands under docs/
    Markdown,
    /// schema vmmlab.reproduce/1
    Json,
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
    /// What is printed on stdout
    #[arg(long, value_enum, value_name = "text|markdown|json", default_value = "text", hide_possible_values = true)]
    pub format: PageFormat,
}

pub(super) fn reproduce(args: &ReproduceArgs) -> Result<Exit, Error> {
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
        PageFormat::Text => reproduce::text(&reproduction),
        PageFormat::Markdown => reproduce::markdown(&reproduction),
        PageFormat::Json => reproduce::json(&reproduction),
    })?;
    Ok(Exit::Ok)
}
