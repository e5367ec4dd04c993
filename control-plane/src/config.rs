//! What the control plane is started with.
//!
//! Separate so that every rule about it is checked before a port is bound or a file is touched.

use std::net::SocketAddr;
use std::path::PathBuf;

use wire::Secret;
use wire::document::Loaded;

use crate::StartError;
use crate::alerts::AlertConfig;
use crate::history::HistorySettings;
use crate::store::DatabaseUrl;
use crate::tls::TlsFiles;

/// Everything that `start` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// `sqlite://PATH` or `postgres://USER@HOST/DATABASE`.
    pub database_url: DatabaseUrl,
    /// Where pages, API and the gateways' stream listen; port 0 is allowed.
    pub dashboard: SocketAddr,
    /// Pages and API without a token; on loopback only.
    pub no_login: bool,
    /// Opens pages and API to whoever holds it.
    pub admin_token: Option<Secret>,
    /// Signs the head of the audit; without it the key beside a SQLite store does.
    pub audit_key: Option<Secret>,
    /// Enrols gateways; made at random when absent.
    pub gateway_token: Option<Secret>,
    /// A policy file for a store that is empty.
    pub import: Option<PathBuf>,
    /// The same, already read (a policy without a file).
    pub import_document: Option<Loaded>,
    /// A proxy before the dashboard speaks TLS: allows an address beyond loopback.
    pub behind_tls_proxy: bool,
    /// What the dashboard's port proves itself with; `None`: it speaks plainly.
    pub tls: Option<TlsFiles>,
    /// Opens a second port, on loopback and plain, for the stream of a gateway in this process.
    pub loopback_stream: bool,
    /// When somebody is woken, and where that is told.
    pub alerts: AlertConfig,
    /// How much of what was measured is kept.
    pub history: HistorySettings,
    /// Where spans, figures and log events go.
    pub telemetry: telemetry::Handle,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        if self.dashboard.ip().is_loopback() {
            return Ok(());
        }
        if self.no_login {
            return Err(StartError::OpenBeyondLoopback(self.dashboard));
        }
        if !self.behind_tls_proxy && self.tls.is_none() {
            return Err(StartError::PlainBeyondLoopback(self.dashboard));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dashboard: &str, no_login: bool, behind_tls_proxy: bool, tls: bool) -> Config {
        let tls = tls.then(|| TlsFiles {
            cert: "cert.pem".into(),
            key: "key.pem".into(),
        });
        Config {
            database_url: "sqlite://never.db".into(),
            dashboard: dashboard.parse().unwrap(),
            no_login,
            admin_token: None,
            audit_key: None,
            gateway_token: None,
            import: None,
            import_document: None,
            behind_tls_proxy,
            tls,
            loopback_stream: false,
            alerts: AlertConfig::default(),
            history: HistorySettings::default(),
            telemetry: telemetry::Handle::default(),
        }
    }

    #[test]
    fn beyond_loopback_needs_a_login_and_tls() {
        for (dashboard, no_login, proxy, tls, fine) in [
            ("127.0.0.1:0", true, false, false, true),
            ("[::1]:0", true, false, true, true),
            ("0.0.0.0:0", false, true, false, true),
            ("0.0.0.0:0", false, false, true, true),
            ("0.0.0.0:0", false, false, false, false),
            ("0.0.0.0:0", true, true, true, false),
            ("192.0.2.1:8081", true, false, false, false),
        ] {
            let outcome = config(dashboard, no_login, proxy, tls).check();
            assert_eq!(
                outcome.is_ok(),
                fine,
                "{dashboard} {no_login} {proxy} {tls}"
            );
        }
        let refused = config("0.0.0.0:0", false, false, false).check();
        let words = refused.unwrap_err().to_string();
        for way in ["--dashboard-tls-cert", "--behind-tls-proxy"] {
            assert!(words.contains(way), "{words}");
        }
    }
}
