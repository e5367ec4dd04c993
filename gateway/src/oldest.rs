//! How old the oldest permit of each compartment is.
//!
//! Separate because the tables of what runs know marks, and whoever asks knows keys: the policy in
//! force puts the two together. It must never be asked by a request.

use std::collections::HashMap;

use compartment::Name;

use crate::live_policy::Live;
use crate::running::Mark;

impl Live {
    /// Age of the oldest permit of each compartment that has one out, in milliseconds, by key.
    pub(crate) fn oldest_ms(&self, now_us: u64) -> HashMap<String, u64> {
        let oldest = self.running.oldest();
        let age_ms = |since_us: u64| now_us.saturating_sub(since_us) / 1_000;
        let mut ages = HashMap::new();
        let Some(any_us) = oldest.any_us else {
            return ages;
        };
        ages.insert("gateway".to_owned(), age_ms(any_us));
        let Some(current) = self.current() else {
            return ages;
        };
        let mut note = |mark: Mark, level: &str, id: &str| {
            let since_us = oldest.by_mark.get(&mark).copied();
            since_us.map(|at_us| ages.insert(format!("{level}/{id}"), age_ms(at_us)));
        };
        for route in &current.routes {
            note(route.route_mark, "route", route.id.as_str());
            if let Some(streams) = &route.streams {
                note(streams.mark, "route", &format!("{}/stream", route.id));
            }
            if let Some(other) = route.fallback.other() {
                note(other.route_mark, "route", &format!("{}/fallback", route.id));
            }
        }
        for upstream in &current.policy.upstreams {
            let id = upstream.id.as_str();
            note(Mark::of("upstream", id), "upstream", id);
        }
        let mut tenants: HashMap<Mark, &Name> = HashMap::new();
        for (&mark, tenant) in current.tenant_marks.iter().zip(&current.compartments) {
            if oldest.by_mark.contains_key(&mark) {
                note(mark, "tenant", tenant.name().as_str());
                tenants.insert(mark, tenant.name());
            }
        }
        let routes = current.routes.iter().flat_map(|route| {
            let streams = route.streams.as_ref().map(|streams| streams.mark);
            [Some(route.route_mark), streams].map(|mark| Some((mark?, &route.id)))
        });
        let routes = routes.flatten();
        let routes: HashMap<Mark, &Name> = routes.collect();
        for ((route, tenant), &since_us) in &oldest.by_pair {
            if let (Some(route), Some(tenant)) = (routes.get(route), tenants.get(tenant)) {
                // Its calls or its streams, whichever is older.
                let age = ages.entry(format!("route/{route}/tenant/{tenant}"));
                let age = age.or_default();
                *age = age_ms(since_us).max(*age);
            }
        }
        ages
    }
}
