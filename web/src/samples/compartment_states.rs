//! Samples of what a compartment can do beyond a limit: queue, borrow, share, watch, stream, leak.
//!
//! Separate because the page has many states. They must never be reachable from a server.

use compartment::policy::Value;
use compartment::{Balance, Figures, Level, Limit, Mode, Rejection};

use super::compartment_page::{checkout, form, page, typed};
use super::{both, figures, rejecting};
use crate::compartment::FindingRow;
use crate::{CompartmentPage, Edit, Field, Holders, Look, Reading, SpareUse, fields_of};

pub(super) fn readings(figures: &[Figures]) -> Vec<Reading> {
    Reading::sum([Look {
        now: figures,
        earlier: None,
    }])
}

fn tenants() -> Holders {
    let tenant = |name: &str, in_flight, cap| {
        let key = format!("route/checkout/tenant/{name}");
        figures(&key, Level::TenantRoute, in_flight, in_flight + 3, cap)
    };
    let greedy = rejecting(tenant("acme", 20, 20), Rejection::TenantRouteFull, 96);
    let mut corner = tenant("corner-store", 4, 20);
    corner.limit = Limit::UNLIMITED;
    Holders::new("tenant", readings(&[greedy, corner, tenant("zeta", 0, 20)]))
}

/// A route that queues, borrows, shares among tenants, and has streams.
pub(super) fn queue() -> CompartmentPage {
    let mut one = rejecting(checkout(26, 30, 30), Rejection::QueueTimeout, 17);
    one = rejecting(one, Rejection::TenantRouteFull, 96);
    (one.queued, one.left_queue) = (3, 12);
    (one.reserved, one.borrowed) = (20, 6);
    one.credit = Some(Balance {
        slot_ms: 3_100,
        full_slot_ms: 10_000,
    });
    (one.idle_us, one.busy_us, one.saturated_us) = (700_000_000, 3_400_000_000, 61_000_000);
    for n in 1..200 {
        one.hold.record(40_000 + n * 900);
        one.wait.record(1_000 * n);
    }
    let stream = figures("route/checkout/stream", Level::Stream, 12, 12, 10);
    let spare = SpareUse {
        slots: 80,
        borrowed: 6,
        streams: 12,
    };
    CompartmentPage {
        holders: tenants(),
        streams: readings(&[stream]).pop(),
        spare: Some(spare),
        rules: vec![
            "A tenant may hold 4 of this route now: 1.0 of the 4 free slots.".to_owned(),
            "The last 2 slots are kept from sheddable requests.".to_owned(),
        ],
        findings: vec![FindingRow {
            rule: "P2",
            path: "routes[0].compartment.queue".to_owned(),
            message: "12 places to wait; above 9 a queue hides an overload".to_owned(),
        }],
        ..page(vec![one], both(), form("30"))
    }
}

pub(super) fn shadow() -> CompartmentPage {
    let mut one = checkout(34, 41, 20);
    one.mode = Mode::Shadow;
    one.shadow_rejected = [(Rejection::RouteFull, 812), (Rejection::TenantShare, 9)].into();
    let edit = typed(form("20"), "mode", "shadow", None);
    page(vec![one], both(), edit)
}

pub(super) fn candidate() -> CompartmentPage {
    let mut one = checkout(12, 31, 60);
    (one.candidate, one.candidate_rejected) = (Some(24), 41);
    page(vec![one], both(), form("60"))
}

/// A limit that was lowered below what is open.
pub(super) fn stream() -> CompartmentPage {
    let key = "route/checkout/stream";
    let one = rejecting(
        figures(key, Level::Stream, 12, 14, 10),
        Rejection::StreamFull,
        5,
    );
    let fields = fields_of(Level::Stream).iter();
    let value = Value::Integer(10);
    let of = |name: &&'static str| Field::new(name, (*name == "limit").then_some(&value));
    CompartmentPage {
        key: key.to_owned(),
        level: Level::Stream,
        ..page(vec![one], both(), Edit::new(43, fields.map(of).collect()))
    }
}

pub(super) fn leaking() -> CompartmentPage {
    let mut one = checkout(12, 31, 60);
    one.leaked = 2;
    one.oldest_permit_ms = 4_000_000;
    page(vec![one], both(), form("60"))
}

pub(super) fn ceiling() -> CompartmentPage {
    let one = figures("gateway", Level::Gateway, 200, 200, 200);
    let one = rejecting(one, Rejection::GatewayFull, 31);
    let one = rejecting(one, Rejection::SpareExhausted, 7);
    let mut greedy = figures("route/search", Level::Route, 120, 130, 160);
    (greedy.reserved, greedy.borrowed) = (40, 80);
    let routes = [
        greedy,
        checkout(60, 60, 60),
        figures("route/search/stream", Level::Stream, 20, 22, 30),
    ];
    let (limit, spare) = (Value::Integer(200), Value::Integer(100));
    let fields = vec![
        Field::new("limit", Some(&limit)),
        Field::new("spare", Some(&spare)),
    ];
    CompartmentPage {
        key: "gateway".to_owned(),
        level: Level::Gateway,
        owner: None,
        holders: Holders::new("route", readings(&routes)),
        spare: Some(SpareUse {
            slots: 100,
            borrowed: 80,
            streams: 20,
        }),
        ..page(vec![one], both(), Edit::new(43, fields))
    }
}

/// Fields beyond the limit with what is wrong with them.
pub(super) fn more_fields() -> CompartmentPage {
    let edit = typed(form("60"), "queue", "4", None);
    let edit = typed(
        edit,
        "queue_wait",
        "",
        Some("is required when queue is above 0"),
    );
    let edit = typed(
        edit,
        "class_reserve",
        "60",
        Some("must be below the limit 60"),
    );
    let edit = Edit {
        refusals: vec![
            "routes[0].compartment.queue_wait: is required when queue is above 0".to_owned(),
            "routes[0].compartment.class_reserve = 60: must be below the limit 60".to_owned(),
        ],
        ..edit
    };
    page(vec![checkout(12, 31, 60)], both(), edit)
}
