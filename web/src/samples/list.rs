//! Samples of the list of compartments.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use compartment::{Level, Rejection};

use super::{HOSTILE, figures, frame, rejecting};
use crate::chart::Spark;
use crate::{
    Asked, Frame, Freshness, Known, ListPage, ListRow, ListView, Look, Reading, Saturated, Times,
};

/// A control plane that has run for longer than a day.
const KNOWN: Known = Known {
    recent: 5,
    minutes: 60,
    hours: 24,
    is_longer: true,
};

fn row(figures: &compartment::Figures, permille: [u64; 3]) -> Option<ListRow> {
    let figures = std::slice::from_ref(figures);
    let look = Look {
        now: figures,
        earlier: None,
    };
    let [five, hour, day] = permille.map(Some);
    let saturated = Saturated {
        of_5min: five,
        of_hour: hour,
        of_day: day,
        known: KNOWN,
    };
    let reading = Reading::sum([look]).pop()?;
    let in_flight = reading.in_flight * 1_000;
    let step =
        |minute: u64| (!(17..20).contains(&minute)).then(|| in_flight * (minute % 9 + 4) / 12);
    Some(ListRow {
        times: Times::of(figures),
        spark: Spark {
            mean_milli: (0..60).map(step).collect(),
            full: (0..60)
                .map(|minute| five.is_some_and(|n| n > 500) && minute > 50)
                .collect(),
        },
        ..ListRow::new(reading, saturated)
    })
}

/// A shop with one route in trouble, and a tenant on it.
pub(crate) fn list_rows() -> Vec<ListRow> {
    let full = figures("route/recommendations", Level::Route, 40, 40, 40);
    let mut slow = rejecting(full, Rejection::RouteFull, 1_280);
    (0..900).for_each(|n| slow.hold.record(40_000 + n * 4_000));
    slow.queued = 2;
    let mut checkout = figures("route/checkout", Level::Route, 12, 31, 60);
    (0..900).for_each(|n| checkout.hold.record(20_000 + n * 90));
    let all = [
        (slow, [996, 240, 12]),
        (checkout, [0, 0, 2]),
        (
            figures(
                "route/recommendations/tenant/acme",
                Level::TenantRoute,
                9,
                11,
                12,
            ),
            [0, 0, 0],
        ),
        (figures("tenant/acme", Level::Tenant, 13, 22, 80), [0, 0, 0]),
        (
            figures("upstream/recommender", Level::Upstream, 39, 40, 48),
            [300, 11, 1],
        ),
        (figures("route/legacy", Level::Route, 0, 0, 0), [0, 0, 0]),
        (figures("gateway", Level::Gateway, 52, 71, 200), [0, 0, 0]),
    ];
    let mut rows: Vec<ListRow> = all
        .iter()
        .filter_map(|(one, full)| row(one, *full))
        .collect();
    let advice = [
        ("raise", "raise to 58"),
        ("keep", "keep"),
        ("too-little", "too little evidence"),
        ("lower", "33 would do"),
    ];
    for (row, (kind, words)) in rows.iter_mut().zip(advice) {
        row.p99_us = row.times.hold.quantile_us(990);
        row.advice = Some((kind, words.to_owned()));
    }
    rows
}

/// As many compartments as asked for.
pub(crate) fn many_rows(count: u32) -> Vec<ListRow> {
    let one = |n: u32| {
        let in_flight = (n * 7) % 21;
        let name = format!("route/service-{n:04}");
        let figures = figures(&name, Level::Route, in_flight, 20, 20);
        let full = if in_flight == 20 { 900 } else { 0 };
        let row = row(&figures, [full, full / 3, full / 50])?;
        Some(ListRow {
            advice: Some(("keep", "keep".to_owned())),
            ..row
        })
    };
    (0..count).filter_map(one).collect()
}

fn page(frame: Frame, asked: Asked<'_>, rows: Vec<ListRow>) -> ListPage {
    let frame = Frame {
        here: "/compartments".to_owned(),
        ..frame
    };
    ListPage::new(frame, ListView::parse(asked), rows)
}

impl ListPage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let stale = Frame {
            freshness: Freshness::Age { age_ms: 14_000 },
            ..frame()
        };
        let nothing = Frame {
            freshness: Freshness::Never,
            ..frame()
        };
        let problems = Asked {
            state: "problems",
            sort: "full_1h",
            ..Asked::default()
        };
        let second = Asked {
            page: "2",
            ..Asked::default()
        };
        let elsewhere = Asked {
            tenant: HOSTILE,
            find: HOSTILE,
            ..Asked::default()
        };
        let hostile: Vec<ListRow> = [
            format!("route/{HOSTILE}"),
            format!("tenant/{}", "x".repeat(128)),
        ]
        .iter()
        .filter_map(|key| row(&figures(key, Level::Route, 3, 4, 10), [1, 0, 0]))
        .map(|row| ListRow {
            advice: Some(("raise", HOSTILE.to_owned())),
            ..row
        })
        .collect();
        let mut unknown = list_rows();
        for row in &mut unknown {
            (row.saturated, row.spark) = (Saturated::default(), Spark::default());
        }
        let mut begun = list_rows();
        for row in &mut begun {
            row.saturated.known = Known {
                recent: 2,
                minutes: 2,
                hours: 1,
                is_longer: false,
            };
        }
        vec![
            ("begun", page(frame(), Asked::default(), begun)),
            ("shop", page(frame(), Asked::default(), list_rows())),
            ("problems", page(frame(), problems, list_rows())),
            ("stale", page(stale, Asked::default(), list_rows())),
            ("unknown_past", page(frame(), Asked::default(), unknown)),
            ("nothing", page(nothing, Asked::default(), Vec::new())),
            ("no_match", page(frame(), elsewhere, list_rows())),
            ("second_page", page(frame(), second, many_rows(1_000))),
            ("hostile_names", page(frame(), Asked::default(), hostile)),
        ]
    }
}
