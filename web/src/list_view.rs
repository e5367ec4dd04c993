//! Which compartments the list shows, in which order, and which page of them.
//!
//! Separate because all of it comes from the address and goes back into it: a view can be sent to
//! somebody, and an export holds the same rows. It must never refuse an address; what is not
//! understood does not filter.

use std::cmp::{Ordering, Reverse};

use compartment::Level;

use crate::{ListRow, State, url};

/// The longest text that is looked for, in characters.
const TEXT_CHARS_MAX: usize = 140;

/// Which states are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    #[default]
    Any,
    /// Those that are problems.
    Problems,
    /// This one.
    Only(State),
}

/// What the address asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListView {
    /// In which state.
    pub state: Wanted,
    /// On which level.
    pub level: Option<Level>,
    /// Of which tenant: its own compartment and those on routes.
    pub tenant: String,
    /// Only keys with this text.
    pub find: String,
    /// In which order.
    pub order: Order,
    /// Which page, from 1.
    pub page: usize,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Problems first, then by level and key.
    #[default]
    Problems,
    /// By key.
    Key,
    /// Fullest first.
    Fullest,
    /// Longest at the limit in the last five minutes first.
    Full5Min,
    /// The same of the last hour.
    FullHour,
    /// The same of the last day.
    FullDay,
    /// Longest held first, by the 99th percentile.
    Hold,
    /// Most waiting first.
    Waiting,
    /// Most refusals since the start first.
    Rejected,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 9] = [
        Self::Problems,
        Self::Key,
        Self::Fullest,
        Self::Full5Min,
        Self::FullHour,
        Self::FullDay,
        Self::Hold,
        Self::Waiting,
        Self::Rejected,
    ];

    /// The value in the address.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Problems => "problems",
            Self::Key => "key",
            Self::Fullest => "fullest",
            Self::Full5Min => "full_5m",
            Self::FullHour => "full_1h",
            Self::FullDay => "full_24h",
            Self::Hold => "hold",
            Self::Waiting => "waiting",
            Self::Rejected => "rejected",
        }
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Problems => "problems first",
            Self::Key => "name",
            Self::Fullest => "fullest",
            Self::Full5Min => "at the limit, 5 min",
            Self::FullHour => "at the limit, 1 h",
            Self::FullDay => "at the limit, 24 h",
            Self::Hold => "longest held",
            Self::Waiting => "most waiting",
            Self::Rejected => "most rejected",
        }
    }

    /// Which of two comes first; the key decides between equals, so that pages do not overlap.
    pub(crate) fn compare(self, one: &ListRow, other: &ListRow) -> Ordering {
        let (a, b) = (&one.reading, &other.reading);
        let fullness = |row: &ListRow| {
            let limit = row.reading.limit.unwrap_or(u64::MAX).max(1);
            u128::from(row.reading.in_flight) * 1_000_000 / u128::from(limit)
        };
        let (full, other_full) = (one.saturated, other.saturated);
        let first = match self {
            Self::Problems => b.state.cmp(&a.state),
            Self::Key => Ordering::Equal,
            Self::Fullest => fullness(other).cmp(&fullness(one)),
            Self::Full5Min => other_full.of_5min.cmp(&full.of_5min),
            Self::FullHour => other_full.of_hour.cmp(&full.of_hour),
            Self::FullDay => other_full.of_day.cmp(&full.of_day),
            Self::Hold => other.p99_us.cmp(&one.p99_us),
            Self::Waiting => b.queued.cmp(&a.queued),
            Self::Rejected => b.rejected_all().cmp(&a.rejected_all()),
        };
        first.then_with(|| a.key.cmp(&b.key))
    }
}

/// What the query holds, as text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// `state`.
    pub state: &'a str,
    /// `level`.
    pub level: &'a str,
    /// `tenant`.
    pub tenant: &'a str,
    /// `find`.
    pub find: &'a str,
    /// `sort`.
    pub sort: &'a str,
    /// `page`.
    pub page: &'a str,
}

impl ListView {
    /// From the values of the query; what is not understood does not filter.
    pub fn parse(asked: Asked<'_>) -> Self {
        let text = |text: &str| text.trim().chars().take(TEXT_CHARS_MAX).collect();
        let state = State::ALL
            .into_iter()
            .find(|known| known.class() == asked.state);
        let mut levels = crate::Filter::LEVELS.into_iter();
        let mut order = Order::ALL.into_iter();
        Self {
            state: match state {
                Some(state) => Wanted::Only(state),
                None if asked.state == "problems" => Wanted::Problems,
                None => Wanted::Any,
            },
            level: levels.find(|known| known.as_str() == asked.level),
            tenant: text(asked.tenant),
            find: text(asked.find),
            order: order
                .find(|known| known.as_str() == asked.sort)
                .unwrap_or_default(),
            page: asked.page.parse().unwrap_or(1).max(1),
        }
    }

    /// The value of `state` in the address.
    pub const fn state_name(&self) -> &'static str {
        match self.state {
            Wanted::Any => "",
            Wanted::Problems => "problems",
            Wanted::Only(state) => state.class(),
        }
    }

    /// The address of this view at `path`.
    pub fn at(&self, path: &str) -> String {
        let level = self.level.map_or("", Level::as_str);
        let sort = if self.order == Order::default() {
            ""
        } else {
            self.order.as_str()
        };
        let page = if self.page > 1 {
            self.page.to_string()
        } else {
            String::new()
        };
        let pairs = [
            ("state", self.state_name()),
            ("level", level),
            ("tenant", &self.tenant),
            ("find", &self.find),
            ("sort", sort),
            ("page", &page),
        ];
        url::with_query(path, &pairs)
    }

    /// The address of the page.
    pub fn href(&self) -> String {
        self.at("/compartments")
    }

    /// The same rows in this order, from the first.
    pub fn sorted(&self, order: Order) -> String {
        let view = Self {
            order,
            page: 1,
            ..self.clone()
        };
        view.href()
    }

    /// The same with this page of it.
    pub fn page(&self, page: usize) -> String {
        let view = Self {
            page,
            ..self.clone()
        };
        view.href()
    }

    /// The same in this state, from the first.
    pub fn in_state(&self, state: Wanted) -> String {
        let view = Self {
            state,
            page: 1,
            ..self.clone()
        };
        view.href()
    }

    /// The rows of a file with all of them.
    pub fn export(&self, path: &str) -> String {
        let view = Self {
            page: 1,
            ..self.clone()
        };
        view.at(path)
    }

    /// True when anything is left out.
    pub fn is_narrow(&self) -> bool {
        self.state != Wanted::Any || self.is_named()
    }

    fn is_named(&self) -> bool {
        self.level.is_some() || !self.tenant.is_empty() || !self.find.is_empty()
    }

    /// Whether a row belongs to the view, its state aside.
    pub(crate) fn names(&self, row: &ListRow) -> bool {
        let key = row.reading.key.as_str();
        let of_tenant = || {
            let (before, id) = key.rsplit_once("tenant/").unwrap_or((key, ""));
            id == self.tenant && (before.is_empty() || before.ends_with('/'))
        };
        self.level.is_none_or(|level| level == row.reading.level)
            && (self.tenant.is_empty() || of_tenant())
            && (self.find.is_empty() || key.contains(&self.find))
    }

    /// Whether its state is wanted.
    pub(crate) fn wants(&self, row: &ListRow) -> bool {
        match self.state {
            Wanted::Any => true,
            Wanted::Problems => row.reading.state.is_problem(),
            Wanted::Only(state) => row.reading.state == state,
        }
    }

    /// The first rows of the wanted order, at most `count` beyond the `skipped` ones. Thousands
    /// are not sorted for the sake of fifty.
    pub(crate) fn cut(&self, rows: &mut Vec<ListRow>, skipped: usize, count: usize) {
        let end = skipped.saturating_add(count);
        if rows.len() > end {
            rows.select_nth_unstable_by(end, |a, b| self.order.compare(a, b));
            rows.truncate(end);
        }
        rows.sort_by(|a, b| self.order.compare(a, b));
        rows.drain(..skipped.min(rows.len()));
    }
}

/// States by how urgent they are, most urgent first.
pub(crate) fn urgent_first() -> [State; 7] {
    let mut states = State::ALL;
    states.sort_by_key(|state| Reverse(*state));
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::list_rows;

    fn parse(query: &[(&str, &str)]) -> ListView {
        let get = |wanted: &str| {
            let pair = query.iter().find(|(name, _)| *name == wanted);
            pair.map_or("", |(_, value)| *value)
        };
        ListView::parse(Asked {
            state: get("state"),
            level: get("level"),
            tenant: get("tenant"),
            find: get("find"),
            sort: get("sort"),
            page: get("page"),
        })
    }

    #[test]
    fn a_view_comes_from_the_address_and_goes_back_into_it() {
        let view = parse(&[
            ("state", "full"),
            ("level", "route"),
            ("tenant", "a&b"),
            ("find", " x "),
            ("sort", "full_24h"),
            ("page", "3"),
        ]);
        let href = "/compartments?state=full&level=route&tenant=a%26b&find=x&sort=full_24h&page=3";
        assert_eq!(view.href(), href);
        assert_eq!(
            view.sorted(Order::Problems),
            "/compartments?state=full&level=route&tenant=a%26b&find=x"
        );
        assert_eq!(
            view.in_state(Wanted::Any),
            href.replace("state=full&", "").replace("&page=3", "")
        );
        assert!(
            view.export("/compartments.csv")
                .starts_with("/compartments.csv?state=full")
        );
        let nonsense = [
            ("state", "x"),
            ("level", "y"),
            ("sort", "up"),
            ("page", "-1"),
        ];
        let calm = ListView {
            page: 1,
            ..ListView::default()
        };
        assert_eq!(parse(&nonsense), calm);
        assert_eq!(parse(&nonsense).href(), "/compartments");
        assert_eq!(parse(&[("page", "99999999999999999999")]).page, 1);
    }

    #[test]
    fn rows_are_taken_by_state_tenant_and_name_in_a_total_order() {
        let rows = list_rows();
        let keys = |view: &ListView| {
            let mut rows: Vec<ListRow> = list_rows();
            rows.retain(|row| view.names(row) && view.wants(row));
            view.cut(&mut rows, 0, 100);
            rows.into_iter()
                .map(|row| row.reading.key)
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&parse(&[])).len(), rows.len());
        let of_acme = keys(&parse(&[("tenant", "acme"), ("sort", "key")]));
        assert_eq!(
            of_acme,
            ["route/recommendations/tenant/acme", "tenant/acme"]
        );
        assert_eq!(keys(&parse(&[("tenant", "cme")])), Vec::<String>::new());
        assert_eq!(
            keys(&parse(&[("state", "full")])).first().unwrap(),
            "route/recommendations"
        );
        let problems = keys(&parse(&[("state", "problems")]));
        assert!(!problems.is_empty() && problems.len() < rows.len());
        for order in Order::ALL {
            let view = parse(&[("sort", order.as_str())]);
            let all = keys(&view);
            let mut paged = Vec::new();
            for page in 0..rows.len() {
                let mut some = list_rows();
                view.cut(&mut some, page, 1);
                paged.extend(some.into_iter().map(|row| row.reading.key));
            }
            assert_eq!(paged, all, "{order:?}: pages neither overlap nor leave out");
        }
        assert_eq!(
            keys(&parse(&[("sort", "full_1h")])).first().unwrap(),
            "route/recommendations"
        );
    }
}
