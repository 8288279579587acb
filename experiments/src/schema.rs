//! The JSON schemas of everything that vmmlab prints as JSON, made from the types that print it.
//!
//! `docs/schema/` has them as files; a test makes them again and compares, so that a change of a type shows in review.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::cli::trace;
use crate::compare::Comparison;
use crate::reproduce::Reproduction;
use crate::result::ResultFile;
use crate::soak;
use crate::sweep::SweepFile;

/// A published schema.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// The document's `schema` field.
    pub name: &'static str,
    /// The file below `docs/schema`.
    pub file: &'static str,
    /// Makes it.
    make: fn() -> Schema,
}

/// Every published schema.
pub const PUBLISHED: &[Published] = &[
    Published { name: crate::result::SCHEMA, file: "vmmlab.result-1.json", make: of::<ResultFile> },
    Published { name: crate::compare::SCHEMA, file: "vmmlab.compare-1.json", make: of::<Comparison> },
    Published { name: crate::reproduce::SCHEMA, file: "vmmlab.reproduce-1.json", make: of::<Reproduction> },
    Published { name: soak::SCHEMA, file: "vmmlab.soak-1.json", make: of::<soak::Summary> },
    Published { name: crate::sweep::SWEEP_SCHEMA, file: "vmmlab.sweep-1.json", make: of::<SweepFile> },
    Published {
        name: trace::SUMMARY_SCHEMA,
        file: "vmmlab.trace-summary-1.json",
        make: of::<trace::SummaryDocument<'static>>,
    },
];

impl Published {
    /// The text of its file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut schema = (self.make)();
        schema.insert("title".into(), self.name.into());
        // Plain data with string keys: it cannot fail to serialize.
        serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
    }
}

/// What is written, not what a reader would forgive.
fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
