//! Samples of the Tenants page and of the page of one.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use compartment::{Level, Rejection};

use super::{HOSTILE, figures, frame, moment, reader, rejecting, signed_in};
use crate::{
    Crowd, Effective, Frame, Freshness, Holders, KeyForm, KeyRow, Lately, MadeKey, Origin, Reading,
    Role, TenantForm, TenantPage, TenantRow, TenantsPage, TenantsView, UnknownRow, Used,
};

/// Marks that turn the reading direction around.
const TURNED: &str = "evil\u{202e}gnp.exe";

fn used(in_flight: u64, rejected: u64) -> Used {
    Used {
        in_flight,
        peak: in_flight.max(41),
        promised: Some(100),
        rejected,
        rejected_lately: rejected / 10,
        full: in_flight >= 100,
    }
}

fn row(id: &str, used: Option<Used>) -> TenantRow {
    TenantRow {
        id: id.to_owned(),
        plan: Some("pro".to_owned()),
        limit: Some(50),
        has_own_limit: false,
        suspended: false,
        keys: 2,
        used,
    }
}

fn rows() -> Vec<TenantRow> {
    let unlimited = TenantRow {
        limit: None,
        plan: None,
        has_own_limit: true,
        used: Some(Used {
            promised: None,
            ..used(3, 0)
        }),
        ..row("batch", None)
    };
    let suspended = TenantRow {
        suspended: true,
        has_own_limit: true,
        limit: Some(5),
        ..row("owes-us", Some(used(0, 0)))
    };
    let busy = row("beta", Some(used(7, 40)));
    vec![
        row("acme", Some(used(100, 1_200))),
        busy,
        unlimited,
        suspended,
    ]
}

fn list(frame: Frame, view: TenantsView, rows: Vec<TenantRow>) -> TenantsPage {
    TenantsPage {
        frame: Frame {
            here: view.href(),
            ..frame
        },
        matching: rows.len(),
        total: rows.len().max(4),
        rows,
        view,
        unknown: Some(UnknownRow {
            shared: Some("5".to_owned()),
            used: Some(Used {
                promised: Some(10),
                peak: 4,
                ..used(2, 0)
            }),
        }),
        crowds: Vec::new(),
        recognised: vec![
            "the API key in x-api-key".to_owned(),
            "its hosts".to_owned(),
        ],
        plans: vec!["free".to_owned(), "pro".to_owned()],
        form: TenantForm::default(),
        said: None,
    }
}

fn crowded() -> TenantsPage {
    let crowd = Crowd {
        route: "checkout".to_owned(),
        in_flight: 118,
        limit: Some(120),
        most: Some(("acme".to_owned(), 100)),
        tenants: 3,
        hurt: vec![("beta".to_owned(), 14), ("zeta".to_owned(), 2)],
    };
    let calm = Crowd {
        route: "search".to_owned(),
        limit: None,
        most: None,
        hurt: Vec::new(),
        ..crowd.clone()
    };
    TenantsPage {
        crowds: vec![crowd, calm],
        ..list(
            frame(),
            TenantsView::parse("", "", "", "share", "1"),
            rows(),
        )
    }
}

fn hostile() -> TenantsPage {
    let mut odd = row(HOSTILE, Some(used(9, 3)));
    odd.plan = Some(format!("=cmd|{HOSTILE}"));
    let turned = row(TURNED, None);
    let view = TenantsView::parse("full", HOSTILE, HOSTILE, "", "");
    let mut page = list(frame(), view, vec![odd, turned]);
    page.plans = vec![HOSTILE.to_owned()];
    page.recognised = vec![HOSTILE.to_owned()];
    page.crowds = vec![Crowd {
        route: HOSTILE.to_owned(),
        in_flight: 1,
        limit: Some(1),
        most: Some((HOSTILE.to_owned(), 1)),
        tenants: 1,
        hurt: vec![(HOSTILE.to_owned(), 1)],
    }];
    page.form = TenantForm {
        id: HOSTILE.to_owned(),
        plan: HOSTILE.to_owned(),
        limit: HOSTILE.to_owned(),
        hosts: HOSTILE.to_owned(),
        comment: HOSTILE.to_owned(),
        errors: ["", "id", "plan", "limit", "hosts"]
            .map(|field| (field.to_owned(), format!("{HOSTILE}: must be a name")))
            .to_vec(),
    };
    page
}

impl TenantsPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let stale = Frame {
            freshness: Freshness::Age { age_ms: 240_000 },
            ..frame()
        };
        let viewer = Frame {
            reader: reader("vic", Role::Viewer),
            ..frame()
        };
        let mut empty = list(frame(), TenantsView::default(), Vec::new());
        (empty.total, empty.unknown) = (0, None);
        empty.recognised = Vec::new();
        let mut second = list(frame(), TenantsView::parse("", "", "", "", "2"), rows());
        (second.matching, second.total) = (100_000, 100_000);
        let untold = rows()
            .into_iter()
            .map(|row| TenantRow { used: None, ..row });
        let mut refused = list(frame(), TenantsView::default(), untold.collect());
        refused.unknown = Some(UnknownRow {
            shared: None,
            used: None,
        });
        refused.form = TenantForm {
            id: "acme".to_owned(),
            limit: "-3".to_owned(),
            errors: vec![("".to_owned(), "There is a tenant acme already.".to_owned())],
            ..TenantForm::default()
        };
        let narrow = TenantsView::parse("suspended", "nobody", "", "", "");
        let mut none = list(frame(), narrow, Vec::new());
        none.unknown = None;
        let mut said = list(frame(), TenantsView::default(), rows());
        said.said = Some("Tenant old is deleted with generation 44.".to_owned());
        vec![
            ("full", crowded()),
            ("empty", empty),
            ("narrow", none),
            ("second_page", second),
            ("stale", list(stale, TenantsView::default(), rows())),
            ("viewer", list(viewer, TenantsView::default(), rows())),
            ("refused", refused),
            ("said", said),
            ("hostile", hostile()),
        ]
    }
}

fn key(id: &str, label: &str, state: &'static str) -> KeyRow {
    KeyRow {
        id: id.to_owned(),
        label: label.to_owned(),
        ending: Some("9f3c".to_owned()),
        created: Some(moment("2026-06-01T08:00:00Z", 2_606_400_000)),
        expires: (state != "active").then(|| "2026-07-02T12:00:00Z".to_owned()),
        state,
    }
}

fn one(frame: Frame, row: TenantRow) -> TenantPage {
    let held = [("checkout", 6, 3), ("search", 1, 0)].map(|(route, in_flight, refused)| {
        let key = format!("route/{route}/tenant/{}", row.id);
        let figures = figures(&key, Level::TenantRoute, in_flight, 9, 20);
        let figures = rejecting(figures, Rejection::TenantRouteFull, refused);
        Reading::new(&figures, Lately::default())
    });
    let value = |name, value: &str, origin| Effective {
        name,
        value: value.to_owned(),
        origin,
    };
    TenantPage {
        frame: Frame {
            here: crate::url::tenant(&row.id),
            ..frame
        },
        recognised: vec![
            (
                "One of its 2 API keys in the header x-api-key.".to_owned(),
                true,
            ),
            ("Its hosts: it has none.".to_owned(), false),
        ],
        effective: vec![
            value("limit", "50", Origin::Plan("pro".to_owned())),
            value("suspended", "no", Origin::Default),
        ],
        holders: Holders::new("route", held.to_vec()),
        keys: vec![
            key("0123456789abcdef", "ci", "active"),
            key("fedcba9876543210", "", "ending"),
        ],
        key_header: Some("x-api-key".to_owned()),
        made: None,
        plans: vec!["free".to_owned(), "pro".to_owned()],
        form: TenantForm {
            plan: "pro".to_owned(),
            ..TenantForm::default()
        },
        key_form: KeyForm::default(),
        delete_error: None,
        suspend_error: None,
        conflict: None,
        said: None,
        is_waiting: false,
        row,
    }
}

impl TenantPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let stale = Frame {
            freshness: Freshness::Age { age_ms: 240_000 },
            ..frame()
        };
        let viewer = Frame {
            reader: reader("vic", Role::Viewer),
            ..frame()
        };
        let ann = Frame {
            reader: signed_in(),
            ..frame()
        };
        let mut made = one(ann, row("acme", Some(used(7, 40))));
        made.made = Some(MadeKey {
            id: "0123456789abcdef".to_owned(),
            key: "bht_shown-this-once".to_owned(),
            replaces: Some((
                "fedcba9876543210".to_owned(),
                "2026-07-02T12:00:00Z".to_owned(),
            )),
        });
        let mut bare = one(frame(), row("new", None));
        (bare.keys, bare.recognised, bare.key_header) = (Vec::new(), Vec::new(), None);
        bare.holders = Holders::default();
        let suspended = TenantRow {
            suspended: true,
            ..row("owes-us", Some(used(0, 0)))
        };
        let mut refused = one(frame(), row("acme", Some(used(7, 40))));
        refused.form.errors = vec![("limit".to_owned(), "must be a whole number".to_owned())];
        refused.form.limit = "-3".to_owned();
        refused.key_form = KeyForm {
            expires_at: "tomorrow".to_owned(),
            overlap: "1h".to_owned(),
            errors: vec![
                (
                    "expires_at".to_owned(),
                    "must be a moment to come".to_owned(),
                ),
                ("overlap".to_owned(), "is of no key".to_owned()),
            ],
            ..KeyForm::default()
        };
        refused.delete_error = Some("This is not its name.".to_owned());
        refused.suspend_error = refused.delete_error.clone();
        let mut conflict = one(frame(), row("acme", Some(used(7, 40))));
        conflict.conflict = Some(41);
        let mut odd = one(frame(), row(HOSTILE, Some(used(9, 3))));
        odd.keys = vec![key(HOSTILE, HOSTILE, "active")];
        odd.recognised = vec![(HOSTILE.to_owned(), true)];
        odd.key_header = Some(HOSTILE.to_owned());
        odd.plans = vec![HOSTILE.to_owned()];
        odd.key_form.label = HOSTILE.to_owned();
        odd.form.hosts = format!("{TURNED},{HOSTILE}");
        odd.said = Some(HOSTILE.to_owned());
        vec![
            ("plain", one(frame(), row("acme", Some(used(7, 40))))),
            ("made", made),
            ("bare", bare),
            ("suspended", one(frame(), suspended)),
            ("stale", one(stale, row("acme", Some(used(7, 40))))),
            ("viewer", one(viewer, row("acme", Some(used(7, 40))))),
            ("refused", refused),
            ("conflict", conflict),
            ("hostile", odd),
        ]
    }
}
