//! Samples of the Changes pages.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame, moment, reader, signed_in};
use crate::{
    ChangeLine, ChangePage, ChangesPage, ClashLine, ComparedLine, DifferenceLine, Frame,
    GenerationLine, GenerationPage, Role, SumLine, TypedStep,
};

fn line(number: u64, state: &'static str) -> ChangeLine {
    ChangeLine {
        number,
        state,
        author: "ann".to_owned(),
        at: moment("2026-07-01T11:48:00Z", 720_000),
        comment: "search is slow at lunch".to_owned(),
        keys: vec!["route/search".to_owned()],
        published: None,
    }
}

fn generation(number: u64, source: &str) -> GenerationLine {
    GenerationLine {
        number,
        author: "ann".to_owned(),
        comment: "search is slow at lunch".to_owned(),
        at: moment("2026-07-01T11:48:00Z", 720_000),
        source: source.to_owned(),
    }
}

fn difference(old: &str, new: Option<&str>) -> DifferenceLine {
    DifferenceLine {
        path: "routes[2].compartment.limit".to_owned(),
        key: Some("route/search".to_owned()),
        old: Some(old.to_owned()),
        new: new.map(str::to_owned),
    }
}

fn page(state: &'static str) -> ChangePage {
    let line = line(7, state);
    ChangePage {
        frame: Frame {
            here: line.href(),
            reader: signed_in(),
            ..frame()
        },
        line,
        version: 3,
        base: 43,
        needs_approval: false,
        contributors: vec!["ann".to_owned()],
        is_own: true,
        approvals: Vec::new(),
        staged: None,
        reverted: None,
        reverts_in_s: None,
        guard: None,
        differences: vec![difference("60", Some("80"))],
        more: 0,
        clashes: Vec::new(),
        dangers: Vec::new(),
        faults: Vec::new(),
        findings: Vec::new(),
        effects: Vec::new(),
        gateways: Vec::new(),
        compared: Vec::new(),
        steps: vec![(
            moment("2026-07-01T11:48:00Z", 720_000),
            "open".to_owned(),
            "ann".to_owned(),
            "search is slow at lunch".to_owned(),
        )],
        connected: vec!["gw-a".to_owned(), "gw-b".to_owned()],
        refused: None,
        typed: TypedStep::default(),
    }
}

fn dangerous() -> ChangePage {
    ChangePage {
        needs_approval: true,
        differences: vec![difference("60", Some("20")), difference("3", None)],
        more: 4,
        dangers: vec!["route/search: It cuts the limit by more than half.".to_owned()],
        findings: vec!["L5 routes[2].compartment.queue: the queue is longer than it drains".into()],
        effects: vec![(
            "route/search".to_owned(),
            vec!["20 slots refuse 12.3 % of that".to_owned()],
        )],
        refused: Some("type change-7, letter for letter, and say why".to_owned()),
        ..page("draft")
    }
}

fn published() -> ChangePage {
    let sum = |arrived, refused, peak| SumLine {
        heard_s: 900,
        arrived,
        refused,
        peak,
    };
    let mut page = page("published");
    page.line.published = Some(44);
    ChangePage {
        reverts_in_s: Some(299),
        guard: Some("Its guard watches for 5 min more.".to_owned()),
        approvals: vec![(
            "bob".to_owned(),
            moment("2026-07-01T11:50:00Z", 600_000),
            "fine".to_owned(),
        )],
        gateways: vec![
            ("gw-a".to_owned(), "runs", 44, String::new()),
            (
                "gw-b".to_owned(),
                "refused",
                43,
                "/routes/2: must be even".to_owned(),
            ),
            ("gw-c".to_owned(), "waits", 43, "was sent".to_owned()),
        ],
        compared: vec![
            ComparedLine {
                key: "route/search".to_owned(),
                before: sum(12_000, 480, 60),
                after: sum(800, 0, 41),
            },
            ComparedLine {
                key: "route/pay".to_owned(),
                before: SumLine::default(),
                after: sum(0, 0, 0),
            },
        ],
        ..page
    }
}

fn conflict() -> ChangePage {
    ChangePage {
        base: 41,
        clashes: vec![ClashLine {
            path: "routes[2].compartment.limit".to_owned(),
            base: "60".to_owned(),
            mine: "80".to_owned(),
            theirs: "70".to_owned(),
        }],
        ..page("approved")
    }
}

fn hostile() -> ChangePage {
    let mut page = conflict();
    page.line.author = HOSTILE.to_owned();
    page.line.comment = HOSTILE.to_owned();
    for one in &mut page.clashes {
        one.theirs = HOSTILE.to_owned();
        one.mine = HOSTILE.to_owned();
    }
    page.differences = vec![difference(HOSTILE, Some(HOSTILE))];
    page.faults = vec![HOSTILE.to_owned()];
    page.connected = vec![HOSTILE.to_owned()];
    page.gateways = vec![(HOSTILE.to_owned(), "refused", 1, HOSTILE.to_owned())];
    page.typed.comment = HOSTILE.to_owned();
    page
}

impl ChangePage {
    /// Named states.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let staged = Self {
            staged: Some(("gw-a".to_owned(), 44)),
            gateways: vec![("gw-a".to_owned(), "runs", 44, String::new())],
            is_own: false,
            frame: Frame {
                reader: reader("bob", Role::Approver),
                ..page("staged").frame
            },
            ..page("staged")
        };
        vec![
            ("draft", page("draft")),
            ("dangerous", dangerous()),
            ("staged", staged),
            ("published", published()),
            ("conflict", conflict()),
            ("hostile", hostile()),
        ]
    }
}

impl ChangesPage {
    /// Named states.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let empty = Self {
            frame: Frame {
                here: "/changes".to_owned(),
                ..frame()
            },
            needs_second: false,
            state: String::new(),
            lines: Vec::new(),
            older: None,
            generations: vec![generation(43, "patch")],
            store_silent: false,
        };
        let mut many: Vec<_> = Self::STATES
            .iter()
            .zip(1..)
            .map(|(state, n)| line(n, state))
            .collect();
        if let Some(first) = many.first_mut() {
            first.comment = HOSTILE.to_owned();
            first.keys = (0..5).map(|n| format!("route/{n}")).collect();
        }
        vec![
            (
                "many",
                Self {
                    needs_second: true,
                    lines: many,
                    older: Some(1),
                    ..empty.clone()
                },
            ),
            (
                "silent",
                Self {
                    store_silent: true,
                    generations: Vec::new(),
                    ..empty.clone()
                },
            ),
            ("empty", empty),
        ]
    }
}

impl GenerationPage {
    /// Named states.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let older = Self {
            frame: Frame {
                here: "/generations/41".to_owned(),
                ..frame()
            },
            line: generation(41, "patch"),
            against: 40,
            differences: vec![difference("60", Some("80"))],
            more: 0,
            away: 3,
        };
        let newest = Self {
            line: generation(43, "restore"),
            away: 0,
            differences: vec![difference(HOSTILE, None)],
            ..older.clone()
        };
        vec![("older", older), ("newest", newest)]
    }
}
