//! API keys of tenants: made here, shown once, kept as digests in the policy.
//!
//! Separate because a key exists in clear for one answer alone. Which keys there are the policy
//! says, and nothing else: they travel with every export, and come back with a restored
//! generation. It must never log a key, or keep more of one than its last characters.

use std::fmt;
use std::time::Duration;

use compartment::policy::{DURATION_MAX, KEY_LABEL_CHARS_MAX, Tenant, Value, parse_moment};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use wire::{Secret, SecretError};

use crate::limits::NewKey;

/// What begins every key, so that one that leaked is recognised.
const PREFIX: &str = "bht_";
/// How long a key that is replaced opens on, unless somebody says.
const OVERLAP: Duration = DURATION_MAX;
/// The longest that somebody may say.
const OVERLAP_MAX: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// What somebody says of a key that is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// For people.
    pub(crate) label: String,
    /// When it ends.
    pub(crate) expires_at: Option<String>,
    /// The id of the key that it replaces.
    pub(crate) replaces: Option<String>,
    /// How long that one opens on.
    pub(crate) overlap: Option<String>,
}

/// Why there is no key. The first word of each rule is the field.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// A value that cannot be meant.
    #[error("{field} {value:?}: {rule}")]
    Field {
        /// Which.
        field: &'static str,
        /// As it was given.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// No random numbers.
    #[error(transparent)]
    Random(#[from] SecretError),
}

impl KeyError {
    fn field(field: &'static str, value: &str, rule: &'static str) -> Self {
        let value = wire::stream::bounded_text(value, 100);
        Self::Field { field, value, rule }
    }
}

/// A key that was just made, on its way to whoever asked for it.
#[derive(Clone)]
pub(crate) struct Made {
    /// What the policy keeps.
    pub(crate) kept: NewKey,
    /// The key; nobody can ask for it again.
    pub(crate) key: Secret,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made")
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

/// Makes one; 256 random bits behind the prefix.
pub(crate) fn make(asked: &Asked, now: Timestamp) -> Result<Made, KeyError> {
    let label = asked.label.trim();
    let is_line =
        label.chars().count() <= KEY_LABEL_CHARS_MAX && !label.chars().any(char::is_control);
    if !is_line {
        let rule = "must be at most 64 characters of text on one line";
        return Err(KeyError::field("label", label, rule));
    }
    let now_s = now.as_second();
    let expires = asked.expires_at.as_deref().map(str::trim);
    let expires = expires.map(|text| {
        let moment = parse_moment(text).and_then(|unix_s| i64::try_from(unix_s).ok());
        let rule = "must be a moment to come, in UTC, such as \"2027-07-01T12:00:00Z\"";
        let ahead = moment.filter(|unix_s| *unix_s > now_s);
        ahead
            .map(|_| text.to_owned())
            .ok_or_else(|| KeyError::field("expires_at", text, rule))
    });
    let key = Secret::new(&format!("{PREFIX}{}", Secret::random()?.expose()))?;
    let text = key.expose();
    let digest = Sha256::digest(text.as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let ending = text.get(text.len().saturating_sub(4)..).unwrap_or_default();
    let kept = NewKey {
        digest: format!("sha256:{digest}"),
        label: label.to_owned(),
        ending: ending.to_owned(),
        created: moment(now_s),
        expires: expires.transpose()?,
        replaces: replaces(asked, now_s)?,
    };
    Ok(Made { kept, key })
}

fn replaces(asked: &Asked, now_s: i64) -> Result<Option<(String, String)>, KeyError> {
    let given = |text: &Option<String>| {
        let text = text.as_deref().map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let overlap = given(&asked.overlap);
    let Some(old) = given(&asked.replaces) else {
        return match overlap {
            None => Ok(None),
            Some(text) => {
                let rule = "is how long the key of `replaces` opens on, which is not given";
                Err(KeyError::field("overlap", &text, rule))
            }
        };
    };
    let longest = match overlap {
        None => OVERLAP,
        Some(text) => compartment::policy::parse_duration(&text)
            .filter(|overlap| *overlap <= OVERLAP_MAX)
            .ok_or_else(|| {
                let rule = "must be a time of at most 2160h such as \"24h\"; \"0s\": at once";
                KeyError::field("overlap", &text, rule)
            })?,
    };
    let until = now_s.saturating_add(i64::try_from(longest.as_secs()).unwrap_or(i64::MAX));
    Ok(Some((old, moment(until))))
}

/// A moment as a policy spells it.
fn moment(unix_s: i64) -> String {
    let moment = Timestamp::from_second(unix_s).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_string()
}

/// A key as lists show it: nothing of it opens anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = TenantKey)]
pub(crate) struct KeyRow {
    /// Names it: the first digits of its digest.
    pub(crate) id: String,
    /// For people; empty: none.
    pub(crate) label: String,
    /// Its last characters, where it was made here.
    #[schema(required)]
    pub(crate) ending: Option<String>,
    /// When it was made, where it was made here.
    #[schema(required)]
    pub(crate) created_at: Option<String>,
    /// When it ends, if it does.
    #[schema(required)]
    pub(crate) expires_at: Option<String>,
    /// `active`, `ending` or `ended`.
    pub(crate) state: &'static str,
}

/// The keys of one tenant; `own` is its entry in the document.
pub(crate) fn rows(tenant: &Tenant, own: Option<&Value>, now: Timestamp) -> Vec<KeyRow> {
    let notes = own.and_then(|own| own.get("keys"));
    let row = |digest: &[u8; 32]| {
        let id = compartment::policy::key_id(digest);
        let note = notes.and_then(|notes| notes.get(&id));
        let text = |name: &str| match note.and_then(|note| note.get(name)) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        let end = tenant.expiring.iter().find(|(one, _)| one == digest);
        let state = match end.map(|(_, unix_s)| i64::try_from(*unix_s).unwrap_or(i64::MAX)) {
            None => "active",
            Some(unix_s) if unix_s <= now.as_second() => "ended",
            Some(_) => "ending",
        };
        KeyRow {
            label: text("label").unwrap_or_default(),
            ending: text("ending"),
            created_at: text("created"),
            expires_at: text("expires"),
            id,
            state,
        }
    };
    tenant.api_keys.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(field: &str, value: &str) -> Asked {
        let given = |name: &str| (field == name).then(|| value.to_owned());
        Asked {
            label: given("label").unwrap_or_default(),
            expires_at: given("expires_at"),
            replaces: given("replaces"),
            overlap: given("overlap"),
        }
    }

    #[test]
    fn a_key_is_long_random_and_recognised() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let (one, other) = (make(&Asked::default(), now), make(&Asked::default(), now));
        let (one, other) = (one.unwrap(), other.unwrap());
        let (key, kept) = (one.key.expose(), &one.kept);
        assert!(
            key.starts_with("bht_") && key.len() == 4 + 64,
            "{}",
            key.len()
        );
        assert_ne!(key, other.key.expose());
        assert!(key.ends_with(&kept.ending) && kept.ending.len() == 4);
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        assert_eq!(kept.id(), compartment::policy::key_id(&digest));
        assert_eq!(kept.created, "1970-01-12T13:46:40Z");
        let shown = format!("{one:?}");
        assert!(!shown.contains(key), "{shown}");
    }

    #[test]
    fn what_cannot_be_meant_names_its_field() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (field, value) in [
            ("label", "a\nb"),
            ("label", &*"x".repeat(65)),
            ("expires_at", "tomorrow"),
            ("expires_at", ""),
            ("expires_at", "  "),
            ("expires_at", "1970-01-12T13:46:40Z"),
            ("overlap", "1h"),
        ] {
            let error = make(&asked(field, value), now).unwrap_err();
            assert!(
                matches!(error, KeyError::Field { field: own, .. } if own == field),
                "{error}"
            );
        }
        let ending = make(&asked("expires_at", "1970-01-12T13:46:41Z"), now).unwrap();
        assert!(ending.kept.expires.is_some());
        let rotated = make(&asked("replaces", "0123456789abcdef"), now).unwrap();
        let (old, until) = rotated.kept.replaces.unwrap();
        assert_eq!(
            (old.as_str(), until.as_str()),
            ("0123456789abcdef", "1970-01-13T13:46:40Z")
        );
        let both = Asked {
            overlap: Some("2161h".to_owned()),
            ..asked("replaces", "0123456789abcdef")
        };
        assert!(make(&both, now).is_err());
    }
}
