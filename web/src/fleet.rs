//! One gateway as the pages show it.
//!
//! Separate because the Overview lists gateways and the Compartment page splits figures by them.
//! A gateway that is gone keeps its last values on the page, marked, and out of every sum.

use crate::text;

/// How a gateway stands towards the newest generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayState {
    /// Connected and runs it.
    Running,
    /// Connected and runs an older one.
    Lagging,
    /// Connected, refused it and keeps the older one; what it said, line by line.
    Refused(Vec<String>),
    /// Connected, but its reports stopped.
    Silent,
    /// Not connected.
    Gone,
}

/// One gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayRow {
    /// What it calls itself.
    pub id: String,
    /// How it stands.
    pub state: GatewayState,
    /// What it runs; 0 for nothing.
    pub generation: u64,
    /// Since the last word from it.
    pub seen_ms_ago: u64,
}

impl GatewayRow {
    /// The word on the page.
    pub const fn word(&self) -> &'static str {
        match self.state {
            GatewayState::Running => "running",
            GatewayState::Lagging => "lagging",
            GatewayState::Refused(_) => "refused",
            GatewayState::Silent => "silent",
            GatewayState::Gone => "gone",
        }
    }

    /// The class in the style sheet.
    pub const fn class(&self) -> &'static str {
        match self.state {
            GatewayState::Running => "busy",
            GatewayState::Lagging => "nearly",
            GatewayState::Refused(_) => "full",
            GatewayState::Silent | GatewayState::Gone => "gone",
        }
    }

    /// What it refused the generation for.
    pub fn refusals(&self) -> &[String] {
        match &self.state {
            GatewayState::Refused(lines) => lines,
            GatewayState::Running
            | GatewayState::Lagging
            | GatewayState::Silent
            | GatewayState::Gone => &[],
        }
    }

    /// In the sums.
    pub const fn reports(&self) -> bool {
        match self.state {
            GatewayState::Running | GatewayState::Lagging | GatewayState::Refused(_) => true,
            GatewayState::Silent | GatewayState::Gone => false,
        }
    }

    /// `generation 43`, or that there is none.
    pub fn generation_text(&self) -> String {
        match self.generation {
            0 => "no policy".to_owned(),
            g => format!("generation {g}"),
        }
    }

    /// Since the last word from it.
    pub fn seen(&self) -> String {
        text::ago(self.seen_ms_ago)
    }
}
