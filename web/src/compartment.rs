//! The page of one compartment: figures, reasons, gateways, what it does not isolate, the form.
//!
//! Separate page by page. The figures are live and the form is not: what an operator types is
//! never touched by a refresh. It must never show a gateway that is gone as part of a sum.

use askama::Template;
use compartment::{Figures, Level, Mode, Rejection};

use crate::{
    Ask, Bar, Edit, Effective, EndpointCells, EndpointsRow, Frame, GatewayRow, Holders, Ladder,
    Moment, NotIsolated, OverTime, OverrideForm, OverrideRow, Reading, ReasonRow, Settable,
    SpareUse, State, Surround, Times, edit::COMMENT_CHARS_MAX, reason_rows, text, url,
};

/// The most gateways in the table.
pub const PARTS_MAX: usize = 100;

/// The page of one compartment.
#[derive(Debug, Clone, Template)]
#[template(
    path = "compartment.html",
    blocks = ["strip", "figures", "reasons", "held", "ladder", "over_time"]
)]
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
    /// How long permits were held and requests waited.
    pub times: Times,
    /// Who holds its slots.
    pub holders: Holders,
    /// The route's streams, which have slots of their own.
    pub streams: Option<Reading>,
    /// The steps of the route's fallback.
    pub ladder: Option<Ladder>,
    /// What is out of the spare; where it is borrowed from.
    pub spare: Option<SpareUse>,
    /// What the route's own rules leave at this moment, line by line.
    pub rules: Vec<String>,
    /// The form, or why there is none.
    pub edit: Settable,
    /// The generation that was just stored from here.
    pub saved: Option<u64>,
    /// The change that holds what was saved, and how long until it goes unless it is kept.
    pub keeps: Option<(u64, String)>,
    /// Values in force.
    pub effective: Vec<Effective>,
    /// What it shares.
    pub not_isolated: Vec<NotIsolated>,
    /// What the linter says of it.
    pub findings: Vec<FindingRow>,
    /// What it did over time; `None` for one of which nothing is kept.
    pub over_time: Option<OverTime>,
    /// Its breaker and its retries; the ladder has a place of its own.
    pub around: Surround,
    /// The newest rejections, a sample.
    pub newest: Vec<RejectedRow>,
    /// The form that asks what another limit would do; `None` without a limit of its own.
    pub ask: Option<Ask>,
    /// Overrides of it that wait or run; `None` while the store does not say.
    pub overrides: Option<Vec<OverrideRow>>,
    /// The form that plans one.
    pub plan: OverrideForm,
}

/// One finding of the linter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingRow {
    /// Which rule.
    pub rule: &'static str,
    /// Where.
    pub path: String,
    /// The arithmetic.
    pub message: String,
}

/// One rejection, with what finds the request again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// When.
    pub at: Moment,
    /// Why.
    pub reason: Rejection,
    /// Of which tenant; empty: nobody's.
    pub tenant: String,
    /// Which gateway refused.
    pub gateway: String,
    /// Empty: the request is in no trace.
    pub trace_id: String,
    /// As the client was told.
    pub request_id: String,
}

impl RejectedRow {
    /// Why, in a few words.
    pub const fn title(&self) -> &'static str {
        crate::reason::title(self.reason)
    }

    /// The page of the tenant.
    pub fn tenant_href(&self) -> String {
        url::compartment(&format!("tenant/{}", self.tenant))
    }
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
            self.as_held().render()?,
            self.as_ladder().render()?,
            match self.over_time {
                Some(_) => self.as_over_time().render()?,
                None => String::new(),
            },
        ]
        .join(crate::BETWEEN))
    }

    /// The endpoints, of an upstream.
    pub fn endpoints(&self) -> Vec<EndpointCells> {
        let told = self.around.endpoints.as_ref();
        let told = told.filter(|_| self.level == Level::Upstream);
        told.map(EndpointsRow::cells).unwrap_or_default()
    }

    /// The refusals by reason.
    pub fn reasons(&self) -> Vec<ReasonRow> {
        self.reading
            .as_ref()
            .map_or_else(Vec::new, |r| reason_rows(&r.rejected, r.arrived))
    }

    /// What a limit in shadow would have refused, by reason.
    pub fn shadow_reasons(&self) -> Vec<ReasonRow> {
        self.reading
            .as_ref()
            .map_or_else(Vec::new, |r| reason_rows(&r.shadow_rejected, r.arrived))
    }

    /// What the candidate would have refused; empty without one.
    pub fn candidate_sentence(&self) -> String {
        let Some((reading, candidate)) =
            self.reading.as_ref().and_then(|r| Some((r, r.candidate?)))
        else {
            return String::new();
        };
        let would = reading.candidate_rejected;
        format!(
            "A limit of {} would have refused {} of its calls: {} of {}.",
            text::count(candidate),
            text::percent(would, reading.arrived),
            text::count(would),
            text::count(reading.arrived)
        )
    }

    /// What the mode means, for a mode that refuses nobody.
    pub fn mode_notice(&self) -> &'static str {
        match self.reading.as_ref().map(|reading| reading.mode) {
            Some(Mode::Shadow) => "In shadow: it decides and counts, and refuses nobody by itself.",
            Some(Mode::Off) => "Off: it judges nothing and refuses nobody by itself.",
            Some(Mode::Enforce) | None => "",
        }
    }

    /// Undoing is offered while nothing came after what was saved.
    pub fn can_undo(&self) -> bool {
        self.form().is_some() && self.saved == Some(self.frame.generation)
    }

    /// The page's own address.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// The route of a route's own key.
    pub fn route_id(&self) -> &str {
        self.key.strip_prefix("route/").unwrap_or(&self.key)
    }

    /// The compartment as a word of a command.
    pub fn shell_key(&self) -> String {
        text::shell(&self.key)
    }

    /// The resource of the API, or one below it, as a word of a command.
    pub fn api(&self, below: &str) -> String {
        let (origin, path) = (&self.frame.origin, url::compartment_api(&self.key));
        text::shell(&format!("{origin}{path}{below}"))
    }

    /// The limit in force as JSON spells it.
    pub fn limit_json(&self) -> String {
        let limit = self.form().and_then(|edit| edit.field("limit"));
        let current = limit.map_or("", |limit| &limit.current);
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
            Level::Fallback => "what one route asks another upstream for, in place of its own",
            Level::Upstream => "one upstream, over all routes that use it",
            Level::Gateway => "the ceiling of each gateway process",
        }
    }

    /// True for a route's own compartment, which guarantees, borrows and queues.
    pub fn is_route(&self) -> bool {
        self.level == Level::Route
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
            Some(limit) if r.mode != Mode::Enforce => format!(
                "{} in flight on {on}; its limit of {} refuses nobody.",
                text::count(r.in_flight),
                text::count(limit)
            ),
            Some(0) => format!("Closed on {on}: every request is refused."),
            Some(limit) if r.over() > 0 => format!(
                "{} in flight on {on}, limit {}: {} over, draining.",
                text::count(r.in_flight),
                text::count(limit),
                text::count(r.over())
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
