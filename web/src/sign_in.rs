//! The pages before the door: sign-in, and the set-up of a user by a one-time link.
//!
//! Separate because they are shown to nobody in particular. They must never repeat a password, nor
//! say anything about the installation but which ways in there are.

use askama::Template;

/// The sign-in form.
#[derive(Debug, Clone, Template)]
#[template(path = "sign_in.html")]
pub struct SignIn {
    /// Where to go afterwards: a path of this server.
    pub next: String,
    /// Proves that the form comes from this page.
    pub form_token: String,
    /// The name that was typed last time.
    pub typed: String,
    /// Whether there are users.
    pub people: bool,
    /// Whether there is a token that opens it.
    pub token: bool,
    /// What went wrong last time.
    pub error: Option<String>,
    /// What was done just before.
    pub said: Option<&'static str>,
}

/// The form that sets a password by a one-time link.
#[derive(Debug, Clone, Template)]
#[template(path = "set_up.html")]
pub struct SetUp {
    /// As the link has it.
    pub code: String,
    /// Proves that the form comes from this page.
    pub form_token: String,
    /// Whose password it is; `None`: of the first user, who takes a name.
    pub name: Option<String>,
    /// The name that was typed last time.
    pub typed: String,
    /// What went wrong last time.
    pub error: Option<String>,
}

impl SignIn {
    /// Fresh, after a wrong password, by token alone, and where nobody can sign in.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let fresh = Self {
            next: "/compartments/route%2Fcheckout".to_owned(),
            form_token: "f1".repeat(32),
            typed: String::new(),
            people: true,
            token: true,
            error: None,
            said: Some("The password is set. Sign in with it."),
        };
        let refused = Self {
            next: "/\"><script>alert(1)</script>".to_owned(),
            typed: "\"><script>alert(1)</script>".to_owned(),
            error: Some("Name or password are wrong.".to_owned()),
            said: None,
            ..fresh.clone()
        };
        let token = Self {
            people: false,
            said: None,
            ..fresh.clone()
        };
        let impossible = Self {
            token: false,
            ..token.clone()
        };
        vec![
            ("fresh", fresh),
            ("refused", refused),
            ("token", token),
            ("impossible", impossible),
        ]
    }
}

impl SetUp {
    /// The first user, after a bad password, and a user who was invited.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let first = Self {
            code: "c0".repeat(32),
            form_token: "f1".repeat(32),
            name: None,
            typed: String::new(),
            error: None,
        };
        let refused = Self {
            typed: "\"><script>alert(1)</script>".to_owned(),
            error: Some("A password has 12 to 256 characters.".to_owned()),
            ..first.clone()
        };
        let invited = Self {
            name: Some("ann".to_owned()),
            ..first.clone()
        };
        vec![("first", first), ("refused", refused), ("invited", invited)]
    }
}
