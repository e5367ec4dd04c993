//! The Routes page: which requests go where, what binds first, what answers instead.
//!
//! Separate page by page. A page costs in proportion to its rows. It must never call a fallback
//! good because the policy has it.

use std::collections::HashMap;

use askama::Template;
use compartment::policy::{PathMatch, Policy, Route};
use compartment::{Figures, Key};

use crate::effective_words::limit;
use crate::isolation::shared_layers;
use crate::{Chip, Frame, Pager, Reading, RoutesView, Surround, TryForm, text, url};

/// The most rows of one page.
const ROUTE_ROWS_MAX: usize = 50;
/// The most endpoints that a row names.
const ENDPOINTS_MAX: usize = 3;

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "routes.html", blocks = ["strip", "states", "rows"])]
pub struct RoutesPage {
    /// What stands around it.
    pub frame: Frame,
    /// What the address asks for.
    pub view: RoutesView,
    /// This page of the rows.
    pub rows: Vec<RouteRow>,
    /// How many belong to the view.
    pub matching: usize,
    /// All routes, and those in trouble.
    pub counts: (usize, usize),
    /// Why there is no policy to show.
    pub broken: bool,
    /// A request that is tried without being sent.
    pub ask: TryForm,
}

/// What gateways say of some compartments.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// Sums by key.
    pub readings: HashMap<String, Reading>,
    /// Figures by key, for what surrounds a compartment.
    pub figures: HashMap<String, Figures>,
}

/// A compartment in a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Slots {
    /// Its key.
    pub key: String,
    /// The limit of one process, as the policy has it.
    pub limit: String,
    /// What gateways say of it.
    pub reading: Option<Reading>,
}

/// One route.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteRow {
    /// Its name.
    pub id: String,
    /// Who is asked about it.
    pub owner: Option<String>,
    /// The host, when it asks for one.
    pub host: Option<String>,
    /// The path.
    pub path: String,
    /// That path alone.
    pub exact: bool,
    /// Methods; empty: every method.
    pub methods: Vec<String>,
    /// Its compartment.
    pub own: Slots,
    /// Its upstream's.
    pub upstream: Slots,
    /// Where that is.
    pub endpoints: Vec<String>,
    /// How many more endpoints there are.
    pub more_endpoints: usize,
    /// What binds first: words, and the compartment of the narrowest shared layer.
    pub binds: (String, String),
    /// Breaker, retries, ladder.
    pub around: Surround,
}

impl Slots {
    fn of(key: &Key, limit: String, looked: &Looked) -> Self {
        let key = key.to_string();
        let reading = looked.readings.get(&key).cloned();
        Self {
            key,
            limit,
            reading,
        }
    }

    /// Its page.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// `12 of 60`; the limit of one process while nobody tells.
    pub fn words(&self) -> String {
        match &self.reading {
            Some(r) => format!(
                "{} of {} in flight",
                text::count(r.in_flight),
                r.limit_text()
            ),
            None => format!("limit {}, not reported", self.limit),
        }
    }
}

impl RouteRow {
    /// Keys of the compartments that the row of `route` shows.
    pub fn keys(policy: &Policy, route: &Route) -> impl Iterator<Item = String> {
        let upstream = policy.upstreams.get(route.upstream);
        let upstream = upstream.map(|upstream| Key::Upstream(upstream.id.clone()));
        let own = Key::Route(route.id.clone());
        std::iter::once(own)
            .chain(upstream)
            .map(|key| key.to_string())
    }

    /// The row of `route`.
    pub fn new(policy: &Policy, route: &Route, looked: &Looked) -> Self {
        let own = Key::Route(route.id.clone());
        let own = Slots::of(&own, limit(route.compartment.limit), looked);
        let dependency = policy.upstreams.get(route.upstream);
        let upstream = match dependency {
            Some(one) => Slots::of(&Key::Upstream(one.id.clone()), limit(one.limit), looked),
            None => own.clone(),
        };
        let endpoints = dependency.map_or(&[][..], |one| one.endpoints.as_slice());
        let around = Surround::of_route(
            policy,
            route,
            looked.figures.get(&own.key),
            looked.figures.get(&upstream.key),
        );
        let shown = endpoints.iter().take(ENDPOINTS_MAX);
        Self {
            id: route.id.to_string(),
            owner: route.owner.clone(),
            host: route.host.clone(),
            path: route.path.text().to_owned(),
            exact: matches!(route.path, PathMatch::Exact(_)),
            methods: route.methods.clone().unwrap_or_default(),
            endpoints: shown.map(ToString::to_string).collect(),
            more_endpoints: endpoints.len().saturating_sub(ENDPOINTS_MAX),
            binds: binds(policy, route),
            own,
            upstream,
            around,
        }
    }

    /// `GET, HEAD` or `every method`.
    pub fn methods_text(&self) -> String {
        match self.methods.is_empty() {
            true => "every method".to_owned(),
            false => self.methods.join(", "),
        }
    }

    /// The class of the row.
    pub fn class(&self) -> &'static str {
        let own = self.own.reading.as_ref();
        own.map_or("idle", |reading| reading.state.class())
    }

    /// True when somebody is hurt or will be: its own slots, those below, or the breaker.
    pub fn is_problem(&self) -> bool {
        let slots = [&self.own, &self.upstream];
        let readings = slots.into_iter().filter_map(|one| one.reading.as_ref());
        let full = readings
            .map(|reading| reading.state)
            .any(|s| s.is_problem());
        let endpoints = self.around.endpoints.as_ref();
        full || self.around.breaker.as_ref().is_some_and(|b| b.is_problem())
            || endpoints.is_some_and(|e| e.is_problem())
    }
}

/// What binds first in one process, in words, and the compartment of the narrowest shared layer.
fn binds(policy: &Policy, route: &Route) -> (String, String) {
    let layers = shared_layers(policy, route);
    let Some(first) = layers.first() else {
        return (String::new(), Key::Gateway.to_string());
    };
    let slots = text::count(first.slots);
    let with = match first.others {
        0 => "with no other route".to_owned(),
        n => format!("with {}", text::plural(n, "other route", "other routes")),
    };
    let words = match route.compartment.limit.slots() {
        Some(own) if own <= first.slots => format!(
            "its own limit of {} first; narrowest shared: {}, {slots}, {with}",
            text::count(own),
            first.what
        ),
        Some(own) => format!(
            "{} first: {slots}, below its own {}, {with}",
            first.what,
            text::count(own)
        ),
        None => format!("{} first: {slots}, {with}", first.what),
    };
    (words, first.key.to_string())
}

impl RoutesPage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let parts = [
            self.as_strip().render()?,
            self.as_states().render()?,
            self.as_rows().render()?,
        ];
        Ok(parts.join(crate::BETWEEN))
    }

    /// All, and the problems.
    pub fn chips(&self) -> Vec<Chip> {
        let (all, problems) = self.counts;
        let chip = |wanted, word, n| {
            let href = self.view.with_problems(wanted).href();
            Chip::new(href, "", word, n, self.view.problems == wanted)
        };
        vec![chip(false, "all", all), chip(true, "problems", problems)]
    }

    /// Where the page is among all.
    pub fn place(&self) -> Pager {
        Pager {
            page: self.view.page,
            rows_max: ROUTE_ROWS_MAX,
            matching: self.matching,
        }
    }

    /// Which rows these are, and the addresses of those before and after.
    pub fn pager(&self) -> (String, Option<String>, Option<String>) {
        let place = self.place();
        place.links(("route", "routes"), |page| self.view.page(page))
    }
}
