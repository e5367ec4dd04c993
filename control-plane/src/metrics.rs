//! What the control plane itself has to say in figures, on `GET /metrics` and over OTLP.
//!
//! Separate from the gateways' figures, which each gateway exposes, and from the calls of the
//! dashboard's port, which are counted as they come. It must never have a series for a
//! compartment or a gateway: their number has no bound here.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use telemetry::names::{Instrument, Label};
use telemetry::{Family, Figure, Source as _, Text};

use crate::clock;
use crate::fleet::{GatewayState, GatewayView};
use crate::history::{HistoryState, Standing};
use crate::observed::Observed;
use crate::state::AppState;

/// The text format of Prometheus.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Behind the same guard as the API.
pub(crate) async fn show(State(observed): State<Arc<Observed>>) -> Response {
    let page = telemetry::page(&observed.families());
    ([(header::CONTENT_TYPE, FORMAT)], page).into_response()
}

/// Everything but the calls.
pub(crate) fn families(state: &AppState) -> Vec<Family> {
    let mut families = rollout(state);
    families.extend(alerts(state));
    families.extend(kept(state));
    families
}

fn one(instrument: Instrument, figure: u64) -> Family {
    let mut family = Family::new(instrument);
    family.push(Vec::new(), Figure::Whole(figure));
    family
}

fn seconds(instrument: Instrument, us: u64) -> Family {
    let mut family = Family::new(instrument);
    let whole = u32::try_from(us / 1_000_000).unwrap_or(u32::MAX);
    let rest = u32::try_from(us % 1_000_000).unwrap_or(0);
    let figure = f64::from(whole) + f64::from(rest) / 1_000_000.0;
    family.push(Vec::new(), Figure::Number(figure));
    family
}

fn by(instrument: Instrument, label: Label, points: &[(&'static str, u64)]) -> Family {
    let mut family = Family::new(instrument);
    for (name, figure) in points {
        family.push(vec![(label, Text::from(*name))], Figure::Whole(*figure));
    }
    family
}

/// Which generation is to run, and who runs it.
fn rollout(state: &AppState) -> Vec<Family> {
    let newest = state.rollout.current().about.number;
    let gateways = state.gateways();
    let connected: Vec<_> = gateways.iter().filter(|one| one.connected).collect();
    let count = |wanted: &dyn Fn(&GatewayView) -> bool| {
        let n = connected.iter().filter(|one| wanted(one)).count();
        u64::try_from(n).unwrap_or(u64::MAX)
    };
    let behind = connected
        .iter()
        .map(|one| newest.saturating_sub(one.generation));
    vec![
        // A gateway in the same process says which one runs.
        by(Instrument::Generation, Label::Kind, &[("newest", newest)]),
        by(
            Instrument::Gateways,
            Label::State,
            &[
                ("running", count(&|one| one.state == GatewayState::Running)),
                ("lagging", count(&|one| one.state == GatewayState::Lagging)),
                ("refused", count(&|one| one.state == GatewayState::Refused)),
                // Beside those three: who waits for a word, and who is not ready by order.
                ("ahead", count(&|one| one.ahead)),
                ("drained", count(&|one| one.drained)),
            ],
        ),
        one(Instrument::ControlLag, behind.max().unwrap_or(0)),
        one(
            Instrument::ControlLeads,
            u64::from(state.leader.leads(clock::now())),
        ),
    ]
}

fn alerts(state: &AppState) -> Vec<Family> {
    let mut active = Family::new(Instrument::AlertActive);
    for (cause, severity, count) in state.alerts.counts() {
        let labels = vec![
            (Label::Alert, Text::from(cause.alert_name())),
            (Label::Severity, Text::from(severity.as_str())),
        ];
        active.push(labels, Figure::Whole(count));
    }
    let tried = state.alerts.tried();
    let notices = [
        ("taken", tried.taken),
        ("failed", tried.failed),
        ("lost", tried.lost),
    ];
    vec![
        active,
        by(Instrument::AlertNotices, Label::Outcome, &notices),
    ]
}

/// What is kept, and what was missed.
fn kept(state: &AppState) -> Vec<Family> {
    let HistoryState {
        state: standing,
        lost_rows,
        pending_rows,
        file_bytes,
        ..
    } = state.history.state();
    let sizes = [
        ("policy", state.store.size_bytes()),
        ("history", file_bytes),
    ];
    let (missed, skew_ms) = state.readings.missed_all();
    let failing = match standing {
        Standing::Kept => 0,
        Standing::Failing => 1,
    };
    vec![
        by(Instrument::StoreSize, Label::Kind, &sizes),
        one(
            Instrument::HistoryPending,
            u64::try_from(pending_rows).unwrap_or(u64::MAX),
        ),
        one(Instrument::HistoryLost, lost_rows),
        one(Instrument::HistoryFailing, failing),
        one(Instrument::ReadingsGaps, missed.gaps),
        seconds(Instrument::ReadingsGapTime, missed.us),
        one(Instrument::ReadingsMissed, missed.arrived),
        seconds(
            Instrument::ClockSkew,
            skew_ms.unsigned_abs().saturating_mul(1_000),
        ),
    ]
}
