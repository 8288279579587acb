//! `vmmlab report`: a result as one HTML page that explains itself.
//!
//! ```text
//!   run directory ──► source ──► view ─────────► page (sections of blocks) ──► templates ──► one HTML file
//!                       │         │ charts (SVG)      ▲
//!                       │         ├──► latency ───────┤
//!                       │         ├──► guest_time ────┤
//!   compare JSON ───────┤         ├──► comparison ────┤
//!   reproduce JSON ─────┘         └──► reproduction ──┘
//!   trace ──► schedule ───────────────────────────────┘
//! ```
//! The page needs no script and fetches nothing; its security policy forbids both. Equal input gives equal bytes.

mod caveats;
mod chart;
mod comparison;
mod guest_time;
mod histograms;
mod latency;
mod page;
mod reproduction;
mod schedule;
mod source;
mod svg;
mod view;

use std::path::Path;

use plan::EngineError;

use crate::compare::Comparison;
use crate::exit::Error;
use crate::reproduce::Reproduction;
use page::Page;
pub use schedule::{Span, Traces};
use source::Source;

/// The page of what `path` names: a run directory, its result, a `vmmlab.compare/1` or a `vmmlab.reproduce/1`; with the
/// schedules of `traces`, which only a result has.
///
/// # Errors
/// One sentence that names the file and what would be right.
pub fn report(path: &Path, traces: &Traces<'_>) -> Result<String, Error> {
    let page = match source::read(path)? {
        Source::Measured(measured) => view::page(&measured, schedule::section(traces)?),
        _ if !traces.paths.is_empty() => {
            return Err(Error::Usage(format!("--trace goes with a run, and {} is none; leave it out", path.display())));
        }
        Source::Compared(compared) => comparison::page(&compared),
        Source::Reproduced(given) => reproduction::page(&given),
    };
    render(&page)
}

/// The page of a comparison.
///
/// # Errors
/// A template that is broken: a fault of vmmlab itself.
pub fn of_comparison(compared: &Comparison) -> Result<String, Error> {
    render(&comparison::page(compared))
}

/// The page of published tables beside ours.
///
/// # Errors
/// A template that is broken, or a reproduction that its own reader refuses: faults of vmmlab itself.
pub fn of_reproduction(reproduction: &Reproduction) -> Result<String, Error> {
    let given = serde_json::to_value(reproduction).and_then(serde_json::from_value).map_err(|source| {
        let what = "Cannot read a reproduction back".into();
        Error::Engine(EngineError::Internal { what, source: Some(source.into()) })
    })?;
    render(&reproduction::page(&given))
}

/// The page as HTML.
fn render(page: &Page) -> Result<String, Error> {
    page::html(page).map_err(|source| {
        let what = "Cannot make the page from its template".into();
        Error::Engine(EngineError::Internal { what, source: Some(source.into()) })
    })
}
