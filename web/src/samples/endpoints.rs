//! Samples of an upstream with several endpoints, some of which are not well.
//!
//! Separate because pages of routes and of upstreams show the same. They must never be reachable
//! from a server.

use compartment::{
    EndpointCheck, EndpointFigures, EndpointName, EndpointState, EndpointsFigures, Figures, Level,
};

use super::compartment_page::{form, page};
use super::{HOSTILE, both, figures};
use crate::{CompartmentPage, EndpointsRow, Surround};

fn one(host: u8, state: EndpointState) -> EndpointFigures {
    EndpointFigures {
        url: format!("http://10.0.0.{host}:80"),
        state,
        in_flight: Some(u32::from(host) + 10),
        latency_us: Some(3_200 * u64::from(host)),
        failures: 3,
        check: Some(EndpointCheck {
            age_ms: 2_100,
            error: None,
        }),
        name: Some(EndpointName {
            addresses: vec![format!("10.0.0.{host}")],
            age_ms: 0,
            error: None,
        }),
        ..EndpointFigures::default()
    }
}

/// As two gateways tell it: one endpoint is ejected on one of them, one is leaving.
fn told(hostile: bool) -> EndpointsFigures {
    let mut named = one(4, EndpointState::InUse);
    "https://recommender-d.internal.shop.example:8443".clone_into(&mut named.url);
    named.name = Some(EndpointName {
        addresses: vec!["10.0.1.17".to_owned(), "2001:db8:0:17::c0de".to_owned()],
        age_ms: 194_000,
        error: Some(if hostile { HOSTILE } else { "no answer" }.to_owned()),
    });
    let leaving = EndpointFigures {
        check: None,
        ..one(9, EndpointState::Draining)
    };
    let well = [1, 2, 3].map(|host| one(host, EndpointState::InUse));
    let mut second = well.to_vec();
    second.push(named.clone());
    let [first, two, _] = well;
    let ejected = EndpointFigures {
        in_flight: Some(0),
        failures: 41,
        failures_in_a_row: 4,
        ejections_in_a_row: Some(1),
        ejected_for_ms: Some(8_300),
        ..one(3, EndpointState::Ejected)
    };
    let mut sum = EndpointsFigures::of(vec![first, two, ejected, named, leaving]);
    sum.seen_by(&if hostile { HOSTILE } else { "gw-a" }.into());
    let mut other = EndpointsFigures::of(second);
    other.seen_by(&"gw-b".into());
    sum.add(&other);
    sum
}

/// Its figures.
pub(super) fn upstream(hostile: bool) -> Figures {
    Figures {
        endpoints: Some(Box::new(told(hostile))),
        ..figures("upstream/recommender", Level::Upstream, 39, 40, 48)
    }
}

/// Its page.
pub(super) fn shown() -> CompartmentPage {
    let figures = upstream(false);
    let page = page(vec![figures.clone()], both(), form("48"));
    let around = Surround {
        endpoints: EndpointsRow::of(Some(&figures)),
        ..super::routes::around()
    };
    CompartmentPage {
        key: figures.key.clone(),
        level: Level::Upstream,
        owner: None,
        around: Surround {
            retry: None,
            ..around
        },
        ..page
    }
}
