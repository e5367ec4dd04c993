//! The list of compartments: what is full, for how long, how it moved, which limit it needs.
//!
//! Separate page by page. It chooses among all and shows a page of them; it must never show more
//! rows than a page has, nor leave a problem out of the counts above.

use askama::Template;

use crate::chart::Spark;
use crate::list_view::urgent_first;
use crate::{
    Chip, Filter, Frame, ListView, Order, Reading, State, Times, Wanted, reason, text, url,
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
        } = self.saturated;
        [of_5min, of_hour, of_day]
            .into_iter()
            .all(|share| share == Some(0))
    }

    /// Over which time, how much of it.
    pub fn full(&self) -> [(&'static str, String); 3] {
        let Saturated {
            of_5min,
            of_hour,
            of_day,
        } = self.saturated;
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
        let (mut rows, states) = Self::chosen(&view, rows);
        let matching = rows.len();
        let pages = matching.div_ceil(LIST_ROWS_MAX).max(1);
        let view = ListView {
            page: view.page.clamp(1, pages),
            ..view
        };
        let skipped = view.page.saturating_sub(1).saturating_mul(LIST_ROWS_MAX);
        view.cut(&mut rows, skipped, LIST_ROWS_MAX);
        Self {
            frame,
            view,
            rows,
            matching,
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
        let pages = self.matching.div_ceil(LIST_ROWS_MAX);
        let page = self.view.page;
        let before = (page > 1).then(|| self.view.page(page - 1));
        let after = (page < pages).then(|| self.view.page(page + 1));
        (self.range(), before, after)
    }

    /// `1 to 50 of 1,003 compartments`.
    fn range(&self) -> String {
        let all = text::plural(self.matching, "compartment", "compartments");
        let first = self.view.page.saturating_sub(1) * LIST_ROWS_MAX + 1;
        match self.rows.len() {
            0 => "None".to_owned(),
            n if n == self.matching => all,
            n => format!(
                "{} to {} of {all}",
                text::count(first),
                text::count(first + n - 1)
            ),
        }
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
