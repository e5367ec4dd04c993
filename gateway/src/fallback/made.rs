//! The ladders of a policy, made when it is put in force.
//!
//! Separate because a policy is read here, off the serving threads. It must never make a ladder
//! for the other upstream of a step: nothing could end it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use compartment::policy::{Fallback, HoldUntil, Policy, Route, Upstream};
use compartment::{Passage, StepFigures};

use super::fixed::FixedAnswer;
use super::ladder::{Ladder, Step, What};
use crate::clock::whole_us;
use crate::dependencies::Prepared;
use crate::live_policy::{Live, PlanLimits, Ways};
use crate::running::Mark;
use crate::stale;

impl Live {
    /// What the steps of each fallback have done, by the key of its route.
    pub(crate) fn ladders(&self, now_us: u64) -> HashMap<String, Vec<StepFigures>> {
        let Some(current) = self.current() else {
            return HashMap::new();
        };
        let routes = current.routes.iter();
        let with_steps = routes.filter(|route| !route.fallback.steps.is_empty());
        let figures = with_steps.map(|route| {
            let key = format!("route/{}", route.id);
            (key, route.fallback.figures(now_us))
        });
        figures.collect()
    }

    /// The steps of a route's fallback. The other upstream is asked as by a route that leads
    /// there: one attempt, its own time, and no ladder.
    pub(crate) fn ladder(
        &self,
        policy: &Policy,
        prepared: &Prepared,
        index: usize,
        route: &Route,
        passage: Option<Passage>,
    ) -> Ladder {
        let mut passage = passage;
        let steps = route.fallback.iter().filter_map(|step| {
            let what = match step {
                Fallback::Stale { age_max } => What::Stale {
                    age_us_max: whole_us(*age_max),
                    begins: upstream_of(policy, route)
                        .map(|own| {
                            stale::begins(route.id.as_str(), own.id.as_str(), &own.endpoints)
                        })
                        .unwrap_or_default(),
                },
                Fallback::Upstream {
                    upstream, timeout, ..
                } => {
                    let ways = Ways {
                        calls: passage.take()?,
                        streams: None,
                        fallback: None,
                        plan_limits: PlanLimits::new(),
                    };
                    let there = leads_to(route, *upstream, *timeout);
                    let mut other = self.route(policy, prepared, index, &there, ways);
                    other.route_mark = Mark::of("fallback", route.id.as_str());
                    What::Upstream(Arc::new(other))
                }
                Fallback::Static {
                    status,
                    content_type,
                    headers,
                    body,
                } => What::Static(FixedAnswer::new(*status, content_type, headers, body)),
            };
            let stats = self.steps.of(&route.id, what.kind().as_str());
            Some(Step { what, stats })
        });
        let steps = steps.collect();
        Ladder { steps }
    }
}

fn upstream_of<'a>(policy: &'a Policy, route: &Route) -> Option<&'a Upstream> {
    policy.upstreams.get(route.upstream)
}

/// The route as it would be over another upstream.
fn leads_to(route: &Route, upstream: usize, timeout: Duration) -> Route {
    let mut there = route.clone();
    there.upstream = upstream;
    there.timeout.attempt = timeout;
    there.retry = None;
    there.fallback = Vec::new();
    there.compartment.stream = None;
    there.compartment.hold_until = HoldUntil::Body;
    there
}
