//! `GET /advice`, `/findings`, `/compartments/{key}/advice` and `/compartments/{key}/what-if`.
//!
//! Separate because these are opinions with evidence, not figures. Nothing here decides a number:
//! the pages show the same cards.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::Key;
use serde::Serialize;
use utoipa::ToSchema;

use super::Problem;
use super::call::{Call, Kind};
use super::input;
use super::input::Path;
use super::policy::FindingRow;
use crate::access::VIEWER;
use crate::advice::sums::{self, AdvisedSum, GuaranteedSum, LIMIT_RULE, asked_limit};
use crate::advice::{self, Card, Measured, Measures, WhatIf};
use crate::clock;
use crate::rollout::Published;
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/compartments/{key}/advice", VIEWER, one)
            .says("getAdvice", "The limit that the measured traffic asks for")
            .details(
                "Rule of thumb and loss formula with their arithmetic, what they rest on, what is \
                 left out. Worked out when asked. Without enough evidence `advised` is null and \
                 the verdict says so.",
            )
            .answers::<OneCard>("The card"),
        Call::get("/compartments/{key}/what-if", VIEWER, asked)
            .says(
                "getWhatIf",
                "What another limit would do to the measured traffic",
            )
            .query(
                "limit",
                Kind::Text(0),
                "A whole number from 0 to 1000000, or `unlimited`.",
            )
            .required()
            .answers::<Asked>("What it would do"),
        Call::get("/advice", VIEWER, list)
            .says("listAdvice", "Every card, worked out once a minute")
            .answers::<AdviceList>(
                "The cards of the ceiling, the upstreams, the routes and their streams",
            ),
        Call::get("/findings", VIEWER, findings)
            .says(
                "listFindings",
                "What the rules say of the policy, and what they say with measured figures",
            )
            .answers::<FindingList>("The findings"),
    ]
}

/// One card.
#[derive(Serialize, ToSchema)]
#[schema(as = OneAdvice)]
struct OneCard {
    #[serde(flatten)]
    card: Card,
    /// The newest generation.
    generation: u64,
    /// Gateways that report, of those that are known: `3 of 4`.
    reporting: String,
}

/// What another limit would do.
#[derive(Serialize, ToSchema)]
#[schema(as = WhatIf)]
struct Asked {
    /// The compartment.
    key: String,
    #[serde(flatten)]
    answer: WhatIf,
    /// The newest generation.
    generation: u64,
    /// Of a route: the guarantees of all routes, with this limit as its.
    #[schema(required)]
    sum: Option<GuaranteedSum>,
}

/// Every card.
#[derive(Serialize, ToSchema)]
struct AdviceList {
    /// The newest generation.
    generation: u64,
    /// Gateways that report, of those that are known: `3 of 4`.
    reporting: String,
    /// When, in UTC; null before the first time.
    #[schema(required)]
    worked_out_at: Option<String>,
    /// What the advised limits come to.
    #[schema(required)]
    advised: Option<AdvisedSum>,
    advice: Vec<Card>,
}

/// Every finding.
#[derive(Serialize, ToSchema)]
struct FindingList {
    /// The newest generation.
    generation: u64,
    /// When the figures were worked out, in UTC; null before the first time.
    #[schema(required)]
    worked_out_at: Option<String>,
    findings: Vec<FoundFrom>,
}

/// A finding, and what it rests on.
#[derive(Serialize, ToSchema)]
struct FoundFrom {
    #[serde(flatten)]
    finding: FindingRow,
    from: Measures,
}

/// The card of one compartment, worked out now.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let (current, measured) = measured(&state, &key).await?;
    Ok(axum::Json(OneCard {
        card: measured.card(),
        generation: current.about.number,
        reporting: state.reporting_text(),
    })
    .into_response())
}

/// What another limit would do.
pub(super) async fn asked(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["limit"])?;
    let Some((_, text)) = pairs.iter().find(|(name, _)| name == "limit") else {
        return Err(Problem::parameter("limit", None, LIMIT_RULE));
    };
    let wrong = || Problem::parameter("limit", Some(text), LIMIT_RULE);
    let limit = asked_limit(text).ok_or_else(wrong)?;
    let (current, measured) = measured(&state, &key).await?;
    let policy = current.policy.as_ref().ok();
    let sum = policy.zip(key.parse::<Key>().ok());
    let sum = sum.and_then(|(policy, key)| sums::guaranteed(policy, &key, limit));
    Ok(axum::Json(Asked {
        key,
        answer: measured.what_if(limit),
        generation: current.about.number,
        sum,
    })
    .into_response())
}

/// Every card, as they were last worked out.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let listed = state.advice.listed();
    let capacity = current
        .policy
        .as_ref()
        .ok()
        .map(|policy| policy.gateway.capacity);
    Ok(axum::Json(AdviceList {
        generation: current.about.number,
        reporting: state.reporting_text(),
        worked_out_at: listed.at_ms.map(super::series::moment),
        advised: capacity.map(|capacity| sums::advised(&listed.cards, capacity)),
        advice: listed.cards.to_vec(),
    })
    .into_response())
}

/// What the rules say of the policy, and what they say of it with measured figures.
pub(super) async fn findings(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let listed = state.advice.listed();
    let found = match &current.policy {
        Ok(policy) => advice::findings(policy, &listed.cards),
        Err(_) => Vec::new(),
    };
    let row = |(from, finding): &(Measures, crate::linter::Finding)| FoundFrom {
        finding: finding.into(),
        from: *from,
    };
    Ok(axum::Json(FindingList {
        generation: current.about.number,
        worked_out_at: listed.at_ms.map(super::series::moment),
        findings: found.iter().map(row).collect(),
    })
    .into_response())
}

async fn measured(
    state: &AppState,
    key: &str,
) -> Result<(std::sync::Arc<Published>, Measured), Problem> {
    let current = state.policy_current().await;
    let unknown = || {
        let key = wire::stream::bounded_text(key, 100);
        Problem::not_found(format!(
            "the policy gives no limit to a compartment {key:?}"
        ))
    };
    let parsed: Key = key.parse().map_err(|_| unknown())?;
    let policy = current.policy.as_ref().map_err(|_| unknown())?;
    let now_s = clock::unix_ms().div_euclid(1_000);
    let measured = Measured::read(&state.history, policy, &parsed, now_s).await?;
    let measured = measured.ok_or_else(unknown)?;
    Ok((current, measured))
}
