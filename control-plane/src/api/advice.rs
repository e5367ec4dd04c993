//! `GET /advice`, `/findings`, `/compartments/{key}/advice` and `/compartments/{key}/what-if`.
//!
//! Separate because these are opinions with evidence, not figures. Nothing here decides a number:
//! the pages show the same cards.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::Policy;
use compartment::{Key, Level, Limit};
use serde_json::{Value as Json, json};

use super::Problem;
use super::input;
use crate::advice::{self, Card, Measured};
use crate::clock;
use crate::rollout::Published;
use crate::state::AppState;

const LIMIT_RULE: &str = "a whole number from 0 to 1000000, or unlimited";

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
    let limit = match text.as_str() {
        "unlimited" => Some(Limit::UNLIMITED),
        text => text.parse().ok().and_then(|slots| Limit::new(slots).ok()),
    };
    let limit = limit.ok_or_else(|| {
        let value = wire::stream::bounded_text(text, 80);
        Problem::bad_request(format!("query parameter limit = {value:?}: {LIMIT_RULE}"))
    })?;
    let (current, measured) = measured(&state, &key).await?;
    let policy = current.policy.as_ref();
    let more = [
        ("key", json!(key)),
        ("generation", json!(current.about.number)),
        (
            "sum",
            policy.map_or(Json::Null, |policy| sum(policy, &key, limit)),
        ),
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
        "advised": capacity.map(|capacity| advised(&listed.cards, capacity)),
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

/// The limits that the routes' traffic asks for, together, beside the capacity (P15).
fn advised(cards: &[Card], capacity: u32) -> Json {
    let routes = cards.iter().filter(|card| card.level == Level::Route);
    let known: Vec<u32> = routes
        .clone()
        .filter_map(|card| card.advice.advised)
        .collect();
    let sum: u64 = known.iter().map(|slots| u64::from(*slots)).sum();
    let without = routes.count().saturating_sub(known.len());
    let word = if sum <= u64::from(capacity) {
        "fit into"
    } else {
        "exceed"
    };
    json!({
        "routes": known.len(),
        "routes_without_advice": without,
        "slots": sum,
        "capacity": capacity,
        "fits": sum <= u64::from(capacity),
        "because": format!(
            "{sum} advised slots of {} routes {word} capacity {capacity}",
            known.len(),
        ),
    })
}

/// The guarantees with this limit as one of them, beside the capacity.
fn sum(policy: &Policy, key: &str, limit: Limit) -> Json {
    let Ok(Key::Route(id)) = key.parse::<Key>() else {
        return Json::Null;
    };
    let reserved = policy.routes.iter().map(|route| {
        // A guarantee that follows its limit follows this one too.
        let own = &route.compartment;
        let follows = route.id == id && Some(own.reserved) == own.limit.slots();
        let slots = if follows {
            limit.slots().unwrap_or(0)
        } else {
            own.reserved
        };
        u64::from(slots)
    });
    let (sum, capacity) = (reserved.sum::<u64>(), u64::from(policy.gateway.capacity));
    json!({"guaranteed": sum, "capacity": capacity, "fits": sum <= capacity})
}
