//! Samples of the page of one compartment.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use std::slice;

use compartment::policy::Value;
use compartment::{Figures, Level, Limit, Mode, Rejection};

use super::{HOSTILE, both, figures, frame, gateway, limit, moment, one_gone, rejecting};
use super::{compartment_states as states, over_time};
use crate::compartment::{FindingRow, Part, RejectedRow};
use crate::{
    CompartmentPage, Conflict, Danger, Edit, Effective, Field, Fleet, Frame, Freshness, GatewayRow,
    GatewayState, Holders, Lately, Look, NotIsolated, Origin, OverTime, Reading, Settable,
    Standing, Times, Versus, fields_of,
};

impl CompartmentPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let mut unlimited = checkout(12, 31, 60);
        unlimited.limit = Limit::UNLIMITED;
        unlimited.reserved = 0;
        let edit = || form("60");
        vec![
            (
                "healthy",
                page(
                    vec![checkout(12, 31, 60), checkout(9, 28, 60)],
                    both(),
                    edit(),
                ),
            ),
            ("saturated", saturated()),
            (
                "unlimited",
                page(vec![unlimited], both(), form("unlimited")),
            ),
            ("gateway_gone", gone()),
            ("stale", stale()),
            ("not_reported", page(Vec::new(), Vec::new(), edit())),
            (
                "saved",
                Self {
                    saved: Some(43),
                    keeps: Some((7, "4:59".to_owned())),
                    ..page(vec![checkout(12, 31, 60)], both(), edit())
                },
            ),
            (
                "ladder",
                Self {
                    ladder: Some(super::ladder::ladder()),
                    ..page(vec![checkout(60, 60, 60)], both(), edit())
                },
            ),
            ("field_error", field_error()),
            ("refused", refused()),
            ("dangerous", dangerous()),
            ("conflict", conflict()),
            ("no_form", no_form()),
            ("over_time", with(over_time::hour())),
            ("nothing_recorded", with(over_time::nothing_yet())),
            ("history_away", with(over_time::away())),
            ("queue", states::queue()),
            ("shadow", states::shadow()),
            ("candidate", states::candidate()),
            ("stream", states::stream()),
            ("leaking", states::leaking()),
            ("ceiling", states::ceiling()),
            ("more_fields", states::more_fields()),
            ("endpoints", super::endpoints::shown()),
            ("hostile_names", hostile()),
        ]
    }
}

fn with(over_time: OverTime) -> CompartmentPage {
    CompartmentPage {
        over_time: Some(over_time),
        ask: Some(super::advice::answered(true)),
        around: super::routes::around(),
        newest: newest("acme"),
        overrides: Some(super::overrides::two()),
        ..page(vec![checkout(12, 31, 30)], both(), form("30"))
    }
}

/// The form of a route with this limit.
pub(super) fn form(limit: &str) -> Edit {
    let value = match limit.parse::<i128>() {
        Ok(number) => Value::Integer(number),
        Err(_) => Value::String(limit.to_owned()),
    };
    let tenant_limit = Value::Integer(20);
    let of = |name: &'static str| match name {
        "limit" => Field::new(name, Some(&value)),
        "tenant_limit" => Field::new(name, Some(&tenant_limit)),
        _ => Field::new(name, None),
    };
    Edit::new(
        43,
        fields_of(Level::Route)
            .iter()
            .map(|name| of(name))
            .collect(),
    )
}

/// The same with one field typed, and what is wrong with it.
pub(super) fn typed(mut edit: Edit, name: &str, text: &str, error: Option<&str>) -> Edit {
    for field in edit.fields.iter_mut().filter(|field| field.name == name) {
        text.clone_into(&mut field.typed);
        field.error = error.map(str::to_owned);
    }
    edit
}

pub(super) fn checkout(in_flight: u32, peak: u32, slots: u32) -> Figures {
    figures("route/checkout", Level::Route, in_flight, peak, slots)
}

pub(super) fn page(
    figures: Vec<Figures>,
    gateways: Vec<GatewayRow>,
    edit: Edit,
) -> CompartmentPage {
    let mut figures = figures.into_iter();
    let parts: Vec<Part> = gateways
        .into_iter()
        .map(|gateway| Part {
            gateway,
            figures: figures.next(),
        })
        .collect();
    let live = parts.iter().filter(|part| part.gateway.reports());
    let figures = live
        .filter_map(|part| part.figures.as_ref())
        .map(slice::from_ref);
    let reading = Reading::sum(figures.map(|now| Look { now, earlier: None })).pop();
    let times = Times::of(parts.iter().filter_map(|part| part.figures.as_ref()));
    CompartmentPage {
        frame: Frame {
            here: "/compartments/route%2Fcheckout".to_owned(),
            ..frame()
        },
        key: "route/checkout".to_owned(),
        level: Level::Route,
        owner: Some("payments-team".to_owned()),
        reading,
        parts,
        times,
        holders: Holders::default(),
        streams: None,
        ladder: None,
        spare: None,
        rules: Vec::new(),
        edit: Settable::Form(Box::new(edit.with_values(&effective()))),
        saved: None,
        keeps: None,
        effective: effective(),
        not_isolated: shared(),
        findings: Vec::new(),
        over_time: None,
        ask: None,
        overrides: Some(Vec::new()),
        plan: crate::OverrideForm::of("route/checkout"),
        around: crate::Surround::default(),
        newest: Vec::new(),
    }
}

fn effective() -> Vec<Effective> {
    let value = |name, value: &str, origin: &Origin| Effective {
        name,
        value: value.to_owned(),
        origin: origin.clone(),
    };
    let route = Origin::Route("checkout".to_owned());
    vec![
        value("limit", "60", &route),
        value("reserved", "60", &Origin::Default),
        value("tenant_limit", "20", &route),
        value("queue", "0", &Origin::Default),
        value("max_hold", "60\u{a0}s", &Origin::Default),
        value("timeout.attempt", "250\u{a0}ms", &route),
        value("timeout.body_idle", "15\u{a0}s", &Origin::Gateway),
        value("class", "critical", &route),
        value(
            "fallback",
            "none: the caller gets the error",
            &Origin::Default,
        ),
    ]
}

fn shared() -> Vec<NotIsolated> {
    let with = |key: &str| (key.to_owned(), crate::url::compartment(key));
    vec![
        NotIsolated {
            what: "The upstream payments is shared with".to_owned(),
            with: vec![with("route/refunds"), with("route/invoices")],
            more: 3,
        },
        NotIsolated {
            what: "The ceiling of 200 in each gateway process is shared with".to_owned(),
            with: vec![with("gateway")],
            more: 0,
        },
        NotIsolated {
            what: "Processor, memory and file descriptors of the gateway process.".to_owned(),
            with: Vec::new(),
            more: 0,
        },
    ]
}

fn saturated() -> CompartmentPage {
    let full = rejecting(checkout(40, 40, 40), Rejection::RouteFull, 1_280);
    let full = rejecting(full, Rejection::TenantShare, 41);
    let mut page = page(vec![full, checkout(17, 35, 40)], both(), form("40"));
    if let Some(reading) = &mut page.reading {
        reading.lately = Lately {
            rejected: 42,
            ..Lately::default()
        };
    }
    page
}

fn gone() -> CompartmentPage {
    let mut page = page(
        vec![checkout(44, 51, 60), checkout(12, 31, 60)],
        one_gone(),
        form("60"),
    );
    page.frame.fleet = Fleet {
        known: 2,
        reporting: 1,
        running: 1,
        refused: 0,
    };
    page
}

fn stale() -> CompartmentPage {
    let mut page = page(vec![checkout(12, 31, 60)], both(), form("60"));
    page.frame.freshness = Freshness::Age { age_ms: 14_000 };
    page
}

fn field_error() -> CompartmentPage {
    let rule = "must be a whole number from 0 to 1000000, or \"unlimited\"";
    let edit = Edit {
        comment: "typo".to_owned(),
        ..typed(form("60"), "limit", "-7", Some(rule))
    };
    page(vec![checkout(12, 31, 60)], both(), edit)
}

fn refused() -> CompartmentPage {
    let rule = "must be at most the limit 50";
    let edit = typed(form("60"), "limit", "50", None);
    let edit = Edit {
        refusals: vec![format!("routes[0].compartment.reserved = 60: {rule}")],
        ..typed(edit, "reserved", "60", Some(rule))
    };
    page(vec![checkout(12, 31, 60)], both(), edit)
}

fn dangerous() -> CompartmentPage {
    let standing = |slots| Standing {
        limit: limit(slots),
        mode: Mode::Enforce,
    };
    let edit = Edit {
        comment: String::new(),
        confirm: "route/chekout".to_owned(),
        comment_error: Some("say why: it is kept with the generation".to_owned()),
        confirm_error: Some("must be route/checkout, letter for letter".to_owned()),
        dangers: Danger::of(standing(60), standing(10), 12),
        ..typed(form("60"), "limit", "10", None)
    };
    page(vec![checkout(12, 31, 60)], both(), edit)
}

fn conflict() -> CompartmentPage {
    let edit = Edit {
        comment: "more customers than expected".to_owned(),
        conflict: Some(Conflict {
            seen: 42,
            newest: 43,
            author: "admin".to_owned(),
            comment: "checkout is slow today".to_owned(),
            at: moment("2026-07-01T11:57:12Z", 168_000),
            values: vec![
                Versus {
                    name: "limit",
                    before: Some("60".to_owned()),
                    theirs: "50".to_owned(),
                    yours: "80".to_owned(),
                },
                Versus {
                    name: "queue",
                    before: Some("not set".to_owned()),
                    theirs: "not set".to_owned(),
                    yours: "4".to_owned(),
                },
            ],
        }),
        ..typed(typed(form("50"), "limit", "80", None), "queue", "4", None)
    };
    page(vec![checkout(12, 31, 50)], both(), edit)
}

fn no_form() -> CompartmentPage {
    let key = "route/checkout/tenant/acme";
    let why = "It has no limit of its own: it follows the route's tenant_limit and the plan.";
    CompartmentPage {
        key: key.to_owned(),
        level: Level::TenantRoute,
        owner: None,
        edit: Settable::No(why),
        ..page(
            vec![figures(key, Level::TenantRoute, 2, 9, 20)],
            both(),
            Edit::default(),
        )
    }
}

fn hostile() -> CompartmentPage {
    let edit = Edit {
        comment: HOSTILE.to_owned(),
        refusals: vec![HOSTILE.to_owned()],
        ..typed(form("60"), "limit", HOSTILE, Some(HOSTILE))
    };
    let mut page = page(
        vec![checkout(1, 1, 60)],
        vec![gateway(HOSTILE, GatewayState::Running)],
        edit,
    );
    page.key = format!("route/{HOSTILE}");
    page.owner = Some(HOSTILE.to_owned());
    page.plan = crate::OverrideForm::of(&page.key);
    page.overrides = None;
    page.rules = vec![HOSTILE.to_owned()];
    page.holders = Holders::new(
        "tenant",
        states::readings(&[figures(
            &format!("route/a/tenant/{HOSTILE}"),
            Level::TenantRoute,
            1,
            2,
            3,
        )]),
    );
    page.findings = vec![FindingRow {
        rule: "P2",
        path: HOSTILE.to_owned(),
        message: HOSTILE.to_owned(),
    }];
    page.frame.environment = HOSTILE.to_owned();
    page
}

/// Two rejections, one of a request in a trace.
fn newest(tenant: &str) -> Vec<RejectedRow> {
    let row = |ago_ms, tenant: &str, trace_id: &str| RejectedRow {
        at: moment("2026-07-01T11:59:58.120Z", ago_ms),
        reason: Rejection::RouteFull,
        tenant: tenant.to_owned(),
        gateway: "gw-a".to_owned(),
        trace_id: trace_id.to_owned(),
        request_id: "0197c9f1-8a44-7c3f-9b6e-2f5d0c1a7e11".to_owned(),
    };
    vec![
        row(1_880, tenant, "4bf92f3577b34da6a3ce929d0e0e4736"),
        row(64_000, "", ""),
    ]
}
