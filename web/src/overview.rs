//! The Overview: one verdict, problems first, who runs what, what changed.
//!
//! Separate page by page. What is shown is chosen here, from all readings, so that a page costs in
//! proportion to its rows; it must never drop a problem in favour of a calm row.

use askama::Template;
use compartment::{Level, Mode};

use crate::filter::{Filter, Sort};
use crate::{
    AlertRow, Frame, Freshness, GatewayRow, Hour, Moment, Reading, State, reason, text, url,
};

/// The most rows of the table of compartments.
pub const ROWS_MAX: usize = 100;
/// The most gateways in the panel.
pub const GATEWAYS_MAX: usize = 50;
/// The most changes in the panel.
pub const CHANGES_MAX: usize = 8;
/// The most alerts in the panel.
pub const ALERTS_SHOWN_MAX: usize = 6;

/// The Overview page.
#[derive(Debug, Clone, Template)]
#[template(path = "overview.html", blocks = ["strip", "verdict", "hour", "rows", "side"])]
pub struct Overview {
    /// What stands around it.
    pub frame: Frame,
    /// What the address asks for.
    pub filter: Filter,
    /// Routes in the policy.
    pub routes: usize,
    /// The table.
    pub rows: Vec<Row>,
    /// How many match the filter.
    pub matching: usize,
    /// All compartments in numbers.
    pub totals: Totals,
    /// The gateways, those in trouble first.
    pub gateways: Vec<GatewayRow>,
    /// The newest generations.
    pub changes: Vec<ChangeRow>,
    /// The last hour at a glance; `None` while nothing is known of it.
    pub hour: Option<Hour>,
    /// What fires and what is pending, what wakes somebody first.
    pub alerts: Vec<AlertRow>,
}

/// One compartment in the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its sums.
    pub reading: Reading,
}

/// All compartments in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many there are.
    pub compartments: usize,
    /// With every slot taken on a gateway.
    pub full: usize,
    /// That lost permits.
    pub leaking: usize,
    /// At four fifths or more.
    pub nearly: usize,
    /// With a limit of 0.
    pub closed: usize,
    /// With refusals in the last seconds.
    pub rejecting: usize,
    /// Routes whose limit is in shadow.
    pub shadow: usize,
    /// Routes with a candidate beside their limit.
    pub candidates: usize,
    /// What those would have refused since the gateways started.
    pub would_refuse: u64,
    /// Requests that the ceiling refused before a compartment did: since the start, and lately.
    pub nominal: (u64, u64),
    /// What was refused and decided in the last seconds.
    pub lately: (u64, u64),
    /// Requests refused since the gateways started.
    pub rejected: u64,
    /// Requests decided since the gateways started.
    pub requests: u64,
}

/// One generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// Its number.
    pub generation: u64,
    /// Who made it.
    pub author: String,
    /// Why.
    pub comment: String,
    /// When.
    pub at: Moment,
}

impl Totals {
    fn of(readings: &[Reading]) -> Self {
        let mut totals = Self {
            compartments: readings.len(),
            ..Self::default()
        };
        for reading in readings {
            match reading.state {
                State::Full => totals.full += 1,
                State::Leaking => totals.leaking += 1,
                State::Rejecting => totals.rejecting += 1,
                State::Nearly => totals.nearly += 1,
                State::Closed => totals.closed += 1,
                State::Idle | State::Busy => {}
            }
            totals.watch(reading);
            totals.rejected = totals.rejected.saturating_add(reading.rejected_all());
            // A request that got everything was admitted at the gateway; a refused one counts
            // only where it was refused. So this counts each request once.
            totals.lately.0 = totals.lately.0.saturating_add(reading.lately.rejected);
            if reading.level == Level::Gateway {
                totals.requests = totals.requests.saturating_add(reading.admitted);
                totals.lately.1 = totals.lately.1.saturating_add(reading.lately.admitted);
                totals.nominal = (reading.ceiling(), reading.lately.ceiling);
            }
        }
        totals.requests = totals.requests.saturating_add(totals.rejected);
        totals.lately.1 = totals.lately.1.saturating_add(totals.lately.0);
        totals
    }

    /// Counts a limit that is judged and not enforced.
    fn watch(&mut self, reading: &Reading) {
        if !reading.is_watched() {
            return;
        }
        self.shadow += usize::from(reading.mode == Mode::Shadow);
        self.candidates += usize::from(reading.candidate.is_some());
        self.would_refuse = self.would_refuse.saturating_add(reading.would_refuse());
    }
}

impl Overview {
    /// Chooses the rows.
    pub fn new(
        frame: Frame,
        filter: Filter,
        routes: usize,
        readings: Vec<Reading>,
        gateways: Vec<GatewayRow>,
        changes: Vec<ChangeRow>,
    ) -> Self {
        let totals = Totals::of(&readings);
        let sort = filter.sort;
        let mut chosen: Vec<Reading> = readings
            .into_iter()
            .filter(|reading| filter.takes(reading))
            .collect();
        let matching = chosen.len();
        if matching > ROWS_MAX {
            // Thousands are not sorted for the sake of a hundred.
            chosen.select_nth_unstable_by(ROWS_MAX, |a, b| sort.rank(a).cmp(&sort.rank(b)));
            chosen.truncate(ROWS_MAX);
        }
        chosen.sort_by(|a, b| sort.rank(a).cmp(&sort.rank(b)));
        let rows = chosen.into_iter().map(|reading| Row { reading }).collect();
        Self {
            frame,
            filter,
            routes,
            rows,
            matching,
            totals,
            gateways,
            changes,
            hour: None,
            alerts: Vec::new(),
        }
    }

    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        Ok([
            self.as_strip().render()?,
            self.as_verdict().render()?,
            self.as_hour().render()?,
            self.as_rows().render()?,
            self.as_side().render()?,
        ]
        .join(crate::BETWEEN))
    }

    /// How many rows were left out.
    pub fn more(&self) -> usize {
        self.matching.saturating_sub(self.rows.len())
    }

    /// The colour of the verdict; its words say the same.
    pub fn verdict_class(&self) -> &'static str {
        let fleet = self.frame.fleet;
        let gone = fleet.known == 0 || fleet.reporting < fleet.known || fleet.refused > 0;
        let totals = &self.totals;
        match () {
            () if self.routes == 0 => "idle",
            () if fleet.known == 0 => "full",
            () if self.frame.freshness.is_stale() => "stale",
            () if totals.full > 0 => "full",
            () if totals.leaking + totals.rejecting + totals.nearly > 0 || gone => "nearly",
            () if totals.closed > 0 => "closed",
            () => "busy",
        }
    }

    /// The one sentence.
    pub fn verdict(&self) -> String {
        if self.routes == 0 {
            return "No route yet. Nothing is protected.".to_owned();
        }
        if self.frame.fleet.known == 0 {
            return "No gateway is connected. Nothing is protected.".to_owned();
        }
        match self.frame.freshness {
            Freshness::Never => "No gateway has reported figures yet.".to_owned(),
            Freshness::Age { age_ms } if self.frame.freshness.is_stale() => {
                format!("No gateway has reported for {}.", text::duration(age_ms))
            }
            Freshness::Age { .. } => self.standing(),
        }
    }

    /// How many compartments have a problem, in the figures at hand.
    pub fn standing(&self) -> String {
        let Totals {
            compartments,
            full,
            leaking,
            rejecting,
            nearly,
            closed,
            ..
        } = self.totals;
        let parts: Vec<(usize, &str)> = [
            (full, "full"),
            (leaking, "leaking permits"),
            (rejecting, "rejecting"),
            (nearly, "nearly full"),
            (closed, "closed"),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .collect();
        let all = text::plural(compartments, "compartment", "compartments");
        match parts.as_slice() {
            [] if compartments == 0 => "No figures yet.".to_owned(),
            [] if compartments == 1 => "The one compartment has room.".to_owned(),
            [] => format!("All {all} have room."),
            [(1, word), rest @ ..] => format!("1 of {all} is {word}{}.", also(rest)),
            [(n, word), rest @ ..] => format!("{n} of {all} are {word}{}.", also(rest)),
        }
    }

    /// The share of requests refused in the last seconds; empty while nobody knows.
    pub fn lately_sentence(&self) -> String {
        let (rejected, requests) = self.totals.lately;
        if self.frame.lately_ms == 0 || requests == 0 {
            return String::new();
        }
        let share = text::percent(rejected, requests);
        format!(
            "{share} of {} requests rejected {}.",
            text::count(requests),
            self.frame.lately()
        )
    }

    /// What is watched and not enforced yet; empty when nothing is.
    pub fn watched_sentence(&self) -> String {
        let Totals {
            shadow,
            candidates,
            would_refuse,
            ..
        } = self.totals;
        let shadow =
            (shadow > 0).then(|| format!("{} in shadow", text::plural(shadow, "route", "routes")));
        let beside = (candidates > 0).then(|| text::plural(candidates, "candidate", "candidates"));
        let watched: Vec<String> = shadow.into_iter().chain(beside).collect();
        match watched.as_slice() {
            [] => String::new(),
            watched => format!(
                "{}: {} would have been rejected and were not.",
                watched.join(", "),
                text::plural(would_refuse, "request", "requests")
            ),
        }
    }

    /// That the ceiling refuses what compartments should; empty while it does not.
    pub fn nominal_sentence(&self) -> String {
        match self.totals.nominal {
            (0, _) => String::new(),
            (all, 0) => format!(
                "The ceiling refused {} since the start, none lately.",
                text::plural(all, "request", "requests")
            ),
            (_, lately) => format!(
                "Isolation is nominal: the ceiling refused {} {}, before their compartments did.",
                text::plural(lately, "request", "requests"),
                self.frame.lately()
            ),
        }
    }

    /// True while the ceiling refuses.
    pub fn is_nominal(&self) -> bool {
        self.totals.nominal.1 > 0
    }

    /// The share of requests refused.
    pub fn rejected_sentence(&self) -> String {
        let Totals {
            rejected, requests, ..
        } = self.totals;
        if requests == 0 {
            return "No request yet since the gateways started.".to_owned();
        }
        let share = text::percent(rejected, requests);
        let all = text::count(requests);
        format!("{share} of {all} requests rejected since the gateways started.")
    }
}

/// The rest of the sentence: `, 1 nearly full`.
fn also(rest: &[(usize, &str)]) -> String {
    rest.iter()
        .map(|(n, word)| format!(", {n} {word}"))
        .collect()
}

impl Row {
    /// The page of this compartment.
    pub fn href(&self) -> String {
        url::compartment(&self.reading.key)
    }

    /// `shadow`, `off`, or nothing for a limit that is enforced.
    pub fn mode(&self) -> &'static str {
        match self.reading.mode {
            Mode::Enforce => "",
            mode @ (Mode::Shadow | Mode::Off) => mode.as_str(),
        }
    }

    /// What a limit in shadow, or a candidate, would have refused; empty when nothing is watched.
    pub fn would(&self) -> String {
        if !self.reading.is_watched() {
            return String::new();
        }
        let n = text::count(self.reading.would_refuse());
        match (self.reading.mode, self.reading.candidate) {
            (Mode::Enforce | Mode::Off, Some(candidate)) => {
                format!("{n} at candidate {}", text::count(candidate))
            }
            _ => format!("{n} in shadow"),
        }
    }

    /// The refusals by reason, in words.
    pub fn reasons(&self) -> String {
        reason::in_words(&self.reading.rejected)
    }
}

#[cfg(test)]
mod tests {
    use compartment::Figures;

    use super::*;
    use crate::Look;
    use crate::samples::{figures, frame};

    fn page(filter: Filter, readings: Vec<Reading>) -> Overview {
        Overview::new(frame(), filter, 1, readings, Vec::new(), Vec::new())
    }

    fn read(figures: &[Figures]) -> Vec<Reading> {
        Reading::sum([Look {
            now: figures,
            earlier: None,
        }])
    }

    fn keys(page: &Overview) -> Vec<&str> {
        page.rows
            .iter()
            .map(|row| row.reading.key.as_str())
            .collect()
    }

    #[test]
    fn problems_come_first_however_many_are_calm() {
        let mut all: Vec<_> = (0..5_000)
            .map(|n| figures(&format!("route/a{n:04}"), Level::Route, 1, 1, 10))
            .collect();
        all.push(figures("route/z-full", Level::Route, 10, 10, 10));
        all.push(figures("route/z-nearly", Level::Route, 9, 9, 10));
        let page = page(Filter::default(), read(&all));
        assert_eq!(
            keys(&page)[..3],
            ["route/z-full", "route/z-nearly", "route/a0000"]
        );
        assert_eq!((page.rows.len(), page.more()), (ROWS_MAX, 5_002 - ROWS_MAX));
        assert_eq!(
            page.verdict(),
            "1 of 5,002\u{a0}compartments is full, 1 nearly full."
        );
    }

    #[test]
    fn filters_come_from_the_address_and_go_back_into_it() {
        let filter = Filter::parse("upstream", "1", " a&b ", "fullest");
        assert_eq!(
            filter.href(),
            "/?problems=1&level=upstream&find=a%26b&sort=fullest"
        );
        assert_eq!(
            Filter::parse("nonsense", "yes", "", "up"),
            Filter::default()
        );
        assert_eq!(Filter::default().href(), "/");
        let all = [
            figures("upstream/db", Level::Upstream, 10, 10, 10),
            figures("upstream/calm", Level::Upstream, 1, 1, 10),
            figures("route/db", Level::Route, 10, 10, 10),
        ];
        let filter = Filter::parse("upstream", "1", "d", "");
        let page = page(filter, read(&all));
        assert_eq!(keys(&page), ["upstream/db"]);
        assert_eq!(
            page.totals.full, 2,
            "the verdict counts all, whatever the filter"
        );
    }

    #[test]
    fn what_is_watched_and_what_is_nominal_is_said() {
        let mut route = figures("route/a", Level::Route, 12, 12, 10);
        (route.mode, route.shadow_rejected) = (
            Mode::Shadow,
            [(compartment::Rejection::RouteFull, 4)].into(),
        );
        let mut beside = figures("route/b", Level::Route, 1, 1, 10);
        (beside.candidate, beside.candidate_rejected) = (Some(5), 3);
        let mut gateway = figures("gateway", Level::Gateway, 12, 12, 200);
        let before = [route.clone(), beside.clone(), gateway.clone()];
        gateway.rejected = [(compartment::Rejection::GatewayFull, 7)].into();
        let now = [route, beside, gateway];
        let looks = [Look {
            now: &now,
            earlier: Some(&before),
        }];
        let page = page(Filter::default(), Reading::sum(looks));
        assert_eq!(
            page.watched_sentence().replace('\u{a0}', " "),
            "1 route in shadow, 1 candidate: 7 requests would have been rejected and were not."
        );
        assert!(page.is_nominal());
        assert!(
            page.nominal_sentence()
                .starts_with("Isolation is nominal: the ceiling refused 7")
        );
        let row = |key: &str| page.rows.iter().find(|row| row.reading.key == key).unwrap();
        assert_eq!(
            (row("route/a").mode(), row("route/a").would().as_str()),
            ("shadow", "4 in shadow")
        );
        assert_eq!(row("route/b").would(), "3 at candidate 5");
        assert_eq!(
            (row("gateway").mode(), row("gateway").would()),
            ("", String::new())
        );
    }

    #[test]
    fn a_request_counts_once_in_the_share_of_refusals() {
        let mut route = figures("route/a", Level::Route, 0, 1, 10);
        route.admitted = 90;
        route.rejected = [(compartment::Rejection::RouteFull, 10)].into();
        let mut gateway = figures("gateway", Level::Gateway, 0, 1, 10);
        gateway.admitted = 90;
        gateway.rejected.clear();
        let page = page(Filter::default(), read(&[route, gateway]));
        assert_eq!((page.totals.rejected, page.totals.requests), (10, 100));
    }
}
