//! Samples of the Alerts page.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame, moment};
use crate::{AlertCount, AlertRow, AlertsPage, Frame, Freshness, Receivers, RuleRow};

fn refusing() -> AlertRow {
    AlertRow {
        id: 7,
        key: "route/recommendations".to_owned(),
        what: "keeps refusing requests",
        severity: "page",
        state: "firing",
        since: moment("2026-07-01T11:55:00Z", 300_000),
        ended: None,
        lasted_ms: 300_000,
        episodes: 2,
        why: "It was at its limit for 98 % of the last 2 min (1 min 58 s; counts from 80 %) and \
              refused 480 of 2,400 requests, 20 %; counts above 1.44 % and from 20 refusals."
            .to_owned(),
        gateways: vec![("gw-a".to_owned(), true), ("gw-b".to_owned(), false)],
        upstreams: vec!["recommender".to_owned()],
        told: "A page was sent.",
        silenced: None,
    }
}

fn ticket() -> AlertRow {
    AlertRow {
        id: 9,
        key: "route/inventory-export".to_owned(),
        what: "stays full",
        severity: "ticket",
        episodes: 1,
        since: moment("2026-07-01T11:40:00Z", 1_200_000),
        why:
            "It was at its limit for 100 % of the last 2 min (2 min; counts from 80 %); it refused \
              0 of 12 requests, 0 %. Nobody is paged for that."
                .to_owned(),
        gateways: vec![("gw-a".to_owned(), true)],
        upstreams: Vec::new(),
        told: "Nobody is told of it.",
        silenced: Some((moment("2026-07-01T16:00:00.000Z", 0), "operator".to_owned())),
        ..refusing()
    }
}

fn pending() -> AlertRow {
    AlertRow {
        id: 0,
        key: "upstream/recommender".to_owned(),
        state: "pending",
        since: moment("2026-07-01T11:59:20Z", 40_000),
        episodes: 0,
        why: "Lately at its limit for 33 % of the last 2 min (40 s; counts from 80 %); refused 90 \
              of 2,400 requests, 3.8 %. It has not lasted, so nobody is told."
            .to_owned(),
        told: "",
        ..refusing()
    }
}

/// One that wakes somebody, a silenced ticket, one that has not lasted.
pub(super) fn active() -> Vec<AlertRow> {
    vec![refusing(), ticket(), pending()]
}

/// Text that is not ours to trust.
pub(super) fn hostile() -> Vec<AlertRow> {
    vec![AlertRow {
        key: format!("route/{HOSTILE}"),
        gateways: vec![(HOSTILE.to_owned(), true)],
        upstreams: vec![HOSTILE.to_owned()],
        why: HOSTILE.to_owned(),
        silenced: Some((moment(HOSTILE, 0), HOSTILE.to_owned())),
        ..refusing()
    }]
}

fn over(id: u64, why: &str) -> AlertRow {
    AlertRow {
        id,
        key: "route/checkout".to_owned(),
        state: "resolved",
        since: moment("2026-06-30T09:00:00Z", 97_200_000),
        ended: Some((moment("2026-06-30T09:22:00Z", 95_880_000), why.to_owned())),
        lasted_ms: 1_320_000,
        episodes: 1,
        ..refusing()
    }
}

fn page(frame: Frame, active: Vec<AlertRow>, recent: Vec<AlertRow>) -> AlertsPage {
    AlertsPage {
        frame: Frame {
            here: "/alerts".to_owned(),
            ..frame
        },
        active,
        recent,
        more: 0,
        rules: vec![RuleRow {
            name: "BulkheadCompartmentRefusing",
            words: "Fires when a compartment was at its limit for at least 80 % of the last 2 min \
                    and more than 1.44 % of its requests and at least 20 were refused meanwhile."
                .to_owned(),
            promql: "bulkhead:saturated:ratio_rate2m >= 0.8\n\
                     and bulkhead:rejected:increase2m >= 20",
        }],
        receivers: Receivers {
            pages: Some("pager.example:9000".to_owned()),
            tickets: None,
            taken: 3,
            failed: 1,
            lost: 0,
        },
        store_silent: false,
    }
}

impl AlertsPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let firing = Frame {
            alerts: AlertCount {
                pages: 1,
                tickets: 1,
            },
            ..frame()
        };
        let stale = Frame {
            freshness: Freshness::Age { age_ms: 14_000 },
            ..firing.clone()
        };
        let recent = vec![
            over(6, "5 min without trouble"),
            over(2, "the policy does not name it any more"),
        ];
        let mut fresh = page(frame(), Vec::new(), Vec::new());
        fresh.receivers = Receivers::default();
        let mut blind = page(stale, vec![refusing()], Vec::new());
        blind.store_silent = true;
        blind.more = 12;
        blind.receivers.lost = 2;
        vec![
            ("quiet", fresh),
            ("firing", page(firing, active(), recent)),
            ("stale", blind),
            (
                "hostile_names",
                page(frame(), hostile(), vec![over(1, HOSTILE)]),
            ),
        ]
    }
}
