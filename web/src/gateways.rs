//! The Fleet page: every gateway, what it runs, how it does, what was ordered about it.
//!
//! Separate page by page. It must never show a gateway's last word as the present, and a token only
//! once.

use askama::Template;

use crate::{Frame, GatewayRow, GatewayState, Moment, text};

/// The most gateways on the page; those in trouble come first.
pub const FLEET_ROWS_MAX: usize = 200;
/// The most tokens on the page.
pub const TOKEN_ROWS_MAX: usize = 200;

/// The Fleet page.
#[derive(Debug, Clone, Template)]
#[template(path = "fleet.html", blocks = ["strip", "halt", "gateways"])]
pub struct FleetPage {
    /// What stands around it.
    pub frame: Frame,
    /// The newest generation was refused and goes to nobody.
    pub halt: Option<HaltRow>,
    /// Those that try the newest generation before the rest.
    pub trying: Vec<String>,
    /// The gateways.
    pub rows: Vec<FleetRow>,
    /// Gateways that are not listed.
    pub more: usize,
    /// Tokens of single gateways, without what is secret.
    pub tokens: Vec<GatewayToken>,
    /// One that was just made, for the only time.
    pub made: Option<MadeToken>,
    /// What became of the form that was sent.
    pub said: Option<String>,
}

/// A halted generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaltRow {
    /// Which.
    pub generation: u64,
    /// Who refused it.
    pub gateway: String,
    /// Since when.
    pub since: Moment,
    /// Why, line by line.
    pub lines: Vec<String>,
}

/// One gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRow {
    /// Name, state, generation.
    pub gateway: GatewayRow,
    /// Since when it is in this state.
    pub since: Moment,
    /// Why it does not run the newest generation.
    pub reason: Option<String>,
    /// Generations that it is behind.
    pub lag: u64,
    /// Requests in flight and the process's ceiling; `None` when it told no figures.
    pub load: Option<(u64, Option<u64>)>,
    /// Its build.
    pub version: String,
    /// How long its stream is open.
    pub stream_ms: Option<u64>,
    /// How far ahead its wall clock is; `None` when it did not tell.
    pub skew_ms: Option<i64>,
    /// Spans, log records and lines that it dropped since its start.
    pub dropped: u64,
    /// Ordered to be not ready: since when, by whom.
    pub drained: Option<(Moment, String)>,
    /// It says that it is not ready for that reason.
    pub is_drained: bool,
    /// It holds what this store never made and waits for a word.
    pub is_ahead: bool,
    /// It came by a token of its own.
    pub has_token: bool,
}

/// A token of one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayToken {
    /// Names it.
    pub id: String,
    /// Whom it lets in.
    pub gateway: String,
    /// When it was made.
    pub made: Moment,
    /// By whom.
    pub by: String,
}

/// A token that is shown for the only time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeToken {
    /// Whom it lets in.
    pub gateway: String,
    /// The token.
    pub token: String,
}

impl FleetPage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        Ok([
            self.as_strip().render()?,
            self.as_halt().render()?,
            self.as_gateways().render()?,
        ]
        .join(crate::BETWEEN))
    }

    /// The verdict of this page.
    pub fn sentence(&self) -> String {
        let count = |wanted: fn(&GatewayState) -> bool| {
            let of = self.rows.iter().filter(|row| wanted(&row.gateway.state));
            of.count()
        };
        let parts = [
            (count(|s| *s == GatewayState::Running), "running"),
            (count(|s| *s == GatewayState::Lagging), "lagging"),
            (count(|s| matches!(s, GatewayState::Refused(_))), "refused"),
            (count(|s| *s == GatewayState::Silent), "silent"),
            (count(|s| *s == GatewayState::Gone), "gone"),
        ];
        let told: Vec<_> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{} {word}", text::count(*count)))
            .collect();
        match told.is_empty() {
            true => "No gateway has connected yet.".to_owned(),
            false => format!("{}.", told.join(", ")),
        }
    }

    /// The command that starts one more.
    pub fn join_command(&self) -> String {
        format!(
            "bulkhead gateway --control-plane {} --token-file FILE --state-dir DIR --id NAME",
            self.frame.origin
        )
    }

    /// Those that wait for a word before they go back.
    pub fn ahead(&self) -> impl Iterator<Item = &FleetRow> {
        self.rows.iter().filter(|row| row.is_ahead)
    }

    /// Those that can be ordered about.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.gateway.id.as_str())
    }
}

impl FleetRow {
    /// `3 behind`, or nothing.
    pub fn lag_text(&self) -> String {
        match self.lag {
            0 => String::new(),
            n => format!("{} behind", text::count(n)),
        }
    }

    /// `12 of 200`.
    pub fn load_text(&self) -> Option<String> {
        let (in_flight, capacity) = self.load?;
        Some(match capacity {
            Some(capacity) => format!("{} of {}", text::count(in_flight), text::count(capacity)),
            None => text::count(in_flight),
        })
    }

    /// `40 ms ahead`.
    pub fn skew_text(&self) -> Option<String> {
        let skew_ms = self.skew_ms?;
        let size = text::duration(skew_ms.unsigned_abs());
        Some(match skew_ms {
            0 => "none".to_owned(),
            1.. => format!("{size} ahead"),
            _ => format!("{size} behind"),
        })
    }

    /// True for a clock that makes times hard to compare.
    pub fn is_skewed(&self) -> bool {
        self.skew_ms
            .is_some_and(|skew| skew.unsigned_abs() >= 1_000)
    }

    /// `3 min`.
    pub fn stream_text(&self) -> Option<String> {
        self.stream_ms.map(|ms| text::duration(ms / 1_000 * 1_000))
    }

    /// What became of the order to drain.
    pub const fn drain_word(&self) -> Option<&'static str> {
        match (&self.drained, self.is_drained) {
            (Some(_), true) => Some("drained"),
            (Some(_), false) => Some("to be drained"),
            (None, true) => Some("to be ready again"),
            (None, false) => None,
        }
    }
}
