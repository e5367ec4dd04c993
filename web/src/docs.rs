//! The page of the API: every call, who may make it, what it takes.
//!
//! Separate because it shows a description and no figures: nothing on it moves, and it has no
//! script. It must never show a call that the description does not have.

use askama::Template;

use crate::{Frame, text};

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "docs.html")]
pub struct DocsPage {
    /// What stands around it.
    pub frame: Frame,
    /// What holds of every call.
    pub about: String,
    /// All calls, by path.
    pub calls: Vec<ApiCall>,
}

/// One call.
#[derive(Debug, Clone, Default)]
pub struct ApiCall {
    /// `GET`, `POST`, …
    pub method: String,
    /// Below `/api/v1`.
    pub path: String,
    /// Its name.
    pub id: String,
    /// What it does, in a line.
    pub summary: String,
    /// What else is worth knowing.
    pub details: String,
    /// The role that it needs; empty: anybody may.
    pub role: String,
    /// What it takes in path, query and headers.
    pub parameters: Vec<ApiParameter>,
    /// A body as an example; empty where it takes none.
    pub body: String,
    /// Status and meaning of every answer.
    pub answers: Vec<(String, String)>,
}

/// One parameter.
#[derive(Debug, Clone, Default)]
pub struct ApiParameter {
    /// As it is written.
    pub name: String,
    /// `path`, `query` or `header`.
    pub place: String,
    /// What it may be.
    pub kind: String,
    /// Whether it must be there.
    pub is_required: bool,
    /// What it is for.
    pub about: String,
}

impl ApiCall {
    /// Who may, in words.
    pub fn who(&self) -> &str {
        match self.role.as_str() {
            "" => "anybody",
            role => role,
        }
    }

    /// A command that makes this call.
    pub fn curl(&self, origin: &str) -> String {
        let mut line = vec!["curl".to_owned()];
        if self.method != "GET" {
            line.push(format!("-X {}", self.method));
        }
        if !self.role.is_empty() {
            line.push("-H \"Authorization: Bearer $BULKHEAD_TOKEN\"".to_owned());
        }
        let must = |one: &&ApiParameter| one.is_required && one.place == "header";
        for one in self.parameters.iter().filter(must) {
            line.push(format!("-H {}", text::shell(&format!("{}: …", one.name))));
        }
        if !self.body.is_empty() {
            line.push("-H 'Content-Type: application/json'".to_owned());
            line.push(format!("-d {}", text::shell(&self.body)));
        }
        line.push(text::shell(&format!("{origin}/api/v1{}", self.path)));
        line.join(" ")
    }
}
