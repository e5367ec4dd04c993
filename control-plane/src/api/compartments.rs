//! `GET /compartments`, `GET` and `PATCH /compartments/{key}`.
//!
//! Separate because these speak of single compartments: live figures out, a new limit in.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::{Policy, Value};
use compartment::{Key, Level, Limit};
use serde_json::{Map, Value as Json, json};

use super::input::Path;
use super::input::{self, CHANGE_BYTES_MAX, Seen};
use super::{Problem, around, policy};
use crate::auth;
use crate::fleet::FleetCompartment;
use crate::limits::{COMMENT_BYTES_MAX, Fields};
use crate::state::AppState;

/// Live figures of every compartment, over all gateways that report.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let figures = state.figures();
    let reporting = figures.reporting_text();
    let mut compartments: Vec<_> = figures
        .compartments
        .values()
        .map(|compartment| Json::Object(short(one_json(compartment))))
        .collect();
    // What the policy names and nobody reports is listed without figures, never with zeros.
    if let Ok(policy) = &current.policy {
        let silent = configured(policy).filter(|c| !figures.compartments.contains_key(&c.key));
        compartments.extend(silent.map(|configured| Json::Object(configured.json())));
    }
    Ok(axum::Json(json!({
        "generation": current.about.number,
        "reporting": reporting,
        "compartments": compartments,
    }))
    .into_response())
}

/// Live figures of one compartment.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let figures = state.figures_of(&key);
    let mut body = match figures.compartments.get(&key) {
        Some(compartment) => one_json(compartment),
        None => {
            let known = current.policy.as_ref().ok();
            let known = known.and_then(|policy| configured(policy).find(|c| c.key == key));
            let unknown = || {
                let key = wire::stream::bounded_text(&key, 100);
                Problem::not_found(format!("there is no compartment {key:?}"))
            };
            known.ok_or_else(unknown)?.json()
        }
    };
    body.insert("generation".to_owned(), json!(current.about.number));
    body.insert("reporting".to_owned(), json!(figures.reporting_text()));
    if let Some((policy, key)) = current.policy.as_ref().ok().zip(key.parse::<Key>().ok()) {
        body.extend(around::members(&state, &current, policy, &key));
    }
    Ok(axum::Json(Json::Object(body)).into_response())
}

/// Changes fields of one compartment.
pub(super) async fn change(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    let pairs = input::query(&head, &["dry_run"])?;
    let dry_run = input::parameter(&pairs, "dry_run", "true or false")?.unwrap_or(false);
    let seen = match input::if_match(&head.headers)? {
        Seen::Generation(generation) => Some(generation),
        Seen::Nothing => None,
    };
    let author = auth::author(&head.extensions);
    let body = input::json(Request::from_parts(head, body), CHANGE_BYTES_MAX).await?;
    let fields = fields(body.value)?;
    let accepted = state
        .limits
        .patch(&key, &fields, seen, dry_run, &author)
        .await?;
    Ok(policy::answer(&accepted))
}

fn fields(body: Value) -> Result<Fields, Problem> {
    let Value::Table(entries) = body else {
        return Err(Problem::invalid(
            "",
            "the body must be an object, e.g. {\"limit\": 80}",
        ));
    };
    let mut fields = Fields::default();
    for (name, value) in entries {
        match (name.as_str(), value) {
            ("comment", Value::String(text)) if text.len() <= COMMENT_BYTES_MAX => {
                fields.comment = text;
            }
            ("comment", _) => {
                let rule = format!("comment must be text of at most {COMMENT_BYTES_MAX} bytes");
                return Err(Problem::invalid("/comment", &rule));
            }
            (_, value) => fields.values.push((name, value)),
        }
    }
    Ok(fields)
}

fn one_json(compartment: &FleetCompartment) -> Map<String, Json> {
    let mut body = object(&compartment.total);
    let own = |(id, figures): &(std::sync::Arc<str>, _)| {
        let mut own = object(figures);
        own.insert("id".to_owned(), json!(&**id));
        Json::Object(own)
    };
    body.insert(
        "gateways".to_owned(),
        compartment.gateways.iter().map(own).collect(),
    );
    body
}

/// As a list has it: of endpoints the numbers, without each of them.
fn short(mut body: Map<String, Json>) -> Map<String, Json> {
    let cut = |object: &mut Map<String, Json>| {
        if let Some(Json::Object(endpoints)) = object.get_mut("endpoints") {
            endpoints.remove("list");
        }
    };
    cut(&mut body);
    if let Some(Json::Array(gateways)) = body.get_mut("gateways") {
        gateways
            .iter_mut()
            .filter_map(Json::as_object_mut)
            .for_each(cut);
    }
    body
}

fn object(figures: &compartment::Figures) -> Map<String, Json> {
    match serde_json::to_value(figures) {
        Ok(Json::Object(mut object)) => {
            object.insert("hold".to_owned(), around::times(&figures.hold));
            object.insert("wait".to_owned(), around::times(&figures.wait));
            object
        }
        _ => Map::new(),
    }
}

/// A compartment as the policy has it, without figures.
struct Configured {
    key: String,
    level: Level,
    limit: Limit,
    reserved: u32,
}

impl Configured {
    fn json(self) -> Map<String, Json> {
        let mut body = Map::new();
        body.insert("key".to_owned(), json!(self.key));
        body.insert("level".to_owned(), json!(self.level));
        body.insert("limit".to_owned(), json!(self.limit));
        body.insert("reserved".to_owned(), json!(self.reserved));
        body.insert("gateways".to_owned(), json!([]));
        body
    }
}

fn configured(policy: &Policy) -> impl Iterator<Item = Configured> {
    let plain = |key: Key, limit: Limit, reserved: u32| Configured {
        level: key.level(),
        key: key.to_string(),
        limit,
        reserved,
    };
    let capacity = Limit::new(policy.gateway.capacity).unwrap_or(Limit::UNLIMITED);
    let routes = policy.routes.iter().map(move |route| {
        let own = &route.compartment;
        plain(Key::Route(route.id.clone()), own.limit, own.reserved)
    });
    let streams = policy.routes.iter().filter_map(move |route| {
        let stream = route.compartment.stream?;
        Some(plain(Key::Stream(route.id.clone()), stream.limit, 0))
    });
    let fallbacks = policy.routes.iter().filter_map(move |route| {
        let limit = route.fallback_limit()?;
        Some(plain(Key::Fallback(route.id.clone()), limit, 0))
    });
    let upstreams = policy
        .upstreams
        .iter()
        .map(move |upstream| plain(Key::Upstream(upstream.id.clone()), upstream.limit, 0));
    let tenants = policy
        .tenants
        .iter()
        .map(move |tenant| plain(Key::Tenant(tenant.id.clone()), tenant.limit, 0));
    std::iter::once(plain(Key::Gateway, capacity, 0))
        .chain(routes)
        .chain(streams)
        .chain(fallbacks)
        .chain(upstreams)
        .chain(tenants)
}
