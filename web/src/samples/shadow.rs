//! Samples of the page of limits in shadow.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use compartment::{Class, Figures, Level, Mode, Rejection};

use super::compartment_states::readings;
use super::{HOSTILE, figures, frame};
use crate::{Beside, Frame, Freshness, Holders, Moment, Reading, ShadowPage, Watch, Watched};

fn watched(key: &str, calls: u64, would: u64, minutes: u64) -> Figures {
    let mut one = figures(key, Level::Route, 7, 41, 20);
    one.mode = Mode::Shadow;
    one.admitted = calls;
    one.completed = calls.saturating_sub(7);
    one.arrived = calls;
    one.busy_us = minutes * 60_000_000;
    if would > 0 {
        one.shadow_rejected.insert(Rejection::RouteFull, would);
    }
    one
}

fn watch(place: usize, figures: Option<Figures>, class: Class) -> Watch {
    let key = figures.as_ref().map(|one| one.key.clone());
    let reading: Option<Reading> = figures.and_then(|one| readings(&[one]).pop());
    Watch {
        place,
        key: key.unwrap_or_else(|| "route/new".to_owned()),
        watched: Watched::Shadow,
        judged: "20".to_owned(),
        beside: Beside {
            limit: "20".to_owned(),
            mode: Mode::Shadow,
        },
        class,
        since: reading.as_ref().map(|one| Moment {
            iso: "2026-07-01T09:55:00.000Z".to_owned(),
            ago_ms: one.counted_ms,
        }),
        elsewhere: u32::from(reading.is_none()),
        reading,
        tenants: Vec::new(),
    }
}

fn tenants() -> Holders {
    let tenant = |name: &str, calls, would| Figures {
        level: Level::TenantRoute,
        ..watched(&format!("route/checkout/tenant/{name}"), calls, would, 125)
    };
    let all = [tenant("acme", 4_000, 12), tenant("corner-store", 90_000, 3)];
    Holders::new("tenant", readings(&all))
}

fn page(watches: Vec<Watch>) -> ShadowPage {
    ShadowPage {
        frame: Frame {
            here: "/shadow".to_owned(),
            ..frame()
        },
        watches,
        more: 0,
        enforcing: 4,
        off: Vec::new(),
    }
}

fn several() -> Vec<Watch> {
    let mut acme = watched("route/checkout", 184_000, 14, 125);
    acme.shadow_rejected.insert(Rejection::TenantRouteFull, 1);
    let mut ready = watch(0, Some(acme), Class::Standard);
    ready.tenants = ready.choose_tenants(tenants().rows);
    let small = watch(
        1,
        Some(watched("route/search", 9_000, 812, 40)),
        Class::Critical,
    );
    let young = watch(2, Some(watched("route/stock", 310, 0, 4)), Class::Standard);
    let mut beside = watched("route/cart", 52_000, 0, 300);
    (beside.mode, beside.candidate, beside.candidate_rejected) = (Mode::Enforce, Some(24), 31);
    let beside = Watch {
        watched: Watched::Candidate,
        judged: "24".to_owned(),
        beside: Beside {
            limit: "60".to_owned(),
            mode: Mode::Enforce,
        },
        ..watch(3, Some(beside), Class::Sheddable)
    };
    let young = Watch {
        elsewhere: 1,
        ..young
    };
    vec![ready, small, young, beside, watch(4, None, Class::Standard)]
}

impl ShadowPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let mut stale = page(several());
        stale.frame.freshness = Freshness::Age { age_ms: 14_000 };
        stale.off = vec!["route/legacy".to_owned()];
        stale.more = 3;
        let mut hostile = watch(0, Some(watched("route/a", 10, 1, 1)), Class::Standard);
        hostile.key = format!("route/{HOSTILE}");
        hostile.judged = HOSTILE.to_owned();
        hostile.tenants = Holders::new(
            "tenant",
            readings(&[watched(&format!("route/a/tenant/{HOSTILE}"), 9, 1, 1)]),
        )
        .rows;
        let mut hostile = page(vec![hostile]);
        hostile.off = vec![HOSTILE.to_owned()];
        vec![
            ("empty", page(Vec::new())),
            ("several", page(several())),
            ("stale", stale),
            ("hostile_names", hostile),
        ]
    }
}
