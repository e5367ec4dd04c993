//! Endpoints on their way from a gateway to its control plane.
//!
//! Separate from the other figures because they carry text of others: errors of checks and of name
//! servers. It must never take more of that, or longer, than its bounds say.

use std::net::IpAddr;

use compartment::policy::parse_endpoint;
use compartment::{
    ENDPOINTS_TOLD_MAX, EndpointCheck, EndpointFigures, EndpointName, EndpointState,
    EndpointsFigures,
};

use crate::stream::{bounded_text, proto};

/// Longest error of a check or of a name server.
pub const ENDPOINT_ERROR_BYTES_MAX: usize = 200;
/// Longest endpoint: a name of DNS, scheme and port.
pub const ENDPOINT_URL_BYTES_MAX: usize = 300;
/// Most addresses of one name.
pub const ENDPOINT_ADDRESSES_MAX: usize = 8;

pub(crate) fn message(figures: &EndpointsFigures) -> proto::Endpoints {
    let list = figures.list.iter().take(ENDPOINTS_TOLD_MAX);
    proto::Endpoints {
        in_use: figures.in_use,
        ejected: figures.ejected,
        unhealthy: figures.unhealthy,
        draining: figures.draining,
        all_used: figures.all_used,
        list: list.map(one_message).collect(),
    }
}

fn one_message(one: &EndpointFigures) -> proto::Endpoint {
    let error = |error: &Option<String>| {
        let text = error.as_deref().unwrap_or_default();
        bounded_text(text, ENDPOINT_ERROR_BYTES_MAX)
    };
    let check = one.check.as_ref().map(|last| proto::EndpointCheck {
        age_ms: last.age_ms,
        error: error(&last.error),
    });
    let name = one.name.as_ref().map(|last| proto::EndpointName {
        addresses: last
            .addresses
            .iter()
            .take(ENDPOINT_ADDRESSES_MAX)
            .cloned()
            .collect(),
        age_ms: last.age_ms,
        error: error(&last.error),
    });
    proto::Endpoint {
        url: one.url.clone(),
        state: one.state.as_str().to_owned(),
        in_flight: one.in_flight,
        latency_us: one.latency_us,
        failures_in_a_row: one.failures_in_a_row,
        failures: one.failures,
        ejections_in_a_row: one.ejections_in_a_row,
        ejected_for_ms: one.ejected_for_ms,
        check,
        name,
    }
}

/// Bounded in number and length: a peer's text is kept in memory and shown.
pub(crate) fn of(message: proto::Endpoints) -> EndpointsFigures {
    let list = message.list.into_iter().take(ENDPOINTS_TOLD_MAX);
    EndpointsFigures {
        in_use: message.in_use,
        ejected: message.ejected,
        unhealthy: message.unhealthy,
        draining: message.draining,
        all_used: message.all_used,
        list: list.filter_map(one_of).collect(),
    }
}

/// One that this build does not understand (a newer gateway's) is left out, not an error.
fn one_of(message: proto::Endpoint) -> Option<EndpointFigures> {
    let fits = message.url.len() <= ENDPOINT_URL_BYTES_MAX;
    // As this build writes it, whatever the peer's spelling was.
    let url = parse_endpoint(&message.url).filter(|_| fits)?.to_string();
    let error =
        |text: &str| (!text.is_empty()).then(|| bounded_text(text, ENDPOINT_ERROR_BYTES_MAX));
    let address = |text: String| Some(text.parse::<IpAddr>().ok()?.to_string());
    Some(EndpointFigures {
        url,
        state: EndpointState::from_name(&message.state)?,
        in_flight: message.in_flight,
        latency_us: message.latency_us,
        failures_in_a_row: message.failures_in_a_row,
        failures: message.failures,
        ejections_in_a_row: message.ejections_in_a_row,
        ejected_for_ms: message.ejected_for_ms,
        check: message.check.map(|last| EndpointCheck {
            age_ms: last.age_ms,
            error: error(&last.error),
        }),
        name: message.name.map(|last| {
            let all = last.addresses.into_iter().take(ENDPOINT_ADDRESSES_MAX);
            EndpointName {
                addresses: all.filter_map(address).collect(),
                age_ms: last.age_ms,
                error: error(&last.error),
            }
        }),
        seen: None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn figures() -> EndpointsFigures {
        EndpointsFigures::of(vec![
            EndpointFigures {
                url: "http://10.0.0.3:80".to_owned(),
                state: EndpointState::Ejected,
                in_flight: Some(2),
                latency_us: Some(3_500),
                failures_in_a_row: 4,
                failures: 9,
                ejections_in_a_row: Some(1),
                ejected_for_ms: Some(8_000),
                check: Some(EndpointCheck {
                    age_ms: 120,
                    error: Some("status 500".to_owned()),
                }),
                name: None,
                seen: None,
            },
            EndpointFigures {
                url: "https://[2001:db8::1]:8443".to_owned(),
                name: Some(EndpointName {
                    addresses: vec!["2001:db8::1".to_owned()],
                    age_ms: 7,
                    error: None,
                }),
                ..EndpointFigures::default()
            },
        ])
    }

    #[test]
    fn endpoints_survive_the_way_over_the_wire() {
        assert_eq!(of(message(&figures())), figures());
    }

    #[test]
    fn endpoints_of_a_lying_peer_are_bounded() {
        let mut sent = message(&figures());
        let good = sent.list[0].clone();
        let change = |change: &dyn Fn(&mut proto::Endpoint)| {
            let mut one = good.clone();
            change(&mut one);
            one
        };
        sent.list = vec![
            change(&|one| one.url = "http://a/<script>".to_owned()),
            change(&|one| one.url = format!("http://{}", "a".repeat(400))),
            change(&|one| one.state = "splendid".to_owned()),
            change(&|one| {
                let text = "\u{1b}[31m".repeat(1_000);
                one.check = Some(proto::EndpointCheck {
                    age_ms: u64::MAX,
                    error: text.clone(),
                });
                one.name = Some(proto::EndpointName {
                    addresses: vec!["<b>".to_owned(), "10.0.0.1".to_owned()],
                    age_ms: u64::MAX,
                    error: text,
                });
            }),
        ];
        sent.list.extend(vec![good; 1_000]);
        let taken = of(sent);
        assert_eq!(taken.list.len(), ENDPOINTS_TOLD_MAX - 3);
        let first = &taken.list[0];
        let (check, name) = (first.check.clone().unwrap(), first.name.clone().unwrap());
        assert_eq!(name.addresses, ["10.0.0.1"]);
        for error in [check.error.unwrap(), name.error.unwrap()] {
            assert!(error.len() <= ENDPOINT_ERROR_BYTES_MAX && !error.contains('\u{1b}'));
        }
    }
}
