//! From a byte of a text to its line and column.
//!
//! Separate because every syntax needs it. It must never walk the text for each question.

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at.saturating_add(1)));
        Self {
            text,
            starts: starts.collect(),
        }
    }

    /// The line of the byte at `offset`, counted from 1.
    pub(super) fn line(&self, offset: usize) -> u32 {
        let lines_before = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(lines_before.max(1)).unwrap_or(u32::MAX)
    }

    /// The column of the byte at `offset` in characters, counted from 1.
    pub(super) fn column(&self, offset: usize) -> u32 {
        let lines_before = self.starts.partition_point(|start| *start <= offset);
        let start = self
            .starts
            .get(lines_before.saturating_sub(1))
            .copied()
            .unwrap_or(0);
        let before = self
            .text
            .as_bytes()
            .get(start..offset.max(start))
            .unwrap_or_default();
        // Characters, not bytes: continuation bytes of UTF-8 do not count.
        let chars = before.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
        u32::try_from(chars.saturating_add(1)).unwrap_or(u32::MAX)
    }
}
