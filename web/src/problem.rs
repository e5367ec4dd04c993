//! The page for an error: what went wrong, its request id, and how to try again.
//!
//! Separate from the other pages because it must render when nothing else can: it needs no store,
//! no gateway and no sign-in. It must never show the cause's internals, only what helps.

use askama::Template;

/// An error on screen.
#[derive(Debug, Clone, Template)]
#[template(path = "problem.html")]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// In a few words.
    pub title: String,
    /// What happened and what helps.
    pub detail: String,
    /// What to look for in the log.
    pub request_id: String,
    /// Where trying again makes sense.
    pub retry: Option<String>,
}

impl Problem {
    /// One of each kind.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let unavailable = Self {
            status: 503,
            title: "The store does not answer".to_owned(),
            detail: "Gateways keep running what they have. Nothing was changed.".to_owned(),
            request_id: "019c2b7e-0000-7000-8000-000000000001".to_owned(),
            retry: Some("/compartments/route%2Fcheckout".to_owned()),
        };
        let missing = Self {
            status: 404,
            title: "No such compartment".to_owned(),
            detail: "No policy and no gateway names route/<script>alert(1)</script>.".to_owned(),
            request_id: "\"><img src=x>".to_owned(),
            retry: None,
        };
        vec![("unavailable", unavailable), ("missing", missing)]
    }
}
