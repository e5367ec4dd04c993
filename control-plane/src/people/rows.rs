//! Users, tokens of the API and sessions as they are kept, and the rules for what is typed.
//!
//! Separate so that nothing else knows how a row is written. It must never hold a secret: a token,
//! a session and a code are digests, a password is a hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::PeopleError;
use super::hasher::Hashed;
use crate::access::Role;
use crate::auth::Scopes;
use crate::store::{PeopleStep, PersonRow, StoreError};

/// Most users.
pub(crate) const USERS_MAX: usize = 1_000;
/// Most tokens of the API.
pub(crate) const API_TOKENS_MAX: usize = 1_000;
/// Most sessions of one user; a newer one takes the place of the oldest.
pub(crate) const SESSIONS_OF_USER_MAX: usize = 10;
/// Fewest and most characters of a password.
pub(crate) const PASSWORD_CHARS_MIN: usize = 12;
pub(crate) const PASSWORD_CHARS_MAX: usize = 256;
/// Longest name of a user, and of a token.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Sources of a user that are remembered.
pub(super) const SOURCES_MAX: usize = 5;

pub(super) const USER: &str = "user";
pub(super) const TOKEN: &str = "token";
pub(super) const SESSION: &str = "session";

/// Somebody with a name and a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) name: String,
    role: String,
    /// `None` until a password was set.
    pub(super) password: Option<Hashed>,
    pub(crate) disabled: bool,
    pub(crate) created_at: String,
    pub(crate) created_by: String,
    pub(crate) signed_in_at: Option<String>,
    /// A one-time code that sets the password.
    pub(super) setup: Option<Setup>,
    /// From where this user signed in, the newest last.
    pub(super) sources: Vec<String>,
}

/// A one-time code of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(super) digest: String,
    pub(crate) ends_ms: i64,
}

/// A token of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApiToken {
    pub(crate) id: String,
    /// What it is for.
    pub(crate) name: String,
    role: String,
    emergency: bool,
    pub(super) digest: String,
    pub(crate) created_at: String,
    pub(crate) created_by: String,
    /// Whose it is.
    #[serde(default)]
    behind: Option<Behind>,
    pub(crate) ends_ms: i64,
    #[serde(skip)]
    pub(crate) used_ms: i64,
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Behind {
    /// The process's own: made with the admin token or without a login.
    Process,
    /// A user's: it may at most what this one may now.
    User(String),
}

/// A browser that signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(super) digest: String,
    /// The name of the user, or what stands for the admin token.
    pub(crate) owner: Owner,
    pub(crate) created_ms: i64,
    /// The address that it was opened from.
    pub(crate) origin: String,
    #[serde(skip)]
    pub(crate) used_ms: i64,
}

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Owner {
    /// A user of this name.
    User(String),
    /// Whoever held this admin token, by its digest: another one does not open the session again.
    AdminToken(String),
}

impl Owner {
    /// As the audit and lists name it.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::User(name) => name,
            Self::AdminToken(_) => "admin token",
        }
    }
}

impl User {
    pub(super) fn new(name: &str, role: Role, at: String, by: &str) -> Self {
        Self {
            name: name.to_owned(),
            role: role.word().to_owned(),
            password: None,
            disabled: false,
            created_at: at,
            created_by: by.to_owned(),
            signed_in_at: None,
            setup: None,
            sources: Vec::new(),
        }
    }

    /// An unknown word is no more than the least.
    pub(crate) fn role(&self) -> Role {
        Role::of(&self.role).unwrap_or(Role::Viewer)
    }

    pub(super) fn set_role(&mut self, role: Role) {
        self.role = role.word().to_owned();
    }

    /// Somebody who can decide everything, now.
    pub(super) fn is_working_admin(&self) -> bool {
        self.role() == Role::Admin && !self.disabled && self.password.is_some()
    }

    pub(crate) const fn has_password(&self) -> bool {
        self.password.is_some()
    }

    pub(super) fn put(&self) -> Result<PeopleStep, PeopleError> {
        row(USER, &self.name, self, 0)
    }
}

impl ApiToken {
    #[expect(clippy::too_many_arguments, reason = "one for each field of a row")]
    pub(super) fn new(
        id: String,
        name: &str,
        role: Role,
        scopes: Scopes,
        digest: String,
        at: String,
        by: &str,
        behind: Behind,
        ends_ms: i64,
    ) -> Self {
        Self {
            id,
            name: name.to_owned(),
            role: role.word().to_owned(),
            emergency: scopes.emergency,
            digest,
            created_at: at,
            created_by: by.to_owned(),
            behind: Some(behind),
            ends_ms,
            used_ms: 0,
        }
    }

    pub(crate) fn role(&self) -> Role {
        Role::of(&self.role).unwrap_or(Role::Viewer)
    }

    pub(super) fn cap_role(&mut self, most: Role) {
        self.role = self.role().min(most).word().to_owned();
    }

    /// The user whose it is; `None`: the process's own.
    pub(crate) fn user(&self) -> Option<&str> {
        match &self.behind {
            Some(Behind::Process) => None,
            Some(Behind::User(name)) => Some(name),
            // A row of before this was kept.
            None if matches!(self.created_by.as_str(), "admin token" | "operator") => None,
            None => Some(&self.created_by),
        }
    }

    /// Who stands behind it, as second persons are told apart.
    pub(crate) fn person(&self) -> &str {
        self.user().unwrap_or(&self.created_by)
    }

    pub(crate) const fn scopes(&self) -> Scopes {
        Scopes {
            emergency: self.emergency,
        }
    }

    pub(super) fn put(&self) -> Result<PeopleStep, PeopleError> {
        row(TOKEN, &self.id, self, 0)
    }
}

impl Session {
    /// The same on every control plane: a part of the digest, which names and opens nothing.
    pub(super) fn id_of(digest: &str) -> String {
        digest.chars().take(32).collect()
    }

    pub(super) fn put(&self) -> Result<PeopleStep, PeopleError> {
        row(SESSION, &self.id, self, self.used_ms)
    }
}

fn row<T: Serialize>(
    kind: &'static str,
    id: &str,
    value: &T,
    used_ms: i64,
) -> Result<PeopleStep, PeopleError> {
    let body = serde_json::to_string(value).map_err(|_| StoreError::Row("people.body"))?;
    Ok(PeopleStep::Put(PersonRow {
        kind: kind.to_owned(),
        id: id.to_owned(),
        body,
        used_ms,
    }))
}

pub(super) fn parse<T: for<'de> Deserialize<'de>>(row: &PersonRow) -> Result<T, StoreError> {
    serde_json::from_str(&row.body).map_err(|_| StoreError::Row("people.body"))
}

/// SHA-256, hexadecimal: of random texts alone.
pub(crate) fn digest(text: &str) -> String {
    super::hasher::hex(&Sha256::digest(text.as_bytes()))
}

/// A user's name as it was typed, in the one form that it is kept in.
pub(crate) fn user_name(typed: &str) -> Result<String, PeopleError> {
    let name = typed.trim().to_ascii_lowercase();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte);
    let starts = name
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphanumeric);
    if starts && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) {
        return Ok(name);
    }
    Err(PeopleError::Name)
}

/// The rule for what a token is called.
pub(super) fn token_name(name: &str) -> Result<String, PeopleError> {
    let name = name.trim();
    let kept = wire::stream::bounded_text(name, NAME_BYTES_MAX);
    if name.is_empty() || kept != name {
        return Err(PeopleError::TokenName);
    }
    Ok(kept)
}

/// The rule for new passwords.
pub(crate) fn password_rule(password: &str, name: &str) -> Result<(), PeopleError> {
    let count = password.chars().count();
    let is_name = password.trim().eq_ignore_ascii_case(name);
    let first = password.chars().next();
    let is_one_letter = password.chars().all(|letter| Some(letter) == first);
    let fits = (PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&count);
    if !fits || is_name || is_one_letter {
        return Err(PeopleError::Password);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_form() {
        assert_eq!(user_name(" Ann@Example.com ").unwrap(), "ann@example.com");
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "",
            " ",
            "a b",
            "<script>",
            "=1+1",
            "@a",
            "-a",
            "a\u{202e}b",
            "ä",
            &long,
        ] {
            assert!(matches!(user_name(bad), Err(PeopleError::Name)), "{bad:?}");
        }
        assert!(token_name("deploy from CI").is_ok());
        assert!(token_name("a\nb").is_err() && token_name(" ").is_err());
    }

    #[test]
    fn passwords_are_long_and_bounded() {
        assert!(password_rule("a long pass phrase of 2026!", "ann").is_ok());
        let long = "ab".repeat(PASSWORD_CHARS_MAX);
        for bad in [
            "",
            "short",
            "aaaaaaaaaaaaaaaa",
            "ann@example.com",
            long.as_str(),
        ] {
            assert!(password_rule(bad, "ann@example.com").is_err(), "{bad:?}");
        }
    }
}
