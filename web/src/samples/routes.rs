//! Samples of the Routes page.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use std::collections::BTreeMap;

use compartment::breaker::{BreakerFigures, BreakerState};
use compartment::{Figures, Level, Rejection, RetryFigures, RetryRefusal, StepFigures};

use super::{HOSTILE, figures, frame, rejecting};
use crate::{
    BreakerRow, EndpointsRow, Frame, Freshness, Look, Reading, RetryRow, RouteRow, RoutesPage,
    RoutesView, Rung, Slots, Surround, Tried, TriedStep, TryForm,
};

/// A route whose dependency is in trouble.
pub(super) fn around() -> Surround {
    Surround {
        steps: Vec::new(),
        endpoints: EndpointsRow::of(Some(&super::endpoints::upstream(false))),
        breaker: Some(BreakerRow {
            rules: "opens when 50\u{a0}% of 20\u{a0}calls fail".to_owned(),
            figures: Some(BreakerFigures {
                state: BreakerState::Open,
                since_ms: 4_200,
                opened: 3,
                half_opened: 2,
                closed: 2,
                failure_rate: 0.62,
                calls: 20,
            }),
        }),
        retry: Some(RetryRow {
            rules: "2 attempts in all, budget 20\u{a0}% over 10\u{a0}s".to_owned(),
            figures: Some(RetryFigures {
                budget_left: 0,
                retries: 41,
                refused: BTreeMap::from([(RetryRefusal::Budget, 1_204), (RetryRefusal::Method, 3)]),
            }),
        }),
    }
}

fn rung(what: &str, answers: u64, failed: u64, last_answer_ms: Option<u64>) -> Rung {
    let figures = StepFigures {
        answers,
        failed,
        failures: BTreeMap::from([("none_stored".to_owned(), failed)]),
        last_answer_ms,
        ..StepFigures::default()
    };
    Rung {
        what: what.to_owned(),
        figures: Some(figures),
    }
}

fn slots(figures: &Figures, limit: &str) -> Slots {
    let look = Look {
        now: std::slice::from_ref(figures),
        earlier: None,
    };
    Slots {
        key: figures.key.clone(),
        limit: limit.to_owned(),
        reading: Reading::sum([look]).pop(),
    }
}

fn row(id: &str, own: Figures, upstream: &Figures) -> RouteRow {
    RouteRow {
        id: id.to_owned(),
        owner: None,
        host: None,
        path: format!("/{id}"),
        exact: false,
        methods: Vec::new(),
        own: slots(&own, "60"),
        upstream: slots(upstream, "48"),
        endpoints: vec!["http://10.0.0.7:8080".to_owned()],
        more_endpoints: 0,
        binds: (
            "its own limit of 40 first; narrowest shared: the upstream\u{2019}s limit, 48, with \
             1\u{a0}other route"
                .to_owned(),
            upstream.key.clone(),
        ),
        around: Surround::default(),
    }
}

fn shop() -> Vec<RouteRow> {
    let busy = figures("upstream/recommender", Level::Upstream, 39, 40, 48);
    let calm = figures("upstream/orders", Level::Upstream, 12, 31, 80);
    let full = figures("route/recommendations", Level::Route, 40, 40, 40);
    let full = rejecting(full, Rejection::RouteFull, 1_280);
    let slow = RouteRow {
        owner: Some("team-discovery".to_owned()),
        methods: vec!["GET".to_owned(), "HEAD".to_owned()],
        around: Surround {
            steps: vec![
                rung(
                    "a stored answer, at most 5\u{a0}min old",
                    812,
                    94,
                    Some(1_200),
                ),
                rung("upstream shelf with 8 slots", 0, 0, None),
                rung("a fixed answer, status 200", 94, 0, Some(1_900)),
            ],
            ..around()
        },
        ..row("recommendations", full, &busy)
    };
    let checkout = figures("route/checkout", Level::Route, 12, 31, 60);
    let checkout = RouteRow {
        host: Some("shop.example".to_owned()),
        exact: true,
        methods: vec!["POST".to_owned()],
        endpoints: vec!["https://orders.example:443".to_owned()],
        more_endpoints: 4,
        ..row("checkout", checkout, &calm)
    };
    let mut silent = row(
        "legacy",
        figures("route/legacy", Level::Route, 0, 0, 5),
        &calm,
    );
    (silent.own.reading, silent.upstream.reading) = (None, None);
    silent.around.steps = vec![Rung {
        what: "a fixed answer, status 503".to_owned(),
        figures: None,
    }];
    vec![slow, checkout, silent]
}

fn ask() -> TryForm {
    TryForm {
        method: "GET".to_owned(),
        tenants: vec!["acme".to_owned(), "corner-store".to_owned()],
        has_tenants: true,
        ..TryForm::default()
    }
}

fn answered() -> TryForm {
    let step = |what, key: &str, now: &str, says: &str, class| TriedStep {
        what,
        key: key.to_owned(),
        now: now.to_owned(),
        says: says.to_owned(),
        class,
    };
    TryForm {
        path: "/recommendations/7".to_owned(),
        tenant: "acme".to_owned(),
        answer: Some(Tried {
            verdict: "Would be refused now, by route/recommendations. It goes to".to_owned(),
            class: "bad",
            route: Some("route/recommendations".to_owned()),
            why: vec![
                "It takes GET, HEAD on any host, path /recommendations and below.".to_owned(),
                "It goes before route catalog, because its path is longer.".to_owned(),
            ],
            who: vec![
                "It is of tenant acme (as you chose), on plan gold.".to_owned(),
                "Its class is standard, as the route has it.".to_owned(),
            ],
            steps: vec![
                step(
                    "breaker",
                    "upstream/recommender",
                    "closed",
                    "passes",
                    "busy",
                ),
                step(
                    "tenant",
                    "tenant/acme",
                    "13 of 80 in flight",
                    "passes",
                    "busy",
                ),
                step(
                    "route",
                    "route/recommendations",
                    "40 of 40 in flight",
                    "route_full",
                    "full",
                ),
                step(
                    "ceiling",
                    "gateway",
                    "52 of 200 in flight",
                    "passes",
                    "busy",
                ),
            ],
            instead: "Refused, the caller gets the first of these that has an answer: a stored \
                      answer, the error."
                .to_owned(),
        }),
        ..ask()
    }
}

fn page(frame: Frame, rows: Vec<RouteRow>, ask: TryForm) -> RoutesPage {
    let problems = rows.iter().filter(|row| row.is_problem()).count();
    RoutesPage {
        frame: Frame {
            here: "/routes".to_owned(),
            ..frame
        },
        view: RoutesView::parse("", "", "", ""),
        matching: rows.len(),
        counts: (rows.len(), problems),
        rows,
        broken: false,
        ask,
    }
}

impl RoutesPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let stale = Frame {
            freshness: Freshness::Age { age_ms: 14_000 },
            ..frame()
        };
        let mut none = page(frame(), Vec::new(), TryForm::default());
        none.view = RoutesView::parse("problems", HOSTILE, HOSTILE, "");
        let broken = RoutesPage {
            broken: true,
            ..page(frame(), Vec::new(), TryForm::default())
        };
        let mut hostile = shop();
        for row in &mut hostile {
            row.own.key = format!("route/{HOSTILE}");
            row.path = format!("/{HOSTILE}");
            (row.host, row.owner) = (Some(HOSTILE.to_owned()), Some(HOSTILE.to_owned()));
            row.endpoints = vec![HOSTILE.to_owned()];
            row.around.endpoints = EndpointsRow::of(Some(&super::endpoints::upstream(true)));
            row.binds = (HOSTILE.to_owned(), HOSTILE.to_owned());
            row.id = "x".repeat(128);
        }
        hostile.truncate(1);
        let mistaken = TryForm {
            path: HOSTILE.to_owned(),
            host: HOSTILE.to_owned(),
            tenant: HOSTILE.to_owned(),
            tenants: vec![HOSTILE.to_owned()],
            error: Some(("tenant", format!("There is no tenant {HOSTILE}."))),
            ..ask()
        };
        let mut second = page(frame(), shop(), ask());
        (second.matching, second.view.page) = (103, 2);
        vec![
            ("shop", page(frame(), shop(), ask())),
            ("tried", page(frame(), shop(), answered())),
            ("stale", page(stale, shop(), ask())),
            ("empty", page(frame(), Vec::new(), TryForm::default())),
            ("no_match", none),
            ("broken", broken),
            ("second_page", second),
            ("hostile_names", page(frame(), hostile, mistaken)),
        ]
    }
}
