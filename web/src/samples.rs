//! Figures, frames and pages for samples: every state that a page can be in, once.
//!
//! Separate so that the pages' own files stay about the pages. Samples are values like any other;
//! they must never be reachable from a server.

use compartment::{Figures, Level, Limit, Rejection};

use crate::{Fleet, Frame, Freshness, GatewayRow, GatewayState, Moment, Reader, Role};

mod advice;
mod alerts;
mod changes;
mod compartment_page;
mod compartment_states;
mod docs;
mod endpoints;
mod gateways;
mod hour;
mod ladder;
mod list;
mod over_time;
mod overrides;
mod overview;
mod routes;
mod settings;
mod shadow;
mod tenants;
mod welcome;

#[cfg(test)]
pub(crate) use list::list_rows;

/// Text that breaks out of whatever is not escaped.
const HOSTILE: &str = "\"><script>alert('1')</script>&{{7*7}}";

fn limit(slots: u32) -> Limit {
    Limit::new(slots).unwrap_or(Limit::UNLIMITED)
}

/// Figures that add up.
pub(crate) fn figures(key: &str, level: Level, in_flight: u32, peak: u32, slots: u32) -> Figures {
    let limit = limit(slots);
    let completed = u64::from(peak) * 33;
    let admitted = completed + u64::from(in_flight);
    Figures {
        reserved: slots,
        in_flight,
        peak,
        arrived: admitted,
        admitted,
        completed,
        oldest_permit_ms: if in_flight > 0 { 212 } else { 0 },
        ..Figures::new(key.to_owned(), level, limit)
    }
}

fn rejecting(mut figures: Figures, reason: Rejection, n: u64) -> Figures {
    figures.rejected.insert(reason, n);
    figures.arrived += n;
    figures
}

/// A healthy frame.
pub(crate) fn frame() -> Frame {
    Frame {
        environment: "127.0.0.1:8081".to_owned(),
        origin: "http://127.0.0.1:8081".to_owned(),
        generation: 43,
        fleet: Fleet {
            known: 2,
            reporting: 2,
            running: 2,
            refused: 0,
        },
        freshness: Freshness::Age { age_ms: 400 },
        lately_ms: 14_300,
        now: moment("2026-07-01T12:00:00Z", 0),
        reader: reader("operator", Role::Admin),
        here: "/".to_owned(),
        alerts: crate::AlertCount::default(),
        trouble: None,
    }
}

/// Somebody without a session.
pub(crate) fn reader(name: &str, role: Role) -> Reader {
    Reader {
        name: name.to_owned(),
        role,
        can_leave: false,
        form_token: String::new(),
    }
}

/// Somebody with one.
pub(crate) fn signed_in() -> Reader {
    Reader {
        can_leave: true,
        form_token: "f0".repeat(32),
        ..reader("ann", Role::Operator)
    }
}

fn moment(iso: &str, ago_ms: u64) -> Moment {
    Moment {
        iso: iso.to_owned(),
        ago_ms,
    }
}

fn gateway(id: &str, state: GatewayState) -> GatewayRow {
    let (generation, seen_ms_ago) = match &state {
        GatewayState::Running | GatewayState::Silent => (43, 400),
        GatewayState::Lagging | GatewayState::Refused(_) => (42, 700),
        GatewayState::Gone => (42, 192_000),
    };
    GatewayRow {
        id: id.to_owned(),
        state,
        generation,
        seen_ms_ago,
    }
}

fn both() -> Vec<GatewayRow> {
    vec![
        gateway("gw-a", GatewayState::Running),
        gateway("gw-b", GatewayState::Running),
    ]
}

fn one_gone() -> Vec<GatewayRow> {
    vec![
        gateway("gw-b", GatewayState::Gone),
        gateway("gw-a", GatewayState::Running),
    ]
}
