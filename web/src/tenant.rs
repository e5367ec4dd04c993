//! The page of one tenant: how it is recognised, what is in force and who set it, its keys.
//!
//! Separate page by page. A key is on it once, right after it was made; it must never show a
//! digest, nor shut a field that its reader may send.

use askama::Template;

use crate::{Effective, Frame, Holders, Moment, TenantForm, TenantRow, text, url};

/// The page of one tenant.
#[derive(Debug, Clone, Template)]
#[template(path = "tenant.html", blocks = ["strip", "figures"])]
pub struct TenantPage {
    /// What stands around it.
    pub frame: Frame,
    /// The tenant.
    pub row: TenantRow,
    /// How a request is known for its own, in sentences; whether each can lead here.
    pub recognised: Vec<(String, bool)>,
    /// Every value in force.
    pub effective: Vec<Effective>,
    /// What it holds on each route.
    pub holders: Holders,
    /// Its keys.
    pub keys: Vec<KeyRow>,
    /// The header that keys come in; none: the policy does not look for keys.
    pub key_header: Option<String>,
    /// A key that was just made.
    pub made: Option<MadeKey>,
    /// The names of all plans.
    pub plans: Vec<String>,
    /// The form that changes it.
    pub form: TenantForm,
    /// The form that makes a key.
    pub key_form: KeyForm,
    /// What is wrong with the name that was typed to delete it.
    pub delete_error: Option<String>,
    /// The same for being suspended.
    pub suspend_error: Option<String>,
    /// Somebody published meanwhile: the generation that was seen.
    pub conflict: Option<u64>,
    /// What became of a form that was sent.
    pub said: Option<String>,
    /// What was asked for waits for another person.
    pub is_waiting: bool,
}

/// An API key; nothing of it opens anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Names it.
    pub id: String,
    /// For people; empty: none.
    pub label: String,
    /// Its last characters.
    pub ending: Option<String>,
    /// When it was made.
    pub created: Option<Moment>,
    /// When it ends.
    pub expires: Option<String>,
    /// `active`, `ending` or `ended`.
    pub state: &'static str,
}

/// A key that was just made.
#[derive(Clone, PartialEq, Eq)]
pub struct MadeKey {
    /// Names it.
    pub id: String,
    /// The key; shown this once.
    pub key: String,
    /// The key that it replaces, and when that one ends.
    pub replaces: Option<(String, String)>,
}

impl std::fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MadeKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The fields that make a key, as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyForm {
    /// For people.
    pub label: String,
    /// When it ends.
    pub expires_at: String,
    /// The key that it replaces.
    pub replaces: String,
    /// How long that one opens on.
    pub overlap: String,
    /// What is wrong, by field.
    pub errors: Vec<(String, String)>,
}

impl KeyForm {
    /// What is wrong with a field.
    pub fn error(&self, field: &str) -> Option<&str> {
        let mut own = self.errors.iter().filter(|(name, _)| name == field);
        own.next().map(|(_, rule)| rule.as_str())
    }
}

impl TenantPage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let parts = [self.as_strip().render()?, self.as_figures().render()?];
        Ok(parts.join(crate::BETWEEN))
    }

    /// Its address.
    pub fn href(&self) -> String {
        url::tenant(&self.row.id)
    }

    /// The page of its compartment.
    pub fn compartment(&self) -> String {
        url::compartment(&format!("tenant/{}", self.row.id))
    }

    /// Its name as a word of a command.
    pub fn shell_id(&self) -> String {
        text::shell(&self.row.id)
    }

    /// What a caller with the new key would send.
    pub fn curl(&self, made: &MadeKey) -> String {
        let header = self.key_header.as_deref().unwrap_or("x-api-key");
        let field = text::shell(&format!("{header}: {}", made.key));
        format!("curl -H {field} GATEWAY/PATH")
    }
}

impl KeyRow {
    /// The class of its state.
    pub fn class(&self) -> &'static str {
        match self.state {
            "active" => "idle",
            "ending" => "nearly",
            _ => "closed",
        }
    }

    /// What it is called where it is named aloud.
    pub fn name(&self) -> &str {
        match self.label.as_str() {
            "" => &self.id,
            label => label,
        }
    }
}
