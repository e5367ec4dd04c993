//! Every setting by name, and what its value must be.
//!
//! Separate so that flags, variables and the file cannot drift apart: one table feeds all three.
//! It must never hold a secret; those have variables of their own.

use std::net::SocketAddr;

use crate::duration;

/// One setting: `drain_timeout` in the file, `--drain-timeout`, `BULKHEAD_DRAIN_TIMEOUT`.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) kind: Kind,
}

const fn setting(key: &'static str, kind: Kind) -> Setting {
    Setting { key, kind }
}

/// All settings of all roles.
pub(super) const SETTINGS: &[Setting] = &[
    setting("listen", Kind::Addresses),
    setting("dashboard", Kind::Address),
    setting("admin", Kind::Address),
    setting("data_dir", Kind::Path),
    setting("database_url", Kind::DatabaseUrl),
    setting("policy", Kind::Path),
    setting("upstream", Kind::Upstreams),
    setting("limit", Kind::Limit),
    setting("shadow", Kind::Switch),
    setting("workers", Kind::Count),
    setting("drain_timeout", Kind::Span),
    setting("ready_file", Kind::Path),
    setting("control_plane", Kind::HttpUrl),
    setting("token_file", Kind::Path),
    setting("state_dir", Kind::Path),
    setting("id", Kind::Text),
    setting("no_login", Kind::Switch),
    setting("behind_tls_proxy", Kind::Switch),
    setting("log", Kind::Log),
];

/// What a value must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Address,
    Addresses,
    Path,
    Text,
    Upstreams,
    Span,
    Count,
    Limit,
    Switch,
    HttpUrl,
    DatabaseUrl,
    Log,
}

/// Most serving threads that can be asked for.
const WORKERS_MAX: usize = 1024;

impl Kind {
    /// The rule, for messages.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Address | Self::Addresses => "an address and port, like \"127.0.0.1:8080\"",
            Self::Path => "a path",
            Self::Text => "1 to 128 printable characters",
            Self::Upstreams => "[PREFIX=]URL, like \"/api=http://127.0.0.1:3000\"",
            Self::Span => duration::RULE,
            Self::Count => "a whole number from 1 to 1024",
            Self::Limit => "a whole number from 0 to 1000000, or \"unlimited\"",
            Self::Switch => "true or false",
            Self::HttpUrl => "a URL that begins with http://, like \"http://127.0.0.1:8081\"",
            Self::DatabaseUrl => {
                "a URL that begins with sqlite://, like \"sqlite://bulkhead.db\" (this build has \
                 no other store)"
            }
            Self::Log => {
                "a level (error, warn, info, debug, trace) or a list like \"info,gateway=debug\""
            }
        }
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::Address | Self::Addresses => text.parse::<SocketAddr>().is_ok(),
            Self::Path => !text.is_empty() && !text.contains('\0'),
            Self::Text => {
                (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
            }
            Self::Upstreams => text.contains("://"),
            Self::Span => duration::parse(text).is_some(),
            Self::Count => text
                .parse()
                .is_ok_and(|n: usize| (1..=WORKERS_MAX).contains(&n)),
            Self::Limit => {
                text == "unlimited" || text.parse().is_ok_and(|slots: u32| slots <= 1_000_000)
            }
            Self::Switch => switch(text).is_some(),
            Self::HttpUrl => {
                text.strip_prefix("http://")
                    .is_some_and(|rest| !rest.is_empty())
                    && text.parse::<http::Uri>().is_ok()
            }
            Self::DatabaseUrl => text
                .strip_prefix("sqlite://")
                .is_some_and(|rest| !rest.is_empty()),
            Self::Log => text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
        }
    }

    /// True when the setting may be given several times.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Addresses | Self::Upstreams)
    }

    /// Three different values.
    #[cfg(test)]
    pub(super) fn samples(self) -> [&'static str; 3] {
        match self {
            Self::Address | Self::Addresses => ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"],
            Self::Path | Self::Text => ["a", "b", "c"],
            Self::Upstreams => ["http://a:1", "/b=http://b:2", "http://c:3"],
            Self::Span => ["1s", "2s", "3s"],
            Self::Count | Self::Limit => ["1", "2", "3"],
            Self::Switch => ["true", "false", "1"],
            Self::HttpUrl => ["http://a:1", "http://b:2", "http://c:3"],
            Self::DatabaseUrl => ["sqlite://a", "sqlite://b", "sqlite://c"],
            Self::Log => ["warn", "info", "info,gateway=debug"],
        }
    }

    /// A value as it stands in the file.
    #[cfg(test)]
    pub(super) fn toml(self, text: &str) -> String {
        let bare = matches!(self, Self::Count | Self::Limit | Self::Switch);
        if bare {
            text.to_owned()
        } else {
            format!("{text:?}")
        }
    }
}

/// A switch as text.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// `drain_timeout` as a flag: `drain-timeout`.
pub(super) fn flag(key: &str) -> String {
    key.replace('_', "-")
}

/// `drain_timeout` as a variable: `BULKHEAD_DRAIN_TIMEOUT`.
pub(super) fn variable(key: &str) -> String {
    format!("BULKHEAD_{}", key.to_ascii_uppercase())
}
