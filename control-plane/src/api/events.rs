//! `GET /events`: what moves, as server-sent events.
//!
//! Separate because it is the one answer that does not end. Who may listen is decided like for
//! every call, by the guard; the stream ends by itself after a while and is opened anew.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::response::sse::Event;
use http::StatusCode;

use super::Problem;
use super::input;
use crate::events::{Message, STREAMS_MAX};
use crate::sse;
use crate::state::AppState;

/// When a browser tries again after the stream has ended.
const RETRY: Duration = Duration::from_secs(2);

/// Compartments that changed, once a second; all of them first.
pub(super) async fn stream(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let Some(messages) = state.events.open(&state) else {
        let detail = format!("{STREAMS_MAX} streams of events are open, which is the most");
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too-many-streams",
            detail,
        ));
    };
    let event = |Message { number, text }: Message| {
        let event = Event::default().event("figures").retry(RETRY);
        event.id(number.to_string()).data(&*text)
    };
    Ok(sse::answer(messages, event))
}
