//! The one door out: a signed POST to an address that somebody chose.
//!
//! Separate because it is the only code of the control plane that dials. Every address of the name
//! is looked at, and what was looked at is what is dialled. It must never follow a redirect, and
//! never write the address's path or the secret anywhere.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use telemetry::{HTTP1, Tls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::Secret;

use super::notice::Sent;

/// Longest time for one try, from the name to the head of the answer.
const TRY_MAX: Duration = Duration::from_secs(10);
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// Carries the signature: `t=UNIX SECONDS,v1=HEX` of HMAC-SHA256 over `SECONDS.BODY`.
pub const SIGNATURE: &str = "x-bulkhead-signature";

/// Where notices go. The path may be a secret of its own, so no address is ever printed whole.
#[derive(Clone)]
pub struct Webhook {
    uri: Uri,
    host: String,
    port: u16,
    /// For `https://`.
    tls: Option<Tls>,
    secret: Option<Secret>,
    link_local: bool,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "Webhook({scheme}://{}:{}/..)", self.host, self.port)
    }
}

/// Why an address is not taken. Names the rule, never the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Not an address.
    #[error("must be like https://HOST[:PORT]/PATH, or http://")]
    Form,
    /// Nobody to believe.
    #[error("{0}; SSL_CERT_FILE names some")]
    Tls(#[from] telemetry::TlsError),
    /// A user name in it would be sent in the clear.
    #[error("must not carry a user name or password")]
    UserInfo,
    /// Link-local, metadata, or no host at all.
    #[error("{0} is link-local, a metadata service or no single host")]
    Address(IpAddr),
}

impl Webhook {
    /// Checks an address. `link_local` allows addresses that are refused otherwise.
    pub fn new(url: &str, secret: Option<Secret>, link_local: bool) -> Result<Self, WebhookError> {
        let uri: Uri = url.parse().map_err(|_| WebhookError::Form)?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(WebhookError::Form),
        };
        let authority = uri.authority().ok_or(WebhookError::Form)?;
        if authority.as_str().contains('@') {
            return Err(WebhookError::UserInfo);
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(WebhookError::Form);
        }
        if let Ok(address) = host.parse::<IpAddr>()
            && !may_dial(address, link_local)
        {
            return Err(WebhookError::Address(address));
        }
        let default = if is_secure { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(default);
        let tls = is_secure.then(|| Tls::new(None, None, HTTP1)).transpose()?;
        Ok(Self {
            uri,
            host,
            port,
            tls,
            secret,
            link_local,
        })
    }

    /// Host and port, for people.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// One try.
    pub(super) async fn send(&self, body: Vec<u8>, unix_s: i64, own: SocketAddr) -> (Sent, String) {
        match tokio::time::timeout(TRY_MAX, self.exchange(body, unix_s, own)).await {
            Ok(Ok(status)) if status.is_success() => (Sent::Taken, status.to_string()),
            Ok(Ok(status)) => (verdict(status), format!("it answered {status}")),
            Ok(Err(why)) => (Sent::Failed, why),
            Err(_) => (
                Sent::Failed,
                format!("no answer within {} s", TRY_MAX.as_secs()),
            ),
        }
    }

    async fn exchange(
        &self,
        body: Vec<u8>,
        unix_s: i64,
        own: SocketAddr,
    ) -> Result<StatusCode, String> {
        let stream = self.connect(own).await?;
        let failed = |error: hyper::Error| format!("the connection failed: {error}");
        // Owned here: the connection ends with this function, whatever comes back.
        let mut connections = JoinSet::new();
        let mut sender = match &self.tls {
            None => opened(stream, &mut connections).await.map_err(failed)?,
            Some(tls) => {
                let secured = tls.connect(&self.host, stream).await;
                let secured = secured.map_err(|error| format!("no TLS: {error}"))?;
                opened(secured, &mut connections).await.map_err(failed)?
            }
        };
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = self
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let mut request = Request::post(path)
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("bulkhead/", env!("CARGO_PKG_VERSION")),
            );
        if let Some(signature) = self.signature(&body, unix_s) {
            request = request.header(SIGNATURE, signature);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|_| "the request could not be made".to_owned())?;
        let answer = sender.send_request(request).await.map_err(failed)?;
        Ok(answer.status())
    }

    /// A connection to an address that was looked at.
    async fn connect(&self, own: SocketAddr) -> Result<TcpStream, String> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|error| format!("the name is not found: {error}"))?;
        let addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
        // One bad address of a mixed answer spoils it: nobody means both.
        for address in &addresses {
            if !may_dial(address.ip(), self.link_local) {
                return Err(format!(
                    "{} is link-local, metadata or no single host",
                    address.ip()
                ));
            }
            if is_own(*address, own) {
                return Err("that is this control plane itself".to_owned());
            }
        }
        let mut why = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => why = format!("no connection: {error}"),
            }
        }
        Err(why)
    }

    fn signature(&self, body: &[u8], unix_s: i64) -> Option<String> {
        let secret = self.secret.as_ref()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).ok()?;
        mac.update(unix_s.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        let digest = mac.finalize().into_bytes();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("t={unix_s},v1={hex}"))
    }
}

async fn opened<S>(
    stream: S,
    connections: &mut JoinSet<hyper::Result<()>>,
) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    connections.spawn(connection);
    Ok(sender)
}

/// Redirects and complaints about the request do not get better by asking again.
fn verdict(status: StatusCode) -> Sent {
    let later = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    if status.is_server_error() || later.contains(&status) {
        Sent::Failed
    } else {
        Sent::Refused
    }
}

fn is_own(address: SocketAddr, own: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let same = ip == own.ip().to_canonical() || (own.ip().is_unspecified() && ip.is_loopback());
    address.port() == own.port() && same
}

/// False for addresses behind which no receiver of notices is: link-local (where clouds keep their
/// metadata), other metadata services, unspecified, multicast; in whatever form they are written.
fn may_dial(address: IpAddr, link_local: bool) -> bool {
    const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let nowhere = v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast();
            !nowhere && (link_local || !(v4.is_link_local() || v4 == METADATA_V4))
        }
        IpAddr::V6(v6) => {
            if let Some(v4) = inside(v6) {
                return may_dial(v4.into(), link_local);
            }
            let nowhere = v6.is_unspecified() || v6.is_multicast();
            !nowhere && (link_local || !(v6.is_unicast_link_local() || v6 == METADATA_V6))
        }
    }
}

/// The IPv4 address inside one of 6to4, NAT64 or the old compatible form.
fn inside(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match [a, b, c, d, e, f] {
        [0x2002, high, low, ..] => Some(v4(high, low)),
        [0x0064, 0xff9b, 0, 0, 0, 0] => Some(v4(g, h)),
        [0, 0, 0, 0, 0, 0] if g > 0 => Some(v4(g, h)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_where_no_receiver_is_are_refused_in_every_form() {
        for (address, fine) in [
            ("127.0.0.1", true),
            ("10.0.0.1", true),
            ("::1", true),
            ("192.0.2.7", true),
            ("fd00::1", true),
            ("169.254.169.254", false),
            ("169.254.0.1", false),
            ("100.100.100.200", false),
            ("0.0.0.0", false),
            ("::", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("ff02::1", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("::ffff:169.254.169.254", false),
            ("::169.254.169.254", false),
            ("64:ff9b::169.254.169.254", false),
            ("2002:a9fe:a9fe::1", false),
            ("64:ff9b::10.0.0.1", true),
        ] {
            assert_eq!(may_dial(address.parse().unwrap(), false), fine, "{address}");
        }
        assert!(may_dial("169.254.169.254".parse().unwrap(), true));
        assert!(!may_dial("0.0.0.0".parse().unwrap(), true));
    }

    #[test]
    fn what_is_no_address_of_a_receiver_is_said_without_its_path() {
        let refused = |url: &str| Webhook::new(url, None, false).unwrap_err();
        assert_eq!(refused("http://user:pass@h/x"), WebhookError::UserInfo);
        assert_eq!(refused("ftp://h/x"), WebhookError::Form);
        assert_eq!(refused("/secret"), WebhookError::Form);
        assert!(matches!(
            refused("http://169.254.169.254/latest"),
            WebhookError::Address(_)
        ));
        assert!(matches!(
            refused("http://[::ffff:a9fe:a9fe]/"),
            WebhookError::Address(_)
        ));
        let secret = Secret::new("0123456789abcdef0123456789abcdef").unwrap();
        let fine = Webhook::new("http://h:9/hidden?token=hidden", Some(secret), false).unwrap();
        let text = format!("{fine:?} {}", fine.place());
        assert_eq!(text, "Webhook(http://h:9/..) h:9");
        let secure = Webhook::new("https://h/hidden", None, false).unwrap();
        let text = format!("{secure:?} {}", secure.place());
        assert_eq!(text, "Webhook(https://h:443/..) h:443");
    }

    /// A receiver for `localhost`, and its root.
    async fn receiver() -> (SocketAddr, String, JoinSet<()>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let service = hyper::service::service_fn(|request: Request<_>| async move {
                    let _: &hyper::body::Incoming = request.body();
                    Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
                });
                let serving = hyper::server::conn::http1::Builder::new();
                let _ended = serving
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
        (address, made.cert.pem(), serving)
    }

    #[tokio::test]
    async fn over_tls_only_a_receiver_that_we_believe_is_told() {
        let (address, root, _serving) = receiver().await;
        let (_, other_root, _other) = receiver().await;
        let url = format!("https://localhost:{}/hook", address.port());
        let own = "127.0.0.1:1".parse().unwrap();
        for (root, want) in [(&root, Sent::Taken), (&other_root, Sent::Failed)] {
            let hook = Webhook {
                tls: Some(Tls::new(Some(root.as_bytes()), None, HTTP1).unwrap()),
                ..Webhook::new(&url, None, false).unwrap()
            };
            let (sent, why) = hook.send(b"{}".to_vec(), 1, own).await;
            assert_eq!(sent, want, "{why}");
        }
        // Whose root the system does not know is not believed either.
        let hook = Webhook::new(&url, None, false).unwrap();
        assert_eq!(hook.send(b"{}".to_vec(), 1, own).await.0, Sent::Failed);
    }

    #[test]
    fn the_signature_is_over_moment_and_body() {
        let secret = Secret::new("0123456789abcdef0123456789abcdef").unwrap();
        let hook = Webhook::new("http://h/", Some(secret), false).unwrap();
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
        assert_eq!(
            hook.signature(b"{}", 1_700_000_000).unwrap(),
            "t=1700000000,v1=417adf36b901772f658597a76d329694e335e65fc0849d7715c3ca33406309b5"
        );
    }

    #[test]
    fn only_what_may_get_better_is_tried_again() {
        for (status, want) in [
            (500, Sent::Failed),
            (503, Sent::Failed),
            (429, Sent::Failed),
            (408, Sent::Failed),
            (301, Sent::Refused),
            (307, Sent::Refused),
            (400, Sent::Refused),
            (401, Sent::Refused),
        ] {
            assert_eq!(
                verdict(StatusCode::from_u16(status).unwrap()),
                want,
                "{status}"
            );
        }
    }
}
