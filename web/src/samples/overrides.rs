//! Samples of the Overrides page.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame, moment, reader, signed_in};
use crate::{Frame, OverrideForm, OverrideRow, OverridesPage, Role};

fn row(id: i64, state: &'static str) -> OverrideRow {
    let at = |hour: u32| {
        let local = format!("2026-07-01T{hour}:00[Europe/Berlin]");
        (local, format!("2026-07-01T{}:00:00.000Z", hour - 2))
    };
    OverrideRow {
        id,
        key: "tenant/acme".to_owned(),
        field: "limit".to_owned(),
        value: "80".to_owned(),
        before: None,
        state,
        start: at(14),
        end: at(18),
        by: "ann".to_owned(),
        at: moment("2026-07-01T11:48:00Z", 720_000),
        approved_by: None,
        cancelled_by: None,
        end_asked_by: None,
        end_approved_by: None,
        comment: "the fair".to_owned(),
        note: None,
        set_by: None,
        lifted_by: None,
    }
}

/// One that runs and a hostile one ahead, for the page of a compartment.
pub(super) fn two() -> Vec<OverrideRow> {
    vec![row(9, "running"), hostile(10, "waiting")]
}

fn over(id: i64, state: &'static str) -> OverrideRow {
    OverrideRow {
        before: Some("60".to_owned()),
        set_by: Some(41),
        lifted_by: Some(42),
        ..row(id, state)
    }
}

fn hostile(id: i64, state: &'static str) -> OverrideRow {
    let text = || format!("{HOSTILE}\u{202e}");
    OverrideRow {
        key: text(),
        field: text(),
        value: text(),
        before: Some(text()),
        start: (text(), text()),
        end: (text(), text()),
        by: text(),
        approved_by: Some(text()),
        end_asked_by: Some(text()),
        end_approved_by: Some(text()),
        comment: text(),
        note: Some(text()),
        ..row(id, state)
    }
}

fn empty() -> OverridesPage {
    OverridesPage {
        frame: Frame {
            here: "/overrides".to_owned(),
            reader: signed_in(),
            ..frame()
        },
        needs_second: false,
        running: Vec::new(),
        ahead: Vec::new(),
        ended: Vec::new(),
        plan: OverrideForm {
            zone: "UTC".to_owned(),
            ..OverrideForm::default()
        },
        refused: None,
        store_silent: false,
    }
}

/// One whose end waits for a second person, one that runs, one that is being ended.
fn under_way() -> Vec<OverrideRow> {
    let ending = OverrideRow {
        cancelled_by: Some("bob".to_owned()),
        lifted_by: None,
        ..over(8, "running")
    };
    let running = OverrideRow {
        lifted_by: None,
        ..over(9, "running")
    };
    let end_asked = OverrideRow {
        end_asked_by: Some("bob".to_owned()),
        lifted_by: None,
        ..over(12, "running")
    };
    vec![end_asked, running, ending]
}

impl OverridesPage {
    /// Named states.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let empty = empty();
        let left = OverrideRow {
            note: Some("somebody else set the field meanwhile: left as it is".to_owned()),
            lifted_by: None,
            ..over(4, "left")
        };
        let many = Self {
            needs_second: true,
            running: under_way(),
            ahead: vec![row(11, "proposed"), row(10, "waiting")],
            ended: vec![over(7, "ended"), left, row(3, "missed")],
            ..empty.clone()
        };
        let viewer = Self {
            frame: Frame {
                reader: reader("vera", Role::Viewer),
                ..many.frame.clone()
            },
            ..many.clone()
        };
        let refused = Self {
            refused: Some("end: must be after the start, and ahead".to_owned()),
            plan: OverrideForm {
                key: "tenant/acme".to_owned(),
                value: "80".to_owned(),
                end: "2026-06-01T18:00".to_owned(),
                comment: "the fair".to_owned(),
                ..empty.plan.clone()
            },
            ..empty.clone()
        };
        let names = Self {
            running: vec![hostile(2, "running")],
            ahead: vec![hostile(1, "proposed")],
            refused: Some(HOSTILE.to_owned()),
            plan: OverrideForm {
                key: HOSTILE.to_owned(),
                value: HOSTILE.to_owned(),
                zone: HOSTILE.to_owned(),
                comment: HOSTILE.to_owned(),
                ..empty.plan.clone()
            },
            ..empty.clone()
        };
        let silent = Self {
            store_silent: true,
            ..empty.clone()
        };
        vec![
            ("many", many),
            ("viewer", viewer),
            ("refused", refused),
            ("silent", silent),
            ("hostile", names),
            ("empty", empty),
        ]
    }
}
