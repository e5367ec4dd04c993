//! Samples of the Fleet page.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame, gateway, moment};
use crate::{Fleet, FleetPage, FleetRow, Frame, GatewayState, GatewayToken, HaltRow, MadeToken};

fn row(id: &str, state: GatewayState) -> FleetRow {
    FleetRow {
        gateway: gateway(id, state),
        since: moment("2026-07-01T11:48:00Z", 720_000),
        reason: None,
        lag: 0,
        load: Some((12, Some(200))),
        version: "0.1.0".to_owned(),
        stream_ms: Some(5_400_000),
        skew_ms: Some(3),
        dropped: 0,
        drained: None,
        is_drained: false,
        is_ahead: false,
        has_token: true,
    }
}

fn page(frame: Frame, rows: Vec<FleetRow>) -> FleetPage {
    FleetPage {
        frame: Frame {
            here: "/gateways".to_owned(),
            ..frame
        },
        halt: None,
        trying: Vec::new(),
        rows,
        more: 0,
        tokens: Vec::new(),
        made: None,
        said: None,
    }
}

fn troubled() -> FleetPage {
    let lines = vec!["/upstreams/payments/ca_file = \"/etc/ca.pem\": cannot be read".to_owned()];
    let refused = FleetRow {
        reason: Some(lines.join(", ")),
        lag: 1,
        ..row("gw-a", GatewayState::Refused(lines.clone()))
    };
    let lagging = FleetRow {
        reason: Some("generation 43 is halted: gw-a refused it".to_owned()),
        lag: 1,
        drained: Some((
            moment("2026-07-01T11:50:00Z", 600_000),
            "operator".to_owned(),
        )),
        is_drained: true,
        load: Some((0, None)),
        ..row("gw-b", GatewayState::Lagging)
    };
    let gone = FleetRow {
        reason: Some("not connected".to_owned()),
        load: None,
        stream_ms: None,
        skew_ms: None,
        has_token: false,
        lag: 1,
        ..row("gw-c", GatewayState::Gone)
    };
    let fleet = Fleet {
        known: 3,
        reporting: 2,
        running: 0,
        refused: 1,
    };
    let frame = Frame { fleet, ..frame() };
    let halt = HaltRow {
        generation: 43,
        gateway: "gw-a".to_owned(),
        since: moment("2026-07-01T11:59:00Z", 60_000),
        lines,
    };
    FleetPage {
        halt: Some(halt),
        ..page(frame, vec![refused, lagging, gone])
    }
}

fn ahead() -> FleetPage {
    let rule = "is older than the running 50".to_owned();
    let mut row = FleetRow {
        reason: Some(format!("/generation: {rule}")),
        skew_ms: Some(-90_000),
        dropped: 1_204,
        is_ahead: true,
        ..row("gw-a", GatewayState::Refused(vec![rule]))
    };
    row.gateway.generation = 50;
    page(frame(), vec![row])
}

fn tokens() -> FleetPage {
    let token = |id: &str, gateway: &str| GatewayToken {
        id: id.to_owned(),
        gateway: gateway.to_owned(),
        made: moment("2026-06-30T09:00:00Z", 97_200_000),
        by: "admin token".to_owned(),
    };
    let rows = vec![
        row("gw-a", GatewayState::Running),
        row("gw-b", GatewayState::Running),
    ];
    FleetPage {
        tokens: vec![token("4f1c9a0b22d3e4f5", "gw-a"), token("9b2c", "gw-b")],
        made: Some(MadeToken {
            gateway: "gw-b".to_owned(),
            token: format!("bhgw_9b2c_{}", "0123456789abcdef".repeat(4)),
        }),
        ..page(frame(), rows)
    }
}

fn hostile() -> FleetPage {
    let lines = vec![HOSTILE.to_owned()];
    let mut row = FleetRow {
        reason: Some(HOSTILE.to_owned()),
        version: HOSTILE.to_owned(),
        drained: Some((moment(HOSTILE, 0), HOSTILE.to_owned())),
        is_ahead: true,
        ..row(HOSTILE, GatewayState::Refused(lines.clone()))
    };
    row.gateway.generation = 50;
    let halt = HaltRow {
        generation: 43,
        gateway: HOSTILE.to_owned(),
        since: moment(HOSTILE, 0),
        lines,
    };
    FleetPage {
        halt: Some(halt),
        trying: vec![HOSTILE.to_owned()],
        said: Some(HOSTILE.to_owned()),
        ..page(frame(), vec![row])
    }
}

impl FleetPage {
    /// Every state of the page, by name.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let trying = FleetPage {
            trying: vec!["gw-a".to_owned()],
            frame: Frame {
                fleet: Fleet {
                    known: 4,
                    reporting: 4,
                    running: 0,
                    refused: 0,
                },
                ..page(frame(), Vec::new()).frame
            },
            ..page(frame(), vec![row("gw-a", GatewayState::Lagging)])
        };
        let empty = Frame {
            fleet: Fleet::default(),
            ..frame()
        };
        vec![
            (
                "healthy",
                page(
                    frame(),
                    vec![
                        row("gw-a", GatewayState::Running),
                        row("gw-b", GatewayState::Running),
                    ],
                ),
            ),
            ("halted", troubled()),
            ("trying", trying),
            ("ahead", ahead()),
            ("tokens", tokens()),
            ("nothing", page(empty, Vec::new())),
            ("hostile_names", hostile()),
        ]
    }
}
