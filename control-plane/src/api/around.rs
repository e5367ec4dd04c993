//! What stands around one compartment: who holds it, values in force and who set them, findings.
//!
//! Separate because it is the same that the page shows, in JSON. It must never add a number that
//! the page does not have, or leave out one that it has.

use std::collections::BTreeMap;

use compartment::policy::Policy;
use compartment::{Key, Limit, Rejection};
use serde::Serialize;
use utoipa::ToSchema;
use web::{Holder, Watch, effective_values};

use crate::pages;
use crate::refused::Refused;
use crate::rollout::Published;
use crate::state::AppState;

/// What one compartment has beside its figures; absent where the policy cannot be read.
#[derive(Serialize, ToSchema)]
pub(super) struct Around {
    #[schema(required = false)]
    holders: Holders,
    /// Limits that are judged and not enforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watched: Vec<Watched>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spare: Option<Spare>,
    /// Every value in force and who set it.
    #[schema(required = false)]
    effective: Vec<InForce>,
    /// The last refusals that gateways told of.
    #[schema(required = false)]
    newest_rejections: Vec<NewestRejection>,
    /// What the rules say of its values.
    #[schema(required = false)]
    findings: Vec<Found>,
}

/// Who holds its slots.
#[derive(Serialize, ToSchema)]
struct Holders {
    /// What they are: `tenant`, `route`, or empty where nobody is listed.
    kind: &'static str,
    /// Those with most in flight first.
    list: Vec<HolderRow>,
    /// How many more there are.
    more: usize,
}

/// One who holds slots.
#[derive(Serialize, ToSchema)]
#[schema(as = Holder)]
struct HolderRow {
    /// The key of its own compartment here.
    key: String,
    name: String,
    in_flight: u64,
    peak: u64,
    #[schema(value_type = Limit)]
    limit: Slots,
    borrowed: u64,
    arrived: u64,
    rejected: BTreeMap<Rejection, u64>,
    shadow_rejected: BTreeMap<Rejection, u64>,
}

/// A sum of limits, which may be beyond what one limit can be.
#[derive(Serialize)]
#[serde(untagged)]
enum Slots {
    Some(u64),
    Unlimited(Limit),
}

/// Spare slots over the gateways that report, and who holds them.
#[derive(Serialize, ToSchema)]
struct Spare {
    slots: u64,
    borrowed: u64,
    streams: u64,
    free: u64,
}

/// A value in force.
#[derive(Serialize, ToSchema)]
struct InForce {
    name: &'static str,
    value: String,
    /// Who set it.
    from: String,
}

/// One rejection, with what finds the request again.
#[derive(Serialize, ToSchema)]
struct NewestRejection {
    /// When, in UTC.
    at: String,
    reason: Rejection,
    #[schema(required)]
    tenant: Option<String>,
    gateway: String,
    #[schema(required)]
    trace_id: Option<String>,
    #[schema(required)]
    request_id: Option<String>,
}

/// What a rule says of its values.
#[derive(Serialize, ToSchema)]
struct Found {
    rule: &'static str,
    path: String,
    message: String,
}

/// A limit that is judged and not enforced, as it counts since it is what it is.
#[derive(Serialize, ToSchema)]
struct Watched {
    limit: String,
    /// `shadow` or `candidate`.
    kind: &'static str,
    #[schema(required)]
    since: Option<String>,
    watched_ms: u64,
    calls: u64,
    would_reject: u64,
    by_reason: BTreeMap<Rejection, u64>,
    #[schema(required)]
    peak: Option<u32>,
    says: &'static str,
    /// Gateways that do not run it as it is now.
    gateways_left_out: u32,
}

/// The members of one compartment that a list does not carry.
pub(super) fn members(state: &AppState, current: &Published, policy: &Policy, key: &Key) -> Around {
    let around = pages::around(state, policy, key);
    let watched = pages::watches_of(state, policy, key);
    let values = effective_values(&current.document, policy, key);
    let value = |one: web::Effective| InForce {
        name: one.name,
        value: plain(&one.value),
        from: one.origin.words(),
    };
    let findings = pages::findings(current, policy, &key.to_string());
    let found = |one: web::FindingRow| Found {
        rule: one.rule,
        path: one.path,
        message: one.message,
    };
    let newest = state.newest.of(&key.to_string());
    Around {
        holders: Holders {
            kind: around.holders.kind,
            list: around.holders.rows.iter().map(holder).collect(),
            more: around.holders.more,
        },
        watched: watched.iter().map(watch).collect(),
        spare: around.spare.map(|spare| Spare {
            slots: spare.slots,
            borrowed: spare.borrowed,
            streams: spare.streams,
            free: spare.free(),
        }),
        effective: values.into_iter().map(value).collect(),
        newest_rejections: newest.iter().map(refused).collect(),
        findings: findings.into_iter().map(found).collect(),
    }
}

fn watch(watch: &Watch) -> Watched {
    let (would_reject, calls) = watch.counts();
    let by_reason = match (&watch.reading, watch.is_shadow()) {
        (Some(reading), true) => reading.shadow_rejected.clone(),
        (Some(_), false) | (None, _) => BTreeMap::new(),
    };
    Watched {
        limit: watch.judged.clone(),
        kind: if watch.is_shadow() {
            "shadow"
        } else {
            "candidate"
        },
        since: watch.since.as_ref().map(|since| since.iso.clone()),
        watched_ms: watch
            .reading
            .as_ref()
            .map_or(0, |reading| reading.counted_ms),
        calls,
        would_reject,
        by_reason,
        peak: watch.reading.as_ref().map(|reading| reading.peak_max),
        says: watch.word(),
        gateways_left_out: watch.elsewhere,
    }
}

fn refused(refused: &Refused) -> NewestRejection {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    NewestRejection {
        at: super::series::moment(refused.at_ms),
        reason: refused.reason,
        tenant: text(&refused.tenant),
        gateway: refused.gateway.to_string(),
        trace_id: text(&refused.trace_id),
        request_id: text(&refused.request_id),
    }
}

fn holder(holder: &Holder) -> HolderRow {
    let reading = &holder.reading;
    let unlimited = Slots::Unlimited(Limit::UNLIMITED);
    HolderRow {
        key: reading.key.clone(),
        name: holder.name.clone(),
        in_flight: reading.in_flight,
        peak: reading.peak,
        limit: reading.limit.map_or(unlimited, Slots::Some),
        borrowed: reading.borrowed,
        arrived: reading.arrived,
        rejected: reading.rejected.clone(),
        shadow_rejected: reading.shadow_rejected.clone(),
    }
}

/// Pages keep number and unit together with a space that scripts do not expect.
fn plain(text: &str) -> String {
    text.replace('\u{a0}', " ")
}
