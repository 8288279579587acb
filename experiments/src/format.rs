//! `--format`: the same names everywhere. What stands on stdout is for people, for a mail, or for another program.

use clap::ValueEnum;

/// How a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// tables of at most 100 columns
    #[default]
    Table,
    /// at most 78 columns of ASCII, to paste into a mail
    Lkml,
    /// everything, with a schema
    Json,
    /// one row a value, tidy
    Csv,
    /// tables for issues and wikis
    Markdown,
    /// one self-contained page
    Html,
}

impl OutputFormat {
    /// The names, for help texts.
    pub const NAMES: &str = "table|lkml|json|csv|markdown|html";
}
