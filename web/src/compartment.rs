//! The page of one compartment: figures, reasons, gateways, what it does not isolate, the form.
//!
//! Separate page by page. The figures are live and the form is not: what an operator types is
//! never touched by a refresh. It must never show a gateway that is gone as part of a sum.

use askama::Template;
use compartment::{Figures, Level};

use crate::{
    Bar, Edit, Effective, Frame, GatewayRow, NotIsolated, Reading, ReasonRow, Settable, State,
    edit::COMMENT_CHARS_MAX, reason_rows, text, url,
};

/// The most gateways in the table.
pub const PARTS_MAX: usize = 100;

/// The page of one compartment.
#[derive(Debug, Clone, Template)]
#[template(path = "compartment.html", blocks = ["strip", "figures", "reasons"])]
pub struct CompartmentPage {
    /// What stands around it.
    pub frame: Frame,
    /// The key.
    pub key: String,
    /// The level.
    pub level: Level,
    /// Who is asked about it.
    pub owner: Option<String>,
    /// The sums; `None` while no gateway reports it.
    pub reading: Option<Reading>,
    /// The same by gateway.
    pub parts: Vec<Part>,
    /// The form, or why there is none.
    pub edit: Settable,
    /// The generation that was just stored from here.
    pub saved: Option<u64>,
    /// Values in force.
    pub effective: Vec<Effective>,
    /// What it shares.
    pub not_isolated: Vec<NotIsolated>,
}

/// One gateway's part.
#[derive(Debug, Clone)]
pub struct Part {
    /// The gateway.
    pub gateway: GatewayRow,
    /// Its figures; `None` when it knows no such compartment.
    pub figures: Option<Figures>,
}

impl Part {
    /// Its state in one word: that of the compartment while it reports, else the gateway's.
    pub fn word(&self) -> &'static str {
        match &self.figures {
            Some(figures) if self.gateway.reports() => State::of(figures).word(),
            _ => self.gateway.word(),
        }
    }

    /// The class of that word.
    pub fn class(&self) -> &'static str {
        match &self.figures {
            Some(figures) if self.gateway.reports() => State::of(figures).class(),
            _ => self.gateway.class(),
        }
    }

    /// The bar of this part.
    pub fn bar(figures: &Figures) -> Option<Bar> {
        let limit = figures.limit.slots().map(u64::from);
        Bar::new(figures.in_flight.into(), figures.peak.into(), limit)
    }

    /// Its refusals.
    pub fn rejected(figures: &Figures) -> String {
        text::count(
            figures
                .rejected
                .values()
                .fold(0_u64, |sum, n| sum.saturating_add(*n)),
        )
    }
}

impl CompartmentPage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        Ok([
            self.as_strip().render()?,
            self.as_figures().render()?,
            self.as_reasons().render()?,
        ]
        .concat())
    }

    /// The refusals by reason.
    pub fn reasons(&self) -> Vec<ReasonRow> {
        self.reading
            .as_ref()
            .map_or_else(Vec::new, |r| reason_rows(&r.rejected, r.arrived))
    }

    /// The page's own address.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// The resource of the API.
    pub fn api(&self) -> String {
        format!("{}{}", self.frame.origin, url::compartment_api(&self.key))
    }

    /// The limit in force as JSON spells it.
    pub fn limit_json(&self) -> String {
        let current = self.form().map_or("", |edit| &edit.current);
        if current == "unlimited" {
            "\"unlimited\"".to_owned()
        } else {
            current.to_owned()
        }
    }

    /// The level in words.
    pub const fn level_words(&self) -> &'static str {
        match self.level {
            Level::Tenant => "one tenant over all routes",
            Level::TenantRoute => "one tenant on one route",
            Level::Route => "one route",
            Level::Stream => "the streams of one route, apart from its calls",
            Level::Upstream => "one upstream, over all routes that use it",
            Level::Gateway => "the ceiling of each gateway process",
        }
    }

    /// The figures in one sentence.
    pub fn sentence(&self) -> String {
        let Some(r) = &self.reading else {
            return "No gateway reports this compartment. Tenants appear with their first request."
                .to_owned();
        };
        let on = match r.gateways {
            1 => "1 gateway".to_owned(),
            n => format!("{n} gateways together"),
        };
        match r.limit {
            None => format!(
                "{} in flight on {on}, without a limit.",
                text::count(r.in_flight)
            ),
            Some(0) => format!("Closed on {on}: every request is refused."),
            Some(limit) if r.in_flight > limit => format!(
                "{} in flight on {on}, above the limit of {}: the rest finishes first.",
                text::count(r.in_flight),
                text::count(limit)
            ),
            Some(limit) => format!(
                "{} of {} slots taken on {on}.",
                text::count(r.in_flight),
                text::count(limit)
            ),
        }
    }

    /// `2 of 3 reporting`.
    pub fn reporting(&self) -> String {
        let reporting = self
            .parts
            .iter()
            .filter(|part| part.gateway.reports())
            .count();
        format!("{reporting} of {} reporting", self.parts.len())
    }

    /// The longest comment, for the form.
    pub const fn comment_chars_max(&self) -> usize {
        COMMENT_CHARS_MAX
    }

    /// The form, if there is one.
    pub fn form(&self) -> Option<&Edit> {
        match &self.edit {
            Settable::Form(edit) => Some(edit),
            Settable::No(_) => None,
        }
    }
}
