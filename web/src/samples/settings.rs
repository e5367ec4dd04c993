//! Samples of the Settings page.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame, moment, signed_in};
use crate::{ApiTokenRow, Frame, MadeSecret, Reader, Role, SessionRow, SettingsPage, UserRow};

fn user(name: &str, role: Role) -> UserRow {
    UserRow {
        name: name.to_owned(),
        role,
        disabled: false,
        has_password: true,
        signed_in: Some(moment("2026-07-01T11:48:00Z", 720_000)),
        made: moment("2026-06-01T11:48:00Z", 2_592_000_000),
        by: "operator".to_owned(),
    }
}

fn token(name: &str, role: Role) -> ApiTokenRow {
    ApiTokenRow {
        id: "0011223344556677".to_owned(),
        name: name.to_owned(),
        role,
        emergency: false,
        used: Some(moment("2026-07-01T11:59:00Z", 60_000)),
        ends: "2026-09-29 12:00:00 UTC".to_owned(),
        is_over: false,
        by: "ann".to_owned(),
    }
}

fn session(id: &str, user: &str, current: bool) -> SessionRow {
    SessionRow {
        id: id.to_owned(),
        user: user.to_owned(),
        opened: moment("2026-07-01T11:00:00Z", 3_600_000),
        seen: moment("2026-07-01T11:59:00Z", 60_000),
        origin: "192.0.2.7".to_owned(),
        current,
    }
}

fn page(reader: Reader) -> SettingsPage {
    SettingsPage {
        frame: Frame {
            here: "/settings".to_owned(),
            reader,
            ..frame()
        },
        users: Vec::new(),
        tokens: Vec::new(),
        sessions: vec![session("a1", "ann", true)],
        has_password: true,
        made: None,
        said: None,
    }
}

impl SettingsPage {
    /// An admin's, with a secret that was just made; a viewer's; without a login; hostile names.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let admin = Reader {
            role: Role::Admin,
            ..signed_in()
        };
        let invited = UserRow {
            has_password: false,
            signed_in: None,
            ..user("bob", Role::Operator)
        };
        let gone = UserRow {
            disabled: true,
            ..user("carl", Role::Viewer)
        };
        let emergency = ApiTokenRow {
            emergency: true,
            used: None,
            is_over: true,
            id: "8899aabbccddeeff".to_owned(),
            ..token("break glass", Role::Approver)
        };
        let full = Self {
            users: vec![user("ann", Role::Admin), invited, gone],
            tokens: vec![token("deploy", Role::Operator), emergency],
            sessions: vec![
                session("a1", "ann", true),
                session("b2", "admin token", false),
            ],
            ..page(admin.clone())
        };
        let made = Self {
            made: Some(MadeSecret {
                title: "The link of bob, good once for 24 hours".to_owned(),
                text: "http://127.0.0.1:8081/setup?code=c0c0".to_owned(),
            }),
            said: Some("The user is made."),
            ..full.clone()
        };
        let viewer = Reader {
            role: Role::Viewer,
            ..signed_in()
        };
        let open = Self {
            sessions: Vec::new(),
            has_password: false,
            ..page(frame().reader)
        };
        let hostile = Self {
            users: vec![user(HOSTILE, Role::Viewer)],
            tokens: vec![token(HOSTILE, Role::Viewer)],
            sessions: vec![session(HOSTILE, HOSTILE, false)],
            ..page(admin)
        };
        vec![
            ("full", full),
            ("made", made),
            ("viewer", page(viewer)),
            ("open", open),
            ("hostile_names", hostile),
        ]
    }
}
