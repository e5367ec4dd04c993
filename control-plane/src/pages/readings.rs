//! What the pages show of the gateways: sums of those that report, last words of the others.
//!
//! Separate so that Overview and Compartment count alike. A gateway that is gone is in no sum; when
//! nobody reports, the last figures are shown as old ones. It must never show a zero for silence.

use std::collections::HashMap;
use std::time::Duration;

use compartment::Figures;
use web::{AlertCount, Fleet, Freshness, GatewayRow, GatewayState, Look, Part, Reading, Times};

use crate::alerts::Severity;
use crate::clock;
use crate::fleet::{self, Heard};
use crate::readings::figures_of;
use crate::state::AppState;

/// Gateways and figures at one moment.
pub(super) struct Snapshot {
    /// How each gateway stands, and what it last said; those in trouble first.
    members: Vec<(GatewayRow, Heard)>,
    alerts: AlertCount,
    is_store_away: bool,
}

impl Snapshot {
    pub(super) fn take(state: &AppState) -> Self {
        let views = state.gateways();
        let heard = state.fleet.heard(clock::now());
        // A gateway that came or went between the two looks is seen at the next.
        let mut members: Vec<_> = views
            .into_iter()
            .filter_map(|view| {
                let heard = heard.iter().find(|heard| *heard.id == *view.id)?.clone();
                Some((row(view, &heard), heard))
            })
            .collect();
        members.sort_by_key(|(row, _)| calm(row));
        let count = |wanted| {
            let of = |(_, severity, _): &(_, Severity, u64)| *severity == wanted;
            let sum: u64 = state
                .alerts()
                .counts()
                .into_iter()
                .filter(of)
                .map(|(.., n)| n)
                .sum();
            usize::try_from(sum).unwrap_or(usize::MAX)
        };
        let alerts = AlertCount {
            pages: count(Severity::Page),
            tickets: count(Severity::Ticket),
        };
        Self {
            members,
            alerts,
            is_store_away: state.rollout.is_store_away(),
        }
    }

    /// What the operator has to know about this control plane, on whatever page.
    pub(super) fn trouble(&self) -> Option<&'static str> {
        let words = "The store does not answer. Gateways keep running what they have.";
        self.is_store_away.then_some(words)
    }

    /// Alerts that fire.
    pub(super) fn alerts(&self) -> AlertCount {
        self.alerts
    }

    pub(super) fn fleet(&self) -> Fleet {
        let count = |wanted: &dyn Fn(&GatewayRow) -> bool| {
            let n = self.members.iter().filter(|(row, _)| wanted(row)).count();
            u32::try_from(n).unwrap_or(u32::MAX)
        };
        Fleet {
            known: count(&|_| true),
            reporting: count(&GatewayRow::reports),
            running: count(&|row| row.state == GatewayState::Running),
            refused: count(&|row| matches!(row.state, GatewayState::Refused(_))),
        }
    }

    pub(super) fn freshness(&self) -> Freshness {
        let ages = self
            .members
            .iter()
            .filter_map(|(_, heard)| heard.figures_ago);
        ages.min().map_or(Freshness::Never, |age| Freshness::Age {
            age_ms: millis(age),
        })
    }

    /// Those that a page lists, at most `count`.
    pub(super) fn gateways(&self, count: usize) -> Vec<GatewayRow> {
        self.members
            .iter()
            .take(count)
            .map(|(row, _)| row.clone())
            .collect()
    }

    /// How far back the figures are compared, in milliseconds.
    pub(super) fn lately_ms(&self) -> u64 {
        let back = self
            .counted()
            .filter_map(|heard| Some(heard.earlier.as_ref()?.0));
        back.max().map_or(0, millis)
    }

    /// Every compartment that somebody reports.
    pub(super) fn readings(&self) -> Vec<Reading> {
        Reading::sum(self.counted().map(look))
    }

    /// One compartment.
    pub(super) fn reading(&self, key: &str) -> Option<Reading> {
        Reading::of_key(key, self.counted().map(look))
    }

    /// The compartments whose figures are wanted.
    pub(super) fn readings_where(&self, wanted: impl Fn(&Figures) -> bool) -> Vec<Reading> {
        Reading::sum_where(self.counted().map(look), wanted)
    }

    /// Sums of everything that the wanted compartments tell, by key.
    pub(super) fn sums(&self, wanted: impl Fn(&str) -> bool) -> HashMap<String, Figures> {
        let mut sums: HashMap<String, Figures> = HashMap::new();
        let figures = self.counted().flat_map(|heard| heard.figures.iter());
        for one in figures.filter(|figures| wanted(&figures.key)) {
            match sums.get_mut(&one.key) {
                Some(sum) => fleet::add(sum, one),
                None => drop(sums.insert(one.key.clone(), one.clone())),
            }
        }
        sums
    }

    /// The figures of each gateway in the sums, by its name.
    pub(super) fn figured(&self) -> impl Iterator<Item = (&str, &[Figures])> {
        self.counted()
            .filter(|heard| heard.figures_ago.is_some())
            .map(|heard| (&*heard.id, heard.figures.as_slice()))
    }

    /// How long permits of one compartment were held and requests waited there.
    pub(super) fn times(&self, key: &str) -> Times {
        Times::of(
            self.counted()
                .filter_map(|heard| figures_of(&heard.figures, key)),
        )
    }

    /// The same of every compartment that is wanted, in one pass.
    pub(super) fn times_of(&self, wanted: impl Fn(&str) -> bool) -> HashMap<String, Times> {
        let mut times: HashMap<String, Times> = HashMap::new();
        let figures = self.counted().flat_map(|heard| heard.figures.iter());
        for one in figures.filter(|figures| wanted(&figures.key)) {
            let own = times.entry(one.key.clone()).or_default();
            own.hold.merge(&one.hold);
            own.wait.merge(&one.wait);
        }
        times
    }

    /// How many gateways are in the sums.
    pub(super) fn counted_gateways(&self) -> usize {
        self.counted()
            .filter(|heard| heard.figures_ago.is_some())
            .count()
    }

    /// One compartment by gateway.
    pub(super) fn parts(&self, key: &str, count: usize) -> Vec<Part> {
        let part = |(row, heard): &(GatewayRow, Heard)| Part {
            gateway: row.clone(),
            figures: figures_of(&heard.figures, key).cloned(),
        };
        self.members.iter().take(count).map(part).collect()
    }

    /// Those in the sums: who reports, or the last words of all when nobody does.
    fn counted(&self) -> impl Iterator<Item = &Heard> {
        let somebody = self.members.iter().any(|(_, heard)| heard.fresh);
        let all = self.members.iter().map(|(_, heard)| heard);
        all.filter(move |heard| heard.fresh || !somebody)
    }
}

fn look(heard: &Heard) -> Look<'_> {
    let earlier = heard.earlier.as_ref().map(|(_, list)| list.as_slice());
    Look {
        now: &heard.figures,
        earlier,
    }
}

fn row(view: fleet::GatewayView, heard: &Heard) -> GatewayRow {
    let refused = view.refused.map(|refused| lines(&refused.errors));
    let state = match (view.connected, refused) {
        (false, _) => GatewayState::Gone,
        (true, Some(lines)) => GatewayState::Refused(lines),
        (true, None) if !view.reporting => GatewayState::Silent,
        (true, None) if view.state == fleet::GatewayState::Running => GatewayState::Running,
        (true, None) => GatewayState::Lagging,
    };
    GatewayRow {
        id: view.id,
        state,
        generation: view.generation,
        seen_ms_ago: millis(heard.seen_ago),
    }
}

/// Broken rules, each with its path and value.
pub(super) fn lines(errors: &[fleet::RefusedFault]) -> Vec<String> {
    let line = |fault: &fleet::RefusedFault| match fault.value.as_str() {
        "" => format!("{}: {}", fault.pointer, fault.detail),
        value => format!("{} = {value}: {}", fault.pointer, fault.detail),
    };
    errors.iter().map(line).collect()
}

/// Trouble first.
fn calm(row: &GatewayRow) -> u8 {
    match row.state {
        GatewayState::Refused(_) => 0,
        GatewayState::Gone => 1,
        GatewayState::Silent => 2,
        GatewayState::Lagging => 3,
        GatewayState::Running => 4,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
