//! The Settings page: users, tokens of the API, sessions, the own password.
//!
//! Separate page by page. It must never show a secret a second time, nor tell anybody but an admin
//! about others.

use askama::Template;

use crate::{Frame, Moment, Role};

/// The most users, tokens and sessions on the page, each.
pub const PEOPLE_ROWS_MAX: usize = 200;

/// The Settings page.
#[derive(Debug, Clone, Template)]
#[template(path = "settings.html")]
pub struct SettingsPage {
    /// What stands around it.
    pub frame: Frame,
    /// Users; empty for whoever may not see them.
    pub users: Vec<UserRow>,
    /// Tokens of the API; empty for whoever may not see them.
    pub tokens: Vec<ApiTokenRow>,
    /// Sessions: everybody's for an admin, the own ones for others.
    pub sessions: Vec<SessionRow>,
    /// Whether the reader has a password that can be changed.
    pub has_password: bool,
    /// Something that is shown for the only time.
    pub made: Option<MadeSecret>,
    /// What became of the form that was sent.
    pub said: Option<&'static str>,
}

/// One user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    /// The name.
    pub name: String,
    /// What they may.
    pub role: Role,
    /// Cannot sign in.
    pub disabled: bool,
    /// A password was set.
    pub has_password: bool,
    /// The last sign-in.
    pub signed_in: Option<Moment>,
    /// When they were made.
    pub made: Moment,
    /// By whom.
    pub by: String,
}

/// One token of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiTokenRow {
    /// Names it.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// What it may.
    pub role: Role,
    /// Goes around approvals.
    pub emergency: bool,
    /// When it was last used.
    pub used: Option<Moment>,
    /// When it ends, in UTC.
    pub ends: String,
    /// It has ended.
    pub is_over: bool,
    /// By whom it was made.
    pub by: String,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Names it.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// When it was opened.
    pub opened: Moment,
    /// When something was last done in it.
    pub seen: Moment,
    /// From where it was opened.
    pub origin: String,
    /// The one that asks.
    pub current: bool,
}

/// A secret that is shown for the only time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeSecret {
    /// What it is.
    pub title: String,
    /// The secret.
    pub text: String,
}

impl SettingsPage {
    /// The roles that can be given.
    pub const fn roles(&self) -> [Role; 4] {
        Role::ALL
    }
}

impl UserRow {
    /// How they stand.
    pub const fn word(&self) -> &'static str {
        match (self.disabled, self.has_password) {
            (true, _) => "disabled",
            (false, true) => "active",
            (false, false) => "invited",
        }
    }
}
