//! `GET /welcome` and its forms: the first upstream, route and tenant, each one normal change.
//!
//! Separate because it is for somebody new. Where they stand the policy says; it must never keep a
//! state of its own, nor lose what was typed.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::policy::{Fault, Identifier, Path, Value};
use compartment::{Key, Name};
use http::StatusCode;
use serde::Deserialize;
use web::{Arrived, Template as _, Typed, WelcomePage};

use super::edit::form;
use super::frame::Asked;
use super::readings::Snapshot;
use super::tenant::shown;
use super::tenant_form::number;
use super::{PageError, html, see_other};
use crate::auth;
use crate::clock;
use crate::limits::{Accepted, Author, LimitsError};
use crate::state::AppState;
use crate::tenants::{self, AskedKey, KeyError, Told};

/// The header that keys come in, where the policy does not look for keys yet.
const KEY_HEADER: &str = "x-api-key";
/// What callers without a key share, where they share something.
const UNKNOWN_LIMIT: i128 = 5;
/// Names that a step lists.
const NAMES_MAX: usize = 5;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    fragment: String,
    tenants: String,
    made: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    let shown = async {
        let mut page = page(&state, &asked, &view).await;
        page.made = state
            .made_keys
            .take(&asked.person, &view.made, clock::now());
        Ok::<_, PageError>(match view.fragment.as_str() {
            "live" => page.fragment()?,
            _ => page.render()?,
        })
    };
    match shown.await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/welcome".to_owned())),
    }
}

async fn page(state: &AppState, asked: &Asked, view: &View) -> WelcomePage {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let skips_tenants = view.tenants == "none";
    let here = match skips_tenants {
        true => "/welcome?tenants=none",
        false => "/welcome",
    };
    let mut page = WelcomePage {
        frame: asked.frame(&current, &snapshot, here.to_owned()),
        upstreams: Vec::new(),
        routes: Vec::new(),
        tenants: Vec::new(),
        key_header: None,
        identifies: false,
        skips_tenants,
        typed: Typed::default(),
        made: None,
        arrived: None,
    };
    let Ok(policy) = &current.policy else {
        return page;
    };
    let upstreams = policy.upstreams.iter().map(|one| one.id.to_string());
    page.upstreams = upstreams.take(NAMES_MAX).collect();
    let routes = policy.routes.iter();
    let routes = routes.map(|one| (one.id.to_string(), one.path.text().to_owned()));
    page.routes = routes.take(NAMES_MAX).collect();
    let names = policy.tenants.iter().map(|one| one.id.to_string());
    page.tenants = names.take(NAMES_MAX).collect();
    page.identifies = policy.identify.is_some();
    let mut by = policy.identify.iter().flat_map(|identify| &identify.by);
    page.key_header = by.find_map(|by| match by {
        Identifier::ApiKey { header } => Some(header.clone()),
        Identifier::Host | Identifier::PathSegment { .. } | Identifier::Header { .. } => None,
    });
    let shown = policy.routes.iter().take(NAMES_MAX).next_back();
    page.arrived = shown.and_then(|route| {
        let key = Key::Route(route.id.clone()).to_string();
        let sums = Told::of(state).sums(&key, route.compartment.limit)?;
        let reasons = sums.rejected.iter();
        let reasons = reasons.map(|(reason, n)| format!("{n} {}", reason.as_str()));
        Some(Arrived {
            arrived: sums.arrived,
            admitted: sums.admitted,
            refused: reasons.collect::<Vec<_>>().join(", "),
        })
    });
    page
}

/// The pairs of a form.
type Pairs = Vec<(String, String)>;

/// Why a step is not done: at fields, or for all of it.
type Errors = Vec<(String, String)>;

/// One step on its way: what is to stand where, and which places are whose field's.
struct Step {
    sets: Vec<(Path, Value)>,
    fields: Vec<(String, &'static str)>,
    comment: &'static str,
}

fn value<'a>(pairs: &'a Pairs, name: &str) -> &'a str {
    let mut own = pairs.iter().filter(|(field, _)| field == name);
    own.next().map_or("", |(_, text)| text.trim())
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn table(fields: Vec<(&str, Value)>) -> Value {
    let fields = fields.into_iter();
    Value::Table(
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

fn name(pairs: &Pairs) -> Result<&str, Errors> {
    let id = value(pairs, "id");
    let checked = Name::new(id);
    checked.map_err(|rule| vec![("id".to_owned(), rule.to_string())])?;
    Ok(id)
}

/// Makes the step on top of the newest policy; what is wrong comes back by field.
async fn take(
    state: &AppState,
    step: Step,
    author: &Author,
) -> Result<Result<Accepted, Errors>, PageError> {
    let current = state.policy_current().await;
    let mut document = current.document.clone();
    for (path, value) in step.sets {
        let is_there = document.at(&path).is_some();
        if is_there && path.steps().len() > 1 {
            let words = "there is one of this name already".to_owned();
            return Ok(Err(vec![("id".to_owned(), words)]));
        }
        if !document.set(&path, value) {
            let words = format!("{path} of the policy is something else");
            return Ok(Err(vec![(String::new(), words)]));
        }
    }
    let seen = current.about.number;
    let stored = state
        .limits
        .put(document, seen, false, step.comment, author);
    match stored.await {
        Ok(accepted) => Ok(Ok(accepted)),
        Err(LimitsError::Invalid { faults }) => Ok(Err(faults
            .iter()
            .map(|fault| of_field(fault, &step.fields))
            .collect())),
        Err(error @ LimitsError::MovedOn { .. }) => {
            let words = format!("{error}. Nothing was stored; send it again.");
            Ok(Err(vec![(String::new(), words)]))
        }
        Err(error) => Err(PageError::Limits(error)),
    }
}

fn of_field(fault: &Fault, fields: &[(String, &'static str)]) -> (String, String) {
    let pointer = fault.path.pointer();
    let own = fields
        .iter()
        .find(|(below, _)| pointer.starts_with(below.as_str()));
    match own {
        Some((_, field)) => {
            let value = match fault.value.as_str() {
                "" => String::new(),
                value => format!("{value}: "),
            };
            ((*field).to_owned(), format!("{value}{}", fault.rule))
        }
        None => (String::new(), fault.to_string()),
    }
}

/// The page again with what was typed, or on.
async fn answer(
    state: &AppState,
    asked: &Asked,
    pairs: Pairs,
    done: Result<Result<String, Errors>, PageError>,
) -> Response {
    let errors = match done {
        Ok(Ok(place)) => return see_other(&place),
        Ok(Err(errors)) => errors,
        Err(error) => return error.answer(&asked.request_id, Some("/welcome".to_owned())),
    };
    let mut page = page(state, asked, &View::default()).await;
    page.typed = Typed {
        values: pairs,
        errors,
    };
    match page.render() {
        Ok(body) => html(StatusCode::UNPROCESSABLE_ENTITY, body),
        Err(error) => PageError::from(error).answer(&asked.request_id, Some("/welcome".to_owned())),
    }
}

/// Adds an upstream.
pub(super) async fn upstream(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let pairs = match form::<Pairs>(request).await {
        Ok(pairs) => pairs,
        Err(error) => return error.answer(&asked.request_id, Some("/welcome".to_owned())),
    };
    let step = name(&pairs).map(|id| {
        let own = Path::root().key("upstreams").key(id);
        let below = own.pointer();
        let endpoints = Value::Array(vec![text(value(&pairs, "endpoint"))]);
        let fields = vec![
            ("endpoints", endpoints),
            ("limit", number(value(&pairs, "limit"))),
        ];
        Step {
            sets: vec![(own, table(fields))],
            fields: vec![
                (format!("{below}/endpoints"), "endpoint"),
                (format!("{below}/limit"), "limit"),
            ],
            comment: "first steps: an upstream",
        }
    });
    let done = go(&state, step, "/welcome", &author).await;
    answer(&state, &asked, pairs, done).await
}

async fn go(
    state: &AppState,
    step: Result<Step, Errors>,
    place: &str,
    author: &Author,
) -> Result<Result<String, Errors>, PageError> {
    match step {
        Ok(step) => {
            let taken = take(state, step, author).await?;
            let next = |taken: Accepted| taken.opened().map(web::url::change);
            Ok(taken.map(|taken| next(taken).unwrap_or_else(|| place.to_owned())))
        }
        Err(errors) => Ok(Err(errors)),
    }
}

/// Adds a route.
pub(super) async fn route(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let pairs = match form::<Pairs>(request).await {
        Ok(pairs) => pairs,
        Err(error) => return error.answer(&asked.request_id, Some("/welcome".to_owned())),
    };
    let current = state.policy_current().await;
    let routes = match current.document.get("routes") {
        Some(Value::Array(routes)) => routes.clone(),
        _ => Vec::new(),
    };
    let step = name(&pairs).map(|id| {
        let list = Path::root().key("routes");
        let below = list.index(routes.len()).pointer();
        let compartment = table(vec![("limit", number(value(&pairs, "limit")))]);
        let route = table(vec![
            ("id", text(id)),
            ("path", text(value(&pairs, "path"))),
            ("upstream", text(value(&pairs, "upstream"))),
            ("compartment", compartment),
        ]);
        let mut routes = routes;
        routes.push(route);
        Step {
            sets: vec![(list, Value::Array(routes))],
            fields: vec![
                (format!("{below}/id"), "id"),
                (format!("{below}/path"), "path"),
                (format!("{below}/upstream"), "upstream"),
                (format!("{below}/compartment"), "limit"),
            ],
            comment: "first steps: a route",
        }
    });
    let done = go(&state, step, "/welcome", &author).await;
    answer(&state, &asked, pairs, done).await
}

/// Adds a tenant with a key.
pub(super) async fn tenant(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let pairs = match form::<Pairs>(request).await {
        Ok(pairs) => pairs,
        Err(error) => return error.answer(&asked.request_id, Some("/welcome".to_owned())),
    };
    let done = add_tenant(&state, &pairs, &author).await;
    answer(&state, &asked, pairs, done).await
}

async fn add_tenant(
    state: &AppState,
    pairs: &Pairs,
    author: &Author,
) -> Result<Result<String, Errors>, PageError> {
    let id = match name(pairs) {
        Ok(id) => id,
        Err(errors) => return Ok(Err(errors)),
    };
    let made = match tenants::make(&AskedKey::default(), clock::timestamp()) {
        Ok(made) => made,
        Err(KeyError::Random(error)) => return Err(PageError::Session(error)),
        Err(error @ KeyError::Field { .. }) => {
            return Ok(Err(vec![(String::new(), error.to_string())]));
        }
    };
    let kept = &made.kept;
    let note = table(vec![
        ("ending", text(&kept.ending)),
        ("created", text(&kept.created)),
    ]);
    let own = Path::root().key("tenants").key(id);
    let below = own.pointer();
    let fields = vec![
        ("limit", number(value(pairs, "limit"))),
        ("api_keys", Value::Array(vec![text(&kept.digest)])),
        ("keys", Value::Table(vec![(kept.id(), note)])),
    ];
    let mut sets = vec![(own, table(fields))];
    let current = state.policy_current().await;
    if current.document.get("identify").is_none() {
        sets.push((
            Path::root().key("identify"),
            identify(value(pairs, "unknown")),
        ));
    }
    let step = Step {
        sets,
        fields: vec![(format!("{below}/limit"), "limit"), (below, "id")],
        comment: "first steps: a tenant with a key",
    };
    if let Err(errors) = take(state, step, author).await? {
        return Ok(Err(errors));
    }
    let ticket =
        state
            .made_keys
            .put(&author.person, (id.to_owned(), shown(&made)), clock::now())?;
    Ok(Ok(format!("/welcome?made={}", ticket.expose())))
}

/// Keys in a header; strangers as somebody chose.
fn identify(unknown: &str) -> Value {
    let by_key = table(vec![("api_key", table(vec![("header", text(KEY_HEADER))]))]);
    let mut fields = vec![("by", Value::Array(vec![by_key]))];
    match unknown {
        "shared" => {
            fields.push(("unknown", text("shared")));
            fields.push(("unknown_limit", Value::Integer(UNKNOWN_LIMIT)));
        }
        _ => fields.push(("unknown", text("reject"))),
    }
    table(fields)
}
