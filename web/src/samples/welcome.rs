//! Samples of the first steps.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame, reader};
use crate::{Arrived, Frame, MadeKey, Role, Typed, WelcomePage};

fn page(frame: Frame) -> WelcomePage {
    WelcomePage {
        frame: Frame {
            here: "/welcome".to_owned(),
            ..frame
        },
        upstreams: Vec::new(),
        routes: Vec::new(),
        tenants: Vec::new(),
        key_header: None,
        identifies: false,
        skips_tenants: false,
        typed: Typed::default(),
        made: None,
        arrived: None,
    }
}

fn with_route() -> WelcomePage {
    WelcomePage {
        upstreams: vec!["main".to_owned()],
        routes: vec![("all".to_owned(), "/".to_owned())],
        arrived: Some(Arrived::default()),
        ..page(frame())
    }
}

fn done() -> WelcomePage {
    let made = MadeKey {
        id: "0123456789abcdef".to_owned(),
        key: "bht_shown-this-once".to_owned(),
        replaces: None,
    };
    WelcomePage {
        tenants: vec!["acme".to_owned()],
        key_header: Some("x-api-key".to_owned()),
        identifies: true,
        made: Some(("acme".to_owned(), made)),
        ..with_route()
    }
}

impl WelcomePage {
    /// Every state of the page.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let typed = |pairs: &[(&str, &str)], errors: &[(&str, &str)]| {
            let own = |pairs: &[(&str, &str)]| {
                let own = pairs
                    .iter()
                    .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
                own.collect::<Vec<_>>()
            };
            Typed {
                values: own(pairs),
                errors: own(errors),
            }
        };
        let refused = WelcomePage {
            typed: typed(
                &[("id", "main"), ("endpoint", "ftp://x"), ("limit", "many")],
                &[
                    ("endpoint", "must be http:// or https://"),
                    ("limit", "must be a number"),
                ],
            ),
            ..page(frame())
        };
        let hostile = WelcomePage {
            upstreams: vec![HOSTILE.to_owned()],
            typed: typed(
                &[("id", HOSTILE), ("path", HOSTILE), ("limit", HOSTILE)],
                &[("id", HOSTILE), ("path", HOSTILE), ("", HOSTILE)],
            ),
            ..page(frame())
        };
        let viewer = Frame {
            reader: reader("vic", Role::Viewer),
            ..frame()
        };
        let arrived = Arrived {
            arrived: 3,
            admitted: 2,
            refused: "1 tenant_full".to_owned(),
        };
        let alone = WelcomePage {
            skips_tenants: true,
            arrived: None,
            ..with_route()
        };
        let came = WelcomePage {
            made: None,
            arrived: Some(arrived),
            ..done()
        };
        let route = WelcomePage {
            upstreams: vec!["main".to_owned()],
            ..page(frame())
        };
        vec![
            ("upstream", page(frame())),
            ("refused", refused),
            ("route", route),
            ("tenant", with_route()),
            ("made", done()),
            ("alone", alone),
            ("arrived", came),
            ("viewer", page(viewer)),
            ("hostile", hostile),
        ]
    }
}
