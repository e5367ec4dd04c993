//! What the gateway says of upstreams' endpoints: to the admin port, in figures, in reports.
//!
//! Separate because it is read from the endpoints themselves, whoever they serve. It must never
//! show a path, a credential or a file's content.

use std::collections::HashMap;

use compartment::{
    ENDPOINTS_TOLD_MAX, EndpointCheck, EndpointFigures, EndpointName, EndpointState,
    EndpointsFigures, Figures, Key,
};
use serde_json::{Value, json};

use crate::dependencies::Dependencies;
use crate::upstream::Target;

/// Most endpoints of one report; when there are more, those come first that are out or in doubt.
const REPORT_ENDPOINTS_MAX: usize = 2_000;

/// Of every upstream, by the key of its compartment.
pub(crate) fn figures(
    dependencies: &Dependencies,
    now_us: u64,
) -> HashMap<String, EndpointsFigures> {
    let mut lists: HashMap<String, Vec<EndpointFigures>> = HashMap::new();
    for (id, known) in dependencies.all() {
        let several = known.targets.len() > 1;
        let targets = known.targets.iter();
        let list =
            targets.map(|target| one(target, state(target, several, now_us), several, now_us));
        lists.insert(Key::Upstream(id).to_string(), list.collect());
    }
    for (id, target, several) in dependencies.leaving() {
        let list = lists.entry(Key::Upstream(id).to_string()).or_default();
        let left = one(&target, EndpointState::Draining, several, now_us);
        // One that is spoken to in another way now is told as it is now.
        let is_there = list.iter().any(|one| one.url == left.url);
        if !is_there && list.len() < ENDPOINTS_TOLD_MAX {
            list.push(left);
        }
    }
    let of = |(key, list)| (key, EndpointsFigures::of(list));
    lists.into_iter().map(of).collect()
}

/// The page of the admin port.
pub(crate) fn page(dependencies: &Dependencies, now_us: u64) -> Value {
    let mut figures = figures(dependencies, now_us);
    let all = dependencies.all().into_iter();
    let upstreams = all.filter_map(|(id, _)| {
        let own = figures.remove(&Key::Upstream(id.clone()).to_string())?;
        Some(json!({
            "id": id.as_str(),
            "endpoints": own.list,
            "out": own.out(),
            "draining": own.draining,
            // More than half would be out: requests go to all of them.
            "all_used": own.all_used,
        }))
    });
    json!({ "upstreams": upstreams.collect::<Vec<_>>() })
}

/// Of the only one nothing is counted that a choice would need, and it is never ejected.
fn state(target: &Target, several: bool, now_us: u64) -> EndpointState {
    let seen = target.standing.seen(now_us);
    match (seen.is_sick, several && seen.ejected_for_us > 0) {
        (true, _) => EndpointState::Unhealthy,
        (false, true) => EndpointState::Ejected,
        (false, false) => EndpointState::InUse,
    }
}

/// `several`: there are others to choose from.
fn one(target: &Target, state: EndpointState, several: bool, now_us: u64) -> EndpointFigures {
    let seen = target.standing.seen(now_us);
    let age_ms = |at_us: u64| now_us.saturating_sub(at_us) / 1_000;
    let check = target.last_check().map(|check| EndpointCheck {
        age_ms: age_ms(check.at_us),
        error: check.error,
    });
    let name = target.last_look_up().map(|look_up| EndpointName {
        addresses: look_up.addresses.iter().map(ToString::to_string).collect(),
        // Never answered: there is nothing that could be old.
        age_ms: if look_up.addresses.is_empty() {
            0
        } else {
            age_ms(look_up.at_us)
        },
        error: look_up.error,
    });
    EndpointFigures {
        url: target.endpoint.to_string(),
        state,
        in_flight: several.then_some(seen.in_flight),
        latency_us: several.then_some(seen.latency_us),
        failures_in_a_row: seen.failures,
        failures: seen.failed,
        ejections_in_a_row: several.then_some(seen.ejections),
        ejected_for_ms: several.then_some(seen.ejected_for_us / 1_000),
        check,
        name,
        seen: None,
    }
}

/// A report goes out every second, whatever the number of endpoints.
pub(crate) fn fit(all: &mut [Figures]) {
    let told = |figures: &Figures| figures.endpoints.as_ref().map_or(0, |own| own.list.len());
    if all.iter().map(told).sum::<usize>() <= REPORT_ENDPOINTS_MAX {
        return;
    }
    let mut room = REPORT_ENDPOINTS_MAX;
    for figures in all {
        if let Some(own) = &mut figures.endpoints {
            // Too many for all: only those that are told first, in any upstream.
            own.list.retain(EndpointFigures::is_told_first);
            own.shorten(room);
            room = room.saturating_sub(own.list.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::figures as of;

    fn upstream(n: usize, sick: bool) -> Figures {
        let one = |m| EndpointFigures {
            url: format!("http://10.0.0.{m}:{n}"),
            state: match sick && m < 3 {
                true => EndpointState::Unhealthy,
                false => EndpointState::InUse,
            },
            ..EndpointFigures::default()
        };
        let list = (0..64).map(one).collect();
        Figures {
            endpoints: Some(Box::new(EndpointsFigures::of(list))),
            ..of(&format!("upstream/u{n}"), 1)
        }
    }

    fn told(all: &[Figures]) -> Vec<usize> {
        let own = |figures: &Figures| figures.endpoints.as_ref().map_or(0, |own| own.list.len());
        all.iter().map(own).collect()
    }

    #[test]
    fn a_report_tells_of_all_endpoints_while_there_is_room() {
        let mut all: Vec<_> = (0..31).map(|n| upstream(n, true)).collect();
        all.push(of("gateway", 1));
        fit(&mut all);
        assert_eq!(told(&all).iter().sum::<usize>(), 31 * 64);
    }

    #[test]
    fn a_report_has_a_bound_and_tells_trouble_first() {
        let mut all: Vec<_> = (0..1_000).map(|n| upstream(n, n >= 400)).collect();
        fit(&mut all);
        let lengths = told(&all);
        assert_eq!(lengths[..400], [0; 400]);
        assert_eq!(lengths[400..1_000], [3; 600]);
        // Their numbers stay.
        let last = all[999].endpoints.as_ref().unwrap();
        assert_eq!((last.unhealthy, last.in_use, last.left_out()), (3, 61, 61));
        let mut worse: Vec<_> = (0..1_000).map(|n| upstream(n, true)).collect();
        fit(&mut worse);
        assert_eq!(told(&worse).iter().sum::<usize>(), REPORT_ENDPOINTS_MAX);
    }
}
