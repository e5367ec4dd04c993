//! Every setting by name, and what its value must be.
//!
//! Separate so that flags, variables and the file cannot drift apart: one table feeds all three.
//! It must never hold a secret; those have variables of their own.

use std::net::SocketAddr;

use control_plane::alerts::{BUDGET_PPM_MAX, WINDOW_MS_MAX, WINDOW_MS_MIN, Webhook};

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
    setting("control_plane", Kind::HttpUrls),
    setting("control_plane_ca", Kind::Path),
    setting("token_file", Kind::Path),
    setting("state_dir", Kind::Path),
    setting("id", Kind::Text),
    setting("no_login", Kind::Switch),
    setting("behind_tls_proxy", Kind::Switch),
    setting("dashboard_tls_cert", Kind::Path),
    setting("dashboard_tls_key", Kind::Path),
    setting("alert_webhook", Kind::Webhook),
    setting("ticket_webhook", Kind::Webhook),
    setting("alert_secret_file", Kind::Path),
    setting("alert_link_local", Kind::Switch),
    setting("alert_window", Kind::AlertWindow),
    setting("alert_budget", Kind::Percent),
    setting("history_tenants", Kind::Count),
    setting("history_gib", Kind::Count),
    setting("log", Kind::Log),
    setting("access_log", Kind::Path),
    setting("access_log_share", Kind::Share),
    setting("metric_tenants", Kind::Tenants),
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
    HttpUrls,
    DatabaseUrl,
    Webhook,
    AlertWindow,
    Percent,
    Log,
    Share,
    Tenants,
}

/// Most serving threads that can be asked for.
const WORKERS_MAX: usize = 1024;
/// Most tenants with series of their own.
const METRIC_TENANTS_MAX: usize = 1000;

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
            Self::HttpUrls => {
                "a URL that begins with http:// or https://, like \"http://127.0.0.1:8081\""
            }
            Self::DatabaseUrl => "sqlite://PATH or postgres://USER@HOST/DATABASE",
            Self::Webhook => {
                "like \"http://HOST[:PORT]/PATH\", no user name in it, and no link-local or \
                 metadata address"
            }
            Self::AlertWindow => "a span of time from 1s to 1h, like \"2m\"",
            Self::Percent => "a percentage from 0.0001% to 10%, like \"0.1%\"",
            Self::Share => "a share from 0 to 1, like \"0.01\"",
            Self::Tenants => "a whole number from 0 to 1000",
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
            Self::HttpUrls => {
                let rest = text.strip_prefix("http://");
                rest.or_else(|| text.strip_prefix("https://"))
                    .is_some_and(|rest| !rest.is_empty())
                    && text.parse::<http::Uri>().is_ok()
            }
            // What stands behind it is judged where it is opened.
            Self::DatabaseUrl => ["sqlite://", "postgres://", "postgresql://"]
                .iter()
                .filter_map(|scheme| text.strip_prefix(scheme))
                .any(|rest| !rest.is_empty()),
            // Link-local is judged when the switch for it is known.
            Self::Webhook => Webhook::new(text, None, true).is_ok(),
            Self::AlertWindow => window_ms(text).is_some(),
            Self::Percent => ppm(text).is_some(),
            Self::Share => millionths(text).is_some(),
            Self::Tenants => text.parse().is_ok_and(|n: usize| n <= METRIC_TENANTS_MAX),
            Self::Log => text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
        }
    }

    /// True when the value must not be printed.
    pub(super) fn is_secret(self) -> bool {
        matches!(self, Self::Webhook | Self::DatabaseUrl)
    }

    /// True when the setting may be given several times.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Addresses | Self::Upstreams | Self::HttpUrls)
    }

    /// Three different values.
    #[cfg(test)]
    pub(super) fn samples(self) -> [&'static str; 3] {
        match self {
            Self::Address | Self::Addresses => ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"],
            Self::Path | Self::Text => ["a", "b", "c"],
            Self::Upstreams => ["http://a:1", "/b=http://b:2", "http://c:3"],
            Self::Span => ["1s", "2s", "3s"],
            Self::Count | Self::Limit | Self::Tenants => ["1", "2", "3"],
            Self::Share => ["0.5", "0.25", "1"],
            Self::Switch => ["true", "false", "1"],
            Self::HttpUrls => ["http://a:1", "http://b:2", "http://c:3"],
            Self::DatabaseUrl => ["sqlite://a", "postgres://b", "sqlite://c"],
            Self::Webhook => ["http://a:1/x", "http://b/", "http://c:3"],
            Self::AlertWindow => ["2m", "10s", "1h"],
            Self::Percent => ["0.1%", "1%", "0.25%"],
            Self::Log => ["warn", "info", "info,gateway=debug"],
        }
    }

    /// A value as it stands in the file.
    #[cfg(test)]
    pub(super) fn toml(self, text: &str) -> String {
        let bare = matches!(
            self,
            Self::Count | Self::Limit | Self::Switch | Self::Share | Self::Tenants
        );
        if bare {
            text.to_owned()
        } else {
            format!("{text:?}")
        }
    }
}

/// A share as text, in millionths.
pub(super) fn millionths(text: &str) -> Option<u32> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || digits.len() > 6 || !is_plain(whole) || !is_plain(digits) {
        return None;
    }
    let digits = format!("{digits:0<6}").parse::<u32>().ok()?;
    let whole = whole.parse::<u32>().ok()?.checked_mul(1_000_000)?;
    whole
        .checked_add(digits)
        .filter(|&share| share <= 1_000_000)
}

/// A switch as text.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// The window of the alerts in milliseconds.
pub(super) fn window_ms(text: &str) -> Option<u64> {
    let ms = u64::try_from(duration::parse(text)?.as_millis()).ok()?;
    (WINDOW_MS_MIN..=WINDOW_MS_MAX).contains(&ms).then_some(ms)
}

/// A percentage with at most four digits after the point, in millionths.
pub(super) fn ppm(text: &str) -> Option<u64> {
    let (whole, part) = match text.strip_suffix('%')?.split_once('.') {
        Some((whole, part)) if (1..=4).contains(&part.len()) => (whole, part),
        Some(_) => return None,
        None => (text.strip_suffix('%')?, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || !digits(whole) || !digits(part) {
        return None;
    }
    let ppm = format!("{whole}{part:0<4}").parse().ok()?;
    (1..=BUDGET_PPM_MAX).contains(&ppm).then_some(ppm)
}

/// `drain_timeout` as a flag: `drain-timeout`.
pub(super) fn flag(key: &str) -> String {
    key.replace('_', "-")
}

/// `drain_timeout` as a variable: `BULKHEAD_DRAIN_TIMEOUT`.
pub(super) fn variable(key: &str) -> String {
    format!("BULKHEAD_{}", key.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_exact_or_refused() {
        for (text, want) in [
            ("0.1%", Some(1_000)),
            ("10%", Some(100_000)),
            ("0.0001%", Some(1)),
            ("1.5%", Some(15_000)),
            ("0%", None),
            ("10.1%", None),
            ("0.00001%", None),
            ("1", None),
            (".1%", None),
            ("1.%", None),
            ("-1%", None),
            ("1e1%", None),
        ] {
            assert_eq!(ppm(text), want, "{text}");
        }
    }

    #[test]
    fn shares_are_read_to_a_millionth() {
        for (text, share) in [
            ("0", Some(0)),
            ("1", Some(1_000_000)),
            ("0.01", Some(10_000)),
            ("0.000001", Some(1)),
            ("1.0", Some(1_000_000)),
            ("1.000001", None),
            ("0.0000001", None),
            ("-0.1", None),
            (".5", None),
            ("1e-3", None),
            ("", None),
        ] {
            assert_eq!(millionths(text), share, "{text}");
        }
    }
}
