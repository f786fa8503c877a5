//! The pages `fields/<dialect>.md`: tables whose rows are paths, whose columns are the other dialects, and in whose cells
//! stand words for what becomes of the field there.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::path::Pattern;
use crate::convert::Format;

/// What becomes of a field in another dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// The same value stands in the other body.
    Carried,
    /// What it says stands there in another form.
    Converted,
    /// It does not go to the upstream, and the answer is another one by it.
    Kept,
    /// It is left out, and named.
    Dropped,
    /// The request is refused, and the field named.
    Refused,
    /// It changes nothing.
    Ignored,
}

const WORDS: [(Fate, &str); 6] = [
    (Fate::Carried, "carried"),
    (Fate::Converted, "converted"),
    (Fate::Kept, "kept"),
    (Fate::Dropped, "dropped"),
    (Fate::Refused, "refused"),
    (Fate::Ignored, "ignored"),
];

/// The words of a cell.
pub(super) type Cell = BTreeSet<Fate>;

/// A row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) path: String,
    pub(super) cells: Vec<Cell>,
    pub(super) remark: String,
}

/// A table of a page.
#[derive(Debug)]
pub(super) struct Table {
    page: PathBuf,
    heading: &'static str,
    /// The other dialects, in the order of the columns.
    pub(super) others: Vec<Format>,
    pub(super) rows: Vec<Row>,
}

/// A dialect's name in file names.
pub(super) const fn name(format: Format) -> &'static str {
    match format {
        Format::Chat => "chat",
        Format::Responses => "responses",
        Format::Anthropic => "anthropic",
        Format::Gemini => "gemini",
    }
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn said(cell: &Cell) -> String {
    let words = WORDS.iter().filter(|(fate, _)| cell.contains(fate));
    let words: Vec<_> = words.map(|(_, word)| *word).collect();
    words.join(", ")
}

fn cell(text: &str) -> Cell {
    let word = |text: &str| {
        let known = WORDS.iter().find(|(_, word)| *word == text);
        known
            .unwrap_or_else(|| panic!("`{text}` is no word of the table"))
            .0
    };
    let words = text.split(", ").filter(|text| !text.is_empty());
    words.map(word).collect()
}

impl Table {
    /// Reads the table under a heading (`## Requests`) of a dialect's page.
    pub(super) fn read(format: Format, heading: &'static str) -> Self {
        let page = root()
            .join("fields")
            .join(name(format))
            .with_extension("md");
        let text = std::fs::read_to_string(&page).expect("a page");
        let mut rows = Vec::new();
        for line in section(&text, heading).1.lines() {
            let Some(line) = line.strip_prefix("| `") else {
                continue;
            };
            let (path, rest) = line.split_once("` |").expect("a path in the first column");
            let mut cells: Vec<_> = rest.split('|').map(str::trim).collect();
            assert_eq!(cells.pop(), Some(""), "a row ends with a bar: {line}");
            let remark = cells.pop().unwrap_or_default().to_owned();
            assert_eq!(cells.len(), 3, "{line}");
            rows.push(Row {
                path: path.to_owned(),
                cells: cells.into_iter().map(cell).collect(),
                remark,
            });
        }
        let others = Format::ALL.into_iter().filter(|other| *other != format);
        Self {
            page,
            heading,
            others: others.collect(),
            rows,
        }
    }

    pub(super) fn patterns(&self) -> Vec<Pattern> {
        let rows = self.rows.iter();
        rows.map(|row| Pattern::read(&row.path)).collect()
    }

    /// Writes the rows back.
    pub(super) fn write(&self) {
        let text = std::fs::read_to_string(&self.page).unwrap();
        let (before, own, after) = section(&text, self.heading);
        let prose = own.lines().take_while(|line| !line.starts_with("| "));
        let mut out = before.to_owned();
        for line in prose {
            let _ = writeln!(out, "{line}");
        }
        let titles = self.others.iter().map(|other| match other {
            Format::Chat => "chat",
            Format::Responses => "Responses",
            Format::Anthropic => "Anthropic",
            Format::Gemini => "Gemini",
        });
        let titles: Vec<_> = titles.collect();
        let _ = writeln!(out, "| field | {} | remarks |", titles.join(" | "));
        out.push_str("| --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let cells: Vec<_> = row.cells.iter().map(said).collect();
            let _ = writeln!(
                out,
                "| `{}` | {} | {} |",
                row.path,
                cells.join(" | "),
                row.remark
            );
        }
        if !after.is_empty() {
            out.push('\n');
        }
        out.push_str(after);
        std::fs::write(&self.page, out).unwrap();
    }
}

/// What stands before a section, in it, and after it.
fn section<'t>(text: &'t str, heading: &str) -> (&'t str, &'t str, &'t str) {
    let start = text.find(heading).expect("the heading") + heading.len();
    let (before, rest) = text.split_at(start);
    let end = rest.find("\n## ").map_or(rest.len(), |end| end + 1);
    let (own, after) = rest.split_at(end);
    (before, own, after)
}
