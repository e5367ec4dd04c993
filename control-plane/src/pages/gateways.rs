//! `GET /gateways` and the forms that order gateways about.
//!
//! Separate page by page. What the gateways do comes from memory, so the page stands while the
//! store does not. It must never show a token a second time.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use web::{
    FLEET_ROWS_MAX, FleetPage, FleetRow, GatewayToken, HaltRow, MadeToken, TOKEN_ROWS_MAX,
    Template as _,
};

use super::edit::form;
use super::frame::{Asked, moment};
use super::readings::{Snapshot, lines};
use super::{PageError, html, see_other};
use crate::auth;
use crate::clock;
use crate::fleet::GatewayView;
use crate::orders::OrderError;
use crate::rollout::Progress;
use crate::state::AppState;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    fragment: String,
    said: String,
    made: String,
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
        Err(error) => error.answer(&asked.request_id, Some("/gateways".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, view: &View) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let views = state.gateways();
    let (halt, trying) = match state.rollout.progress() {
        Progress::Halted(halt) => {
            let row = HaltRow {
                generation: halt.generation,
                gateway: halt.gateway.clone(),
                since: moment(&halt.since),
                lines: lines(&halt.errors),
            };
            (Some(row), Vec::new())
        }
        Progress::Trying(ids) => (None, ids.iter().map(|id| id.as_ref().to_owned()).collect()),
        Progress::Open => (None, Vec::new()),
    };
    let rows = snapshot.gateways(FLEET_ROWS_MAX);
    let mut tokens = state.orders.tokens();
    tokens.sort_by(|one, other| one.gateway.cmp(&other.gateway));
    let token = |row: crate::orders::TokenRow| GatewayToken {
        id: row.id,
        gateway: row.gateway,
        made: moment(&row.created_at),
        by: row.created_by,
    };
    let page = FleetPage {
        frame: asked.frame(&current, &snapshot, "/gateways".to_owned()),
        halt,
        trying,
        more: views.len().saturating_sub(rows.len()),
        rows: rows
            .into_iter()
            .filter_map(|row| {
                let view = views.iter().find(|view| view.id == row.id)?;
                Some(fleet_row(row, view, current.about.number))
            })
            .collect(),
        tokens: tokens.into_iter().take(TOKEN_ROWS_MAX).map(token).collect(),
        made: state.made.take(&asked.person, &view.made, clock::now()),
        said: said(&view.said),
    };
    Ok(if view.fragment == "live" {
        page.fragment()?
    } else {
        page.render()?
    })
}

fn fleet_row(gateway: web::GatewayRow, view: &GatewayView, newest: u64) -> FleetRow {
    let drained = view.drain.as_ref();
    FleetRow {
        gateway,
        since: moment(&view.since),
        reason: view.reason.clone(),
        lag: newest.saturating_sub(view.generation),
        load: view.load.map(|load| (load.in_flight, load.capacity)),
        version: view.version.clone(),
        stream_ms: view.stream_age_ms,
        skew_ms: view.clock_skew_ms,
        dropped: view.telemetry_dropped,
        drained: drained.map(|order| (moment(&order.since), order.by.clone())),
        is_drained: view.drained,
        is_ahead: view.ahead,
        has_token: view.own_token,
    }
}

/// What a form came to: a word in the address, a sentence on the page.
fn said(word: &str) -> Option<String> {
    let sentence = match word {
        "drained" => "The gateway is told to be not ready.",
        "ready" => "The gateway is told to be ready again.",
        "revoked" => "The gateway is shut out; its stream has ended.",
        "token-revoked" => "The token is revoked; a stream that it opened has ended.",
        "again" => "The generation is tried again, by one gateway first.",
        "word" => "The gateway is told that it may go back.",
        "no-word" => "The gateway is not connected, or holds nothing that this store did not make.",
        "not-halted" => "That generation is not halted any more.",
        _ => return None,
    };
    Some(sentence.to_owned())
}

/// Sends the browser back to the page, with what became of it.
fn done(outcome: Result<String, PageError>, asked: &Asked) -> Response {
    match outcome {
        Ok(query) => see_other(&format!("/gateways?{query}")),
        Err(error) => error.answer(&asked.request_id, Some("/gateways".to_owned())),
    }
}

#[derive(Debug, Deserialize)]
struct Drain {
    gateway: String,
    drained: bool,
}

pub(super) async fn drain(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Drain>(request).await?;
        state
            .orders
            .drain(&sent.gateway, sent.drained, &author)
            .await?;
        let word = if sent.drained { "drained" } else { "ready" };
        Ok(format!("said={word}"))
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct Named {
    gateway: String,
}

pub(super) async fn revoke(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Named>(request).await?;
        let name = sent.gateway.trim();
        if !state.gateways().iter().any(|known| known.id == name) {
            return Err(PageError::NotFound {
                what: "There is no gateway of this name.",
            });
        }
        state.orders.shut_out(name, &author).await?;
        Ok("said=revoked".to_owned())
    };
    done(act.await, &asked)
}

pub(super) async fn make_token(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Named>(request).await?;
        let made = state
            .orders
            .create_token(sent.gateway.trim(), &author)
            .await?;
        let shown = MadeToken {
            gateway: made.row.gateway,
            token: made.token.expose().to_owned(),
        };
        let ticket = state.made.put(&author.person, shown, clock::now())?;
        Ok(format!("made={}", ticket.expose()))
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct OfToken {
    id: String,
}

pub(super) async fn revoke_token(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<OfToken>(request).await?;
        state.orders.revoke_token(&sent.id, &author).await?;
        Ok("said=token-revoked".to_owned())
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct OfGeneration {
    generation: u64,
}

pub(super) async fn try_again(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<OfGeneration>(request).await?;
        let tried = state.rollout.try_again(sent.generation, &author).await?;
        let word = if tried { "again" } else { "not-halted" };
        Ok(format!("said={word}"))
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct Back {
    gateway: String,
    generation: u64,
}

pub(super) async fn go_back(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Back>(request).await?;
        let taken = state
            .go_back(&sent.gateway, sent.generation, &author)
            .await?;
        let word = if taken { "word" } else { "no-word" };
        Ok(format!("said={word}"))
    };
    done(act.await, &asked)
}

impl From<OrderError> for PageError {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Store(error) => Self::Store(error),
            OrderError::Secret(error) => Self::Session(error),
            OrderError::Name(_) => Self::Form {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                what: "A gateway's name has 1 to 128 bytes and no control characters.",
            },
            OrderError::NoToken(_) => Self::NotFound {
                what: "There is no such token.",
            },
            OrderError::Full => Self::Form {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                what: "There are too many orders or tokens already.",
            },
        }
    }
}
