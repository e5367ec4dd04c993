//! OTLP over HTTP.
//!
//! Separate because it is one request on one connection, bounded in time and bytes. It must never
//! run on another thread than the exporter's.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::uri::{Scheme, Uri};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::export::Failed;
use crate::output::Output;

/// Most of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest pause that a collector may ask for, in seconds.
const PAUSE_S_MAX: u64 = 30;

pub(crate) const AGENT: &str = concat!("bulkhead/", env!("CARGO_PKG_VERSION"));

/// Sends one message; the body of a good answer comes back.
pub(crate) async fn post(output: &Output, body: Bytes) -> Result<Bytes, Failed> {
    let away = |error: std::io::Error| Failed::again(format!("no connection: {error}"));
    let broken = |error: hyper::Error| Failed::again(format!("no answer: {error}"));
    let host = output.uri.host().unwrap_or("localhost");
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port_of(&output.uri);
    let stream = TcpStream::connect((host, port)).await.map_err(away)?;
    // Dropped with this call, and with it the connection.
    let mut driver = JoinSet::new();
    let mut sender = match &output.tls {
        None => opened(stream, &mut driver).await.map_err(broken)?,
        Some(tls) => {
            let secured = tls.connect(host, stream).await.map_err(away)?;
            opened(secured, &mut driver).await.map_err(broken)?
        }
    };
    let request = request(output, body).ok_or_else(|| Failed::never("not a request".to_owned()))?;
    let answer = sender.send_request(request).await.map_err(broken)?;
    let verdict = verdict(&answer);
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await;
    match verdict {
        Some(failed) => Err(failed),
        // What cannot be read says nothing of what was refused.
        None => Ok(body.map(|body| body.to_bytes()).unwrap_or_default()),
    }
}

/// The port of a URL, or its scheme's.
pub(crate) fn port_of(uri: &Uri) -> u16 {
    let default = if uri.scheme() == Some(&Scheme::HTTPS) {
        443
    } else {
        80
    };
    uri.port_u16().unwrap_or(default)
}

async fn opened<S>(
    stream: S,
    driver: &mut JoinSet<hyper::Result<()>>,
) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    driver.spawn(connection);
    Ok(sender)
}

fn request(output: &Output, body: Bytes) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = output.uri.path_and_query()?.as_str().parse().ok()?;
    let headers = request.headers_mut();
    headers.insert(HOST, output.uri.authority()?.as_str().parse().ok()?);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-protobuf"),
    );
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    if output.gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.extend(output.headers.iter().cloned());
    Some(request)
}

/// What the status says; `None` when all is well.
fn verdict(answer: &Response<Incoming>) -> Option<Failed> {
    let status = answer.status();
    if status.is_success() {
        return None;
    }
    let text = format!("the collector answers {}", status.as_u16());
    let again = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if !again.contains(&status) {
        return Some(Failed::never(text));
    }
    let asked = answer.headers().get(RETRY_AFTER);
    let asked_s: Option<u64> = asked.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let pause = asked_s.map(|s| std::time::Duration::from_secs(s.min(PAUSE_S_MAX)));
    Some(Failed {
        pause,
        ..Failed::again(text)
    })
}
