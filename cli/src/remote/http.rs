//! One request over HTTP/1.1 and its whole answer.
//!
//! Separate because tools and the demo's figures need no more of HTTP than this. It must never
//! read an answer without a bound, and never follow a redirect with a token in its hand.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::error::Failure;

/// Largest answer that is read, in bytes: the largest policy and some air.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(http::HeaderName, String)>,
    pub(crate) body: Option<String>,
    pub(crate) longest: Duration,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Asks and waits for the answer, from a thread that has no runtime.
pub(crate) fn ask(ask: Ask<'_>) -> Result<Answer, Failure> {
    let uri = uri_of(ask.url)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Failure::System {
            what: "start a runtime",
            source,
        })?;
    let url = ask.url.to_owned();
    let longest = ask.longest;
    let answer = runtime.block_on(async move {
        match tokio::time::timeout(longest, exchange(&uri, ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("nothing within {longest:?}").into()),
        }
    });
    answer.map_err(|source| Failure::Unreachable { url, source })
}

/// `http://HOST[:PORT]/PATH`; what else it may be is said plainly.
fn uri_of(url: &str) -> Result<Uri, Failure> {
    let wrong = |rule: &str| Failure::Setting(format!("{url:?} is not a URL to ask: {rule}"));
    let uri: Uri = url
        .parse()
        .map_err(|_| wrong("must be like http://127.0.0.1:8081"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => Ok(uri),
        (Some("https"), _) => Err(wrong("this build speaks http:// only")),
        _ => Err(wrong("must begin with http:// and name a host")),
    }
}

async fn exchange(uri: &Uri, ask: Ask<'_>) -> Result<Answer, Cause> {
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or(80);
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((plain, port)).await?;
    let io = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    // Owned here: the connection ends with this function, whatever comes back.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let mut request = Request::builder()
        .method(ask.method)
        .uri(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(
            header::HOST,
            uri.authority().map_or("", |authority| authority.as_str()),
        )
        .header(
            header::USER_AGENT,
            concat!("bulkhead/", env!("CARGO_PKG_VERSION")),
        );
    for (name, value) in ask.headers {
        request = request.header(name, value);
    }
    let body = Full::new(Bytes::from(ask.body.unwrap_or_default()));
    let answer = sender.send_request(request.body(body)?).await?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX)
        .collect()
        .await?
        .to_bytes();
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
    })
}
