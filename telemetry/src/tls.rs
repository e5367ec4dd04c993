//! TLS to whoever is told something: a collector, a receiver of alerts.
//!
//! Separate because both dial by themselves and believe whom the system believes, or whom a file
//! names. It must never fall back to a plain connection, nor connect to a name that a certificate
//! does not have.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::roots::{NoRoots, verifier};

/// The application protocol of HTTP/1.1.
pub const HTTP1: &[u8] = b"http/1.1";
/// The application protocol of HTTP/2.
pub const HTTP2: &[u8] = b"h2";

/// Why TLS cannot be prepared. Says no path and nothing of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// Nobody to believe.
    #[error("this system has no roots to believe")]
    NoSystemRoots,
    /// The file of roots.
    #[error("must name a file with certificates in PEM")]
    Roots,
    /// Our own certificate or its key.
    #[error("must name a certificate and its key in PEM")]
    Identity,
}

/// A client certificate and its key, in PEM.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The certificate, with what leads to its root.
    pub chain: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
}

/// Whom to believe and what to speak. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// `roots` in PEM; `None` for those of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR` change
    /// which these are).
    pub fn new(
        roots: Option<&[u8]>,
        identity: Option<Identity<'_>>,
        protocol: &[u8],
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(roots, &provider).map_err(|error| match error {
            NoRoots::System(_) => TlsError::NoSystemRoots,
            NoRoots::Pem(_) | NoRoots::Empty | NoRoots::Otherwise(_) => TlsError::Roots,
        })?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsError::NoSystemRoots)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
                let chain = chain.map_err(|_| TlsError::Identity)?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Identity)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|_| TlsError::Identity)?
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Speaks TLS on a fresh connection to this host. The caller bounds the time.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a name"))?;
        TlsConnector::from(Arc::clone(&self.0))
            .connect(name, stream)
            .await
    }
}
