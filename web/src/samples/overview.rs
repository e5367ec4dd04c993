//! Samples of the Overview.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use compartment::{Figures, Level, Mode, Rejection};

use super::{HOSTILE, both, figures, frame, gateway, hour, moment, one_gone, rejecting};
use crate::{
    AlertCount, ChangeRow, Filter, Fleet, Frame, Freshness, GatewayRow, GatewayState, Look,
    Overview, Reading,
};

fn changes() -> Vec<ChangeRow> {
    let change = |generation, author: &str, comment: &str, at| ChangeRow {
        generation,
        author: author.to_owned(),
        comment: comment.to_owned(),
        at,
    };
    vec![
        change(
            43,
            "admin",
            "checkout is slow today",
            moment("2026-07-01T11:57:12Z", 168_000),
        ),
        change(42, "admin", "", moment("2026-06-30T09:00:00Z", 97_200_000)),
        change(
            1,
            "import",
            "examples/shop.toml",
            moment("2026-06-01T09:00:00Z", 2_600_000_000),
        ),
    ]
}

fn shop() -> Vec<Figures> {
    vec![
        figures("route/checkout", Level::Route, 12, 31, 60),
        figures("route/recommendations", Level::Route, 3, 18, 40),
        figures("route/inventory", Level::Route, 0, 9, 30),
        figures("upstream/payments", Level::Upstream, 12, 31, 60),
        figures("upstream/recommender", Level::Upstream, 3, 18, 40),
        figures("tenant/acme", Level::Tenant, 4, 22, 80),
        figures("gateway", Level::Gateway, 15, 58, 200),
    ]
}

fn shop_in_trouble() -> Vec<Figures> {
    let mut all = shop();
    for figures in &mut all {
        let trouble = match figures.key.as_str() {
            "route/recommendations" => Some((40, Rejection::RouteFull, 1_280)),
            "upstream/recommender" => Some((40, Rejection::UpstreamFull, 3)),
            _ => None,
        };
        if let Some((in_flight, reason, n)) = trouble {
            figures.in_flight = in_flight;
            figures.peak = in_flight;
            figures.admitted = figures.completed + u64::from(in_flight);
            figures.arrived = figures.admitted;
            figures.oldest_permit_ms = 4_870;
            *figures = rejecting(figures.clone(), reason, n);
        }
    }
    let mut inventory = figures("route/inventory-export", Level::Route, 9, 11, 10);
    inventory.queued = 2;
    inventory.reserved = 5;
    inventory.borrowed = 4;
    all.push(rejecting(inventory, Rejection::QueueTimeout, 17));
    all.push(figures("route/legacy", Level::Route, 0, 0, 0));
    all
}

/// The shop with a limit in shadow, a candidate, one that is off, and streams beyond their limit.
fn shop_watched() -> Vec<Figures> {
    let mut all = shop();
    for figures in &mut all {
        match figures.key.as_str() {
            "route/checkout" => {
                (figures.mode, figures.in_flight, figures.peak) = (Mode::Shadow, 64, 71);
                figures.shadow_rejected = [(Rejection::RouteFull, 12)].into();
            }
            "route/inventory" => figures.mode = Mode::Off,
            "route/recommendations" => {
                (figures.candidate, figures.candidate_rejected) = (Some(20), 3);
                figures.queued = 2;
            }
            _ => {}
        }
    }
    all.push(figures("route/events/stream", Level::Stream, 12, 14, 10));
    all
}

/// The ceiling refuses before the compartments do.
fn nominal() -> Overview {
    let before = shop();
    let mut now = before.clone();
    for figures in now.iter_mut().filter(|one| one.level == Level::Gateway) {
        *figures = rejecting(figures.clone(), Rejection::GatewayFull, 57);
    }
    let looks = [Look {
        now: &now,
        earlier: Some(&before),
    }];
    let readings = Reading::sum(looks);
    Overview::new(frame(), Filter::default(), 3, readings, both(), changes())
}

fn readings(figures: &[Figures]) -> Vec<Reading> {
    Reading::sum([Look {
        now: figures,
        earlier: None,
    }])
}

/// The shop in trouble, some of which happened in the last seconds.
fn readings_in_trouble() -> Vec<Reading> {
    let now = shop_in_trouble();
    let mut earlier = now.clone();
    for figures in &mut earlier {
        figures.admitted = figures.admitted.saturating_sub(290);
        for count in figures.rejected.values_mut() {
            *count = count.saturating_sub(42);
        }
    }
    Reading::sum([Look {
        now: &now,
        earlier: Some(&earlier),
    }])
}

fn page(frame: Frame, figures: &[Figures], gateways: Vec<GatewayRow>) -> Overview {
    let page = Overview::new(
        frame,
        Filter::default(),
        3,
        readings(figures),
        gateways,
        changes(),
    );
    Overview {
        hour: Some(hour::calm()),
        ..page
    }
}

fn in_trouble(filter: Filter) -> Overview {
    let alerts = AlertCount {
        pages: 1,
        tickets: 1,
    };
    let frame = Frame { alerts, ..frame() };
    let page = Overview::new(frame, filter, 3, readings_in_trouble(), both(), changes());
    Overview {
        hour: Some(hour::troubled()),
        alerts: super::alerts::active(),
        ..page
    }
}

fn empty() -> Overview {
    let fleet = Fleet {
        known: 1,
        reporting: 1,
        running: 1,
        refused: 0,
    };
    let frame = Frame {
        generation: 1,
        fleet,
        reader: super::signed_in(),
        ..frame()
    };
    let gateways = vec![gateway("gw-a", GatewayState::Running)];
    Overview::new(
        frame,
        Filter::default(),
        0,
        Vec::new(),
        gateways,
        Vec::new(),
    )
}

fn stale() -> Overview {
    let fleet = Fleet {
        known: 2,
        reporting: 0,
        running: 2,
        refused: 0,
    };
    let frame = Frame {
        freshness: Freshness::Age { age_ms: 14_000 },
        fleet,
        ..frame()
    };
    let gateways = vec![
        gateway("gw-a", GatewayState::Silent),
        gateway("gw-b", GatewayState::Gone),
    ];
    page(frame, &shop(), gateways)
}

impl Overview {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let fleet = Fleet {
            known: 2,
            reporting: 1,
            running: 1,
            refused: 0,
        };
        let gone = Frame { fleet, ..frame() };
        let fleet = Fleet::default();
        let alone = Frame {
            fleet,
            freshness: Freshness::Never,
            lately_ms: 0,
            ..frame()
        };
        let mut no_gateway = page(alone, &[], Vec::new());
        no_gateway.hour = None;
        vec![
            ("empty", empty()),
            ("healthy", page(frame(), &shop(), both())),
            ("saturated", in_trouble(Filter::default())),
            (
                "filtered",
                in_trouble(Filter::parse("route", "1", "inventory", "rejected")),
            ),
            ("stale", stale()),
            ("gateway_gone", page(gone, &shop(), one_gone())),
            ("no_gateway", no_gateway),
            ("refused", Self::refused_sample()),
            ("hostile_names", Self::hostile_sample()),
            ("watched", page(frame(), &shop_watched(), both())),
            ("nominal", nominal()),
            ("many", page(frame(), &many(), both())),
        ]
    }

    fn refused_sample() -> Self {
        let frame = Frame {
            fleet: Fleet {
                known: 2,
                reporting: 2,
                running: 1,
                refused: 1,
            },
            reader: super::signed_in(),
            trouble: Some("The store does not answer. Gateways keep running what they have."),
            ..frame()
        };
        let lines = vec!["/gateway/capacity = 40: must cover the sum of reserved, 130".to_owned()];
        let gateways = vec![
            gateway("gw-b", GatewayState::Refused(lines)),
            gateway("gw-a", GatewayState::Running),
        ];
        Self::new(
            frame,
            Filter::default(),
            3,
            readings(&shop()),
            gateways,
            changes(),
        )
    }

    fn hostile_sample() -> Self {
        let frame = Frame {
            environment: HOSTILE.to_owned(),
            here: HOSTILE.to_owned(),
            ..frame()
        };
        let all = [
            figures(&format!("route/{HOSTILE}"), Level::Route, 3, 4, 10),
            figures("route/' onmouseover='alert(1)", Level::Route, 10, 10, 10),
            figures(
                &format!("tenant/{}", "x".repeat(128)),
                Level::Tenant,
                1,
                2,
                10,
            ),
        ];
        let refused = GatewayState::Refused(vec![HOSTILE.to_owned()]);
        let change = ChangeRow {
            generation: 7,
            author: HOSTILE.to_owned(),
            comment: HOSTILE.to_owned(),
            at: moment("2026-07-01T11:57:12Z", 168_000),
        };
        let filter = Filter::parse("", "", HOSTILE, "");
        let mut page = Self::new(
            frame,
            Filter::default(),
            3,
            readings(&all),
            vec![gateway(HOSTILE, refused)],
            vec![change],
        );
        page.filter = filter;
        page.hour = Some(hour::hostile());
        page.alerts = super::alerts::hostile();
        page
    }
}

/// More compartments than a page shows.
fn many() -> Vec<Figures> {
    (0..300_u32)
        .map(|n| {
            let in_flight = (n * 7) % 21;
            let one = figures(
                &format!("route/service-{n:03}"),
                Level::Route,
                in_flight,
                20,
                20,
            );
            if in_flight >= 20 {
                rejecting(one, Rejection::RouteFull, n.into())
            } else {
                one
            }
        })
        .collect()
}
