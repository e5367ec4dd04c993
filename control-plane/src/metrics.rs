//! `GET /metrics` on the dashboard's port: what the control plane itself has to say.
//!
//! Separate from the gateways' figures, which each gateway exposes. Behind the same guard as the
//! API. It must never have a series for a compartment: their number has no bound here.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;

use crate::alerts::Alerts;
use crate::state::AppState;

/// The text format of Prometheus.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn show(State(state): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, FORMAT)], text(state.alerts())).into_response()
}

fn text(alerts: &Alerts) -> String {
    let mut out = String::new();
    out.push_str("# HELP bulkhead_alert_active Alerts that fire now.\n");
    out.push_str("# TYPE bulkhead_alert_active gauge\n");
    for (cause, severity, count) in alerts.counts() {
        out.push_str(&format!(
            "bulkhead_alert_active{{alert=\"{}\",severity=\"{}\"}} {count}\n",
            cause.alert_name(),
            severity.as_str(),
        ));
    }
    let tried = alerts.tried();
    out.push_str("# HELP bulkhead_alert_notices_total Tries to tell of alerts.\n");
    out.push_str("# TYPE bulkhead_alert_notices_total counter\n");
    for (outcome, count) in [
        ("taken", tried.taken),
        ("failed", tried.failed),
        ("lost", tried.lost),
    ] {
        out.push_str(&format!(
            "bulkhead_alert_notices_total{{outcome=\"{outcome}\"}} {count}\n"
        ));
    }
    out
}
