//! `bulkhead control-plane`: store, API and dashboard alone.
//!
//! Separate because gateways connect to it from elsewhere, so they need a token that is known on
//! both sides. It must never serve the traffic of clients.

use std::path::{Path, PathBuf};

use control_plane::alerts::{AlertConfig, Rules, Webhook};
use control_plane::history::HistorySettings;
use control_plane::{Secret, TlsFiles, TlsFilesError};

use super::{Start, default_dashboard};
use crate::args::ControlPlaneArgs;
use crate::error::Failure;
use crate::output;
use crate::ready::Ready;
use crate::settings::Settings;
use crate::signals::Event;

/// The folder of the store, unless told otherwise.
const DATA_DIR_DEFAULT: &str = "./bulkhead-data";

pub(crate) fn run(args: &ControlPlaneArgs) -> Result<(), Failure> {
    let start = Start::new(args.flags(), args.common.config.clone())?;
    if start.secrets.gateway_token.is_none() {
        tracing::warn!("BULKHEAD_GATEWAY_TOKEN is not set: no gateway can connect");
    }
    let control_plane = control_plane::start(config(&start, None)?)?;
    let dashboard = control_plane.dashboard();
    if output::person_reads_errors() {
        output::complain(&format!(
            "dashboard and API on {}",
            dashboard_url(&start, dashboard)
        ));
        output::complain(how_to_sign_in(&start));
    }
    invite(&start, &control_plane);
    start.ready(&Ready {
        pid: std::process::id(),
        gateway: Vec::new(),
        dashboard: Some(dashboard),
        admin: None,
    })?;
    while let Ok(event) = start.events.recv() {
        match event {
            Event::Drain => break,
            Event::Reload => control_plane.reload(),
        }
    }
    control_plane.stop();
    Ok(())
}

/// The control plane's configuration, for this role and for `up`.
pub(super) fn config(
    start: &Start,
    import_document: Option<control_plane::document::Loaded>,
) -> Result<control_plane::Config, Failure> {
    let settings = &start.settings;
    let database_url = database_url(settings)?;
    Ok(control_plane::Config {
        database_url: database_url.into(),
        dashboard: settings.address("dashboard", default_dashboard()),
        no_login: settings.switch("no_login"),
        admin_token: start.secrets.admin_token.clone(),
        audit_key: start.secrets.audit_key.clone(),
        gateway_token: start.secrets.gateway_token.clone(),
        import: settings.path("policy"),
        import_document,
        behind_tls_proxy: settings.switch("behind_tls_proxy"),
        tls: tls(settings)?,
        loopback_stream: false,
        telemetry: start.telemetry.handle(),
        alerts: alert_config(start)?,
        history: history(settings),
    })
}

/// Certificate and key of the dashboard's port: both or none.
fn tls(settings: &Settings) -> Result<Option<TlsFiles>, Failure> {
    let (cert, key) = (
        settings.path("dashboard_tls_cert"),
        settings.path("dashboard_tls_key"),
    );
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (None, None) => Ok(None),
        _ => Err(Failure::Setting(TlsFilesError::Half.to_string())),
    }
}

/// Where the dashboard is, as a browser asks for it.
pub(super) fn dashboard_url(start: &Start, dashboard: std::net::SocketAddr) -> String {
    let is_secure = start.settings.path("dashboard_tls_cert").is_some();
    let scheme = if is_secure { "https" } else { "http" };
    format!("{scheme}://{dashboard}")
}

/// Where the store is.
pub(crate) fn database_url(settings: &Settings) -> Result<String, Failure> {
    match settings.text("database_url") {
        Some(url) => Ok(url.to_owned()),
        None => database_in(
            &settings
                .path("data_dir")
                .unwrap_or_else(|| DATA_DIR_DEFAULT.into()),
        ),
    }
}

/// Who is told of alerts, and by which numbers they fire.
fn alert_config(start: &Start) -> Result<AlertConfig, Failure> {
    let settings = &start.settings;
    let secret = match settings.path("alert_secret_file") {
        Some(path) => Some(Secret::from_file(&path).map_err(|source| Failure::Token {
            name: "alert_secret_file",
            source,
        })?),
        None => start.secrets.alert_secret.clone(),
    };
    let link_local = settings.switch("alert_link_local");
    let webhook = |key: &'static str| {
        let url = settings.text(key);
        let hook = url.map(|url| Webhook::new(url, secret.clone(), link_local));
        // The address itself may be a secret: only the rule is said.
        hook.transpose()
            .map_err(|error| Failure::Setting(format!("{key}: {error}")))
    };
    let default = Rules::default();
    Ok(AlertConfig {
        rules: Rules {
            window_ms: settings
                .window_ms("alert_window")
                .unwrap_or(default.window_ms),
            budget_ppm: settings.ppm("alert_budget").unwrap_or(default.budget_ppm),
        },
        pages: webhook("alert_webhook")?,
        tickets: webhook("ticket_webhook")?,
    })
}

/// How much of what was measured is kept.
fn history(settings: &Settings) -> HistorySettings {
    let default = HistorySettings::default();
    let gib = |count: usize| {
        u64::try_from(count)
            .unwrap_or(u64::MAX)
            .saturating_mul(1 << 30)
    };
    HistorySettings {
        tenants_max: settings
            .count("history_tenants")
            .unwrap_or(default.tenants_max),
        bytes_max: settings.count("history_gib").map_or(default.bytes_max, gib),
    }
}

/// Makes the folder, and tries to write into it: what fails here is one line, what fails later
/// would be a half-made store.
fn database_in(folder: &Path) -> Result<String, Failure> {
    let unwritable = |source| Failure::Unwritable {
        path: folder.to_owned(),
        source,
    };
    make(folder).map_err(unwritable)?;
    let probe = folder.join(format!(".writable-{}", std::process::id()));
    std::fs::write(&probe, b"").map_err(unwritable)?;
    std::fs::remove_file(&probe).map_err(unwritable)?;
    let file: PathBuf = folder.join("bulkhead.db");
    let text = file
        .to_str()
        .ok_or_else(|| unwritable(std::io::Error::other("the name of the folder is not UTF-8")))?;
    Ok(format!("sqlite://{text}"))
}

/// The store holds key digests and an audit trail: nobody else's business. A folder that is there
/// already is somebody's choice, and is left as it is.
fn make(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints the link that makes the first user, once, to whoever started this: on standard error and
/// in no log that goes elsewhere.
pub(super) fn invite(start: &Start, control_plane: &control_plane::Running) {
    let Some(code) = control_plane.setup_code() else {
        return;
    };
    let at = dashboard_url(start, control_plane.dashboard());
    let link = format!("{at}/setup?code={}", code.expose());
    let words = "nobody can sign in with a name yet; this link makes the first user, once, \
                 within 24 hours";
    output::complain(&match output::person_reads_errors() {
        true => format!("set-up     {words}:\n           {link}"),
        false => serde_json::json!({ "level": "WARN", "message": words, "link": link }).to_string(),
    });
}

/// How to get past the sign-in page.
pub(super) fn how_to_sign_in(start: &Start) -> &'static str {
    if start.settings.switch("no_login") {
        "sign-in is off (--no-login): whoever can connect from this machine may change limits"
    } else if start.secrets.admin_token.is_some() {
        "sign in with the token in BULKHEAD_ADMIN_TOKEN"
    } else {
        "sign in with your name and password"
    }
}
