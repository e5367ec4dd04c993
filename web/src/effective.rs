//! Every value in force for one compartment, and where each comes from.
//!
//! Separate because it reads the policy twice: the checked values for what holds, the document for
//! who said so. It must never leave out a value because nobody set it: hidden defaults bite.

use compartment::policy::{
    Fallback, Gateway, HoldUntil, Plan, Policy, Route, Tenant, Unknown, Value,
};
use compartment::{Class, Key};

use crate::effective_words::{bytes, endpoints, fallbacks, limit, not_set, retry, time};
use crate::text;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// `[gateway]` or `[gateway.http]`.
    Gateway,
    /// `[identify]`.
    Identify,
    /// `[plans.ID]`.
    Plan(String),
    /// `[tenants.ID]`.
    Tenant(String),
    /// The route of this name.
    Route(String),
    /// `[upstreams.ID]`.
    Upstream(String),
}

impl Origin {
    /// Nobody set it.
    pub fn is_default(&self) -> bool {
        *self == Self::Default
    }

    /// The words on the page.
    pub fn words(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Gateway => "gateway".to_owned(),
            Self::Identify => "identify".to_owned(),
            Self::Plan(id) => format!("plan {id}"),
            Self::Tenant(id) => format!("tenant {id}"),
            Self::Route(id) => format!("route {id}"),
            Self::Upstream(id) => format!("upstream {id}"),
        }
    }
}

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Its name in the policy.
    pub name: &'static str,
    /// As a person reads it.
    pub value: String,
    /// Who set it.
    pub origin: Origin,
}

/// The values in force for `key`; nothing for a key that the policy does not name.
pub fn effective_values(document: &Value, policy: &Policy, key: &Key) -> Vec<Effective> {
    let values = match key {
        Key::Gateway => Some(gateway(document, &policy.gateway)),
        Key::Route(id) => route(document, policy, id.as_str()),
        Key::Stream(id) => streams(document, policy, id.as_str()),
        Key::Fallback(id) => fallback(document, policy, id.as_str()),
        Key::Upstream(id) => upstream(document, policy, id.as_str()),
        Key::Tenant(id) => tenant(document, policy, id.as_str()),
        Key::TenantRoute(r, who) => tenant_route(policy, r.as_str(), who.as_str()),
    };
    values.unwrap_or_default()
}

/// Collects values of one table, telling what was said from what is default.
struct Values<'a> {
    table: Option<&'a Value>,
    said: Origin,
    list: Vec<Effective>,
}

impl<'a> Values<'a> {
    fn of(table: Option<&'a Value>, said: Origin) -> Self {
        Self {
            table,
            said,
            list: Vec::new(),
        }
    }

    fn add(&mut self, name: &'static str, value: impl ToString) {
        self.add_or(name, value, Origin::Default);
    }

    /// `otherwise` is where it comes from when this table does not say.
    fn add_or(&mut self, name: &'static str, value: impl ToString, otherwise: Origin) {
        let last = name.rsplit('.').next().unwrap_or(name);
        let said = self.table.is_some_and(|table| table.get(last).is_some());
        let origin = if said { self.said.clone() } else { otherwise };
        self.list.push(Effective {
            name,
            value: value.to_string(),
            origin,
        });
    }

    fn then(mut self, table: Option<&'a Value>) -> Self {
        self.table = table;
        self
    }
}

fn gateway(document: &Value, gateway: &Gateway) -> Vec<Effective> {
    let table = document.get("gateway");
    let mut values = Values::of(table, Origin::Gateway);
    values.add("capacity", text::count(gateway.capacity));
    values.add("spare", text::count(gateway.spare));
    let http = &gateway.http;
    let mut values = values.then(table.and_then(|table| table.get("http")));
    values.add("http.max_connections", text::count(http.connections_max));
    values.add("http.max_body", bytes(http.body_bytes_max));
    values.add("http.max_header_bytes", bytes(http.header_bytes_max.into()));
    values.add(
        "http.max_header_fields",
        text::count(http.header_fields_max),
    );
    values.add("http.max_target_bytes", bytes(http.target_bytes_max.into()));
    values.add("http.header_timeout", time(http.header_timeout));
    values.add("http.body_idle_timeout", time(http.body_idle_timeout));
    values.add("http.keepalive_idle", time(http.keepalive_idle));
    values.add("http.write_stall", time(http.write_stall));
    values.list
}

fn route(document: &Value, policy: &Policy, id: &str) -> Option<Vec<Effective>> {
    let (index, route) = policy
        .routes
        .iter()
        .enumerate()
        .find(|(_, r)| r.id.as_str() == id)?;
    let table = match document.get("routes") {
        Some(Value::Array(routes)) => routes.get(index),
        _ => None,
    };
    let mut values = Values::of(table, Origin::Route(id.to_owned()));
    let own = &route.compartment;
    values = values.then(table.and_then(|table| table.get("compartment")));
    values.add("limit", limit(own.limit));
    values.add("mode", own.mode);
    values.add("candidate", own.candidate.map_or_else(not_set, text::count));
    values.add("reserved", text::count(own.reserved));
    values.add("tenant_limit", own.tenant_limit.map_or_else(not_set, limit));
    let share = own
        .tenant_share
        .map_or_else(not_set, |share| text::millionths(share.0));
    values.add("tenant_share", share);
    values.add("class_reserve", text::count(own.class_reserve));
    values.add("queue", text::count(own.queue));
    if own.queue > 0 {
        values.add("queue_wait", time(own.queue_wait));
    }
    values.add("max_hold", time(own.hold_max));
    values.add(
        "hold_until",
        match own.hold_until {
            HoldUntil::Body => "end of the body",
            HoldUntil::Headers => "response head",
        },
    );
    route_times(&mut values, table, document, policy, route);
    values = values.then(table);
    values.add("class", route.class.as_str());
    values.add(
        "upstream",
        policy
            .upstreams
            .get(route.upstream)
            .map_or("", |u| u.id.as_str()),
    );
    values.add(
        "retry",
        route
            .retry
            .as_ref()
            .map_or_else(|| "one attempt".to_owned(), retry),
    );
    values.add("fallback", fallbacks(policy, &route.fallback));
    if let Some(stream) = own.stream {
        values.table = table.and_then(|table| table.get("compartment"));
        values.add(
            "stream",
            format!("{} slots of their own", limit(stream.limit)),
        );
    }
    plan_caps(&mut values, policy, index);
    Some(values.list)
}

/// What plans say of one tenant on this route.
fn plan_caps(values: &mut Values<'_>, policy: &Policy, route: usize) {
    for plan in &policy.plans {
        for (_, cap) in plan.routes.iter().filter(|(at, _)| *at == route) {
            values.list.push(Effective {
                name: "tenant_limit",
                value: format!("{} for a tenant of the plan", limit(*cap)),
                origin: Origin::Plan(plan.id.to_string()),
            });
        }
    }
}

fn streams(document: &Value, policy: &Policy, id: &str) -> Option<Vec<Effective>> {
    let index = policy.routes.iter().position(|r| r.id.as_str() == id)?;
    let own = policy.routes.get(index)?.compartment.stream?;
    let table = match document.get("routes") {
        Some(Value::Array(routes)) => routes.get(index),
        _ => None,
    };
    let compartment = table.and_then(|table| table.get("compartment"));
    let table = compartment.and_then(|compartment| compartment.get("stream"));
    let mut values = Values::of(table, Origin::Route(id.to_owned()));
    values.add("limit", limit(own.limit));
    values.add("idle", time(own.idle));
    values.add("max_age", time(own.age_max));
    let counted = match own.grpc {
        true => "every gRPC call is a stream",
        false => "gRPC calls are calls as all others",
    };
    values.add("grpc", counted);
    Some(values.list)
}

/// The step of its route's fallback that asks another dependency.
fn fallback(document: &Value, policy: &Policy, id: &str) -> Option<Vec<Effective>> {
    let index = policy.routes.iter().position(|r| r.id.as_str() == id)?;
    let steps = &policy.routes.get(index)?.fallback;
    let (at, upstream, own, timeout) =
        steps.iter().enumerate().find_map(|(at, step)| match step {
            Fallback::Upstream {
                upstream,
                limit,
                timeout,
            } => Some((at, *upstream, *limit, *timeout)),
            Fallback::Stale { .. } | Fallback::Static { .. } => None,
        })?;
    let table = document
        .get("routes")
        .and_then(|routes| item(routes, index))
        .and_then(|route| item(route.get("fallback")?, at));
    let mut values = Values::of(table, Origin::Route(id.to_owned()));
    values.add("limit", limit(own));
    values.add("upstream", &policy.upstreams.get(upstream)?.id);
    values.add("timeout", time(timeout));
    Some(values.list)
}

fn item(list: &Value, at: usize) -> Option<&Value> {
    let Value::Array(items) = list else {
        return None;
    };
    items.get(at)
}

fn route_times<'a>(
    values: &mut Values<'a>,
    table: Option<&'a Value>,
    document: &Value,
    policy: &Policy,
    route: &Route,
) {
    values.table = table.and_then(|table| table.get("timeout"));
    values.add("timeout.attempt", time(route.timeout.attempt));
    values.add("timeout.total", time(route.timeout.total));
    let http = document
        .get("gateway")
        .and_then(|gateway| gateway.get("http"));
    let otherwise = match http.and_then(|http| http.get("body_idle_timeout")) {
        Some(_) => Origin::Gateway,
        None => Origin::Default,
    };
    let idle = route
        .timeout
        .body_idle
        .unwrap_or(policy.gateway.http.body_idle_timeout);
    values.add_or("timeout.body_idle", time(idle), otherwise);
}

fn upstream(document: &Value, policy: &Policy, id: &str) -> Option<Vec<Effective>> {
    let upstream = policy.upstreams.iter().find(|u| u.id.as_str() == id)?;
    let table = document.get("upstreams").and_then(|all| all.get(id));
    let mut values = Values::of(table, Origin::Upstream(id.to_owned()));
    values.add("limit", limit(upstream.limit));
    values.add("connect_timeout", time(upstream.connect_timeout));
    let speaks = if upstream.http2 { "HTTP/2" } else { "HTTP/1.1" };
    values.add("http2", speaks);
    values.add("endpoints", endpoints(upstream));
    if let Some(health) = &upstream.health {
        let every = format!("GET {} every {}", health.path, time(health.interval));
        values.add("health", every);
    }
    if let Some(tls) = &upstream.tls {
        values.add("tls", format!("roots of {}", tls.ca_file));
    }
    Some(values.list)
}

fn tenant(document: &Value, policy: &Policy, id: &str) -> Option<Vec<Effective>> {
    if id == "_unknown" {
        let Unknown::Shared { limit: shared } = policy.identify.as_ref()?.unknown else {
            return None;
        };
        let mut values = Values::of(document.get("identify"), Origin::Identify);
        values.add("unknown_limit", limit(shared));
        return Some(values.list);
    }
    let tenant = policy.tenants.iter().find(|t| t.id.as_str() == id)?;
    let table = document.get("tenants").and_then(|all| all.get(id));
    let plan = plan_of(policy, tenant);
    let by_plan = || plan.map_or(Origin::Default, |plan| Origin::Plan(plan.id.to_string()));
    let mut values = Values::of(table, Origin::Tenant(id.to_owned()));
    values.add_or("limit", limit(tenant.limit), by_plan());
    values.add("plan", plan.map_or("none", |plan| plan.id.as_str()));
    values.add(
        "suspended",
        if tenant.suspended {
            "yes: every request is 403"
        } else {
            "no"
        },
    );
    // Digests are not shown: how many there are is all that helps here.
    values.add("api_keys", text::count(tenant.api_keys.len()));
    values.add("hosts", tenant.hosts.join(", "));
    if let Some(class) = plan.and_then(|plan| plan.class) {
        values.list.push(Effective {
            name: "class",
            value: format!("{} at most", class.as_str()),
            origin: by_plan(),
        });
    }
    Some(values.list)
}

fn tenant_route(policy: &Policy, route_id: &str, who: &str) -> Option<Vec<Effective>> {
    let (index, route) = policy
        .routes
        .iter()
        .enumerate()
        .find(|(_, r)| r.id.as_str() == route_id)?;
    let mut list = Vec::new();
    if let Some(cap) = route.compartment.tenant_limit {
        let origin = Origin::Route(route_id.to_owned());
        list.push(Effective {
            name: "tenant_limit",
            value: limit(cap),
            origin,
        });
    }
    if let Some(share) = route.compartment.tenant_share {
        let origin = Origin::Route(route_id.to_owned());
        list.push(Effective {
            name: "tenant_share",
            value: text::millionths(share.0),
            origin,
        });
    }
    let tenant = policy.tenants.iter().find(|t| t.id.as_str() == who);
    if let Some(plan) = tenant.and_then(|tenant| plan_of(policy, tenant)) {
        for (_, cap) in plan.routes.iter().filter(|(at, _)| *at == index) {
            let origin = Origin::Plan(plan.id.to_string());
            list.push(Effective {
                name: "plan's limit on the route",
                value: limit(*cap),
                origin,
            });
        }
        let class = plan
            .class
            .map_or(route.class, |class: Class| class.min(route.class));
        let origin = Origin::Plan(plan.id.to_string());
        list.push(Effective {
            name: "class",
            value: class.as_str().to_owned(),
            origin,
        });
    }
    Some(list)
}

fn plan_of<'a>(policy: &'a Policy, tenant: &Tenant) -> Option<&'a Plan> {
    policy.plans.get(tenant.plan?)
}
