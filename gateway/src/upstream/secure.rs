//! TLS to one upstream: whom it believes, and what it speaks.
//!
//! Separate because it is prepared off the serving threads and kept over policies, with the
//! sessions that are resumed: of one upstream, and of no other. It must never connect to a name
//! that a certificate does not have, nor fall back to anything weaker.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compartment::policy::UpstreamTls;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::ServerName;
use telemetry::{NoRoots, verifier};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::NoConnection;
use super::roots::{CA_FILE_BYTES_MAX, READ_MAX, Readers, Reading};

const ALPN_HTTP1: &[u8] = b"http/1.1";
const ALPN_HTTP2: &[u8] = b"h2";

/// Why TLS to an upstream cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoTls {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("must be on a disk that answers: it was not read in {} s", READ_MAX.as_secs())]
    Late,
    #[error("must wait: too many files on disks that do not answer are being read")]
    TooManyLate,
    #[error("must be a file of at most {CA_FILE_BYTES_MAX} bytes")]
    NoFile,
    #[error("{0}{advice}", advice = advice(.0))]
    Roots(#[from] NoRoots),
    #[error("TLS cannot be set up: {0}")]
    Otherwise(String),
}

const fn advice(why: &NoRoots) -> &'static str {
    match why {
        NoRoots::System(_) => "; name some with tls.ca_file",
        NoRoots::Pem(_) | NoRoots::Empty | NoRoots::Otherwise(_) => "",
    }
}

/// How one upstream is spoken to.
#[derive(Debug)]
pub(crate) struct Secure {
    terms: Option<UpstreamTls>,
    http2: bool,
    /// What the file held.
    pem: Mutex<Vec<u8>>,
    /// It is read again and has not come yet.
    late: Mutex<Option<Reading>>,
    /// Changes when the file does. With it go the sessions that older roots let in.
    config: Mutex<Arc<ClientConfig>>,
}

impl Secure {
    /// Reads the roots. Blocks: for a thread that serves nobody.
    pub(crate) fn new(
        terms: Option<&UpstreamTls>,
        http2: bool,
        readers: &Arc<Readers>,
    ) -> Result<Arc<Self>, NoTls> {
        let pem = terms.map_or(Ok(Vec::new()), |terms| readers.read(&terms.ca_file))?;
        let config = config(terms.is_some().then_some(&pem), http2)?;
        Ok(Arc::new(Self {
            terms: terms.cloned(),
            http2,
            pem: Mutex::new(pem),
            late: Mutex::default(),
            config: Mutex::new(config),
        }))
    }

    pub(crate) fn is_for(&self, terms: Option<&UpstreamTls>, http2: bool) -> bool {
        self.terms.as_ref() == terms && self.http2 == http2
    }

    /// Reads the file of roots again. What cannot be used leaves those that are believed now.
    /// Blocks for a while, and once only for a file that does not come.
    pub(crate) fn read_again(&self, readers: &Arc<Readers>) {
        let Some(terms) = &self.terms else { return };
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_new, reading) = match late.take() {
            Some(reading) => (false, Ok(reading)),
            None => (true, readers.begin(&terms.ca_file)),
        };
        let Ok(reading) = reading else { return };
        let Some(read) = reading.wait(if is_new { READ_MAX } else { Duration::ZERO }) else {
            if is_new {
                tracing::warn!(
                    file = terms.ca_file,
                    "roots of an upstream are not read in time"
                );
            }
            *late = Some(reading);
            return;
        };
        drop(late);
        let Ok(pem) = read else { return };
        let mut known = self.pem.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == pem {
            return;
        }
        match config(Some(&pem), self.http2) {
            Ok(fresh) => {
                tracing::info!(file = terms.ca_file, "roots of an upstream were read again");
                *self.config.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
            }
            Err(error) => {
                let left = "roots of an upstream are left as they were";
                tracing::error!(file = terms.ca_file, %error, "{left}");
            }
        }
        // Told once for each change.
        *known = pem;
    }

    fn connector(&self) -> TlsConnector {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        TlsConnector::from(Arc::clone(&config))
    }

    /// Speaks TLS on a fresh connection. The caller bounds the time.
    pub(crate) async fn handshake(
        &self,
        name: ServerName<'static>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, NoConnection> {
        let secured = self.connector().connect(name, stream).await;
        let secured = secured.map_err(NoConnection::Tls)?;
        // Whoever has not agreed to it would take its first bytes for nonsense.
        if self.http2 && secured.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
            return Err(NoConnection::NotHttp2);
        }
        Ok(secured)
    }
}

/// The name that a certificate must have.
pub(crate) fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).ok()
}

fn config(pem: Option<&Vec<u8>>, http2: bool) -> Result<Arc<ClientConfig>, NoTls> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = verifier(pem.map(Vec::as_slice), &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| NoTls::Otherwise(error.to_string()))?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let alpn = if http2 { ALPN_HTTP2 } else { ALPN_HTTP1 };
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(Arc::new(config))
}
