//! Text for people and scripts: standard output, standard error, tables.
//!
//! Separate so that a closed pipe is quiet in every command and no text from elsewhere reaches a
//! terminal with its control bytes. It must never decide what is said.

use std::io::{self, IsTerminal, Write};

use crate::error::Failure;

/// Most characters of one cell of a table.
const CELL_CHARS_MAX: usize = 120;

/// Writes data to standard output. A reader who has seen enough is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::System {
            what: "write to standard output",
            source: error,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes JSON to standard output, with a last newline.
pub(crate) fn print_json(document: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{document:#}\n"))
}

/// Writes one message to standard error; nobody listening is no error.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    drop(
        err.write_all(text.as_bytes())
            .and_then(|()| err.write_all(b"\n")),
    );
}

/// True when a person reads standard error.
pub(crate) fn person_reads_errors() -> bool {
    io::stderr().is_terminal()
}

/// True when colours are welcome on standard error.
pub(crate) fn colours_on_errors() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    person_reads_errors() && !refused
}

/// `text` with every control byte spelt out, so that it can move no cursor and fake no line.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if hidden {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Like [`printable`], but keeps line ends: for text of our own that has several lines.
pub(crate) fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// Which side a column leans to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Aligned columns under a head.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
    /// The last column is a sentence and is printed whole.
    sentences: bool,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            sentences: false,
        }
    }

    /// The same, the last column of which is a sentence that is never cut.
    pub(crate) fn with_sentences(columns: &[(&'static str, Side)]) -> Self {
        Self {
            sentences: true,
            ..Self::new(columns)
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let last = cells.len().saturating_sub(1);
        let one = |(at, cell): (usize, &String)| match printable(cell) {
            whole if self.sentences && at == last => whole,
            text => bounded(&text),
        };
        let row = cells.iter().enumerate().map(one).collect();
        self.rows.push(row);
    }

    /// The whole table, a line each, no blanks at line ends.
    pub(crate) fn text(&self) -> String {
        let head: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), (_, side)) in row.iter().zip(&widths).zip(&self.columns) {
                let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
                match side {
                    Side::Left => line.extend([cell.as_str(), &blanks, "  "]),
                    Side::Right => line.extend([blanks.as_str(), cell, "  "]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

fn bounded(text: &str) -> String {
    if text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    text.chars()
        .take(CELL_CHARS_MAX.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_are_spelt_out() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\u{a}");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(printable_lines("a\nb\u{7}"), "a\nb\\u{7}");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("key", Side::Left), ("limit", Side::Right)]);
        table.row(vec!["route/checkout".into(), "60".into()]);
        table.row(vec!["a".into(), "unlimited".into()]);
        assert_eq!(
            table.text(),
            "key                 limit\nroute/checkout         60\na               unlimited\n"
        );
    }

    #[test]
    fn long_cells_are_cut() {
        assert_eq!(bounded(&"x".repeat(500)).chars().count(), CELL_CHARS_MAX);
        let mut table = Table::with_sentences(&[("key", Side::Left), ("why", Side::Left)]);
        table.row(vec!["z".repeat(500), "x".repeat(500)]);
        let text = table.text();
        assert_eq!(text.matches('x').count(), 500);
        assert_eq!(text.matches('z').count(), CELL_CHARS_MAX - 1);
    }
}
