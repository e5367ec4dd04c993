//! `[routes.compartment]`.
//!
//! Separate because these numbers are what the product is about and relate to each other. Sums
//! over routes are checked elsewhere; this must never look beyond one route.

use std::time::Duration;

use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::scalar::{duration, flag, fraction, limit, rate_milli, slots, whole, word};
use super::types::{Assume, HoldUntil, RouteCompartment, Streams};
use crate::{Limit, Mode};

/// The most places to wait in one compartment.
pub const QUEUE_MAX: u32 = 10_000;

const TENANT_SHARE_MAX: u32 = 1000;
const HOLD_DEFAULT: Duration = Duration::from_secs(60);
const STREAM_IDLE_DEFAULT: Duration = Duration::from_secs(60);
const STREAM_AGE_DEFAULT: Duration = Duration::from_secs(3600);
const RATE_MAX: u64 = 1_000_000_000;

const KEYS: Keys = Keys {
    known: &[
        "limit",
        "reserved",
        "tenant_limit",
        "tenant_share",
        "class_reserve",
        "queue",
        "queue_wait",
        "max_hold",
        "hold_until",
        "mode",
        "candidate",
        "assume",
        "stream",
    ],
    unenforced: &["auto"],
};

const STREAM_KEYS: Keys = Keys {
    known: &["limit", "idle", "max_age", "grpc"],
    unenforced: &[],
};

/// Every key that `[routes.compartment]` takes.
#[must_use]
pub const fn compartment_keys() -> &'static [&'static str] {
    KEYS.known
}

/// Every key that its `stream` takes.
#[must_use]
pub const fn stream_keys() -> &'static [&'static str] {
    STREAM_KEYS.known
}

/// `compartment` of the route `table`. Without one, its limit is what is missing.
pub(super) fn compartment(route: &Table<'_>, faults: &mut Faults) -> Option<RouteCompartment> {
    match route.get("compartment") {
        Some(node) => decode(node, faults),
        None => {
            let place = Place::Key(&route.place, "compartment");
            faults.add(&Place::Key(&place, "limit"), String::new(), "is required")
        }
    }
}

fn decode(node: Node<'_>, faults: &mut Faults) -> Option<RouteCompartment> {
    let table = Table::open(node, KEYS, faults)?;
    let own = table.required("limit", faults, limit);
    let reserved = table.optional("reserved", faults, slots);
    let tenant_limit = table.optional("tenant_limit", faults, limit);
    let tenant_share = table.optional("tenant_share", faults, |node, faults| {
        fraction(node, false, TENANT_SHARE_MAX, faults)
    });
    let class_reserve = table.or("class_reserve", 0, faults, slots);
    let queue = table.or("queue", 0, faults, |node, faults| {
        whole(node, 0, QUEUE_MAX, faults)
    });
    let queue_wait = table.optional("queue_wait", faults, duration);
    let hold_max = table.or("max_hold", HOLD_DEFAULT, faults, duration);
    let hold_until = table.or("hold_until", HoldUntil::Body, faults, |node, faults| {
        word(
            node,
            &[("body", HoldUntil::Body), ("headers", HoldUntil::Headers)],
            faults,
        )
    });
    let mode = table.or("mode", Mode::Enforce, faults, mode);
    let candidate = table.optional("candidate", faults, slots);
    let assume = table.optional("assume", faults, assume);
    let stream = table.optional("stream", faults, streams);

    let queue_wait = queue.zip(queue_wait).and_then(|pair| match pair {
        (_, Some(wait)) => Some(wait),
        (0, None) => Some(Duration::ZERO),
        (_, None) => table.missing("queue_wait", "is required when queue is above 0", faults),
    });
    unlimited_candidate(&table, own, faults);
    if let Some(own) = own {
        within_limit(&table, own, reserved.flatten(), class_reserve, faults);
    }
    let limit = own?;
    Some(RouteCompartment {
        limit,
        reserved: reserved?.unwrap_or(limit.slots().unwrap_or(0)),
        tenant_limit: tenant_limit?,
        tenant_share: tenant_share?,
        class_reserve: class_reserve?,
        queue: queue?,
        queue_wait: queue_wait?,
        hold_max: hold_max?,
        hold_until: hold_until?,
        mode: mode?,
        candidate: candidate?,
        stream: stream?,
        assume: assume?,
    })
}

/// A candidate is judged beside a limit.
fn unlimited_candidate(table: &Table<'_>, limit: Option<Limit>, faults: &mut Faults) {
    if limit == Some(Limit::UNLIMITED)
        && let Some(node) = table.get("candidate")
    {
        let rule = "needs a limit that is a number: unlimited refuses nobody to compare with";
        let _: Option<()> = faults.broken(node, rule);
    }
}

/// What is kept out of a limit must fit into it.
fn within_limit(
    table: &Table<'_>,
    limit: Limit,
    reserved: Option<u32>,
    class_reserve: Option<u32>,
    faults: &mut Faults,
) {
    let Some(slots) = limit.slots() else { return };
    if let (Some(reserved), Some(node)) = (reserved, table.get("reserved"))
        && reserved > slots
    {
        let _: Option<()> = faults.broken(node, format!("must be at most the limit {slots}"));
    }
    // A closed route admits nobody, so it keeps nothing either: closing one is a change of its
    // limit alone.
    if let (Some(kept), Some(node)) = (class_reserve, table.get("class_reserve"))
        && kept >= slots
        && kept > 0
        && slots > 0
    {
        let rule = format!("must be below the limit {slots}, or no sheddable request is served");
        let _: Option<()> = faults.broken(node, rule);
    }
}

fn mode(node: Node<'_>, faults: &mut Faults) -> Option<Mode> {
    let words = Mode::ALL.map(|mode| (mode.as_str(), mode));
    word(node, &words, faults)
}

fn streams(node: Node<'_>, faults: &mut Faults) -> Option<Streams> {
    let table = Table::open(node, STREAM_KEYS, faults)?;
    let limit = table.required("limit", faults, limit);
    let idle = table.or("idle", STREAM_IDLE_DEFAULT, faults, duration);
    let age_max = table.or("max_age", STREAM_AGE_DEFAULT, faults, duration);
    let grpc = table.or("grpc", false, faults, flag);
    Some(Streams {
        limit: limit?,
        idle: idle?,
        age_max: age_max?,
        grpc: grpc?,
    })
}

fn assume(node: Node<'_>, faults: &mut Faults) -> Option<Assume> {
    let table = Table::open(
        node,
        Keys {
            known: &["rate", "p99"],
            unenforced: &[],
        },
        faults,
    )?;
    let rate = table.required("rate", faults, |node, faults| {
        rate_milli(node, RATE_MAX, faults)
    });
    let p99 = table.required("p99", faults, duration);
    Some(Assume {
        rate_milli: rate?,
        p99: p99?,
    })
}
