//! TLS on the dashboard's port: the certificate, read from files and read again.
//!
//! Separate because it is about files and keys, not about connections. A file that breaks leaves
//! the certificate that works. It must never log what a file holds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Largest file with certificates or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with what leads to its root, in PEM.
    pub cert: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

/// Why there is no TLS. Names the setting and the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// One without the other.
    #[error("dashboard_tls_cert and dashboard_tls_key: give both or none")]
    Half,
    /// Not to be read.
    #[error("{setting} = {}: cannot be read", path.display())]
    Unreadable {
        /// Which setting.
        setting: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Read, and of no use.
    #[error("{setting} = {}: {rule}", path.display())]
    Content {
        /// Which setting.
        setting: &'static str,
        /// Which file.
        path: PathBuf,
        /// What must hold.
        rule: &'static str,
    },
}

/// What the port proves itself with. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    files: TlsFiles,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Certificate {
    /// Reads both files.
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, TlsFilesError> {
        Ok(Self {
            current: Arc::new(RwLock::new(Arc::new(read(files)?))),
            files: files.clone(),
        })
    }

    /// Reads them again, for connections to come.
    pub(crate) fn reload(&self) -> Result<(), TlsFilesError> {
        let fresh = Arc::new(read(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// For one handshake.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }
}

fn read(files: &TlsFiles) -> Result<ServerConfig, TlsFilesError> {
    const CERT: &str = "dashboard_tls_cert";
    const KEY: &str = "dashboard_tls_key";
    let content = |setting, path: &Path, rule| TlsFilesError::Content {
        setting,
        path: path.to_owned(),
        rule,
    };
    let pem = bounded(CERT, &files.cert)?;
    let no_cert = || content(CERT, &files.cert, "must hold a certificate in PEM");
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|_| no_cert())?;
    if chain.is_empty() {
        return Err(no_cert());
    }
    let pem = bounded(KEY, &files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| content(KEY, &files.key, "must hold a private key in PEM"))?;
    let fits = || content(KEY, &files.key, "must be the key of the certificate");
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| fits())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|_| fits())?;
    // Browsers and gateways choose the first that they know.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn bounded(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsFilesError> {
    use std::io::Read as _;
    let failed = |source| TlsFilesError::Unreadable {
        setting,
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}
