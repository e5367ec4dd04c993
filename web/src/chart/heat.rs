//! Compartments by time: who was saturated when, at a glance.
//!
//! Separate because it is the one chart with a row for each compartment. Neighbouring steps that
//! look the same are one rectangle, and a fuller step is a higher one: colour never stands alone.
//! It must never show a missing report as calm.

use super::path::WIDTH;
use super::time;
use crate::text;

/// Most rows of a strip; those that were saturated longest come first.
pub const HEAT_ROWS_MAX: usize = 12;

/// One compartment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatRow {
    /// Its key.
    pub key: String,
    /// Where its page is.
    pub href: String,
    /// Thousandths of the reported time in which it was saturated; `None`: nobody reported.
    pub of_all_permille: Option<u64>,
    /// Thousandths of each step in which it was saturated; `None`: nobody reported.
    pub saturated_permille: Vec<Option<u64>>,
}

/// The strip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    /// Where the first step begins, in milliseconds of Unix time.
    pub from_ms: i64,
    /// How long a step is.
    pub step_ms: u64,
    /// The rows.
    pub rows: Vec<HeatRow>,
}

/// Steps side by side that look the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Left edge.
    pub x: u64,
    /// Width.
    pub width: u64,
    /// `h0` to `h4`, or `gap`.
    pub class: &'static str,
    /// Height, of 20.
    pub height: u64,
    /// From when to when, and how much.
    pub title: String,
}

impl HeatRow {
    /// When it was saturated last, as a place among the steps.
    fn last(&self) -> Option<usize> {
        let full = |step: &Option<u64>| step.is_some_and(|permille| permille > 0);
        self.saturated_permille.iter().rposition(full)
    }

    /// How much of the reported time it was saturated.
    pub fn share(&self) -> String {
        let words = |permille| text::percent(permille, 1_000_u64);
        let share = self.of_all_permille.map(words);
        share.unwrap_or_else(|| "not reported".to_owned())
    }
}

impl Heat {
    /// Puts the longest saturated first, and keeps as many as the strip holds.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.rows
            .sort_by_key(|row| (std::cmp::Reverse(row.of_all_permille), row.key.clone()));
        self.rows.truncate(HEAT_ROWS_MAX);
        self
    }

    /// True when nobody was saturated at any time.
    pub fn is_calm(&self) -> bool {
        self.rows.iter().all(|row| row.last().is_none())
    }

    /// True when a step is missing between others.
    pub fn has_gaps(&self) -> bool {
        let steps = self.rows.iter().flat_map(|row| &row.saturated_permille);
        steps.into_iter().any(Option::is_none)
    }

    /// What one row shows, in words: how long, the worst step, the last one.
    pub fn words(&self, row: &HeatRow) -> [String; 3] {
        let worst = row.saturated_permille.iter().enumerate();
        let worst = worst.filter_map(|(at, step)| Some(((*step)?, std::cmp::Reverse(at))));
        let worst = worst.max().filter(|(permille, _)| *permille > 0);
        let worst = worst.map_or_else(
            || "never".to_owned(),
            |(permille, at)| {
                let share = text::percent(permille, 1_000_u64);
                format!("{} ({share})", self.when(at.0))
            },
        );
        let last = row.last();
        let last = last.map_or_else(|| "never".to_owned(), |at| self.when(at));
        [row.share(), worst, last]
    }

    /// The drawing of one row.
    pub fn cells(&self, row: &HeatRow) -> Vec<Cell> {
        let count = row.saturated_permille.len().max(1);
        let x = |at: usize| {
            let at = u64::try_from(at).unwrap_or(u64::MAX);
            at.saturating_mul(WIDTH) / u64::try_from(count).unwrap_or(u64::MAX)
        };
        let mut cells: Vec<Cell> = Vec::new();
        let mut begun = 0;
        let steps = &row.saturated_permille;
        for (at, step) in steps.iter().enumerate() {
            let next = steps.get(at + 1).map(|next| class(*next));
            if next == Some(class(*step)) {
                continue;
            }
            cells.push(Cell {
                x: x(begun),
                width: x(at + 1).saturating_sub(x(begun)),
                class: class(*step),
                height: height(*step),
                title: self.title(begun, at + 1, words(*step)),
            });
            begun = at + 1;
        }
        cells
    }

    fn title(&self, from: usize, to: usize, words: &str) -> String {
        format!("{} to {}: {words}", self.when(from), self.when(to))
    }

    fn when(&self, at: usize) -> String {
        let since_ms = self
            .step_ms
            .saturating_mul(u64::try_from(at).unwrap_or(u64::MAX));
        time::clock(
            self.from_ms.saturating_add_unsigned(since_ms),
            self.step_ms < 60_000,
        )
    }

    /// Left and right end of the time axis, UTC.
    pub fn ends(&self) -> [String; 2] {
        let longest = self
            .rows
            .iter()
            .map(|row| row.saturated_permille.len())
            .max();
        [self.when(0), self.when(longest.unwrap_or(0))]
    }
}

const fn class(permille: Option<u64>) -> &'static str {
    match permille {
        None => "gap",
        Some(0) => "h0",
        Some(1..250) => "h1",
        Some(250..500) => "h2",
        Some(500..800) => "h3",
        Some(_) => "h4",
    }
}

/// What is hardly there must still be seen.
const fn height(permille: Option<u64>) -> u64 {
    match permille {
        None | Some(800..) => 20,
        Some(0) => 2,
        Some(1..250) => 6,
        Some(250..500) => 10,
        Some(500..800) => 15,
    }
}

const fn words(permille: Option<u64>) -> &'static str {
    match permille {
        None => "not reported",
        Some(0) => "room",
        Some(1..250) => "full for moments",
        Some(250..500) => "full for a quarter of the time or more",
        Some(500..800) => "full for half of the time or more",
        Some(_) => "full nearly all the time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, saturated_permille: &[Option<u64>]) -> HeatRow {
        HeatRow {
            key: key.to_owned(),
            href: format!("/compartments/{key}"),
            // The second is a fifth as long as the others: its steps say half, the time says 63 %.
            of_all_permille: Some(saturated_permille.iter().flatten().sum::<u64>() / 3),
            saturated_permille: saturated_permille.to_vec(),
        }
    }

    #[test]
    fn like_steps_are_one_and_a_gap_is_its_own() {
        let heat = Heat {
            from_ms: 0,
            step_ms: 60_000,
            rows: vec![
                row("a", &[Some(0); 4]),
                row("b", &[Some(0), Some(900), Some(1000), None]),
            ],
        }
        .sorted();
        assert_eq!(heat.rows[0].key, "b");
        let cells = heat.cells(&heat.rows[0]);
        let drawn: Vec<(u64, u64, &str)> = cells
            .iter()
            .map(|cell| (cell.x, cell.width, cell.class))
            .collect();
        assert_eq!(drawn, [(0, 250, "h0"), (250, 500, "h4"), (750, 250, "gap")]);
        assert_eq!(cells[1].title, "00:01 to 00:03: full nearly all the time");
        assert_eq!(heat.cells(&heat.rows[1]).len(), 1);
        assert_eq!(heat.rows[0].share().replace('\u{a0}', " "), "63 %");
        assert!(!heat.is_calm());
        let words = heat
            .words(&heat.rows[0])
            .map(|word| word.replace('\u{a0}', " "));
        assert_eq!(words, ["63 %", "00:02 (100 %)", "00:02"]);
        assert_eq!(heat.words(&heat.rows[1])[1..], ["never", "never"]);
        assert!(heat.has_gaps());
        let heights: Vec<u64> = cells.iter().map(|cell| cell.height).collect();
        assert_eq!(heights, [2, 20, 20]);
        assert_eq!(heat.ends(), ["00:00".to_owned(), "00:04".to_owned()]);
    }
}
