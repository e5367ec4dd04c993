//! The gateways: who is connected, what each runs, and its newest figures.
//!
//! Separate because the stream writes it and API and pages read it. It lives in memory alone: a
//! gateway says everything again when it reconnects. It must never be asked what *should* run.

mod heard;
mod sum;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use compartment::Figures;
use serde::Serialize;
use wire::stream::proto;

pub use heard::Heard;
use heard::Marks;
pub(crate) use sum::add;

/// Most gateways that are known at once.
pub const GATEWAYS_MAX: usize = 1_000;
/// Figures older than this count no more.
pub const FRESH_MAX: Duration = Duration::from_secs(3);
/// How long a gateway that is gone stays listed.
pub const GONE_MAX: Duration = Duration::from_secs(300);

/// What a gateway runs, against what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayState {
    /// The newest generation.
    Running,
    /// An older one, or none yet.
    Lagging,
    /// It refused the newest one and runs an older one.
    Refused,
}

/// One broken rule, as a gateway told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedFault {
    /// JSON pointer into the document.
    pub pointer: String,
    /// What stands there.
    pub value: String,
    /// What must hold.
    pub detail: String,
}

/// A generation that a gateway would not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedGeneration {
    /// Which.
    pub generation: u64,
    /// Why.
    pub errors: Vec<RefusedFault>,
}

/// One gateway as API and pages show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatewayView {
    /// Its name, stable over reconnects.
    pub id: String,
    /// Whether its stream is open.
    pub connected: bool,
    /// What it runs; 0 for nothing.
    pub generation: u64,
    /// That, against the newest.
    pub state: GatewayState,
    /// Its refusal of the newest generation.
    pub refused: Option<RefusedGeneration>,
    /// When it last said anything, in UTC.
    pub last_seen: String,
    /// Its build.
    pub version: String,
    /// Whether its figures are fresh enough to count.
    pub reporting: bool,
    /// Spans, log records and lines of the access log that it had to drop since its start.
    pub telemetry_dropped: u64,
}

/// One compartment over all gateways that report.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetCompartment {
    /// Sums; the age of the oldest permit is the largest.
    pub total: Figures,
    /// Each gateway's own, by its name.
    pub gateways: Vec<(Arc<str>, Figures)>,
}

/// Live figures over all gateways that report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetFigures {
    /// How many gateways' figures are in the sums.
    pub reporting: usize,
    /// How many gateways are known.
    pub known: usize,
    /// By key.
    pub compartments: BTreeMap<String, FleetCompartment>,
}

impl FleetFigures {
    /// `3 of 4`.
    pub fn reporting_text(&self) -> String {
        format!("{} of {}", self.reporting, self.known)
    }
}

/// Why a gateway is turned away.
#[derive(Debug, thiserror::Error)]
#[error("{GATEWAYS_MAX} gateways are known, which is the most")]
pub struct FleetFull;

/// A moment on both clocks.
#[derive(Clone, Debug)]
pub struct Moment {
    /// For ages.
    pub at: Instant,
    /// For people.
    pub utc: String,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self {
            at: crate::clock::now(),
            utc: crate::clock::utc(),
        }
    }
}

#[derive(Debug)]
struct Member {
    id: Arc<str>,
    /// The open stream; a newer stream of the same gateway takes its place.
    stream: Option<u64>,
    version: String,
    generation: u64,
    refused: Option<RefusedGeneration>,
    seen: Moment,
    figures: Option<(Instant, Arc<Vec<Figures>>)>,
    telemetry_dropped: u64,
    marks: Marks,
}

impl Member {
    fn is_fresh(&self, now: Instant) -> bool {
        let young = |(at, _): &(Instant, _)| now.saturating_duration_since(*at) <= FRESH_MAX;
        self.stream.is_some() && self.figures.as_ref().is_some_and(young)
    }

    fn view(&self, newest: u64, now: Instant) -> GatewayView {
        let refused = self
            .refused
            .clone()
            .filter(|refused| refused.generation == newest);
        let state = match &refused {
            Some(_) => GatewayState::Refused,
            None if self.generation == newest => GatewayState::Running,
            None => GatewayState::Lagging,
        };
        GatewayView {
            id: self.id.as_ref().to_owned(),
            connected: self.stream.is_some(),
            generation: self.generation,
            state,
            refused,
            last_seen: self.seen.utc.clone(),
            version: self.version.clone(),
            reporting: self.is_fresh(now),
            telemetry_dropped: self.telemetry_dropped,
        }
    }
}

#[derive(Debug, Default)]
struct Members {
    list: Vec<Member>,
    streams: u64,
}

/// All gateways that are known.
#[derive(Clone, Debug, Default)]
pub struct Fleet(Arc<Mutex<Members>>);

impl Fleet {
    /// A gateway's stream is open. The answer names the stream in the calls below.
    pub fn connect(
        &self,
        id: &str,
        version: &str,
        generation: u64,
        now: Moment,
    ) -> Result<u64, FleetFull> {
        self.with(|members| {
            members.forget_the_gone(now.at);
            members.streams += 1;
            let stream = members.streams;
            if let Some(member) = members.list.iter_mut().find(|member| &*member.id == id) {
                member.stream = Some(stream);
                version.clone_into(&mut member.version);
                member.generation = generation;
                member.seen = now;
                return Ok(stream);
            }
            if members.list.len() >= GATEWAYS_MAX {
                return Err(FleetFull);
            }
            members.list.push(Member {
                id: id.into(),
                stream: Some(stream),
                version: version.to_owned(),
                generation,
                refused: None,
                seen: now,
                figures: None,
                telemetry_dropped: 0,
                marks: Marks::default(),
            });
            Ok(stream)
        })
    }

    /// The stream is closed.
    pub fn disconnect(&self, stream: u64) {
        self.member(stream, |member| member.stream = None);
    }

    /// The gateway runs this generation. False: another stream of it is newer.
    pub fn runs(&self, stream: u64, generation: u64, now: Moment) -> bool {
        self.member(stream, |member| {
            member.generation = generation;
            member.refused = None;
            member.seen = now;
        })
    }

    /// The gateway refused this generation and runs on with the old one.
    pub fn refuses(
        &self,
        stream: u64,
        generation: u64,
        faults: Vec<proto::Fault>,
        now: Moment,
    ) -> bool {
        let error = |fault: proto::Fault| RefusedFault {
            pointer: fault.pointer,
            value: fault.value,
            detail: fault.rule,
        };
        let errors = faults.into_iter().map(error).collect();
        self.member(stream, |member| {
            member.refused = Some(RefusedGeneration { generation, errors });
            member.seen = now;
        })
    }

    /// The gateway's figures, and the generation they are of.
    pub fn report(
        &self,
        stream: u64,
        generation: u64,
        figures: impl Into<Arc<Vec<Figures>>>,
        now: Moment,
    ) -> bool {
        let figures = figures.into();
        // What is old is dropped outside the lock: with many tenants there is much to free.
        let (mut old, mut passed) = (None, None);
        let known = self.member(stream, |member| {
            member.generation = generation;
            passed = member.marks.note(now.at, &figures);
            old = member.figures.replace((now.at, figures));
            member.seen = now;
        });
        drop((old, passed));
        known
    }

    /// What this gateway says it could not deliver of its telemetry.
    pub fn telemetry_dropped(&self, stream: u64, count: u64) {
        self.member(stream, |member| member.telemetry_dropped = count);
    }

    /// Every gateway, by name.
    pub fn gateways(&self, newest: u64, now: Instant) -> Vec<GatewayView> {
        let mut views: Vec<_> = self.with(|members| {
            members.forget_the_gone(now);
            members
                .list
                .iter()
                .map(|member| member.view(newest, now))
                .collect()
        });
        views.sort_by(|one: &GatewayView, other| one.id.cmp(&other.id));
        views
    }

    /// Live figures of every compartment.
    pub fn figures(&self, now: Instant) -> FleetFigures {
        self.sum(now, |_| true)
    }

    /// Live figures of one compartment.
    pub fn figures_of(&self, key: &str, now: Instant) -> FleetFigures {
        self.sum(now, |figures| figures.key == key)
    }

    fn sum(&self, now: Instant, wanted: impl Fn(&Figures) -> bool) -> FleetFigures {
        let (known, mut fresh) = self.with(|members| {
            members.forget_the_gone(now);
            let fresh = members.list.iter().filter(|member| member.is_fresh(now));
            let figures =
                |m: &Member| Some((Arc::clone(&m.id), Arc::clone(&m.figures.as_ref()?.1)));
            (
                members.list.len(),
                fresh.filter_map(figures).collect::<Vec<_>>(),
            )
        });
        fresh.sort_by(|one: &(Arc<str>, _), other| one.0.cmp(&other.0));
        let mut fleet = FleetFigures {
            reporting: fresh.len(),
            known,
            compartments: BTreeMap::new(),
        };
        for (id, list) in &fresh {
            for figures in list.iter().filter(|figures| wanted(figures)) {
                let own = (Arc::clone(id), figures.clone());
                match fleet.compartments.get_mut(&figures.key) {
                    Some(compartment) => {
                        add(&mut compartment.total, figures);
                        compartment.gateways.push(own);
                    }
                    None => {
                        let first = FleetCompartment {
                            total: figures.clone(),
                            gateways: vec![own],
                        };
                        fleet.compartments.insert(figures.key.clone(), first);
                    }
                }
            }
        }
        fleet
    }

    fn with<T>(&self, change: impl FnOnce(&mut Members) -> T) -> T {
        // The lists hold no half-made state, whatever a holder of the lock did.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn member(&self, stream: u64, change: impl FnOnce(&mut Member)) -> bool {
        self.with(|members| {
            let member = members
                .list
                .iter_mut()
                .find(|member| member.stream == Some(stream));
            member.map(change).is_some()
        })
    }
}

impl Members {
    fn forget_the_gone(&mut self, now: Instant) {
        let age = |member: &Member| now.saturating_duration_since(member.seen.at);
        self.list
            .retain(|member| member.stream.is_some() || age(member) <= GONE_MAX);
    }
}

#[cfg(test)]
mod tests;
