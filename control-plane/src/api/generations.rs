//! `GET /generations`, one of them, the difference of two, `POST …/restore` and `…/try-again`,
//! and what became of an operation.
//!
//! Separate because these speak of the past. No policy may be stored here but by restore, which
//! goes through the write path like every change.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::Value;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Problem;
use super::call::{Call, Kind};
use super::input;
use super::input::Path;
use super::policy::{PolicyDocument, answer};
use super::problem::{DifferenceRow, rows};
use crate::access::{OPERATOR, VIEWER};
use crate::auth;
use crate::limits::{self, DIFFERENCES_MAX};
use crate::rollout::Halt;
use crate::state::AppState;
use crate::store::{GENERATIONS_PAGE_MAX, Generation, Store, StoreError, Stored};

/// How many are listed unless the caller says.
const PAGE: u32 = 100;

/// Of a generation of which only the row is left.
const NOT_KEPT: &str = "Its document is no longer kept; that of the newest 1,000 and of the last \
                        90 days is";

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    let count = Kind::Within(1, GENERATIONS_PAGE_MAX.into(), PAGE.into());
    vec![
        Call::get("/generations", VIEWER, list)
            .says("getGenerations", "The history, newest first")
            .query("before", Kind::From(1), "Continue below this number.")
            .query("count", count, "How many.")
            .lists::<Listed>("Generations without their documents"),
        Call::get("/generations/{number}", VIEWER, one)
            .says("getGeneration", "One generation with its document")
            .answers::<Whole>("The generation")
            .may(StatusCode::GONE, NOT_KEPT),
        Call::get("/generations/{number}/diff", VIEWER, diff)
            .says("diffGenerations", "What differs between two generations")
            .query(
                "against",
                Kind::From(0),
                "The older one; default: the one before. 0 is the empty document.",
            )
            .answers::<Diff<'_>>("Differences, at most 200")
            .may(StatusCode::GONE, NOT_KEPT),
        Call::post("/generations/{number}/restore", OPERATOR, restore)
            .says(
                "restoreGeneration",
                "A new generation with this one's document",
            )
            .writes_policy()
            .may(StatusCode::GONE, NOT_KEPT)
            .may(
                StatusCode::UNPROCESSABLE_ENTITY,
                "The document breaks a rule of this build; nothing was stored",
            ),
        Call::post("/generations/{number}/try-again", OPERATOR, try_again)
            .says(
                "tryGenerationAgain",
                "Lets gateways try a halted generation once more, one first",
            )
            .answers::<Tried>("It is tried")
            .may(StatusCode::CONFLICT, "It is not the newest, or not halted"),
        Call::get("/operations/{operation}", VIEWER, operation)
            .says(
                "getOperation",
                "What became of a change whose outcome was not known when it was answered",
            )
            .segment(
                "operation",
                Kind::Text(0),
                "As the answer `outcome-unknown` named it.",
            )
            .answers::<Operation>("It was stored"),
    ]
}

/// A generation with its document.
#[derive(Serialize, ToSchema)]
#[schema(as = GenerationWithDocument)]
struct Whole {
    #[serde(flatten)]
    about: Generation,
    #[schema(value_type = PolicyDocument)]
    document: Box<serde_json::value::RawValue>,
}

/// What differs between two generations.
#[derive(Serialize, ToSchema)]
struct Diff<'a> {
    /// The newer one.
    generation: u64,
    /// The older one.
    against: u64,
    differences: Vec<DifferenceRow<'a>>,
    /// How many are not listed.
    more: usize,
}

/// A generation that is tried once more.
#[derive(Serialize, ToSchema)]
struct Tried {
    generation: u64,
}

/// Generations, newest first; `before=N` continues where a list ended.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["before", "count"])?;
    let before = input::place(&pairs, "before")?;
    let rule = format!("a whole number from 1 to {GENERATIONS_PAGE_MAX}");
    let count = input::parameter(&pairs, "count", &rule)?.unwrap_or(PAGE);
    if !(1..=GENERATIONS_PAGE_MAX).contains(&count) {
        return Err(Problem::parameter("count", Some(&count.to_string()), &rule));
    }
    let generations = state.store.generations(before, count).await?;
    let halts = state.rollout.halts().await?;
    let listed = |about: Generation| {
        let halted = halts.iter().find(|halt| halt.generation == about.number);
        let halted = halted.cloned();
        Listed { about, halted }
    };
    let generations: Vec<_> = generations.into_iter().map(listed).collect();
    Ok(axum::Json(generations).into_response())
}

/// A generation in the list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedGeneration)]
struct Listed {
    #[serde(flatten)]
    about: Generation,
    /// Who refused it, why and since when: it is sent to nobody. Null for one that is not halted.
    #[schema(required)]
    halted: Option<Halt>,
}

/// One generation with its document.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let stored = stored(&state.store, parse(&number)?).await?;
    // The document is JSON as it is stored; reading it only to write it again costs seconds for a
    // large one.
    let document = serde_json::value::RawValue::from_string(stored.document);
    let document = document.map_err(|_| StoreError::Row("generations"))?;
    let about = stored.about;
    Ok(axum::Json(Whole { about, document }).into_response())
}

/// What differs between generation `against` (default: the one before) and this one.
pub(super) async fn diff(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["against"])?;
    let number = parse(&number)?;
    let against = input::parameter(&pairs, "against", "the number of a generation")?;
    let against: u64 = match against {
        Some(against) => against,
        // What was staged on one gateway came before nothing but itself.
        None => state.store.newest_before(number).await?,
    };
    let new = document(&state.store, number).await?;
    // The first generation follows nothing, which differs in everything.
    let old = match against {
        0 => Value::Table(Vec::new()),
        against => document(&state.store, against).await?,
    };
    let work = move || wire::document::diff(&old, &new);
    let mut differences = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?;
    let more = differences.len().saturating_sub(DIFFERENCES_MAX);
    differences.truncate(DIFFERENCES_MAX);
    Ok(axum::Json(Diff {
        generation: number,
        against,
        differences: rows(&differences),
        more,
    })
    .into_response())
}

/// A new generation with this one's document.
pub(super) async fn restore(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    let write = input::write(&head, &[])?;
    let author = auth::author(&head.extensions);
    input::empty(Request::from_parts(head, body)).await?;
    let restored = state
        .limits
        .restore(parse(&number)?, write.seen, write.dry_run, &author);
    let accepted = restored.await?;
    Ok(answer(&accepted))
}

/// Lets gateways try a halted generation once more, one first.
pub(super) async fn try_again(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    input::empty(Request::from_parts(head, body)).await?;
    let number = parse(&number)?;
    if !state.rollout.try_again(number, &author).await? {
        let newest = state.rollout.current().about.number;
        let detail = match number == newest {
            true => format!("generation {number} is not halted"),
            false => format!("only the newest generation, {newest}, could be sent once more"),
        };
        return Err(Problem::new(StatusCode::CONFLICT, "not-halted", detail));
    }
    Ok(axum::Json(Tried { generation: number }).into_response())
}

/// What became of a change whose outcome was not known when it was answered.
pub(super) async fn operation(
    State(state): State<AppState>,
    Path(operation): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let row = match operation.parse::<uuid::Uuid>() {
        Ok(id) => state.store.operation(&id.to_string()).await?,
        Err(_) => None,
    };
    let none = || {
        let operation = wire::stream::bounded_text(&operation, 40);
        Problem::not_found(format!("no change was stored under {operation:?}"))
    };
    let row = row.ok_or_else(none)?;
    let told = Operation {
        operation,
        generation: row.generation_after,
        action: row.action,
        subject: row.subject,
    };
    Ok(axum::Json(told).into_response())
}

/// A change that was stored.
#[derive(Serialize, ToSchema)]
struct Operation {
    /// As the answer `outcome-unknown` named it.
    operation: String,
    /// The generation that it made, or the newest one when it made none.
    generation: u64,
    /// What was done: `patch`, `token-create`, …
    action: String,
    /// What it is about: `policy`, `gateway:edge-1`, …
    subject: String,
}

fn parse(number: &str) -> Result<u64, Problem> {
    let unknown = |_| {
        let number = wire::stream::bounded_text(number, 40);
        Problem::not_found(format!("there is no generation {number:?}"))
    };
    number.parse().map_err(unknown)
}

async fn stored(store: &Store, number: u64) -> Result<Stored, Problem> {
    let unknown = || Problem::not_found(format!("there is no generation {number}"));
    store.generation(number).await?.ok_or_else(unknown)
}

async fn document(store: &Store, number: u64) -> Result<Value, Problem> {
    Ok(limits::read(stored(store, number).await?.document).await?)
}
