//! Policies for unit tests, built by hand.
//!
//! Separate so that a test names only what it is about. It must never be compiled into the
//! product.

use std::time::Duration;

use compartment::policy::{
    Endpoint, Gateway, Headers, HoldUntil, Http, Network, PathMatch, Policy, Rewrite, Route,
    RouteCompartment, Tenant, Timeouts, Upstream,
};
use compartment::{Class, Limit, Mode, Name};

pub(crate) fn network(text: &str) -> Network {
    let (address, prefix_bits) = text.split_once('/').unwrap();
    Network {
        address: address.parse().unwrap(),
        prefix_bits: prefix_bits.parse().unwrap(),
    }
}

pub(crate) fn tenant(id: &str) -> Tenant {
    Tenant {
        id: Name::new(id).unwrap(),
        plan: None,
        limit: Limit::new(10).unwrap(),
        api_keys: Vec::new(),
        expiring: Vec::new(),
        hosts: Vec::new(),
        suspended: false,
    }
}

pub(crate) fn route(id: &str, prefix: &str) -> Route {
    Route {
        id: Name::new(id).unwrap(),
        host: None,
        path: PathMatch::Prefix(prefix.to_owned()),
        methods: None,
        upstream: 0,
        class: Class::Standard,
        owner: None,
        body_bytes_max: None,
        rewrite: Rewrite::default(),
        headers: Headers::default(),
        compartment: RouteCompartment {
            limit: Limit::new(10).unwrap(),
            reserved: 0,
            tenant_limit: None,
            tenant_share: None,
            class_reserve: 0,
            queue: 0,
            queue_wait: Duration::ZERO,
            hold_max: Duration::from_secs(60),
            hold_until: HoldUntil::Body,
            mode: Mode::Enforce,
            candidate: None,
            stream: None,
            assume: None,
        },
        timeout: Timeouts {
            attempt: Duration::from_secs(15),
            total: Duration::from_secs(60),
            body_idle: None,
            deadline_header: None,
        },
        retry: None,
        fallback: Vec::new(),
    }
}

pub(crate) fn http() -> Http {
    Http {
        body_bytes_max: 10 << 20,
        header_bytes_max: 32 << 10,
        header_fields_max: 100,
        target_bytes_max: 8 << 10,
        header_timeout: Duration::from_secs(10),
        body_idle_timeout: Duration::from_secs(15),
        keepalive_idle: Duration::from_secs(60),
        write_stall: Duration::from_secs(15),
        connections_max: 10_000,
        trusted_proxies: Vec::new(),
    }
}

/// One upstream on a port where nobody listens.
pub(crate) fn policy(routes: &[Route]) -> Policy {
    Policy {
        gateway: Gateway {
            capacity: 1_000,
            spare: 1_000,
            http: http(),
        },
        identify: None,
        plans: Vec::new(),
        tenants: Vec::new(),
        upstreams: vec![Upstream {
            http2: false,
            tls: None,
            health: None,
            id: Name::new("u").unwrap(),
            endpoints: vec![Endpoint {
                secure: false,
                host: "127.0.0.1".to_owned(),
                port: 9,
            }],
            limit: Limit::UNLIMITED,
            connect_timeout: Duration::from_secs(2),
            breaker: None,
            force_breaker: None,
        }],
        routes: routes.to_vec(),
    }
}
