//! `GET /advice`, `/findings`, `/compartments/{key}/advice` and `/compartments/{key}/what-if`.
//!
//! Separate because these are opinions with evidence, not figures. Nothing here decides a number:
//! the pages show the same cards.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::Key;
use serde_json::{Value as Json, json};

use super::Problem;
use super::input;
use super::input::Path;
use crate::advice::sums::{self, LIMIT_RULE, asked_limit};
use crate::advice::{self, Measured};
use crate::clock;
use crate::rollout::Published;
use crate::state::AppState;

/// The card of one compartment, worked out now.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let (current, measured) = measured(&state, &key).await?;
    let more = [
        ("generation", json!(current.about.number)),
        ("reporting", json!(state.reporting_text())),
    ];
    Ok(axum::Json(with(json!(measured.card()), more)).into_response())
}

/// What another limit would do.
pub(super) async fn asked(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["limit"])?;
    let Some((_, text)) = pairs.iter().find(|(name, _)| name == "limit") else {
        return Err(Problem::bad_request(format!(
            "query parameter limit: {LIMIT_RULE}"
        )));
    };
    let limit = asked_limit(text).ok_or_else(|| {
        let value = wire::stream::bounded_text(text, 80);
        Problem::bad_request(format!("query parameter limit = {value:?}: {LIMIT_RULE}"))
    })?;
    let (current, measured) = measured(&state, &key).await?;
    let policy = current.policy.as_ref().ok();
    let sum = policy.zip(key.parse::<Key>().ok());
    let sum = sum.and_then(|(policy, key)| sums::guaranteed(policy, &key, limit));
    let more = [
        ("key", json!(key)),
        ("generation", json!(current.about.number)),
        ("sum", json!(sum)),
    ];
    Ok(axum::Json(with(json!(measured.what_if(limit)), more)).into_response())
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
    Ok(axum::Json(json!({
        "generation": current.about.number,
        "reporting": state.reporting_text(),
        "worked_out_at": listed.at_ms.map(super::series::moment),
        "advised": capacity.map(|capacity| sums::advised(&listed.cards, capacity)),
        "advice": listed.cards,
    }))
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
    let rows = found.iter().map(|(measures, finding)| {
        json!({
            "rule": finding.rule,
            "severity": finding.severity,
            "pointer": finding.path.pointer(),
            "path": finding.path.to_string(),
            "message": finding.message,
            "from": measures,
        })
    });
    Ok(axum::Json(json!({
        "generation": current.about.number,
        "worked_out_at": listed.at_ms.map(super::series::moment),
        "findings": rows.collect::<Vec<_>>(),
    }))
    .into_response())
}

/// An object with more fields.
fn with<const N: usize>(mut body: Json, more: [(&str, Json); N]) -> Json {
    if let Json::Object(fields) = &mut body {
        fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    body
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
