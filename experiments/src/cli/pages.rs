//! Results and comparisons in every `--format`.

use std::path::Path;

use crate::compare::{self, Comparison, Request};
use crate::exit::Error;
use crate::format::OutputFormat;
use crate::report::{self, Traces};
use crate::result::ResultFile;
use crate::table::{self, Medium};

/// A result, which is in `place`.
pub(super) fn of_result(result: &ResultFile, place: &str, format: OutputFormat) -> Result<String, Error> {
    Ok(match format {
        OutputFormat::Table => table::render(result, place),
        OutputFormat::Lkml => table::mail(result),
        OutputFormat::Json => json(result),
        OutputFormat::Csv => table::result_csv(result),
        OutputFormat::Markdown => {
            let verdicts = compare::compare(&[("", result)], &Request::default());
            verdicts.map(|found| table::comparison_markdown(&found) + "\n").unwrap_or_default()
                + &table::result_markdown(result)
        }
        OutputFormat::Html => report::report(Path::new(place), &Traces { paths: &[], window: None })?,
    })
}

/// A comparison.
pub(super) fn of_comparison(comparison: &Comparison, format: OutputFormat) -> Result<String, Error> {
    Ok(match format {
        OutputFormat::Table => table::comparison_text(comparison, Medium::Terminal),
        OutputFormat::Lkml => table::comparison_text(comparison, Medium::Mail),
        OutputFormat::Json => json(comparison),
        OutputFormat::Csv => table::comparison_csv(comparison),
        OutputFormat::Markdown => table::comparison_markdown(comparison),
        OutputFormat::Html => report::of_comparison(comparison)?,
    })
}

/// Plain data with string keys: it cannot fail to serialize.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default())
}
