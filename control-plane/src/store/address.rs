//! Where a store is: what a database URL may say, and how it is shown.
//!
//! Separate because the URL of a Postgres may hold a password: only this file reads it, and what
//! it gives to messages is free of it. It must never put a part of a URL that it did not
//! understand into a message.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::StoreError;

/// How we are called in the list of the server's sessions.
const APPLICATION: &str = "bulkhead";
/// What may stand behind the `?`. Anything else is refused: the library would say it in the log.
const PARAMETERS: [&str; 8] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "port",
    "user",
    "dbname",
];
const RULE: &str = "must be sqlite://PATH or postgres://USER@HOST/DATABASE";

/// Where a store is, as it was said. It may hold a password: no `Display`, and `Debug` is free of
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl<T: Into<String>> From<T> for DatabaseUrl {
    fn from(url: T) -> Self {
        Self(url.into())
    }
}

impl std::ops::Deref for DatabaseUrl {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", shown(&self.0))
    }
}

/// Where a store is.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// A file.
    Sqlite(PathBuf),
    /// A database on a server.
    Postgres(Server),
}

/// A database on a server, and how to get there.
#[derive(Clone)]
pub(crate) struct Server {
    pub(super) options: Arc<PgConnectOptions>,
    /// For messages: no password in it.
    pub(super) name: Arc<str>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.name)
    }
}

impl From<PathBuf> for Address {
    fn from(path: PathBuf) -> Self {
        Self::Sqlite(path)
    }
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        if ["postgres:", "postgresql:"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return server(url).map(Self::Postgres);
        }
        let refuse = |rule: &str| {
            Err(StoreError::Url {
                url: shown(url),
                rule: rule.to_owned(),
            })
        };
        let Some(path) = url
            .strip_prefix("sqlite://")
            .or_else(|| url.strip_prefix("sqlite:"))
        else {
            return refuse(RULE);
        };
        if path.is_empty() || path == ":memory:" {
            return refuse("a store is a file: sqlite://PATH");
        }
        if path.contains('?') {
            return refuse("options behind `?` are not taken");
        }
        Ok(Self::Sqlite(path.into()))
    }
}

/// A URL as messages may show it. Of a URL that is not SQLite's: its scheme, host and database.
pub fn shown(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return "…".to_owned();
    };
    let scheme_is_one = scheme.bytes().all(|byte| byte.is_ascii_lowercase());
    // The last `@`: a password that should have been encoded may hold others, and what begins
    // parameters elsewhere.
    let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let place = place.split(['?', '#']).next().unwrap_or_default();
    if !scheme_is_one || user.contains(['?', '#', '/']) || place.contains("//") {
        return "…".to_owned();
    }
    format!("{scheme}://{place}")
}

fn server(url: &str) -> Result<Server, StoreError> {
    let refuse = |rule: String| StoreError::Url {
        url: shown(url),
        rule,
    };
    let Some((_, rest)) = url.split_once("://") else {
        return Err(refuse(RULE.to_owned()));
    };
    // It would be read as another host or database, whose names are shown.
    if rest
        .rsplit_once('@')
        .is_some_and(|(user, _)| user.contains(['/', '?', '#']))
    {
        let rule = "in a password `/`, `?` and `#` are written %2F, %3F and %23";
        return Err(refuse(rule.to_owned()));
    }
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut is_said = false;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !PARAMETERS.contains(&key) {
            return Err(refuse(format!(
                "behind `?` may stand {}; a password belongs into PGPASSWORD or ~/.pgpass",
                PARAMETERS.join(", ")
            )));
        }
        is_said |= key == "sslmode";
        let value = percent_decode_str(value).decode_utf8_lossy();
        if key == "sslmode" && value == "allow" {
            let rule = "sslmode is disable, prefer, require, verify-ca or verify-full";
            return Err(refuse(rule.to_owned()));
        }
    }
    let parsed = PgConnectOptions::from_str(url);
    // The library's own words may hold parts of the URL.
    let mut options = parsed.map_err(|_| refuse(RULE.to_owned()))?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err(refuse(
            "names no database: postgres://USER@HOST/DATABASE".to_owned(),
        ));
    }
    let is_local = options.get_socket().is_some() || is_loopback(options.get_host());
    if !is_said && std::env::var_os("PGSSLMODE").is_none() && !is_local {
        options = options.ssl_mode(PgSslMode::Require);
    }
    let name = name(&options);
    Ok(Server {
        options: Arc::new(options.application_name(APPLICATION)),
        name: name.into(),
    })
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.starts_with('/')
        || host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

fn name(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_default();
    match options.get_socket() {
        Some(folder) => format!("postgres://{}/{database}", folder.display()),
        None => format!(
            "postgres://{}:{}/{database}",
            options.get_host(),
            options.get_port()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_behind_the_scheme() {
        for (url, path) in [
            (
                "sqlite:///var/lib/bulkhead/store.db",
                "/var/lib/bulkhead/store.db",
            ),
            ("sqlite://data/store.db", "data/store.db"),
            ("sqlite:store.db", "store.db"),
        ] {
            let Ok(Address::Sqlite(seen)) = Address::parse(url) else {
                unreachable!("{url}");
            };
            assert_eq!(seen, std::path::Path::new(path));
        }
        for bad in [
            "",
            "mysql://h/d",
            "sqlite://",
            "sqlite::memory:",
            "sqlite://a?mode=rw",
            "postgres://h",
            "postgres://",
            "postgres://h:port/d",
            "postgres://h/d?sslmode=allow",
            "postgres://h/d?sslmode=sometimes",
            "postgres://h/d?password=hunter2",
            "postgres://h/d?options=-c%20fsync%3Doff",
        ] {
            let refused = Address::parse(bad);
            let Err(error @ StoreError::Url { .. }) = refused else {
                unreachable!("{bad}: {refused:?}");
            };
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "postgres://me:hunter2@db.example/d",
            "postgres://me:hunter2@db.example:5433/d?sslmode=disable",
            "postgres://me:a@hunter2@db.example/d?nonsense=hunter2",
            "postgres://me:hunter2@db.example:nonsense/d",
            "postgres://me:hunter2@/d?host=/run/postgresql",
            "postgres:me:hunter2",
            "postgres://me:hunter2#1@db.example/d",
            "postgres://me:hunter2?1@db.example/d",
            "postgres://me:1#hunter2@db.example/d",
            "postgres://me:1?hunter2@db.example/d",
            "postgres://me:hunter2/1@db.example/d",
            "postgres://me:1/hunter2@db.example/d",
            "postgres://db.example/d?user=me&password=hunter2@x",
            "https://me:hunter2@db.example/d",
        ] {
            let text = match Address::parse(url) {
                Ok(address) => format!("{address:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!text.contains("hunter2"), "{text}");
            assert!(!shown(url).contains("hunter2"), "{}", shown(url));
        }
        assert_eq!(shown("postgres://me:x@h:1/d?a=b"), "postgres://h:1/d");
        assert_eq!(shown("sqlite://a/b.db"), "sqlite://a/b.db");
    }

    #[test]
    fn beyond_this_machine_the_way_is_encrypted_unless_told() {
        let mode = |url: &str| match Address::parse(url) {
            Ok(Address::Postgres(server)) => format!("{:?}", server.options.get_ssl_mode()),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(mode("postgres://db.example/d"), "Require");
        assert_eq!(mode("postgres://10.0.0.1/d"), "Require");
        assert_eq!(mode("postgres://127.0.0.1/d"), "Prefer");
        assert_eq!(mode("postgres://[::1]/d"), "Prefer");
        assert_eq!(mode("postgres://localhost/d"), "Prefer");
        assert_eq!(mode("postgres:///d?host=/run/postgresql"), "Prefer");
        assert_eq!(mode("postgres://db.example/d?sslmode=disable"), "Disable");
        assert_eq!(
            mode("postgres://db.example/d?sslmode=verify-full"),
            "VerifyFull"
        );
    }
}
