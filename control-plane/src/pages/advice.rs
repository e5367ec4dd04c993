//! `GET /advice`: the cards of all compartments, the findings, and the question what another limit
//! would do.
//!
//! Separate page by page. The list is the one that was last worked out, the card of one
//! compartment and an answer are of this moment, as over the API. It must never decide a number.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::Key;
use compartment::policy::Policy;
use http::StatusCode;
use serde::Deserialize;
use web::{
    AdvicePage, AdviceRow, AdviceView, Advised, Ask, FINDINGS_MAX, FoundRow, Moment, Template as _,
};

use super::card_words;
use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::{PageError, html};
use crate::advice::sums::{self, LIMIT_RULE};
use crate::advice::{self, Card, Measured};
use crate::clock;
use crate::linter::Severity;
use crate::state::AppState;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    kind: String,
    key: String,
    limit: String,
    page: String,
    fragment: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    match body(&state, &asked, &view).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/advice".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, query: &View) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let policy = current.policy.as_ref().ok();
    let snapshot = Snapshot::take(state);
    let listed = state.advice.listed();
    let mut view = AdviceView::parse(&query.kind, &query.key, &query.page);
    let kinds = Advised::ALL.map(|kind| {
        let cards = listed.cards.iter();
        (kind, cards.filter(|card| about(card).0 == kind).count())
    });
    let own = match view.key.is_empty() {
        true => None,
        // One card is worked out when it is asked for; tenants have one too.
        false => measured(state, policy, &view.key).await.ok(),
    };
    let own = own.map(|measured| measured.card());
    let all = own
        .as_ref()
        .map_or(listed.cards.as_slice(), std::slice::from_ref);
    let (cards, matching) = view.chosen(all.iter().collect(), about);
    // What is not shown is not worded: a card has a page of arithmetic.
    let cards = cards.into_iter().map(row).collect();
    let is_live = query.fragment == "live";
    let found = match policy {
        Some(policy) if !is_live => advice::findings(policy, &listed.cards),
        _ => Vec::new(),
    };
    let page = AdvicePage {
        frame: asked.frame(&current, &snapshot, view.href()),
        worked_out: listed.at_ms.map(at),
        sum: policy.filter(|_| listed.at_ms.is_some()).map(|policy| {
            let sum = sums::advised(&listed.cards, policy.gateway.capacity);
            (sum.because, sum.fits)
        }),
        cards,
        matching,
        kinds: kinds.to_vec(),
        findings_more: found.len().saturating_sub(FINDINGS_MAX),
        findings: found
            .into_iter()
            .take(FINDINGS_MAX)
            .map(found_row)
            .collect(),
        ask: if is_live {
            Ask::default()
        } else {
            let form = Ask {
                action: "/advice".to_owned(),
                key: view.key.clone(),
                limit: query.limit.chars().take(20).collect(),
                ..Ask::default()
            };
            ask(state, policy, form).await
        },
        view,
    };
    Ok(if is_live {
        page.fragment()?
    } else {
        page.render()?
    })
}

/// The form with its answer; without one when nothing was asked.
pub(super) async fn ask(state: &AppState, policy: Option<&Policy>, form: Ask) -> Ask {
    if form.limit.is_empty() {
        return form;
    }
    match answered(state, policy, &form).await {
        Ok(answer) => Ask {
            answer: Some(answer),
            ..form
        },
        Err(error) => Ask {
            error: Some(error),
            ..form
        },
    }
}

async fn answered(
    state: &AppState,
    policy: Option<&Policy>,
    form: &Ask,
) -> Result<web::Answered, String> {
    let wrong = || format!("{:?} is no limit: {LIMIT_RULE}", form.limit);
    let limit = sums::asked_limit(&form.limit).ok_or_else(wrong)?;
    let measured = measured(state, policy, &form.key).await?;
    let sum = policy.zip(form.key.parse::<Key>().ok());
    let sum = sum.and_then(|(policy, key)| sums::guaranteed(policy, &key, limit));
    Ok(card_words::answered(&measured.what_if(limit), sum.as_ref()))
}

async fn measured(
    state: &AppState,
    policy: Option<&Policy>,
    key: &str,
) -> Result<Measured, String> {
    let unknown = || format!("The policy gives no limit to a compartment {key:?}.");
    let (policy, parsed) = policy.zip(key.parse().ok()).ok_or_else(unknown)?;
    let now_s = clock::unix_ms().div_euclid(1_000);
    let measured = Measured::read(&state.history, policy, &parsed, now_s).await;
    measured
        .map_err(|error| format!("No figures over time: {error}."))?
        .ok_or_else(unknown)
}

fn at(at_ms: i64) -> Moment {
    moment(&crate::alerts::instant(at_ms))
}

fn about(card: &Card) -> (Advised, &str) {
    (card_words::kind(card.advice.verdict), &card.key)
}

fn row(card: &Card) -> AdviceRow {
    AdviceRow {
        key: card.key.clone(),
        kind: card_words::kind(card.advice.verdict),
        now: card.advice.limit.to_string(),
        advised: card.advice.advised,
        class: card.class.as_str(),
        confidence: card_words::confidence(card.advice.evidence.confidence),
        card: card_words::in_words(card),
    }
}

fn found_row((measures, finding): (advice::Measures, crate::linter::Finding)) -> FoundRow {
    FoundRow {
        rule: finding.rule,
        severity: match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warn",
            Severity::Info => "info",
        },
        path: finding.path.to_string(),
        message: finding.message,
        measured: measures == advice::Measures::Traffic,
    }
}
