//! What every stream of events to a browser does: begins, stays alive, ends.
//!
//! Separate because pages and API tell different things in the same way. It must never keep a
//! stream whose reader is gone, nor one for so long that nobody asks any more who reads it.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::Request;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::auth;

/// A stream ends after this, so that whoever opened it must show again that they may.
const LIFE_MAX: Duration = Duration::from_secs(900);
/// How soon a comment is sent when nothing else is, so that nobody between takes us for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Whoever opened a stream, to be asked about again while it goes on.
#[derive(Clone)]
pub(crate) struct Listener {
    headers: HeaderMap,
    host: Option<String>,
    is_plain: bool,
}

impl Listener {
    /// Whoever sends this request.
    pub(crate) fn of(request: &Request) -> Self {
        let host = auth::host_of(request);
        Self {
            is_plain: auth::is_plain(request.extensions(), host.unwrap_or("")),
            host: host.map(str::to_owned),
            headers: request.headers().clone(),
        }
    }

    /// The same question once more.
    pub(crate) fn asking(&self, now_ms: i64) -> auth::Asking<'_> {
        auth::Asking {
            method: &Method::GET,
            headers: &self.headers,
            host: self.host.as_deref(),
            is_plain: self.is_plain,
            now_ms,
        }
    }
}

/// The answer that gives one event for each message.
pub(crate) fn answer<T: Send + 'static>(
    messages: mpsc::Receiver<T>,
    event: impl Fn(T) -> Event + Send + 'static,
) -> Response {
    let events = ReceiverStream::new(messages);
    let events = events.map(move |message| Ok::<_, Infallible>(event(message)));
    let alive = KeepAlive::new().interval(HEARTBEAT);
    let mut response = Sse::new(events).keep_alive(alive).into_response();
    // A proxy that collects an answer before it passes it on would keep it for ever.
    let headers = response.headers_mut();
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Tells until there is nothing to tell, the reader is gone, the process goes down or it is time
/// to ask anew.
pub(crate) async fn run<T>(
    stopping: CancellationToken,
    to_client: mpsc::Sender<T>,
    tell: impl Future<Output = ()>,
) {
    // Nothing is lost by a cancelled arm: each ends the stream.
    tokio::select! {
        () = stopping.cancelled() => {}
        () = to_client.closed() => {}
        () = tokio::time::sleep(LIFE_MAX) => {}
        () = tell => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_ends_with_its_reader_its_words_or_the_process() {
        let forever = std::future::pending::<()>;
        let ends = async |stopping: &CancellationToken, to_client: &mpsc::Sender<()>, tell| {
            let ended = run(stopping.clone(), to_client.clone(), tell);
            let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
            ended.unwrap();
        };
        let (to_client, messages) = mpsc::channel::<()>(1);
        let stopping = CancellationToken::new();
        run(stopping.clone(), to_client.clone(), async {}).await;
        drop(messages);
        ends(&stopping, &to_client, forever()).await;
        let (to_client, _messages) = mpsc::channel::<()>(1);
        stopping.cancel();
        ends(&stopping, &to_client, forever()).await;
    }
}
