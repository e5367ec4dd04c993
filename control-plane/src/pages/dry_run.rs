//! What would become of a request, without sending it.
//!
//! Separate because it follows the order of a gateway: route, caller, breaker, limits. It looks at
//! figures that were reported and must never take a permit or say more than those know.

use compartment::policy::{
    Identifier, Misses, PathMatch, Policy, Route, Target, Tenant, Unknown, canonical_host,
    nearest_route, request_path, takers,
};
use compartment::{Class, Key, Name};
use web::{Tried, TryForm, text};

use super::on_the_way::{self, Caller};
use super::readings::Snapshot;

/// A field that cannot be read, and why.
type Unreadable = (&'static str, String);

/// Who would call.
enum Who<'a> {
    /// The policy has no tenants.
    Nobody,
    /// This one, and how it is known.
    Tenant(&'a Tenant, &'static str),
    /// One of all whom nobody knows.
    Stranger,
}

/// Tries the request of the form.
pub(super) fn run(
    policy: &Policy,
    snapshot: &Snapshot,
    form: &TryForm,
) -> Result<Tried, Unreadable> {
    let host = match form.host.as_str() {
        "" => None,
        typed => {
            let host = canonical_host(typed);
            Some(host.ok_or((
                "host",
                format!("{typed} is no host such as api.example.com"),
            ))?)
        }
    };
    let (path, _query) = form
        .path
        .split_once('?')
        .unwrap_or((form.path.as_str(), ""));
    // A gateway brings a path into one form first; here it has to be typed in that form.
    let path = request_path(path).map_err(|rule| ("path", format!("The path {rule}.")))?;
    let target = Target {
        host: host.as_deref(),
        path: &path,
        method: &form.method,
    };
    let found = takers(&policy.routes, target);
    let routes: Vec<&Route> = found
        .iter()
        .filter_map(|at| policy.routes.get(*at))
        .collect();
    let Some((route, behind)) = routes.split_first() else {
        return Ok(nobody_takes(policy, target));
    };
    let mut tried = Tried {
        route: Some(Key::Route(route.id.clone()).to_string()),
        why: why(route, behind),
        ..Tried::default()
    };
    let who = match who(policy, form, target)? {
        Ok(who) => who,
        Err(refused) => {
            (tried.verdict, tried.class) = (refused, "bad");
            return Ok(tried);
        }
    };
    let caller = caller(policy, route, &who, &mut tried);
    on_the_way::walk(policy, snapshot, route, &caller, &mut tried);
    Ok(tried)
}

fn nobody_takes(policy: &Policy, target: Target<'_>) -> Tried {
    let mut why = Vec::new();
    if let Some((route, misses)) = nearest_route(&policy.routes, target)
        .and_then(|(at, misses)| Some((policy.routes.get(at)?, misses)))
    {
        let Misses { host, path, method } = misses;
        let wants = [
            host.then(|| format!("the host {}", host_of(route))),
            path.then(|| format!("the path {}", path_of(route))),
            method.then(|| format!("the method {}", methods_of(route))),
        ];
        let wants: Vec<String> = wants.into_iter().flatten().collect();
        why.push(format!(
            "Nearest is route {}, which asks for {}.",
            route.id,
            wants.join(" and ")
        ));
    }
    Tried {
        verdict: "No route takes it: 404, and no upstream is asked.".to_owned(),
        class: "bad",
        why,
        ..Tried::default()
    }
}

/// What fits, and before which other routes it goes.
fn why(route: &Route, behind: &[&Route]) -> Vec<String> {
    let mut why = vec![format!(
        "It takes {} on {}, path {}.",
        methods_of(route),
        host_of(route),
        path_of(route)
    )];
    if let Some(next) = behind.first() {
        let because = if route.host.is_some() && next.host.is_none() {
            "it names the host"
        } else if route.path == next.path {
            "it names the method"
        } else if matches!(route.path, PathMatch::Exact(_)) {
            "its path is this one exactly"
        } else {
            "its path is longer"
        };
        let more = match behind.len() {
            1 => String::new(),
            n => format!(" and {}", text::plural(n - 1, "other", "others")),
        };
        why.push(format!(
            "It goes before route {}{more}, because {because}.",
            next.id
        ));
    }
    why
}

fn host_of(route: &Route) -> String {
    route.host.clone().unwrap_or_else(|| "any host".to_owned())
}

fn path_of(route: &Route) -> String {
    match &route.path {
        PathMatch::Exact(path) => format!("{path} exactly"),
        PathMatch::Prefix(path) => format!("{path} and below"),
    }
}

fn methods_of(route: &Route) -> String {
    let methods = route.methods.as_ref();
    methods.map_or_else(|| "every method".to_owned(), |all| all.join(", "))
}

/// The caller, or why it is not let in.
fn who<'a>(
    policy: &'a Policy,
    form: &TryForm,
    target: Target<'_>,
) -> Result<Result<Who<'a>, String>, Unreadable> {
    let Some(identify) = &policy.identify else {
        return Ok(Ok(Who::Nobody));
    };
    let named = |id: &str| policy.tenants.iter().find(|one| one.id.as_str() == id);
    let found = if form.tenant.is_empty() {
        identify.by.iter().find_map(|by| match by {
            Identifier::Host => {
                let owns =
                    |one: &&Tenant| one.hosts.iter().any(|h| Some(h.as_str()) == target.host);
                Some((policy.tenants.iter().find(owns)?, "by its host"))
            }
            Identifier::PathSegment { index } => {
                let segment = target.path.split('/').skip(1).nth(*index)?;
                Some((named(segment)?, "by a segment of the path"))
            }
            Identifier::ApiKey { .. } | Identifier::Header { .. } => None,
        })
    } else {
        let tenant = named(&form.tenant);
        let unknown = || ("tenant", format!("There is no tenant {}.", form.tenant));
        Some((tenant.ok_or_else(unknown)?, "as you chose"))
    };
    Ok(match (found, identify.unknown) {
        (Some((tenant, _)), _) if tenant.suspended => Err(format!(
            "Refused before any limit: tenant {} is suspended (403).",
            tenant.id
        )),
        (Some((tenant, how)), _) => Ok(Who::Tenant(tenant, how)),
        (None, Unknown::Shared { .. }) => Ok(Who::Stranger),
        (None, Unknown::Reject) => Err(
            "Refused before any limit: nothing says which tenant calls (401). Choose one."
                .to_owned(),
        ),
    })
}

/// Which limits concern the caller, and who it is, in words.
fn caller(policy: &Policy, route: &Route, who: &Who<'_>, tried: &mut Tried) -> Caller {
    let own = route.compartment.tenant_limit;
    let caller = match who {
        Who::Nobody => Caller {
            tenant: None,
            on_route: None,
            class: route.class,
        },
        Who::Stranger => {
            tried.who.push(
                "Its caller would be unknown: all such callers share tenant/_unknown.".to_owned(),
            );
            let limit = match policy.identify.as_ref().map(|identify| identify.unknown) {
                Some(Unknown::Shared { limit }) => Some(limit),
                Some(Unknown::Reject) | None => None,
            };
            let name = Name::unknown_tenant();
            Caller {
                tenant: limit.map(|limit| (name, limit)),
                on_route: own,
                class: route.class,
            }
        }
        Who::Tenant(tenant, how) => {
            let plan = tenant.plan.and_then(|plan| policy.plans.get(plan));
            let place = policy.routes.iter().position(|one| one.id == route.id);
            let of_plan = plan.and_then(|plan| {
                let own = plan.routes.iter().find(|(at, _)| Some(*at) == place);
                own.map(|(_, limit)| *limit)
            });
            let on_plan = plan.map_or_else(String::new, |plan| format!(", on plan {}", plan.id));
            tried.who.push(format!(
                "It would be of tenant {} ({how}){on_plan}.",
                tenant.id
            ));
            let class = plan.and_then(|plan| plan.class);
            Caller {
                tenant: Some((tenant.id.clone(), tenant.limit)),
                on_route: match (own, of_plan) {
                    (Some(one), Some(other)) => Some(one.tighter(other)),
                    (one, other) => one.or(other),
                },
                class: class.map_or(route.class, |plan| plan.min(route.class)),
            }
        }
    };
    let why = match caller.class == route.class {
        true => "as the route has it",
        false => "because its plan caps the route\u{2019}s",
    };
    let class: Class = caller.class;
    tried
        .who
        .push(format!("Its class would be {}, {why}.", class.as_str()));
    caller
}
