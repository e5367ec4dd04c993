//! The figures of a play for people and for scripts.
//!
//! Separate because neither form may know how anything was measured. It must never show a number
//! without what it counts.

use serde_json::{Map, Value, json};

use super::figures::{Figures, Measured, Seen};
use super::scenario::{CAPACITY, CLIENT_TIMEOUT, Mode, Phase, Route, SLOW};
use super::verdict::{Check, milliseconds};
use crate::output::{Side, Table};

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

fn optional(value: Option<f64>) -> Value {
    value.map_or(Value::Null, rounded)
}

fn figures(figures: &Figures) -> Value {
    json!({
        "seconds": rounded(figures.seconds),
        "offered_per_s": rounded(figures.per_s(figures.offered)),
        "completed_per_s": rounded(figures.per_s(figures.completed)),
        "rejected_per_s": rounded(figures.per_s(figures.rejected)),
        "fallback_per_s": rounded(figures.per_s(figures.fallback)),
        "errors": figures.errors,
        "p50_ms": optional(figures.p50_ms),
        "p99_ms": optional(figures.p99_ms),
        "rejected_p99_ms": optional(figures.rejected_p99_ms),
    })
}

fn routes(measured: &Measured, limit: impl Fn(Route) -> Value) -> Map<String, Value> {
    let mut routes = Map::new();
    for (route, phases) in &measured.routes {
        if phases.iter().all(|(_, figures)| figures.offered == 0) {
            continue;
        }
        let mut of_route = Map::new();
        of_route.insert("limit".to_owned(), limit(*route));
        for (phase, of_phase) in phases {
            of_route.insert(phase.name().to_owned(), figures(of_phase));
        }
        if let (Route::Recommendations, Some(full)) = (route, &measured.full) {
            of_route.insert("slow_and_full".to_owned(), figures(full));
        }
        routes.insert(route.name().to_owned(), Value::Object(of_route));
    }
    routes
}

fn mode(measured: &Measured, limit: impl Fn(Route) -> Value) -> Value {
    json!({
        "routes": routes(measured, limit),
        "fill_time_ms": measured.fill.map(|fill| fill.as_millis()),
        "time_to_empty_ms": measured.empty.as_millis(),
    })
}

/// The document of `--once -o json`.
pub(super) fn document(seen: &Seen, checks: &[Check]) -> Value {
    let sentences: Vec<Value> = checks
        .iter()
        .map(|check| json!({"held": check.held, "text": check.text}))
        .collect();
    json!({
        "seconds": seen.play.length.as_secs(),
        "capacity": CAPACITY,
        "slow_latency_ms": SLOW.as_millis(),
        "client_timeout_ms": CLIENT_TIMEOUT.as_millis(),
        "counted_by": "the time a request was due; slow_and_full is from the first refusal on, \
                       over whole slow latencies as measured",
        Mode::With.name(): mode(&seen.with, |route| json!(route.limit())),
        Mode::Without.name(): mode(&seen.without, |_| json!("unlimited")),
        "past_the_gateways": { "routes": routes(&seen.direct, |_| Value::Null) },
        "isolated": checks.iter().all(|check| check.held),
        "verdict": sentences,
    })
}

/// The same for people.
pub(super) fn text(seen: &Seen, checks: &[Check]) -> String {
    let mut out = String::new();
    for (title, measured) in [
        ("With compartments (slices of 30, 30 and 40)", &seen.with),
        ("Without compartments (one pool of 200)", &seen.without),
    ] {
        out.push_str(&format!("{title}\n{}\n", table(measured).text()));
    }
    for check in checks {
        out.push_str(&format!(
            "{} {}\n",
            if check.held { "ok  " } else { "FAIL" },
            check.text
        ));
    }
    let isolated = checks.iter().all(|check| check.held);
    out.push_str(if isolated {
        "\nIsolation held.\n"
    } else {
        "\nIsolation FAILED.\n"
    });
    out
}

fn table(measured: &Measured) -> Table {
    let mut table = Table::new(&[
        ("route", Side::Left),
        ("phase", Side::Left),
        ("offered/s", Side::Right),
        ("completed/s", Side::Right),
        ("rejected/s", Side::Right),
        ("errors", Side::Right),
        ("p50 ms", Side::Right),
        ("p99 ms", Side::Right),
    ]);
    let mut row = |route: Route, phase: &str, figures: &Figures| {
        table.row(vec![
            route.name().to_owned(),
            phase.to_owned(),
            format!("{:.1}", figures.per_s(figures.offered)),
            format!("{:.1}", figures.per_s(figures.completed)),
            format!("{:.1}", figures.per_s(figures.rejected)),
            figures.errors.to_string(),
            milliseconds(figures.p50_ms),
            milliseconds(figures.p99_ms),
        ]);
    };
    for (route, phases) in &measured.routes {
        for (phase, figures) in phases {
            row(*route, phase.name(), figures);
            if let (Route::Recommendations, Phase::Slow, Some(full)) =
                (route, phase, &measured.full)
            {
                row(*route, "  full", full);
            }
        }
    }
    table
}
