//! The variables of the environment that begin with `BULKHEAD_`.
//!
//! Separate because secrets live here and nowhere else in the settings. It must never put a value
//! into a message.

use std::path::PathBuf;

use control_plane::Secret;

use super::table::{self, SETTINGS};
use super::{Entry, Origin};
use crate::error::Failure;
use crate::nearest::nearest;
use crate::output::printable;

const PREFIX: &str = "BULKHEAD_";
const CONFIG: &str = "BULKHEAD_CONFIG";
const ADMIN_TOKEN: &str = "BULKHEAD_ADMIN_TOKEN";
const GATEWAY_TOKEN: &str = "BULKHEAD_GATEWAY_TOKEN";
const AUDIT_KEY: &str = "BULKHEAD_AUDIT_KEY";
const ALERT_SECRET: &str = "BULKHEAD_ALERT_SECRET";
/// A client's token.
pub(crate) const TOKEN: &str = "BULKHEAD_TOKEN";
/// A client's server.
pub(crate) const SERVER: &str = "BULKHEAD_SERVER";

/// Whom a client believes.
const SERVER_CA: &str = "BULKHEAD_SERVER_CA";

/// Variables that are no settings.
const OTHERS: [&str; 8] = [
    CONFIG,
    ADMIN_TOKEN,
    GATEWAY_TOKEN,
    ALERT_SECRET,
    AUDIT_KEY,
    TOKEN,
    SERVER,
    SERVER_CA,
];

/// Names of our variables that are shown at most, in characters.
const NAME_CHARS_MAX: usize = 80;

/// Those variables of this process that begin with our prefix and are text.
pub(crate) fn of_this_process() -> Vec<(String, String)> {
    beginning_with(PREFIX)
}

/// The standard variables of telemetry.
pub(crate) fn of_telemetry() -> Vec<(String, String)> {
    beginning_with("OTEL_")
}

fn beginning_with(prefix: &str) -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(prefix))
        .collect()
}

/// A variable that is there and not empty.
fn value<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = variables.iter().find(|(known, _)| known == name)?;
    (!found.1.is_empty()).then_some(found.1.as_str())
}

pub(super) fn config(variables: &[(String, String)]) -> Option<PathBuf> {
    value(variables, CONFIG).map(PathBuf::from)
}

/// The settings among the variables, and a warning for each that nobody knows.
pub(super) fn read(variables: &[(String, String)]) -> (Vec<(&'static str, Entry)>, Vec<String>) {
    let mut found = Vec::new();
    for setting in SETTINGS {
        let Some(text) = value(variables, &table::variable(setting.key)) else {
            continue;
        };
        let texts = if setting.kind.is_list() {
            let parts = text.split(|c: char| c == ',' || c.is_whitespace());
            parts
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        } else {
            vec![text.to_owned()]
        };
        found.push((
            setting.key,
            Entry {
                texts,
                origin: Origin::Environment,
            },
        ));
    }
    let known: Vec<String> = SETTINGS
        .iter()
        .map(|setting| table::variable(setting.key))
        .chain(OTHERS.iter().map(|name| (*name).to_owned()))
        .collect();
    let warnings = variables
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX) && !known.contains(name))
        .map(|(name, _)| {
            let near = nearest(name, known.iter().map(String::as_str));
            let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            let name = printable(&name.chars().take(NAME_CHARS_MAX).collect::<String>());
            format!("the variable {name} is not known and has no effect{hint}")
        })
        .collect();
    (found, warnings)
}

/// The secrets, which have variables and no flags: flags show in the list of processes.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(crate) admin_token: Option<Secret>,
    pub(crate) gateway_token: Option<Secret>,
    /// Signs the head of the audit.
    pub(crate) audit_key: Option<Secret>,
    /// Signs what goes to webhooks.
    pub(crate) alert_secret: Option<Secret>,
}

impl Secrets {
    pub(crate) fn gather(variables: &[(String, String)]) -> Result<Self, Failure> {
        let secret = |name: &'static str| {
            value(variables, name)
                .map(|text| Secret::new(text).map_err(|source| Failure::Token { name, source }))
                .transpose()
        };
        Ok(Self {
            admin_token: secret(ADMIN_TOKEN)?,
            gateway_token: secret(GATEWAY_TOKEN)?,
            audit_key: secret(AUDIT_KEY)?,
            alert_secret: secret(ALERT_SECRET)?,
        })
    }
}

/// The key of the audit's head.
pub(crate) fn audit_key(variables: &[(String, String)]) -> Result<Option<Secret>, Failure> {
    Ok(Secrets::gather(variables)?.audit_key)
}

/// The roots that a client believes for https.
pub(crate) fn server_ca() -> Option<PathBuf> {
    let variables = of_this_process();
    value(&variables, SERVER_CA).map(PathBuf::from)
}

/// What a client of the API finds in its environment.
pub(crate) fn client(variables: &[(String, String)]) -> (Option<String>, Option<String>) {
    let token = value(variables, TOKEN).or_else(|| value(variables, ADMIN_TOKEN));
    (
        value(variables, SERVER).map(str::to_owned),
        token.map(str::to_owned),
    )
}
