//! Users, tokens and sessions as the API takes and shows them.
//!
//! Separate for length: what is read and written, without what is done. It must never have a field
//! for a secret that exists already.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::Role;
use crate::orders::TokenRow;
use crate::people::{ApiToken, User};

/// What somebody may; each may what those before it may.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Role)]
pub(super) enum RoleWord {
    Viewer,
    Operator,
    Approver,
    Admin,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Viewer => Self::Viewer,
            RoleWord::Operator => Self::Operator,
            RoleWord::Approver => Self::Approver,
            RoleWord::Admin => Self::Admin,
        }
    }
}

impl From<Role> for RoleWord {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Operator => Self::Operator,
            Role::Approver => Self::Approver,
            Role::Admin => Self::Admin,
        }
    }
}

/// What a token may beyond its role.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Scope)]
pub(super) enum ScopeWord {
    /// Writes go around approvals, audited.
    Emergency,
}

/// A user who is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UserWanted)]
pub(super) struct NewUser {
    /// Letters, digits and . _ @ + -
    #[schema(min_length = 1, max_length = 64)]
    pub(super) name: String,
    /// `viewer` unless given.
    pub(super) role: Option<RoleWord>,
}

/// What is changed of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UserChange)]
pub(super) struct ChangedUser {
    pub(super) role: Option<RoleWord>,
    /// Cannot sign in.
    pub(super) disabled: Option<bool>,
    /// The password is gone; the answer holds a new one-time link.
    pub(super) reset: Option<bool>,
}

/// A token that is asked for: of a gateway (`gateway` alone) or of the API.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TokenWanted)]
pub(super) struct NewToken {
    /// The name of the only gateway that it lets in.
    #[schema(min_length = 1, max_length = 128)]
    pub(super) gateway: Option<String>,
    /// What a token of the API is for.
    #[schema(min_length = 1, max_length = 64)]
    pub(super) name: Option<String>,
    /// `viewer` unless given.
    pub(super) role: Option<RoleWord>,
    pub(super) scopes: Option<Vec<ScopeWord>>,
    /// 90 unless given.
    #[schema(minimum = 1, maximum = 3650)]
    pub(super) expires_days: Option<u32>,
    /// Whose a token of the API is to be: a user, who counts as its person where a second one is
    /// asked for. Without it, whoever makes it.
    #[schema(min_length = 1, max_length = 64)]
    pub(super) person: Option<String>,
}

/// A user, without what is secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub(super) struct UserShown {
    /// The name, which is also the id.
    pub(super) id: String,
    pub(super) role: RoleWord,
    /// Cannot sign in, and has no session.
    pub(super) disabled: bool,
    /// Has set a password.
    pub(super) has_password: bool,
    /// When the user was made, in UTC.
    pub(super) created_at: String,
    /// By whom.
    pub(super) created_by: String,
    /// The last sign-in, in UTC.
    #[schema(required)]
    pub(super) signed_in_at: Option<String>,
    /// Where the user sets a password, once, within 24 hours; only when it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) setup: Option<String>,
}

/// A token. The secret is there only when it was just made.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Token)]
pub(super) struct TokenShown {
    /// Names it.
    pub(super) id: String,
    /// `gateway`: it lets a gateway in; `api`: it opens the API.
    pub(super) kind: &'static str,
    /// The only gateway that it lets in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gateway: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// What it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<RoleWord>,
    /// What it may beyond that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scopes: Option<Vec<ScopeWord>>,
    /// Whose a token of the API is. A user's may at most what the user may now, and opens nothing
    /// while that one is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) person: Option<String>,
    /// When it was made, in UTC.
    pub(super) created_at: String,
    /// By whom.
    pub(super) created_by: String,
    /// When it ends, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    /// When it was last used, in UTC, give or take a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_used_at: Option<String>,
    /// The token; nobody can ask for it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

/// A session that lasts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(super) struct SessionShown {
    pub(super) id: String,
    /// The user's name, or `admin token`.
    pub(super) user: String,
    /// When it was opened, in UTC.
    pub(super) created_at: String,
    /// When something was last done in it, give or take a minute.
    pub(super) last_seen: String,
    /// The address that it was opened from.
    pub(super) origin: String,
    /// The session that asks.
    pub(super) current: bool,
}

/// A moment of the wall clock as answers have it.
pub(crate) fn utc(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}

pub(super) fn user_shown(user: User, code: Option<&wire::Secret>) -> UserShown {
    UserShown {
        role: user.role().into(),
        has_password: user.has_password(),
        disabled: user.disabled,
        created_at: user.created_at,
        created_by: user.created_by,
        signed_in_at: user.signed_in_at,
        setup: code.map(|code| format!("/setup?code={}", code.expose())),
        id: user.name,
    }
}

pub(super) fn token_shown(token: ApiToken, secret: Option<&wire::Secret>) -> TokenShown {
    let emergency = token.scopes().emergency.then_some(ScopeWord::Emergency);
    TokenShown {
        kind: "api",
        role: Some(token.role().into()),
        scopes: Some(emergency.into_iter().collect()),
        expires_at: Some(utc(token.ends_ms)),
        last_used_at: (token.used_ms > 0).then(|| utc(token.used_ms)),
        token: secret.map(|secret| secret.expose().to_owned()),
        person: Some(token.person().to_owned()),
        id: token.id,
        name: Some(token.name),
        created_at: token.created_at,
        created_by: token.created_by,
        gateway: None,
    }
}

pub(super) fn gateway_shown(row: TokenRow, secret: Option<&wire::Secret>) -> TokenShown {
    TokenShown {
        id: row.id,
        kind: "gateway",
        gateway: Some(row.gateway),
        created_at: row.created_at,
        created_by: row.created_by,
        token: secret.map(|secret| secret.expose().to_owned()),
        ..TokenShown::default()
    }
}
