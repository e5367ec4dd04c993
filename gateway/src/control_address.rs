//! Where the control plane is, and how its stream is dialled.
//!
//! Separate because it is settled once, from the settings, before anything is dialled. It must
//! never open a connection.

use std::time::Duration;

use http::Uri;
use tonic::transport::Endpoint;

use crate::control_planes::CONTROL_PLANES_MAX;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// A peer that leaves a ping unanswered this long is dead, whatever TCP believes.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Receive windows: a large policy should not need a round trip for every 64 KiB.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;

/// Why the settings name no control plane that could be dialled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("--control-plane {url}: must be http://HOST:PORT, without a path")]
    Shape { url: String },
    #[error("--control-plane {url}: https is not enforced by this build; use http://HOST:PORT")]
    Tls { url: String },
    #[error("--control-plane {url}: is named twice")]
    Twice { url: String },
    #[error("--control-plane names {count} control planes: must be 1 to {CONTROL_PLANES_MAX}")]
    Many { count: usize },
    #[error("the gateway token must be visible ASCII characters, for it is sent in a header")]
    Token,
}

/// Where a control plane is, checked.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, AddressError> {
    let shape = || AddressError::Shape {
        url: url.to_owned(),
    };
    let uri: Uri = url.parse().map_err(|_| shape())?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(AddressError::Tls {
                url: url.to_owned(),
            });
        }
        _ => return Err(shape()),
    }
    let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    let plain = uri
        .authority()
        .is_some_and(|authority| !authority.as_str().contains('@'));
    if !is_bare || !plain {
        return Err(shape());
    }
    Ok(Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES))
}
