//! Where the control plane is, and how its stream is dialled.
//!
//! Separate because address and roots are settled once, from the settings, before anything is
//! dialled. It must never fall back from TLS to a plain connection.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use telemetry::{HTTP2, Tls, TlsError};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint};

use crate::control_planes::CONTROL_PLANES_MAX;

/// Longest time for a connection, its handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// A peer that leaves a ping unanswered this long is dead, whatever TCP believes.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Receive windows: a large policy should not need a round trip for every 64 KiB.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;

/// Largest file of roots.
const CA_FILE_BYTES_MAX: u64 = 1 << 20;
const HTTPS_PORT: u16 = 443;

/// Why the settings name no control plane that could be dialled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("--control-plane {url}: must be http://HOST:PORT or https://HOST:PORT, without a path")]
    Shape { url: String },
    #[error("--control-plane-ca {}: cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("--control-plane-ca {}: {source}", path.display())]
    Roots { path: PathBuf, source: TlsError },
    #[error("--control-plane {url}: {source}")]
    NoRoots { url: String, source: TlsError },
    #[error("--control-plane-ca: is for https://, and no --control-plane is")]
    PlainWithRoots,
    #[error("--control-plane {url}: is named twice")]
    Twice { url: String },
    #[error("--control-plane names {count} control planes: must be 1 to {CONTROL_PLANES_MAX}")]
    Many { count: usize },
    #[error("the gateway token must be visible ASCII characters, for it is sent in a header")]
    Token,
}

/// Where a control plane is, and whom to believe there.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    endpoint: Endpoint,
    url: String,
    /// For https.
    secure: Option<Secure>,
}

#[derive(Clone, Debug)]
struct Secure {
    host: String,
    port: u16,
    ca: Option<PathBuf>,
}

impl Address {
    /// Checks address and roots.
    pub(crate) fn new(url: &str, ca: Option<&Path>) -> Result<Self, AddressError> {
        let (uri, is_secure) = parsed(url)?;
        let secure = is_secure.then(|| Secure {
            host: bare(uri.host().unwrap_or_default()).to_owned(),
            port: uri.port_u16().unwrap_or(HTTPS_PORT),
            ca: ca.map(Path::to_owned),
        });
        let address = Self {
            endpoint: endpoint(uri),
            url: url.trim_end_matches('/').to_owned(),
            secure,
        };
        // Read at the start, so that a wrong file is an error then and not a silence later.
        address.tls()?;
        Ok(address)
    }

    /// As it was given.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is spoken to by TLS.
    pub(crate) const fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Longest time for a connection, its handshake included.
    pub(crate) fn connect_timeout(self, longest: Duration) -> Self {
        Self {
            endpoint: self.endpoint.connect_timeout(longest),
            ..self
        }
    }

    /// The roots, read each time: a file that was replaced counts for the next connection.
    fn tls(&self) -> Result<Option<Tls>, AddressError> {
        let Some(secure) = &self.secure else {
            return Ok(None);
        };
        let Some(path) = &secure.ca else {
            let tls = Tls::new(None, None, HTTP2);
            return tls.map(Some).map_err(|source| AddressError::NoRoots {
                url: self.url.clone(),
                source,
            });
        };
        let pem = bounded(path).map_err(|source| AddressError::Unreadable {
            path: path.clone(),
            source,
        })?;
        let tls = Tls::new(Some(&pem), None, HTTP2);
        tls.map(Some).map_err(|source| AddressError::Roots {
            path: path.clone(),
            source,
        })
    }

    /// Dials.
    pub(crate) async fn connect(&self) -> Result<Channel, DialError> {
        let Some(secure) = self.secure.clone() else {
            return Ok(self.endpoint.connect().await?);
        };
        let own = self.clone();
        // Reading a file may block, and this thread serves the admin port too.
        let tls = tokio::task::spawn_blocking(move || own.tls()).await;
        let tls = tls
            .map_err(|_| DialError::Broken)??
            .ok_or(DialError::Broken)?;
        let connector = Dial {
            tls,
            host: secure.host,
            port: secure.port,
        };
        Ok(self.endpoint.connect_with_connector(connector).await?)
    }
}

/// One connection by TLS.
#[derive(Debug)]
struct Dial {
    tls: Tls,
    host: String,
    port: u16,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (tls, host, port) = (self.tls.clone(), self.host.clone(), self.port);
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(tls.connect(&host, stream).await?))
        })
    }
}

/// Why a control plane is not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    #[error(transparent)]
    Roots(#[from] AddressError),
    #[error("the roots could not be read")]
    Broken,
}

/// The address without its scheme, and whether that was https.
fn parsed(url: &str) -> Result<(Uri, bool), AddressError> {
    let shape = || AddressError::Shape {
        url: url.to_owned(),
    };
    let uri: Uri = url.parse().map_err(|_| shape())?;
    let is_secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(shape()),
    };
    let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    let authority = uri.authority().ok_or_else(shape)?;
    if !is_bare || authority.as_str().contains('@') {
        return Err(shape());
    }
    // TLS is ours; what is spoken inside it knows nothing of it.
    let inner = format!("http://{authority}").parse();
    Ok((inner.map_err(|_| shape())?, is_secure))
}

fn endpoint(uri: Uri) -> Endpoint {
    Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
}

/// An address of version 6 without its brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(CA_FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
