//! Whom a connection by TLS believes.
//!
//! Separate because all who dial, whoever they dial, judge a certificate by one rule: that of the
//! system, or of roots that somebody named, and then of no other. It must never believe both.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_platform_verifier::Verifier;

/// Why nobody can be believed.
#[derive(Debug, thiserror::Error)]
pub enum NoRoots {
    /// The system has none.
    #[error("this system has no roots to believe: {0}")]
    System(rustls::Error),
    /// What was given is no PEM.
    #[error("must hold certificates in PEM: {0}")]
    Pem(pem::Error),
    /// There is none in it.
    #[error("holds no certificate that can be a root")]
    Empty,
    /// They do not fit together.
    #[error("TLS cannot be set up: {0}")]
    Otherwise(String),
}

/// Who judges certificates by these roots in PEM; `None`: by those of the system.
pub fn verifier(
    roots: Option<&[u8]>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, NoRoots> {
    let Some(pem) = roots else {
        let system = Verifier::new(Arc::clone(provider)).map_err(NoRoots::System)?;
        return Ok(Arc::new(system));
    };
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(pem) {
        let root = root.map_err(NoRoots::Pem)?;
        store.add(root).map_err(|_| NoRoots::Empty)?;
    }
    if store.is_empty() {
        return Err(NoRoots::Empty);
    }
    let builder = WebPkiServerVerifier::builder_with_provider(store.into(), Arc::clone(provider));
    let built = builder.build();
    Ok(built.map_err(|error| NoRoots::Otherwise(error.to_string()))?)
}
