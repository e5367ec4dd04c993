//! The list of compartments: what is full, for how long, how it moved, which limit it needs.
//!
//! Separate page by page. It chooses among all and shows a page of them; it must never show more
//! rows than a page has, nor leave a problem out of the counts above.

use askama::Template;

use crate::chart::Spark;
use crate::list_view::urgent_first;
use crate::{
    Chip, Filter, Frame, ListView, Order, Pager, Reading, State, Times, Wanted, reason, text, url,
};

/// The most rows of one page.
pub const LIST_ROWS_MAX: usize = 50;
/// The most rows of one exported file.
pub const EXPORT_ROWS_MAX: usize = 10_000;

/// The list.
#[derive(Debug, Clone, Template)]
#[template(path = "list.html", blocks = ["strip", "states", "rows"])]
pub struct ListPage {
    /// What stands around it.
    pub frame: Frame,
    /// What the address asks for.
    pub view: ListView,
    /// This page of the rows.
    pub rows: Vec<ListRow>,
    /// How many belong to the view.
    pub matching: usize,
    /// How much of the last hour and day is known.
    pub known: Known,
    /// How many there are of each state, among those with the wanted names.
    pub states: Vec<(State, usize)>,
}

/// How much of the reported time it stood at its limit, in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saturated {
    /// Of the last five minutes; `None`: nobody was heard.
    pub of_5min: Option<u64>,
    /// Of the last hour.
    pub of_hour: Option<u64>,
    /// Of the last day.
    pub of_day: Option<u64>,
    /// How much of that time was heard of.
    pub known: Known,
}

/// How much of the last hour and day somebody was heard of, by anybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Minutes of the last five.
    pub recent: u64,
    /// Minutes of the last 60.
    pub minutes: u64,
    /// Hours of the last 24.
    pub hours: u64,
    /// More is known of the day than of its last hour.
    pub is_longer: bool,
}

impl Saturated {
    /// Of the last five minutes, hour and day. Where no more is known of the longer time than of
    /// the shorter one, its share would be the same number under a name it does not deserve.
    pub fn shares(&self) -> [Option<u64>; 3] {
        let hour = self
            .of_hour
            .filter(|_| self.known.minutes > self.known.recent);
        [
            self.of_5min,
            hour,
            self.of_day.filter(|_| self.known.is_longer),
        ]
    }
}

impl Known {
    /// What is not known of the last hour and day; `None` when all is. The minute and the hour
    /// that have just begun may be silent still.
    pub fn words(&self) -> Option<String> {
        match (self.minutes, self.hours) {
            (59.., 23..) => None,
            (59.., hours) => Some(format!(
                "Of the last 24 h {} known: the share at the limit is of those.",
                text::plural(hours, "hour is", "hours are")
            )),
            (0, _) => None,
            _ => Some(format!(
                "Of the last hour {} known: shares at the limit are of those, and one of a longer \
                 time is left out until more of it is known.",
                text::plural(self.minutes, "minute is", "minutes are")
            )),
        }
    }
}

/// One compartment.
#[derive(Debug, Clone, PartialEq)]
pub struct ListRow {
    /// Its sums.
    pub reading: Reading,
    /// How long it stood at its limit.
    pub saturated: Saturated,
    /// The 99th percentile of the hold times; only where the order needs it.
    pub p99_us: Option<u64>,
    /// How long permits were held since the start; filled in for rows that are shown.
    pub times: Times,
    /// The last hour, small; the same.
    pub spark: Spark,
    /// Which limit the traffic asks for, and what kind of advice that is; the same.
    pub advice: Option<(&'static str, String)>,
}

impl ListRow {
    /// A row whose details are not known yet.
    pub fn new(reading: Reading, saturated: Saturated) -> Self {
        Self {
            reading,
            saturated,
            p99_us: None,
            times: Times::default(),
            spark: Spark::default(),
            advice: None,
        }
    }

    /// The page of this compartment.
    pub fn href(&self) -> String {
        url::compartment(&self.reading.key)
    }

    /// The refusals by reason, in words.
    pub fn reasons(&self) -> String {
        reason::in_words(&self.reading.rejected)
    }

    /// The same in a line: `5 min 99 %, 1 h 24 %, 24 h 1.2 %`.
    pub fn full_words(&self) -> String {
        let words = self.full().map(|(over, share)| format!("{over} {share}"));
        words.join(", ")
    }

    /// True when it is known to have had room all day.
    pub fn is_never_full(&self) -> bool {
        let Saturated {
            of_5min,
            of_hour,
            of_day,
            known: _,
        } = self.saturated;
        [of_5min, of_hour, of_day]
            .into_iter()
            .all(|share| share == Some(0))
    }

    /// Over which time, how much of it.
    pub fn full(&self) -> [(&'static str, String); 3] {
        let [of_5min, of_hour, of_day] = self.saturated.shares();
        let of = |permille: Option<u64>| {
            permille.map_or_else(
                || "–".to_owned(),
                |permille| text::percent(permille, 1_000_u64),
            )
        };
        [
            ("5 min", of(of_5min)),
            ("1 h", of(of_hour)),
            ("24 h", of(of_day)),
        ]
    }
}

impl ListPage {
    /// Chooses this page's rows among all.
    pub fn new(frame: Frame, view: ListView, rows: Vec<ListRow>) -> Self {
        let mut known = rows.iter().map(|row| row.saturated.known);
        let known = known.find(|known| known.minutes > 0).unwrap_or_default();
        let (mut rows, states) = Self::chosen(&view, rows);
        let matching = rows.len();
        let pager = Pager {
            page: view.page,
            rows_max: LIST_ROWS_MAX,
            matching,
        };
        let pager = pager.within();
        let view = ListView {
            page: pager.page,
            ..view
        };
        view.cut(&mut rows, pager.skipped(), LIST_ROWS_MAX);
        Self {
            frame,
            view,
            rows,
            matching,
            known,
            states,
        }
    }

    /// The rows of an exported file: all of the view, in its order, and how many are left out.
    pub fn export(view: &ListView, rows: Vec<ListRow>) -> (Vec<ListRow>, usize) {
        let (mut rows, _) = Self::chosen(view, rows);
        let left_out = rows.len().saturating_sub(EXPORT_ROWS_MAX);
        view.cut(&mut rows, 0, EXPORT_ROWS_MAX);
        (rows, left_out)
    }

    fn chosen(view: &ListView, mut rows: Vec<ListRow>) -> (Vec<ListRow>, Vec<(State, usize)>) {
        rows.retain(|row| view.names(row));
        let count = |state: State| rows.iter().filter(|row| row.reading.state == state).count();
        let states = urgent_first().map(|state| (state, count(state)));
        rows.retain(|row| view.wants(row));
        (rows, states.into_iter().filter(|(_, n)| *n > 0).collect())
    }

    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let parts = [
            self.as_strip().render()?,
            self.as_states().render()?,
            self.as_rows().render()?,
        ];
        Ok(parts.join(crate::BETWEEN))
    }

    /// All, the problems, and each state that somebody is in.
    pub fn chips(&self) -> Vec<Chip> {
        let count = |wanted: &dyn Fn(State) -> bool| {
            let states = self.states.iter().filter(|(state, _)| wanted(*state));
            states.map(|(_, n)| n).sum::<usize>()
        };
        let chip = |wanted: Wanted, class, word, n| {
            let current = self.view.state == wanted;
            Chip::new(self.view.in_state(wanted), class, word, n, current)
        };
        let broad = [
            chip(Wanted::Any, "", "all", count(&|_| true)),
            chip(Wanted::Problems, "", "problems", count(&State::is_problem)),
        ];
        let states = self.states.iter();
        let narrow = states.map(|(s, n)| chip(Wanted::Only(*s), s.class(), s.word(), *n));
        broad.into_iter().chain(narrow).collect()
    }

    /// Which rows these are, and the addresses of those before and after.
    pub fn pager(&self) -> (String, Option<String>, Option<String>) {
        let pager = Pager {
            page: self.view.page,
            rows_max: LIST_ROWS_MAX,
            matching: self.matching,
        };
        pager.links(("compartment", "compartments"), |page| self.view.page(page))
    }

    /// The value of `aria-sort` of a column.
    pub fn sorted_by(&self, order: Order) -> &'static str {
        match (self.view.order == order, order) {
            (false, _) => "none",
            (true, Order::Key) => "ascending",
            (true, _) => "descending",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_time_of_which_no_more_is_known_has_no_share_of_its_own() {
        let saturated = |recent, minutes, hours, is_longer| Saturated {
            of_5min: Some(500),
            of_hour: Some(300),
            of_day: Some(200),
            known: Known {
                recent,
                minutes,
                hours,
                is_longer,
            },
        };
        for (saturated, shares, words) in [
            (
                saturated(2, 2, 1, false),
                [Some(500), None, None],
                Some("2 minutes are"),
            ),
            (
                saturated(5, 12, 1, false),
                [Some(500), Some(300), None],
                Some("12 minutes are"),
            ),
            (
                saturated(1, 1, 9, true),
                [Some(500), None, Some(200)],
                Some("1 minute is"),
            ),
            (
                saturated(5, 60, 3, true),
                [Some(500), Some(300), Some(200)],
                Some("3 hours are"),
            ),
            (
                saturated(5, 59, 23, true),
                [Some(500), Some(300), Some(200)],
                None,
            ),
            (saturated(0, 0, 0, false), [Some(500), None, None], None),
        ] {
            assert_eq!(saturated.shares(), shares);
            let said = saturated.known.words();
            let said = said.map(|said| said.replace('\u{a0}', " "));
            let is_said = |words| said.as_deref().is_some_and(|said| said.contains(words));
            assert!(words.map_or(said.is_none(), is_said), "{said:?}");
        }
    }
}
