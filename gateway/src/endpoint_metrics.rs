//! Endpoints of upstreams as families of points.
//!
//! Separate from the compartments' because what they are called by is an address. It must never
//! have more series than its bound, however many endpoints a policy names.

use compartment::{EndpointFigures, EndpointState, EndpointsFigures, Figures};
use telemetry::names::{Instrument, Label};
use telemetry::{Family, Figure, Text};

/// Endpoints that have series of their own: the first in the order of the policy. The others are
/// in the numbers of their upstream.
const ENDPOINT_SERIES_MAX: usize = 500;

type Labels = Vec<(Label, Text)>;

/// One family after the other.
pub(crate) fn families(all: &[Figures]) -> Vec<Family> {
    let mut by_state = Family::new(Instrument::Endpoints);
    let mut each = Each::new();
    for figures in all {
        let Some(own) = figures.endpoints.as_deref() else {
            continue;
        };
        let labels = vec![
            (Label::Compartment, Text::from(figures.key.clone())),
            (Label::Level, Text::from(figures.level.as_str())),
        ];
        for (state, count) in counts(own) {
            let mut labels = labels.clone();
            labels.push((Label::State, Text::from(state.as_str())));
            by_state.push(labels, Figure::Whole(count.into()));
        }
        for one in &own.list {
            each.push(&labels, one);
        }
    }
    let mut families = vec![by_state];
    families.extend(each.families);
    families
}

const fn counts(own: &EndpointsFigures) -> [(EndpointState, u32); 4] {
    [
        (EndpointState::InUse, own.in_use),
        (EndpointState::Draining, own.draining),
        (EndpointState::Ejected, own.ejected),
        (EndpointState::Unhealthy, own.unhealthy),
    ]
}

/// The families of single endpoints.
struct Each {
    families: [Family; 6],
    room: usize,
}

impl Each {
    fn new() -> Self {
        use Instrument as I;
        let instruments = [
            I::EndpointState,
            I::EndpointInFlight,
            I::EndpointLatency,
            I::EndpointFailures,
            I::EndpointNameAge,
            I::EndpointNameFailing,
        ];
        Self {
            families: instruments.map(Family::new),
            room: ENDPOINT_SERIES_MAX,
        }
    }

    fn push(&mut self, upstream: &Labels, one: &EndpointFigures) {
        let Some(room) = self.room.checked_sub(1) else {
            return;
        };
        let Some(labels) = labels(upstream, &one.url) else {
            return;
        };
        self.room = room;
        let [state, in_flight, latency, failures, age, failing] = &mut self.families;
        for each in EndpointState::ALL {
            let mut labels = labels.clone();
            labels.push((Label::State, Text::from(each.as_str())));
            state.push(labels, Figure::Whole(u64::from(each == one.state)));
        }
        if let Some(count) = one.in_flight {
            in_flight.push(labels.clone(), Figure::Whole(count.into()));
        }
        if let Some(us) = one.latency_us {
            latency.push(labels.clone(), Figure::Number(seconds(us)));
        }
        failures.push(labels.clone(), Figure::Whole(one.failures));
        if let Some(name) = &one.name {
            let age_us = name.age_ms.saturating_mul(1_000);
            age.push(labels.clone(), Figure::Number(seconds(age_us)));
            let is_failing = u64::from(name.error.is_some());
            failing.push(labels, Figure::Whole(is_failing));
        }
    }
}

fn labels(upstream: &Labels, url: &str) -> Option<Labels> {
    let at = compartment::policy::parse_endpoint(url)?;
    let scheme = if at.secure { "https" } else { "http" };
    let own = [
        (Label::ServerAddress, Text::from(at.host)),
        (Label::ServerPort, Text::from(at.port.to_string())),
        (Label::Scheme, Text::from(scheme)),
    ];
    Some(upstream.iter().cloned().chain(own).collect())
}

#[expect(clippy::cast_precision_loss, reason = "285 years are exact")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use compartment::EndpointName;

    use super::*;
    use crate::report::tests::figures;

    fn page(lists: Vec<Vec<EndpointFigures>>) -> String {
        let lists = lists.into_iter().enumerate();
        let all: Vec<Figures> = lists
            .map(|(n, list)| Figures {
                endpoints: Some(Box::new(EndpointsFigures::of(list))),
                ..figures(&format!("upstream/u{n}"), 1)
            })
            .collect();
        telemetry::page(&families(&all))
    }

    fn plain(port: usize) -> EndpointFigures {
        EndpointFigures {
            url: format!("http://a.test:{port}"),
            in_flight: Some(0),
            latency_us: Some(0),
            name: Some(EndpointName::default()),
            ..EndpointFigures::default()
        }
    }

    #[test]
    fn endpoints_become_samples() {
        let text = page(vec![vec![
            EndpointFigures {
                url: "https://[2001:db8::1]:8443".to_owned(),
                state: EndpointState::Ejected,
                in_flight: Some(3),
                latency_us: Some(2_500),
                failures: 7,
                name: Some(EndpointName {
                    addresses: Vec::new(),
                    age_ms: 1_500,
                    error: Some("no answer".to_owned()),
                }),
                ..EndpointFigures::default()
            },
            plain(80),
        ]]);
        let upstream = "bulkhead_compartment=\"upstream/u0\",bulkhead_level=\"upstream\"";
        let at = "server_address=\"2001:db8::1\",server_port=\"8443\",url_scheme=\"https\"";
        for line in [
            format!("bulkhead_endpoints{{{upstream},state=\"in_use\"}} 1"),
            format!("bulkhead_endpoints{{{upstream},state=\"ejected\"}} 1"),
            format!("bulkhead_endpoints{{{upstream},state=\"draining\"}} 0"),
            format!("bulkhead_endpoint_state{{{upstream},{at},state=\"ejected\"}} 1"),
            format!("bulkhead_endpoint_state{{{upstream},{at},state=\"in_use\"}} 0"),
            format!("bulkhead_endpoint_in_flight{{{upstream},{at}}} 3"),
            format!("bulkhead_endpoint_latency_seconds{{{upstream},{at}}} 0.0025"),
            format!("bulkhead_endpoint_failures_total{{{upstream},{at}}} 7"),
            format!("bulkhead_endpoint_name_age_seconds{{{upstream},{at}}} 1.5"),
            format!("bulkhead_endpoint_name_failing{{{upstream},{at}}} 1"),
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn series_do_not_grow_with_endpoints() {
        let lines = |text: &str, name: &str| {
            let of = |line: &&str| line.starts_with(name) && !line.starts_with('#');
            text.lines().filter(of).count()
        };
        let many = page((0..100).map(|_| (1..=64).map(plain).collect()).collect());
        assert_eq!(
            lines(&many, "bulkhead_endpoint_failures_total{"),
            ENDPOINT_SERIES_MAX
        );
        assert_eq!(
            lines(&many, "bulkhead_endpoint_state"),
            ENDPOINT_SERIES_MAX * 4
        );
        // Of each upstream, its numbers.
        assert_eq!(lines(&many, "bulkhead_endpoints{"), 400);
    }
}
