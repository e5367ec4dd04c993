//! The endpoints of an upstream in words: how many are in use, and what is wrong with the others.
//!
//! Separate because three pages say the same of them. It must never call an endpoint well of which
//! no gateway tells.

use compartment::policy::Upstream;
use compartment::{
    ENDPOINT_FAILURES_MAX, EndpointFigures, EndpointState, EndpointsFigures, Figures,
};

use crate::text;

/// The most endpoints that a row says something of.
const LINES_MAX: usize = 3;

/// What gateways tell of an upstream's endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointsRow(EndpointsFigures);

/// One endpoint in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointCells {
    /// Scheme, host and port.
    pub url: String,
    /// The class of its state.
    pub class: &'static str,
    /// Its state in a word.
    pub state: &'static str,
    /// For how much longer, on how many gateways.
    pub where_it_is: String,
    /// Exchanges there; empty of an only one.
    pub in_flight: String,
    /// How fast it answers; empty of an only one.
    pub latency: String,
    /// Of all time, and in a row.
    pub failures: String,
    /// How its last check ended.
    pub check: String,
    /// Where its name led.
    pub name: String,
}

impl EndpointsRow {
    /// Of an upstream, by the figures of its compartment; `None` while no gateway tells.
    pub fn of(figures: Option<&Figures>) -> Option<Self> {
        let told = figures.and_then(|figures| figures.endpoints.as_deref())?;
        Some(Self(told.clone()))
    }

    /// The same where there is a choice, or something to say.
    pub fn if_notable(upstream: &Upstream, figures: Option<&Figures>) -> Option<Self> {
        let several = upstream.endpoints.len() > 1;
        Self::of(figures).filter(|row| several || row.notable().next().is_some())
    }

    /// Those with something to say, the worst first.
    fn notable(&self) -> impl Iterator<Item = &EndpointFigures> {
        let mut told: Vec<_> = self
            .0
            .list
            .iter()
            .filter(|one| one.is_told_first())
            .collect();
        told.sort_by_key(|one| std::cmp::Reverse(one.state));
        told.into_iter()
    }

    /// `2 of 3 endpoints in use`.
    pub fn headline(&self) -> String {
        let (told, of) = (&self.0, self.0.of_policy());
        let all = text::plural(of, "endpoint", "endpoints");
        let in_use = match told.out() {
            _ if told.all_used && of == 1 => "its only endpoint fails its checks".to_owned(),
            out if told.all_used => {
                format!(
                    "{} of {all} out, more than half: all are used",
                    text::count(out)
                )
            }
            0 if of > 1 => format!("all {all} in use"),
            _ => format!("{} of {all} in use", text::count(told.in_use)),
        };
        match told.draining {
            0 => in_use,
            1 => format!("{in_use}, 1\u{a0}more drains"),
            n => format!("{in_use}, {}\u{a0}more drain", text::count(n)),
        }
    }

    /// The class of the headline.
    pub fn class(&self) -> &'static str {
        match self.0.out() {
            _ if self.0.all_used => "full",
            0 => "idle",
            _ => "nearly",
        }
    }

    /// More than half are out somewhere.
    pub const fn is_problem(&self) -> bool {
        self.0.all_used
    }

    /// What there is to say of single ones, the worst first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.notable().take(LINES_MAX).map(sentence).collect();
        let more = self.notable().count().saturating_sub(LINES_MAX);
        if more > 0 {
            lines.push(format!("and {} more", text::count(more)));
        }
        lines
    }

    /// All that are told.
    pub fn cells(&self) -> Vec<EndpointCells> {
        self.0.list.iter().map(EndpointCells::of).collect()
    }

    /// How many are not in the list: too many for the reports of gateways, and in no trouble.
    pub fn left_out(&self) -> String {
        match self.0.left_out() {
            0 => String::new(),
            n => format!(
                "{} in no trouble, of which reports have no room.",
                text::plural(n, "more is", "more are")
            ),
        }
    }
}

impl EndpointCells {
    fn of(one: &EndpointFigures) -> Self {
        let failures = match one.failures_in_a_row {
            0 => text::count(one.failures),
            n => format!("{}, {} in a row", text::count(one.failures), text::count(n)),
        };
        let (class, state) = match one.state {
            EndpointState::InUse => ("idle", "in use"),
            EndpointState::Draining => ("busy", "drains"),
            EndpointState::Ejected => ("full", "ejected"),
            EndpointState::Unhealthy => ("full", "unhealthy"),
        };
        let check = one.check.as_ref().map(|last| {
            let ended = last.error.as_deref().unwrap_or("well");
            format!("{ended}, {}", text::ago(last.age_ms))
        });
        let name = one.name.as_ref().map(|last| {
            let age = text::ago(last.age_ms);
            let addresses = last.addresses.join(", ");
            match &last.error {
                None => format!("{addresses}, {age}"),
                Some(error) if addresses.is_empty() => error.clone(),
                Some(error) => format!("{error}; last good, {age}: {addresses}"),
            }
        });
        Self {
            url: one.url.clone(),
            class,
            state,
            where_it_is: where_it_is(one),
            in_flight: one.in_flight.map(text::count).unwrap_or_default(),
            latency: one.latency_us.map(text::micros).unwrap_or_default(),
            failures,
            check: check.unwrap_or_default(),
            name: name.unwrap_or_else(|| not_looked_up(&one.url).to_owned()),
        }
    }
}

/// An address is dialled as it stands: there is no name to look up.
fn not_looked_up(url: &str) -> &'static str {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    match place.parse::<std::net::SocketAddr>() {
        Ok(_) => "",
        Err(_) => "not looked up yet",
    }
}

fn where_it_is(one: &EndpointFigures) -> String {
    let left = one.ejected_for_ms.filter(|ms| *ms > 0);
    let left = left.filter(|_| one.state == EndpointState::Ejected);
    let left = left.map(|ms| format!("{} more", text::duration(ms)));
    let seen = one.seen.as_ref();
    let partly = seen.filter(|seen| (1..seen.gateways).contains(&seen.out));
    let partly = partly.map(|seen| format!("on {} of {} gateways", seen.out, seen.gateways));
    let both: Vec<String> = left.into_iter().chain(partly).collect();
    both.join(", ")
}

/// One endpoint in a line: what it is, since what, and who says so.
fn sentence(one: &EndpointFigures) -> String {
    let url = &one.url;
    let failed = |last: &compartment::EndpointCheck| Some((last.error.clone()?, last.age_ms));
    let check = one.check.as_ref().and_then(failed);
    let said = match (one.state, check) {
        (EndpointState::Ejected, _) => {
            let left = text::duration(one.ejected_for_ms.unwrap_or_default());
            let since = match one.ejections_in_a_row.unwrap_or_default() {
                0 | 1 => format!("{ENDPOINT_FAILURES_MAX} consecutive failures"),
                n => format!("it failed again, the {}", time_in_a_row(n)),
            };
            format!("{url} ejected for {left} more since {since}")
        }
        (EndpointState::Unhealthy, Some((why, age_ms))) => {
            format!(
                "{url} unhealthy by its checks: {why}, {}",
                text::ago(age_ms)
            )
        }
        (EndpointState::Unhealthy, None) => format!("{url} unhealthy by its checks"),
        (EndpointState::Draining, _) => match one.in_flight {
            Some(n) => {
                let left = text::plural(n, "exchange", "exchanges");
                format!("{url} drains: no more in the policy, {left} left")
            }
            None => format!("{url} drains: no more in the policy"),
        },
        (EndpointState::InUse, Some((why, age_ms))) => {
            format!(
                "{url} in use, its last check failed: {why}, {}",
                text::ago(age_ms)
            )
        }
        (EndpointState::InUse, None) => format!("{url} in use"),
    };
    format!("{said}{}{}", unresolved(one), told_by(one))
}

fn time_in_a_row(n: u32) -> String {
    match n {
        2 => "second time in a row".to_owned(),
        3 => "third time in a row".to_owned(),
        n => format!("{n}th time in a row"),
    }
}

fn unresolved(one: &EndpointFigures) -> String {
    let Some(name) = &one.name else {
        return String::new();
    };
    let Some(error) = &name.error else {
        return String::new();
    };
    match name.addresses.is_empty() {
        true => format!("; its name has no address: {error}"),
        false => {
            let age = text::ago(name.age_ms);
            format!("; its name is not answered ({error}), its addresses are of {age}")
        }
    }
}

fn told_by(one: &EndpointFigures) -> String {
    let Some(seen) = &one.seen else {
        return String::new();
    };
    let worst = &seen.worst;
    match (seen.out, seen.gateways) {
        (_, 0 | 1) | (0, _) => format!(" on gateway {worst}"),
        (1, all) => format!(" on gateway {worst}, 1 of {all}"),
        (out, all) => format!(" on {out} of {all} gateways, worst on {worst}"),
    }
}

#[cfg(test)]
mod tests {
    use compartment::{EndpointCheck, EndpointName, Level};

    use super::*;

    fn one(port: u16, state: EndpointState) -> EndpointFigures {
        EndpointFigures {
            url: format!("http://10.0.0.3:{port}"),
            state,
            in_flight: Some(2),
            ..EndpointFigures::default()
        }
    }

    fn ejected() -> EndpointFigures {
        EndpointFigures {
            ejections_in_a_row: Some(1),
            ejected_for_ms: Some(20_000),
            ..one(80, EndpointState::Ejected)
        }
    }

    fn row(parts: &[(&str, Vec<EndpointFigures>)]) -> EndpointsRow {
        let mut sum = EndpointsFigures::default();
        for (n, (gateway, list)) in parts.iter().enumerate() {
            let mut told = EndpointsFigures::of(list.clone());
            told.seen_by(&(*gateway).into());
            match n {
                0 => sum = told,
                _ => sum.add(&told),
            }
        }
        let mut figures = crate::samples::figures("upstream/u", Level::Upstream, 0, 0, 9);
        figures.endpoints = Some(Box::new(sum));
        EndpointsRow::of(Some(&figures)).unwrap()
    }

    fn plain(text: &str) -> String {
        text.replace('\u{a0}', " ")
    }

    #[test]
    fn what_is_out_is_told_with_its_cause_and_its_gateway() {
        use EndpointState::InUse;
        let (a, b) = (one(81, InUse), one(82, InUse));
        let told = row(&[("g1", vec![ejected(), a.clone(), b.clone()])]);
        assert_eq!(plain(&told.headline()), "2 of 3 endpoints in use");
        assert_eq!(
            plain(&told.lines()[0]),
            "http://10.0.0.3:80 ejected for 20 s more since 5 consecutive failures on gateway g1"
        );
        let mut again = ejected();
        (again.ejections_in_a_row, again.ejected_for_ms) = (Some(4), Some(80_000));
        let told = row(&[
            ("g1", vec![ejected(), a.clone(), b.clone()]),
            ("g2", vec![again, a.clone(), b.clone()]),
            ("g3", vec![one(80, InUse), a, b]),
        ]);
        assert_eq!(
            plain(&told.lines()[0]),
            "http://10.0.0.3:80 ejected for 1 min 20 s more since it failed again, the 4th time \
             in a row on 2 of 3 gateways, worst on g2"
        );
        assert_eq!(told.class(), "nearly");
        assert_eq!(
            plain(&told.cells()[0].where_it_is),
            "1 min 20 s more, on 2 of 3 gateways"
        );
    }

    #[test]
    fn checks_names_and_drains_have_their_words() {
        let mut sick = one(80, EndpointState::Unhealthy);
        sick.check = Some(EndpointCheck {
            age_ms: 2_100,
            error: Some("status 500".to_owned()),
        });
        let mut nameless = one(81, EndpointState::InUse);
        nameless.name = Some(EndpointName {
            addresses: vec!["10.0.0.3".to_owned()],
            age_ms: 300_000,
            error: Some("no answer".to_owned()),
        });
        let told = row(&[("g1", vec![one(82, EndpointState::Draining), nameless, sick])]);
        let lines: Vec<_> = told.lines().iter().map(|line| plain(line)).collect();
        assert_eq!(
            lines,
            [
                "http://10.0.0.3:80 unhealthy by its checks: status 500, 2 s ago on gateway g1",
                "http://10.0.0.3:82 drains: no more in the policy, 2 exchanges left on gateway g1",
                "http://10.0.0.3:81 in use; its name is not answered (no answer), its addresses \
                 are of 5 min ago on gateway g1",
            ]
        );
        assert_eq!(
            plain(&told.headline()),
            "1 of 2 endpoints in use, 1 more drains"
        );
    }

    #[test]
    fn more_than_half_out_is_said_first() {
        let told = row(&[("g1", vec![ejected(), one(81, EndpointState::Unhealthy)])]);
        let headline = plain(&told.headline());
        assert_eq!(
            headline,
            "2 of 2 endpoints out, more than half: all are used"
        );
        assert_eq!(told.class(), "full");
        let told = row(&[("g1", vec![one(81, EndpointState::Unhealthy)])]);
        assert_eq!(told.headline(), "its only endpoint fails its checks");
        let many = (1..=9).map(|n| one(n, EndpointState::Unhealthy)).collect();
        assert_eq!(row(&[("g1", many)]).lines()[3], "and 6 more");
    }
}
