//! Stored answers: kept from good ones, given when there is no other.
//!
//! Separate because it is the one place where what was said to one caller is said again to
//! another. Whose an answer is stands in its place in the store; a caller that nobody knows
//! has none. It must never be asked for an answer while an upstream can give one.

mod copy;
mod directives;
mod room;
mod rules;
mod shard;
mod shown;
mod store;

use std::sync::Arc;

use bytes::Bytes;
use compartment::policy::{Endpoint, Fallback};
use http::header::{AGE, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version};

use crate::core::{Core, OnRoute};
use crate::live_policy::LivePolicy;
use crate::tenant::Who;

pub(crate) use self::copy::{Begun, Copy};
pub(crate) use self::rules::Allows;
pub(crate) use self::store::{Owner, Store};

use self::copy::{is_for, length, put_back};
use self::rules::{Came, storable, variant};
use self::store::{Slot, Stored};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const SECOND_US: u64 = 1_000_000;

/// Why there is no stored answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// Nothing is stored.
    Nothing,
    /// What is stored is older than the route allows.
    TooOld,
    /// The request may not be given it.
    NotForIt,
}

/// A request on a route that keeps answers.
#[derive(Debug)]
pub(crate) struct Asked {
    slot: Slot,
    allows: Allows,
    age_us_max: u64,
    /// Its success makes what is stored for its target out of date.
    changes: bool,
}

/// What a request is, as its upstream gets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a http::Uri,
    pub(crate) headers: &'a HeaderMap,
}

impl Asked {
    /// `None`: nobody knows whose its answer would be.
    pub(crate) fn of(
        lane: &OnRoute,
        who: Who,
        sent: Sent<'_>,
        allows: Allows,
        age_us_max: u64,
    ) -> Option<Self> {
        let (route, people) = (&lane.0.route, &lane.0.people);
        let slot = Slot {
            owner: people.owner(who)?,
            target: target(route.fallback.stale_begins()?, sent),
            is_only_owner: who == Who::Nobody,
        };
        Some(Self::at(slot, sent.method, allows, age_us_max))
    }

    fn at(slot: Slot, method: &Method, allows: Allows, age_us_max: u64) -> Self {
        Self {
            slot,
            allows,
            age_us_max,
            changes: !matches!(
                *method,
                Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
            ),
        }
    }

    /// The copy of an answer that may be stored, by its head as the upstream sent it.
    pub(crate) fn begin(
        &self,
        head: &http::response::Parts,
        sent: &HeaderMap,
        version: Version,
        came: Came,
    ) -> Option<Begun> {
        let storable = storable(self.allows, head.status, &head.headers, came)?;
        let is_young = storable.age_us <= self.age_us_max;
        let length = length(&head.headers, version).filter(|_| is_young)?;
        Some(Begun {
            slot: self.slot.clone(),
            variant: variant(&storable.vary, sent)?,
            storable,
            head_us: came.head_us,
            age_us_max: self.age_us_max,
            length,
        })
    }

    /// A request that may have changed its target was answered.
    pub(crate) fn answered(&self, store: &Store, status: StatusCode) {
        if self.changes && (status.is_success() || status.is_redirection()) {
            store.forget(&self.slot);
        }
    }

    /// The stored answer for a request with these fields.
    pub(crate) fn give(
        &self,
        store: &Store,
        sent: &HeaderMap,
        now_us: u64,
        room: &mut HeaderMap,
    ) -> Result<Response<Bytes>, Without> {
        let stored = store.find(&self.slot, |stored| is_for(stored, sent));
        let stored = stored.ok_or(Without::Nothing)?;
        let age_us = stored.age_us(now_us);
        if age_us > self.age_us_max.min(stored.age_us_max) {
            return Err(Without::TooOld);
        }
        if !self.allows.takes(stored.is_public, age_us) {
            return Err(Without::NotForIt);
        }
        Ok(answer(&stored, age_us, std::mem::take(room)))
    }
}

fn answer(stored: &Stored, age_us: u64, room: HeaderMap) -> Response<Bytes> {
    let mut answer = Response::new(stored.body.clone());
    *answer.status_mut() = stored.status;
    *answer.headers_mut() = room;
    let headers = answer.headers_mut();
    // What was put in comes out; were it not, the answer would have fewer fields.
    put_back(&stored.fields, headers);
    let (age_s, fresh_s) = (age_us / SECOND_US, stored.fresh_us / SECOND_US);
    headers.insert(AGE, HeaderValue::from(age_s));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(stored.body.len()));
    // RFC 9211; below zero it is no longer fresh.
    let late = if age_s > fresh_s { "-" } else { "" };
    let status = format!("bulkhead; hit; ttl={late}{}", age_s.abs_diff(fresh_s));
    if let Ok(status) = HeaderValue::try_from(status) {
        headers.append(CACHE_STATUS, status);
    }
    answer
}

/// Whose the answer to this caller is. Without tenants there is but one caller; one that a
/// policy with tenants does not know has nothing that could be told from another's.
pub(crate) fn owner(policy: &LivePolicy, who: Who) -> Option<Owner> {
    match who {
        Who::Nobody => policy.owners.common.clone(),
        Who::Tenant(tenant) => policy.owners.tenants.get(tenant)?.clone(),
        Who::SharedUnknown => None,
    }
}

/// How the upstream is spoken to; its endpoints may differ, and then nothing tells which it was.
fn scheme(endpoints: &[Endpoint]) -> &'static [u8] {
    let mut secure = endpoints.iter().map(|endpoint| endpoint.secure);
    match (secure.clone().all(|one| one), secure.any(|one| one)) {
        (true, true) => b"https",
        (_, true) => b"http+https",
        _ => b"http",
    }
}

/// Where all answers of a route lie, by its upstream. Made once: it is the same for each request.
pub(crate) fn begins(route: &str, upstream: &str, endpoints: &[Endpoint]) -> Box<[u8]> {
    ended([route.as_bytes(), upstream.as_bytes(), scheme(endpoints)]).into_boxed_slice()
}

/// Every part that two requests can differ in, each ended by a byte that none has in it.
fn target(begins: &[u8], sent: Sent<'_>) -> Box<[u8]> {
    let named = sent.headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_secure = sent
        .headers
        .get(crate::headers::FORWARDED_PROTO)
        .is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"));
    let authority = named.map(|named| crate::target::folded(named, is_secure));
    let path = sent.uri.path_and_query().map_or("/", |path| path.as_str());
    // HEAD is answered from what GET was.
    let authority = authority.as_deref().unwrap_or_default().as_bytes();
    let own = ended([authority, b"GET", path.as_bytes()]);
    [begins, &own].concat().into_boxed_slice()
}

fn ended(parts: [&[u8]; 3]) -> Vec<u8> {
    let mut all = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for part in parts {
        all.extend_from_slice(part);
        all.push(0);
    }
    all
}

/// The copy of an answer of a route that keeps some.
pub(crate) fn copy(
    begun: Option<Begun>,
    head: &http::response::Parts,
    core: &Core,
) -> Option<Box<Copy>> {
    let begun = begun?;
    let since = std::time::Duration::from_nanos(core.unix_ns(begun.head_us));
    let date = || httpdate::fmt_http_date(std::time::UNIX_EPOCH + since);
    let copy = begun.copy(head.status, &head.headers, date, &core.live.stale);
    copy.map(Box::new)
}

/// When an answer whose head is here came.
pub(crate) fn came(core: &Core, sent_us: u64) -> Came {
    let head_us = core.now.last_us();
    Came {
        head_us,
        took_us: head_us.saturating_sub(sent_us),
        unix_us: core.unix_ns(head_us) / 1_000,
    }
}

/// Whose answers a policy knows.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Without tenants.
    common: Option<Owner>,
    /// By the index of the tenant; `None` for one that is suspended.
    tenants: Vec<Option<Owner>>,
}

impl Owners {
    /// A tenant that comes back under a name with other credentials is another one: its mark
    /// differs, and with it everything of its own.
    pub(crate) fn of(policy: &compartment::policy::Policy) -> Self {
        let keeps = |route: &compartment::policy::Route| {
            let mut steps = route.fallback.iter();
            steps.any(|step| matches!(step, Fallback::Stale { .. }))
        };
        if !policy.routes.iter().any(keeps) {
            return Self::default();
        }
        let tenants = policy.tenants.iter().map(|tenant| {
            let owner = || {
                let mut mark = tenant.id.as_str().as_bytes().to_vec();
                mark.push(0);
                mark.extend_from_slice(&credentials(tenant));
                Arc::from(mark)
            };
            (!tenant.suspended).then(owner)
        });
        Self {
            common: policy.identify.is_none().then(|| Arc::from(b"".as_slice())),
            tenants: tenants.collect(),
        }
    }

    /// Lets go of what belongs to nobody under this policy.
    pub(crate) fn keep_only(&self, store: &Store, now_us: u64) {
        let known = self.tenants.iter().flatten().chain(&self.common);
        let known: std::collections::HashSet<&Owner> = known.collect();
        store.sweep(now_us, Some(&|owner| known.contains(owner)));
    }
}

/// A digest of what a tenant is known by.
fn credentials(tenant: &compartment::policy::Tenant) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new();
    let (mut keys, mut hosts) = (tenant.api_keys.clone(), tenant.hosts.clone());
    keys.sort_unstable();
    hosts.sort_unstable();
    keys.iter().for_each(|key| hasher.update(key));
    for host in hosts {
        hasher.update(host.as_bytes());
        hasher.update([0]);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests;
