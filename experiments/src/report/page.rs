//! The page as data: sections made of a few kinds of blocks, and the template that turns them into one HTML file.
//!
//! ```text
//!   Page ── title, lede, alarms
//!     └─ Section ── id, heading
//!          └─ Block ── text, notes, facts, command, table, charts
//! ```
//! Whatever comes from a file or from the command line is text here and is escaped by the template. Only drawings are
//! markup already: [`super::svg`] makes them, and escapes what it writes into them.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};
use serde::Serialize;

/// A whole page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    /// What it is about, in a few words.
    pub(super) title: String,
    /// What was asked, in one sentence.
    pub(super) lede: String,
    /// What must be read before anything else: a word in capitals and a sentence.
    pub(super) alarms: Vec<[String; 2]>,
    /// The rest, in reading order.
    pub(super) sections: Vec<Section>,
}

/// A part with a heading.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    /// Target of links: letters and `-`.
    pub(super) id: &'static str,
    /// What it shows.
    pub(super) heading: &'static str,
    /// From top to bottom.
    pub(super) blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "lowercase")]
pub(super) enum Block {
    /// A paragraph.
    Text(String),
    /// A heading of the next level.
    Heading(String),
    /// A list of sentences.
    Notes(Vec<String>),
    /// Names and values.
    Facts(Vec<[String; 2]>),
    /// Many short names and values, in as many columns as there is room for.
    Compact(Vec<[String; 2]>),
    /// What is typed into a shell.
    Command(String),
    /// Rows and columns.
    Table(Table),
    /// Drawings, side by side where there is room.
    Charts(Charts),
}

/// A table with a caption.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    /// What it shows.
    pub(super) caption: String,
    /// Headings of the columns.
    pub(super) head: Vec<Cell>,
    /// The first cell of a row is its heading.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Cell {
    pub(super) text: String,
    /// How it looks; the text says everything without it.
    pub(super) class: &'static str,
}

/// Drawings with a caption.
#[derive(Debug, Serialize)]
pub(super) struct Charts {
    /// What they show, and how to read them.
    pub(super) caption: String,
    /// SVG elements.
    pub(super) drawings: Vec<Value>,
    /// As wide as the page: scrolls in a box of its own where the page is narrow.
    pub(super) wide: bool,
}

impl Cell {
    /// Words.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: "" }
    }

    /// A number: aligned right.
    pub(super) fn figure(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: "num" }
    }

    /// A number that may be missing.
    pub(super) fn maybe(text: Option<String>) -> Self {
        Self::figure(text.unwrap_or_else(|| crate::table::figure::MISSING.into()))
    }
}

impl Charts {
    /// Drawings as wide as a phone.
    pub(super) fn narrow(caption: impl Into<String>, drawings: Vec<String>) -> Block {
        Self::of(caption, drawings, false)
    }

    /// Drawings as wide as the page.
    pub(super) fn wide(caption: impl Into<String>, drawings: Vec<String>) -> Block {
        Self::of(caption, drawings, true)
    }

    fn of(caption: impl Into<String>, drawings: Vec<String>, wide: bool) -> Block {
        let drawings = drawings.into_iter().map(Value::from_safe_string).collect();
        Block::Charts(Self { caption: caption.into(), drawings, wide })
    }
}

/// Numbers the drawings of a page: their ids must differ.
#[derive(Debug, Default)]
pub(super) struct Ids(u32);

impl Ids {
    /// The next one: `c1`, `c2`, ...
    pub(super) fn next(&mut self) -> String {
        self.0 += 1;
        format!("c{}", self.0)
    }
}

/// The page as one HTML file that needs nothing else.
///
/// # Errors
/// A template that is broken; the tests render every part of it.
pub(super) fn html(page: &Page) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(true);
    environment.add_template("page.html", include_str!("templates/page.html"))?;
    environment.add_template("block.html", include_str!("templates/block.html"))?;
    let style = Value::from_safe_string(include_str!("templates/style.css").into());
    let version = env!("CARGO_PKG_VERSION");
    environment.get_template("page.html")?.render(context! { page, style, version })
}
