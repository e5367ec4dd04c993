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
use super::call::Call;
use super::input;
use crate::access::VIEWER;
use crate::events::{EventFigures, Message, STREAMS_MAX};
use crate::sse::{self, Listener};
use crate::state::AppState;

/// When a browser tries again after the stream has ended.
const RETRY: Duration = Duration::from_secs(2);

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/events", VIEWER, stream)
            .says("getEvents", "What moves, as it happens")
            .details(
                "Server-sent events named `figures`, at most one a second: first every \
                 compartment (`whole` is true), then those that changed. A comment every ten \
                 seconds when nothing does. The stream ends after 15 minutes, and within two \
                 seconds when whoever listens may not any more; whoever opens it again starts \
                 with the whole.",
            )
            .tells::<String>(
                "text/event-stream",
                "The stream; `data` of each event is an EventFigures",
            )
            .mentions::<EventFigures>(),
    ]
}

/// Compartments that changed, once a second; all of them first.
pub(super) async fn stream(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let listener = Listener::of(&request);
    input::query(&input::parts(request).0, &[])?;
    let Some(messages) = state.events.open(&state, listener) else {
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
