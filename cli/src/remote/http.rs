//! One request over HTTP/1.1 and its whole answer.
//!
//! Separate because tools and the demo's figures need no more of HTTP than this. It must never
//! read an answer without a bound, and never follow a redirect with a token in its hand.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use telemetry::{HTTP1, Tls};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::error::Failure;

/// Largest answer that is read, in bytes: the largest policy and some air.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Largest file of roots.
const CA_FILE_BYTES_MAX: u64 = 1 << 20;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    /// Roots that are believed for https; `None`: the system's.
    pub(crate) ca: Option<&'a Path>,
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
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(wrong("must begin with http:// or https:// and name a host")),
    }
}

/// TLS to whom the system, or a file, believes.
fn tls(ca: Option<&Path>) -> Result<Tls, Cause> {
    let Some(path) = ca else {
        return Ok(Tls::new(None, None, HTTP1)?);
    };
    let named = |why: &dyn std::fmt::Display| format!("--ca {}: {why}", path.display());
    let mut pem = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| named(&error))?;
    file.take(CA_FILE_BYTES_MAX)
        .read_to_end(&mut pem)
        .map_err(|error| named(&error))?;
    Ok(Tls::new(Some(&pem), None, HTTP1).map_err(|error| named(&error))?)
}

async fn exchange(uri: &Uri, ask: Ask<'_>) -> Result<Answer, Cause> {
    let host = uri.host().unwrap_or_default();
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let tls = is_secure.then(|| tls(ask.ca)).transpose()?;
    let stream = TcpStream::connect((plain, port)).await?;
    match tls {
        Some(tls) => {
            let stream = tls.connect(plain, stream).await?;
            spoken(TokioIo::new(stream), uri, ask).await
        }
        None => spoken(TokioIo::new(stream), uri, ask).await,
    }
}

async fn spoken<S>(io: S, uri: &Uri, ask: Ask<'_>) -> Result<Answer, Cause>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
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
