//! `GET /events`: what moves, as server-sent events.
//!
//! Separate because it is the one answer that does not end. Who may listen is decided like for
//! every call, by the guard; the stream ends by itself after a while and is opened anew.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::Problem;
use super::input;
use crate::events::{Message, STREAMS_MAX};
use crate::state::AppState;

/// How soon a comment is sent when nothing moves, so that nobody between takes us for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);
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
    let event = |message: Message| {
        let Message { number, text } = message;
        let event = Event::default()
            .event("figures")
            .id(number.to_string())
            .retry(RETRY)
            .data(&*text);
        Ok::<_, Infallible>(event)
    };
    let events = ReceiverStream::new(messages).map(event);
    let alive = KeepAlive::new().interval(HEARTBEAT);
    let mut response = Sse::new(events).keep_alive(alive).into_response();
    // A proxy that collects an answer before it passes it on would keep it for ever.
    let headers = response.headers_mut();
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
