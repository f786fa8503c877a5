//! Tables for people: aligned columns, headers, exact amounts. Text that came from callers cannot move the cursor.

use switchboard_common::money::NanoUsd;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Rows under headers; the columns are as wide as they need to be.
pub(super) struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headers: &[&'static str]) -> Self {
        Self {
            headers: headers.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows
            .push(cells.into_iter().map(|cell| shown(&cell)).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Headers and rows, each line ended. Columns that hold numbers alone stand to the right.
    pub(super) fn render(&self) -> String {
        let count = self.headers.len();
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.headers.iter().map(|header| width(header)).collect();
        let mut is_number = vec![!self.rows.is_empty(); count];
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate().take(count) {
                widths[at] = widths[at].max(width(cell));
                is_number[at] &= numeric(cell);
            }
        }
        let headers: Vec<String> = self
            .headers
            .iter()
            .map(|header| (*header).to_owned())
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&headers).chain(&self.rows) {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate().take(count) {
                if at > 0 {
                    line.push_str("  ");
                }
                let gap = " ".repeat(widths[at].saturating_sub(width(cell)));
                if is_number[at] {
                    line.push_str(&gap);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&gap);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn numeric(cell: &str) -> bool {
    cell == "-" || cell.parse::<NanoUsd>().is_ok()
}

/// One cell: no control characters, and a dash for nothing.
fn shown(cell: &str) -> String {
    if cell.is_empty() {
        "-".to_owned()
    } else {
        plain(cell)
    }
}

/// Text without control characters, which a terminal might obey.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|character| {
            if character.is_control() {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect()
}

/// An amount in USD, exactly.
pub(super) fn usd(nanos: i64) -> String {
    NanoUsd(nanos).to_string()
}

/// A number that may not be known.
pub(super) fn known(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// Unix milliseconds as RFC 3339 in UTC, whole seconds.
pub(super) fn moment(at_ms: i64) -> String {
    OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1_000))
        .ok()
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_else(|| at_ms.to_string())
}

/// Microseconds as milliseconds.
pub(super) fn millis(us: u64) -> String {
    format!("{}.{:03} ms", us / 1_000, us % 1_000)
}

/// `yes` or `no`.
pub(super) fn yes(fact: bool) -> String {
    if fact { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["NAME", "USD", "NOTE"]);
        table.row(["a".to_owned(), usd(54_399_000), "first".to_owned()]);
        table.row(["größer".to_owned(), usd(-2_000_000_000), String::new()]);
        assert_eq!(
            table.render(),
            "NAME         USD  NOTE\n\
             a       0.054399  first\n\
             größer        -2  -\n"
        );
    }

    #[test]
    fn a_callers_text_cannot_move_the_cursor() {
        let mut table = Table::new(&["ID"]);
        table.row(["x\u{1b}[2Jy\n".to_owned()]);
        assert_eq!(table.render(), "ID\nx\u{fffd}[2Jy\u{fffd}\n");
    }

    #[test]
    fn moments_and_spans_read_plainly() {
        assert_eq!(moment(1_764_454_069_999), "2025-11-29T22:07:49Z");
        assert_eq!(moment(i64::MAX), i64::MAX.to_string());
        assert_eq!(millis(1_234_567), "1234.567 ms");
    }
}
