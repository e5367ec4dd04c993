//! The gateways: who is connected, what each runs, and its newest figures.
//!
//! Separate because the stream writes it and API and pages read it. It lives in memory alone: a
//! gateway says everything again when it reconnects. It must never be asked what *should* run.

mod elsewhere;
mod heard;
mod sum;
mod view;
mod wanted;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use compartment::{Figures, Level};
use wire::stream::proto;

pub(crate) use elsewhere::Told;
pub use heard::Heard;
use heard::Marks;
pub(crate) use sum::{add, name_endpoints};
pub use view::{GatewayState, GatewayView, Load, RefusedFault, RefusedGeneration};
pub use wanted::Wanted;

/// Most gateways that are known at once.
pub const GATEWAYS_MAX: usize = 1_000;
/// Figures older than this count no more.
pub const FRESH_MAX: Duration = Duration::from_secs(3);
/// How long a gateway that is gone stays listed.
pub const GONE_MAX: Duration = Duration::from_secs(300);

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

/// What else is known of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct About {
    /// It holds what this store never made, under a number of this store.
    pub ahead: bool,
    /// A token of its own let it in.
    pub own_token: bool,
    /// It says that it is not ready, because an operator ordered so.
    pub drained: bool,
}

#[derive(Debug)]
struct Member {
    id: Arc<str>,
    /// The open stream; a newer stream of the same gateway takes its place.
    stream: Option<u64>,
    /// That stream is another control plane's.
    elsewhere: bool,
    version: String,
    generation: u64,
    /// Since when it runs that, as far as this process saw.
    runs_since: String,
    /// When its stream was opened or closed.
    turned: String,
    opened: Instant,
    about: About,
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

    fn view(&self, wanted: &Wanted, now: Instant) -> GatewayView {
        let newest = wanted.of(&self.id);
        let own = self.refused.clone();
        let refused = own.filter(|refused| refused.generation == newest);
        let refused = refused.or_else(|| wanted.halted_by(&self.id, self.generation));
        let state = match &refused {
            Some(_) => GatewayState::Refused,
            None if self.generation == newest && !self.about.ahead => GatewayState::Running,
            None => GatewayState::Lagging,
        };
        let lags_since = || wanted.published_at.clone().max(self.turned.clone());
        let since = match &refused {
            Some(refused) => refused.since.clone(),
            None if state == GatewayState::Running => self.runs_since.clone(),
            None => lags_since(),
        };
        let connected = self.stream.is_some();
        let age = now.saturating_duration_since(self.opened);
        GatewayView {
            id: self.id.as_ref().to_owned(),
            connected,
            generation: self.generation,
            state,
            since,
            reason: wanted.reason(&self.id, connected, state, refused.as_ref()),
            refused,
            last_seen: self.seen.utc.clone(),
            version: self.version.clone(),
            reporting: self.is_fresh(now),
            telemetry_dropped: self.telemetry_dropped,
            load: self.is_fresh(now).then(|| self.load()).flatten(),
            stream_age_ms: connected.then(|| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            clock_skew_ms: None,
            ahead: connected && self.about.ahead,
            own_token: self.about.own_token,
            drained: connected && self.about.drained,
            drain: None,
            staged: wanted.staged_on(&self.id),
        }
    }

    /// What the whole process carries.
    fn load(&self) -> Option<Load> {
        let (_, figures) = self.figures.as_ref()?;
        // They are sorted, and the process's own key comes first.
        let own = figures
            .iter()
            .find(|figures| figures.level == Level::Gateway)?;
        Some(Load {
            in_flight: u64::from(own.in_flight),
            capacity: own.limit.slots().map(u64::from),
        })
    }

    fn runs(&mut self, generation: u64, now: &Moment) {
        if self.generation != generation {
            self.generation = generation;
            self.runs_since.clone_from(&now.utc);
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
                (member.stream, member.elsewhere) = (Some(stream), false);
                version.clone_into(&mut member.version);
                member.runs(generation, &now);
                member.turned.clone_from(&now.utc);
                member.opened = now.at;
                member.about = About::default();
                member.seen = now;
                return Ok(stream);
            }
            if members.list.len() >= GATEWAYS_MAX {
                return Err(FleetFull);
            }
            members.list.push(Member {
                id: id.into(),
                stream: Some(stream),
                elsewhere: false,
                version: version.to_owned(),
                generation,
                runs_since: now.utc.clone(),
                turned: now.utc.clone(),
                opened: now.at,
                about: About::default(),
                refused: None,
                seen: now,
                figures: None,
                telemetry_dropped: 0,
                marks: Marks::default(),
            });
            Ok(stream)
        })
    }

    /// What else is known of it: how it was let in, what it holds, whether it is ready.
    pub fn about(&self, stream: u64, change: impl FnOnce(&mut About)) {
        self.member(stream, |member| change(&mut member.about));
    }

    /// The stream is closed.
    pub fn disconnect(&self, stream: u64, now: &Moment) {
        self.member(stream, |member| {
            member.stream = None;
            member.turned.clone_from(&now.utc);
        });
    }

    /// The gateway runs this generation. False: another stream of it is newer.
    pub fn runs(&self, stream: u64, generation: u64, now: Moment) -> bool {
        self.member(stream, |member| {
            member.runs(generation, &now);
            member.about.ahead = false;
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
        let errors = faults.into_iter().map(RefusedFault::from).collect();
        self.member(stream, |member| {
            let since = now.utc.clone();
            member.refused = Some(RefusedGeneration {
                generation,
                since,
                errors,
            });
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
            member.runs(generation, &now);
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
    pub fn gateways(&self, wanted: &Wanted, now: Instant) -> Vec<GatewayView> {
        let mut views: Vec<_> = self.with(|members| {
            members.forget_the_gone(now);
            members
                .list
                .iter()
                .map(|member| member.view(wanted, now))
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
