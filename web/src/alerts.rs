//! The Alerts page: what fires, since when, why, where; what is over; by which rules.
//!
//! Separate page by page. It must never show an alert as active that is over, and never a rule
//! without its numbers.

use askama::Template;

use crate::{Frame, Moment, text, url};

/// The most alerts of each list.
pub const ALERTS_MAX: usize = 50;

/// The Alerts page.
#[derive(Debug, Clone, Template)]
#[template(path = "alerts.html", blocks = ["strip", "active", "recent"])]
pub struct AlertsPage {
    /// What stands around it.
    pub frame: Frame,
    /// What fires, then what is pending.
    pub active: Vec<AlertRow>,
    /// What is over, newest first.
    pub recent: Vec<AlertRow>,
    /// Active ones that are not listed.
    pub more: usize,
    /// By which rules.
    pub rules: Vec<RuleRow>,
    /// Who is told.
    pub receivers: Receivers,
    /// The store did not say what is over.
    pub store_silent: bool,
}

/// One alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRow {
    /// Its number; 0 while it is pending.
    pub id: u64,
    /// The compartment.
    pub key: String,
    /// What is wrong, as a sentence about the compartment.
    pub what: &'static str,
    /// `page` or `ticket`.
    pub severity: &'static str,
    /// `pending`, `firing` or `resolved`.
    pub state: &'static str,
    /// When the trouble began.
    pub since: Moment,
    /// When it ended, and why.
    pub ended: Option<(Moment, String)>,
    /// From the beginning to the end, or to now.
    pub lasted_ms: u64,
    /// How often it fired.
    pub episodes: u32,
    /// The arithmetic.
    pub why: String,
    /// The gateways, and whether it happens there now.
    pub gateways: Vec<(String, bool)>,
    /// The upstreams behind it.
    pub upstreams: Vec<String>,
    /// Whether anybody was told.
    pub told: &'static str,
    /// Nobody is told before this moment, and who wanted that.
    pub silenced: Option<(Moment, String)>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    /// The name of its alerts.
    pub name: &'static str,
    /// In words.
    pub words: String,
    /// In PromQL, for a metrics stack.
    pub promql: &'static str,
}

/// Who is told, and with what success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receivers {
    /// Host and port for pages.
    pub pages: Option<String>,
    /// Host and port for tickets.
    pub tickets: Option<String>,
    /// Notices that were taken.
    pub taken: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Notices that were given up.
    pub lost: u64,
}

/// Alerts that fire, as every page counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlertCount {
    /// That woke somebody.
    pub pages: usize,
    /// That wait for working hours.
    pub tickets: usize,
}

impl AlertCount {
    /// All of them.
    pub const fn all(self) -> usize {
        self.pages.saturating_add(self.tickets)
    }

    /// `2 alerts fire, 1 of them a page`.
    pub fn sentence(self) -> String {
        let all = text::plural(self.all(), "alert", "alerts");
        let verb = if self.all() == 1 { "fires" } else { "fire" };
        let pages = match self.pages {
            0 => "none of them a page".to_owned(),
            n if n == self.all() && n == 1 => "a page".to_owned(),
            n if n == self.all() => "all of them pages".to_owned(),
            1 => "1 of them a page".to_owned(),
            n => format!("{n} of them pages"),
        };
        if self.all() == 1 && self.pages == 0 {
            return format!("{all} {verb}, a ticket");
        }
        format!("{all} {verb}, {pages}")
    }
}

impl AlertsPage {
    /// How long an alert can be silenced: value and words.
    pub const SILENCES: [(&'static str, &'static str); 3] =
        [("1", "1 hour"), ("4", "4 hours"), ("24", "a day")];

    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        Ok([
            self.as_strip().render()?,
            self.as_active().render()?,
            self.as_recent().render()?,
        ]
        .join(crate::BETWEEN))
    }

    /// The verdict of this page.
    pub fn sentence(&self) -> String {
        let firing = self.active.iter().filter(|alert| alert.state == "firing");
        let count = AlertCount {
            pages: firing
                .clone()
                .filter(|alert| alert.severity == "page")
                .count(),
            tickets: firing.filter(|alert| alert.severity != "page").count(),
        };
        let pending = self
            .active
            .iter()
            .filter(|alert| alert.state == "pending")
            .count();
        let also = match pending {
            0 => String::new(),
            n => format!(
                " {} not lasted.",
                text::plural(n, "trouble has", "troubles have")
            ),
        };
        match count.all() {
            0 => format!("No alert fires.{also}"),
            _ => format!("{}.{also}", count.sentence()),
        }
    }
}

impl AlertRow {
    /// The page of the compartment.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// Where it is on the page.
    pub fn anchor(&self) -> String {
        match self.id {
            0 => format!("pending-{}", url::encode(&self.key)),
            id => format!("alert-{id}"),
        }
    }

    /// The class in the style sheet; the words say the same.
    pub fn class(&self) -> &'static str {
        match (self.state, self.severity) {
            ("firing", "page") => "full",
            ("firing", _) | ("pending", _) => "nearly",
            _ => "idle",
        }
    }

    /// `page`, `ticket`, `pending` or `resolved`.
    pub fn word(&self) -> &'static str {
        match self.state {
            "firing" => self.severity,
            state => state,
        }
    }

    /// True while it can be silenced.
    pub fn is_firing(&self) -> bool {
        self.state == "firing"
    }
}
