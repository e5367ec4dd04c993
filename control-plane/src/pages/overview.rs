//! `GET /`.
//!
//! Separate page by page. It must never fail because the store does: the figures come from the
//! gateways.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use web::{
    ALERTS_SHOWN_MAX, CHANGES_MAX, ChangeRow, Filter, GATEWAYS_MAX, Overview, Template as _,
};

use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::{PageError, alerts, hour, html};
use crate::state::AppState;
use crate::store::{Generation, StoreError};

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    problems: String,
    level: String,
    find: String,
    sort: String,
    fragment: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    match body(&state, &asked, view).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, view: View) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let count = u32::try_from(CHANGES_MAX).unwrap_or(u32::MAX);
    let changes = state.generations(None, count).await;
    let snapshot = Snapshot::take(state);
    let filter = Filter::parse(&view.level, &view.problems, &view.find, &view.sort);
    let frame = asked.frame(&current, &snapshot, filter.href());
    let routes = current
        .policy
        .as_ref()
        .map_or(0, |policy| policy.routes.len());
    let changes = changes.unwrap_or_default().iter().map(change).collect();
    let (past, alerts) = (state.past.clone(), alerts::active(state, ALERTS_SHOWN_MAX));
    // With 100,000 tenants there is much to add up: not on a thread that pushes policies.
    let made = tokio::task::spawn_blocking(move || {
        let gateways = snapshot.gateways(GATEWAYS_MAX);
        let readings = snapshot.readings();
        let page = Overview::new(frame, filter, routes, readings, gateways, changes);
        let page = Overview {
            hour: hour::hour(&past, hour::now_s()),
            alerts,
            ..page
        };
        if view.fragment == "live" {
            page.fragment()
        } else {
            page.render()
        }
    });
    Ok(made.await.map_err(|_| StoreError::Closed)??)
}

fn change(generation: &Generation) -> ChangeRow {
    ChangeRow {
        generation: generation.number,
        author: generation.author.clone(),
        comment: generation.comment.clone(),
        at: moment(&generation.created_at),
    }
}
