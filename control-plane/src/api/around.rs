//! What stands around one compartment: who holds it, values in force and who set them, findings.
//!
//! Separate because it is the same that the page shows, in JSON. It must never add a number that
//! the page does not have, or leave out one that it has.

use compartment::policy::Policy;
use compartment::{Histogram, Key};
use serde_json::{Map, Value as Json, json};
use web::{Holder, Watch, effective_values};

use crate::pages;
use crate::refused::Refused;
use crate::rollout::Published;
use crate::state::AppState;

/// A histogram in three numbers; the quantiles are upper edges of its buckets.
pub(super) fn times(histogram: &Histogram) -> Json {
    json!({
        "count": histogram.count(),
        "p50_us": histogram.quantile_us(500),
        "p99_us": histogram.quantile_us(990),
    })
}

/// The members of one compartment that a list does not carry.
pub(super) fn members(
    state: &AppState,
    current: &Published,
    policy: &Policy,
    key: &Key,
) -> Map<String, Json> {
    let around = pages::around(state, policy, key);
    let mut body = Map::new();
    let holders: Vec<Json> = around.holders.rows.iter().map(holder).collect();
    body.insert(
        "holders".to_owned(),
        json!({ "kind": around.holders.kind, "list": holders, "more": around.holders.more }),
    );
    let watched: Vec<Json> = pages::watches_of(state, policy, key)
        .iter()
        .map(watch)
        .collect();
    if !watched.is_empty() {
        body.insert("watched".to_owned(), watched.into());
    }
    if let Some(spare) = around.spare {
        let spare = json!({ "slots": spare.slots, "borrowed": spare.borrowed,
                            "streams": spare.streams, "free": spare.free() });
        body.insert("spare".to_owned(), spare);
    }
    let values = effective_values(&current.document, policy, key);
    let values = values.into_iter().map(
        |one| json!({ "name": one.name, "value": plain(&one.value), "from": one.origin.words() }),
    );
    body.insert("effective".to_owned(), values.collect());
    let newest = state.newest.of(&key.to_string());
    body.insert(
        "newest_rejections".to_owned(),
        newest.iter().map(refused).collect(),
    );
    let findings = pages::findings(current, policy, &key.to_string());
    let findings = findings
        .into_iter()
        .map(|one| json!({ "rule": one.rule, "path": one.path, "message": one.message }));
    body.insert("findings".to_owned(), findings.collect());
    body
}

/// A limit that is judged and not enforced, as it counts since it is what it is.
fn watch(watch: &Watch) -> Json {
    let (would_reject, calls) = watch.counts();
    let by_reason = match (&watch.reading, watch.is_shadow()) {
        (Some(reading), true) => json!(reading.shadow_rejected),
        (Some(_), false) | (None, _) => json!({}),
    };
    json!({
        "limit": watch.judged,
        "kind": if watch.is_shadow() { "shadow" } else { "candidate" },
        "since": watch.since.as_ref().map(|since| since.iso.as_str()),
        "watched_ms": watch.reading.as_ref().map_or(0, |reading| reading.counted_ms),
        "calls": calls,
        "would_reject": would_reject,
        "by_reason": by_reason,
        "peak": watch.reading.as_ref().map(|reading| reading.peak_max),
        "says": watch.word(),
        "gateways_left_out": watch.elsewhere,
    })
}

/// One rejection, with what finds the request again.
fn refused(refused: &Refused) -> Json {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "at": super::series::moment(refused.at_ms),
        "reason": refused.reason,
        "tenant": text(&refused.tenant),
        "gateway": &*refused.gateway,
        "trace_id": text(&refused.trace_id),
        "request_id": text(&refused.request_id),
    })
}

fn holder(holder: &Holder) -> Json {
    let reading = &holder.reading;
    json!({
        "key": reading.key,
        "name": holder.name,
        "in_flight": reading.in_flight,
        "peak": reading.peak,
        "limit": reading.limit.map_or(json!("unlimited"), |limit| json!(limit)),
        "borrowed": reading.borrowed,
        "arrived": reading.arrived,
        "rejected": reading.rejected,
        "shadow_rejected": reading.shadow_rejected,
    })
}

/// Pages keep number and unit together with a space that scripts do not expect.
fn plain(text: &str) -> String {
    text.replace('\u{a0}', " ")
}
