//! `GET` and `POST /changes`, one of them, and its steps.
//!
//! Separate because these speak of what is not in force yet, or need not stay. Handlers read input;
//! which step may follow which is decided where they are taken.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use super::Problem;
use super::call::{Call, Kind};
use super::changes_asked::{Asked, Proposal, Publishing, Rebasing, Said, Staging, no_edit};
use super::changes_told::{Whole, answer, etag, location, made};
use super::input::{self, DOCUMENT_BYTES_MAX, Path, Seen};
use crate::access::{APPROVER, OPERATOR, VIEWER};
use crate::auth;
use crate::changes::{Change, ChangeError, State as Becomes, Step};
use crate::limits::Author;
use crate::state::AppState;

/// How many are listed unless the caller says.
const PAGE: u32 = 100;
/// Most in one answer.
const PAGE_MAX: u32 = 500;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    let count = Kind::Within(1, PAGE_MAX.into(), PAGE.into());
    let mut all = vec![
        Call::get("/changes", VIEWER, list)
            .says("listChanges", "Changes of the policy, newest first")
            .query("before", Kind::From(1), "Continue below this number.")
            .query("count", count, "How many.")
            .query("state", Kind::OneOf(&STATES), "Only those in this state.")
            .lists::<Change>("A page of them"),
        Call::post("/changes", OPERATOR, open)
            .says("openChange", "Propose a change")
            .details(
                "A whole document, or fields of compartments. Nothing is in force before it is \
                 published. `If-Match` names the generation that was edited.",
            )
            .header("If-Match", "Refuse when this generation is not the newest.")
            .takes::<Proposal>(r#"{"compartments": {"route/a": {"limit": 80}}, "comment": "why"}"#)
            .creates::<Change>("The change"),
        Call::get("/changes/{number}", VIEWER, one)
            .says("getChange", "One change with what belongs beside it")
            .answers::<Whole>("The change")
            .may(StatusCode::CONFLICT, "Its document is kept no more"),
        Call::patch("/changes/{number}", OPERATOR, edit)
            .says("editChange", "Propose something else")
            .details("Whatever was agreed to is void.")
            .header("If-Match", SEEN)
            .takes::<Proposal>(r#"{"compartments": {"route/a": {"limit": 80}}}"#)
            .answers::<Change>("The change"),
    ];
    all.extend(step_calls());
    all
}

const SEEN: &str = "The version of the change that was seen: refuse when it moved on.";
const STATES: [&str; 7] = [
    "draft",
    "approved",
    "staged",
    "published",
    "kept",
    "reverted",
    "abandoned",
];

fn step_calls() -> Vec<Call> {
    let said = |call: Call| {
        call.header("If-Match", SEEN)
            .answers::<Change>("The change after the step")
            .may(
                StatusCode::CONFLICT,
                "It cannot follow; `state` says what the change is",
            )
    };
    vec![
        said(Call::post("/changes/{number}/approve", APPROVER, approve))
            .says("approveChange", "Agree to another person's change")
            .takes::<Said>(r#"{"comment": "fine"}"#),
        said(Call::post("/changes/{number}/stage", OPERATOR, stage))
            .says("stageChange", "Send it to one gateway, and to nobody else")
            .takes::<Staging>(r#"{"gateway": "gw-1"}"#),
        said(Call::post("/changes/{number}/publish", OPERATOR, publish))
            .says("publishChange", "Send it to everybody")
            .details(
                "On top of the newest generation. Where others changed the same values meanwhile: \
                 409 with both, in `clashes`.",
            )
            .takes::<Publishing>(r#"{"confirm_within": "5m", "guard_percent": 5}"#),
        said(Call::post("/changes/{number}/keep", OPERATOR, keep))
            .says("keepChange", "Keep it, whatever takes it back by itself")
            .takes::<Said>(r#"{"comment": "fine"}"#),
        said(Call::post("/changes/{number}/revert", OPERATOR, revert))
            .says(
                "revertChange",
                "Take back what it changed, in a new generation",
            )
            .takes::<Said>(r#"{"comment": "no better"}"#)
            .accepts::<Change>("Opened as a change of its own: it waits for a second person"),
        said(Call::post("/changes/{number}/abandon", OPERATOR, abandon))
            .says("abandonChange", "Let it go before it is published")
            .takes::<Said>(r#"{"comment": "not needed"}"#),
        said(Call::post("/changes/{number}/rebase", OPERATOR, rebase))
            .says("rebaseChange", "Put it on top of the newest generation")
            .takes::<Rebasing>(r#"{"prefer": "mine"}"#),
    ]
}

/// Changes, newest first; `before=N` continues where a list ended.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["before", "count", "state"])?;
    let before = input::place(&pairs, "before")?;
    let rule = format!("a whole number from 1 to {PAGE_MAX}");
    let count = input::parameter(&pairs, "count", &rule)?.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&count) {
        return Err(Problem::parameter("count", Some(&count.to_string()), &rule));
    }
    let wanted = match pairs.iter().find(|(name, _)| name == "state") {
        None => None,
        Some((_, text)) => Some(Becomes::from_name(text).ok_or_else(|| {
            let names = Becomes::ALL.map(Becomes::as_str).join(", ");
            let text = wire::stream::bounded_text(text, 80);
            Problem::parameter("state", Some(&text), &format!("one of {names}"))
        })?),
    };
    let changes = state.changes.list(before, wanted, count).await?;
    Ok(axum::Json(changes).into_response())
}

/// Opens a change: a document, or fields of compartments.
pub(super) async fn open(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let seen = version(&head.headers)?;
    let body = input::json(Request::from_parts(head, body), DOCUMENT_BYTES_MAX).await?;
    let asked = Asked::of(body.value, &["document", "compartments"])?;
    let edit = asked.edit.ok_or_else(no_edit)?;
    let change = state
        .changes
        .propose(edit, &asked.comment, seen, &author)
        .await?;
    Ok(made(&change))
}

/// One change with what belongs beside it.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let shown = state.change_shown(parse(&number)?).await?;
    let etag = etag(&shown.change);
    Ok(([(header::ETAG, etag)], axum::Json(Whole::of(shown))).into_response())
}

/// Makes it propose something else; approvals are void.
pub(super) async fn edit(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let seen = version(&head.headers)?;
    let body = input::json(Request::from_parts(head, body), DOCUMENT_BYTES_MAX).await?;
    let asked = Asked::of(body.value, &["document", "compartments"])?;
    let edit = asked.edit.ok_or_else(no_edit)?;
    let changes = &state.changes;
    let change = changes.edit(parse(&number)?, seen, edit, &asked.comment, &author);
    Ok(answer(&change.await?))
}

macro_rules! steps {
    ($($(#[$about:meta])* $name:ident = $step:expr, $takes:expr;)+) => {
        $($(#[$about])*
        pub(super) async fn $name(
            State(state): State<AppState>,
            Path(number): Path<String>,
            request: Request,
        ) -> Result<Response, Problem> {
            step(&state, &number, $step, $takes, request).await
        })+
    };
}

steps! {
    /// A second person agrees to what it is.
    approve = Step::Approve, &[];
    /// One gateway gets it.
    stage = Step::Stage, &["gateway"];
    /// Everybody gets it.
    publish = Step::Publish, &["confirm_within", "guard_percent", "watch_for"];
    /// It stays, whatever its watch says.
    keep = Step::Keep, &[];
    /// What it changed is taken back.
    revert = Step::Revert, &[];
    /// It does not come.
    abandon = Step::Abandon, &[];
    /// It comes on top of the newest generation.
    rebase = Step::Rebase, &["prefer"];
}

async fn step(
    state: &AppState,
    number: &str,
    step: Step,
    takes: &[&str],
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let seen = version(&head.headers)?;
    let body = input::optional_json(Request::from_parts(head, body)).await?;
    let asked = Asked::of(body, takes)?;
    let number = parse(number)?;
    let change = take(state, number, step, seen, asked, &author).await?;
    let mut response = answer(&change);
    if change.number != number {
        // It is opened, and waits for a second person.
        *response.status_mut() = StatusCode::ACCEPTED;
        let location = location(change.number);
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn take(
    state: &AppState,
    number: u64,
    step: Step,
    seen: Option<u64>,
    asked: Asked,
    author: &Author,
) -> Result<Change, Problem> {
    let (changes, comment) = (&state.changes, asked.comment.as_str());
    let change = match step {
        Step::Approve => changes.approve(number, seen, comment, author).await,
        Step::Stage => {
            let gateway = asked.gateway.unwrap_or_default();
            let known = |one: &crate::fleet::GatewayView| one.connected && one.id == gateway;
            if !state.gateways().iter().any(known) {
                return Err(ChangeError::NoGateway(gateway).into());
            }
            changes.stage(number, seen, &gateway, comment, author).await
        }
        Step::Publish => {
            changes
                .publish(number, seen, asked.terms, comment, author)
                .await
        }
        Step::Rebase => changes.rebase(number, seen, asked.prefer, author).await,
        Step::Keep => changes.keep(number, seen, comment, author).await,
        Step::Revert => changes.revert(number, seen, comment, author).await,
        Step::Edit | Step::Abandon => changes.abandon(number, seen, comment, author).await,
    };
    Ok(change?)
}

/// The version that the caller saw, if it says so.
fn version(headers: &http::HeaderMap) -> Result<Option<u64>, Problem> {
    Ok(match input::if_match(headers)? {
        Seen::Generation(version) => Some(version),
        Seen::Nothing => None,
    })
}

fn parse(number: &str) -> Result<u64, Problem> {
    let unknown = |_| {
        let number = wire::stream::bounded_text(number, 40);
        Problem::not_found(format!("there is no change {number:?}"))
    };
    number.parse().map_err(unknown)
}
