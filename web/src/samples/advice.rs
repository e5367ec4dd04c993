//! Samples of the Advice page, and of the question what another limit would do.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::over_time::card;
use super::{HOSTILE, frame, moment};
use crate::{
    AdviceCard, AdvicePage, AdviceRow, AdviceView, Advised, Answered, Ask, FoundRow, Frame,
};

/// The advice for one compartment.
fn advice_row(key: &str, kind: Advised) -> AdviceRow {
    let advised = match kind {
        Advised::Raise => Some(58),
        Advised::Lower => Some(12),
        Advised::Keep => Some(28),
        Advised::Unsettled | Advised::TooLittle => None,
    };
    let summary = match kind {
        Advised::Raise => "raise from 30 to 58: 8.43 % were refused",
        Advised::Lower => "12 would do instead of 30: 0.00 % were refused",
        Advised::Keep => "keep 30: the traffic asks for 28",
        Advised::Unsettled => "no advice: 40 of 60 windows were an incident or followed one",
        Advised::TooLittle => "too little evidence: 12 arrivals in 40 s of normal traffic",
    };
    let figures = if advised.is_some() {
        card().figures
    } else {
        Vec::new()
    };
    AdviceRow {
        key: key.to_owned(),
        kind,
        now: "30".to_owned(),
        advised,
        class: "standard",
        confidence: "low",
        card: AdviceCard {
            summary: summary.to_owned(),
            verdict: kind.as_str(),
            figures,
            ..card()
        },
    }
}

fn finding(rule: &'static str, severity: &'static str, message: &str, measured: bool) -> FoundRow {
    FoundRow {
        rule,
        severity,
        path: "routes[0].timeout.attempt".to_owned(),
        message: message.to_owned(),
        measured,
    }
}

fn findings() -> Vec<FoundRow> {
    vec![
        finding(
            "L2",
            "warn",
            "attempt 300ms is not below limit / rate = 30 / 100 per second = 300ms; use at most \
             299ms, or a limit of 31",
            true,
        ),
        finding("L9", "info", "opens 0.35 s after a total hang", false),
    ]
}

/// What 40 slots would do.
pub(super) fn answered(fixed: bool) -> Ask {
    let figure = |what, then: &str, now: &str| (what, then.to_owned(), now.to_owned());
    Ask {
        action: if fixed {
            "/compartments/route%2Fcheckout".to_owned()
        } else {
            "/advice".to_owned()
        },
        key: "route/checkout".to_owned(),
        fixed,
        limit: "40".to_owned(),
        error: None,
        answer: Some(Answered {
            summary: "40 would refuse 0.02 % of the busiest window; 30 in force refuse 1.31 %."
                .to_owned(),
            meets: Some(true),
            figures: vec![
                figure("refused of the busiest window", "0.02 %", "1.31 %"),
                figure(
                    "takes of that demand until 1 % is refused",
                    "1.42 times",
                    "0.97 times",
                ),
            ],
            because: vec![
                "100/s at the peak x 212 ms (mean hold) = 21.20 slots on average".to_owned(),
                "40 slots refuse 0.020 % of that (loss formula; target 0.1 %)".to_owned(),
            ],
        }),
    }
}

fn asking(key: &str, limit: &str, error: Option<&str>) -> Ask {
    Ask {
        action: "/advice".to_owned(),
        key: key.to_owned(),
        fixed: false,
        limit: limit.to_owned(),
        error: error.map(str::to_owned),
        answer: None,
    }
}

fn page(query: [&str; 2], rows: Vec<AdviceRow>, ask: Ask) -> AdvicePage {
    let [kind, key] = query;
    let kinds = Advised::ALL.map(|kind| {
        let n = rows.iter().filter(|row| row.kind == kind).count();
        (kind, n)
    });
    let mut view = AdviceView::parse(kind, key, "");
    let (cards, matching) = view.chosen(rows.iter().collect(), |row| (row.kind, &row.key));
    AdvicePage {
        frame: Frame {
            here: view.href(),
            ..frame()
        },
        view,
        worked_out: Some(moment("2026-07-01T11:59:20Z", 40_000)),
        sum: Some((
            "143 advised slots of 3 routes fit into capacity 200".to_owned(),
            true,
        )),
        cards: cards.into_iter().cloned().collect(),
        matching,
        kinds: kinds.to_vec(),
        findings: findings(),
        findings_more: 0,
        ask,
    }
}

impl AdvicePage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let names = [
            "route/recommendations",
            "upstream/recommender",
            "route/inventory-export",
            "route/checkout",
            "route/legacy",
        ];
        let rows = || -> Vec<AdviceRow> {
            let pairs = names.iter().zip(Advised::ALL);
            pairs.map(|(key, kind)| advice_row(key, kind)).collect()
        };
        let mut young = page(["", ""], Vec::new(), asking("", "", None));
        (young.worked_out, young.sum, young.findings) = (None, None, Vec::new());
        let long = format!("tenant/{}", "x".repeat(128));
        let hostile = [format!("route/{HOSTILE}"), long].map(|key| {
            let mut row = advice_row(&key, Advised::Raise);
            row.card.summary = HOSTILE.to_owned();
            row.card.evidence = vec![HOSTILE.to_owned()];
            row
        });
        let bad = asking(HOSTILE, HOSTILE, Some(HOSTILE));
        let mut hostile = page(["", ""], hostile.into(), bad);
        hostile.findings = vec![finding("L1", "error", HOSTILE, false)];
        hostile.findings_more = 7;
        hostile.sum = Some((HOSTILE.to_owned(), false));
        let many = (0..60).map(|n| advice_row(&format!("route/service-{n:03}"), Advised::Keep));
        vec![
            ("shop", page(["", ""], rows(), asking("", "", None))),
            ("raise", page(["raise", ""], rows(), asking("", "", None))),
            (
                "asked",
                page(["", "route/checkout"], rows(), answered(false)),
            ),
            ("young", young),
            ("many", page(["", ""], many.collect(), asking("", "", None))),
            ("hostile_names", hostile),
        ]
    }
}
