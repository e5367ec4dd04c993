//! The sign-in page: one field for the admin token.
//!
//! Separate because it is the one page that is shown to nobody in particular. It must never repeat
//! what was typed, nor say anything about the installation.

use askama::Template;

/// The sign-in form.
#[derive(Debug, Clone, Template)]
#[template(path = "sign_in.html")]
pub struct SignIn {
    /// Where to go afterwards: a path of this server.
    pub next: String,
    /// Proves that the form comes from this page.
    pub form_token: String,
    /// Whether there is a token that opens it.
    pub possible: bool,
    /// What went wrong last time.
    pub error: Option<&'static str>,
}

impl SignIn {
    /// Fresh, after a wrong token, and where nobody can sign in.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let fresh = Self {
            next: "/compartments/route%2Fcheckout".to_owned(),
            form_token: "f1".repeat(32),
            possible: true,
            error: None,
        };
        let impossible = Self {
            possible: false,
            ..fresh.clone()
        };
        let refused = Self {
            next: "/\"><script>alert(1)</script>".to_owned(),
            form_token: "f1".repeat(32),
            possible: true,
            error: Some("That is not the admin token of this control plane."),
        };
        vec![
            ("fresh", fresh),
            ("refused", refused),
            ("impossible", impossible),
        ]
    }
}
