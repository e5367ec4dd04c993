//! The newest rejections of each compartment, as gateways noted them: whom to look for in the logs.
//!
//! Separate from the figures, which count all of them: these are samples, so nothing is added up
//! from them. It must never keep more of one compartment than a page shows.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use compartment::Rejection;
use wire::stream::{REPORT_REJECTED_MAX, proto};

/// Most rejections of one compartment.
pub(crate) const EACH_MAX: usize = 20;
/// Most compartments; those without a new rejection for longest give way.
const KEYS_MAX: usize = 2_000;
/// Longest text of a tenant's name or of a request's id.
const TEXT_BYTES_MAX: usize = 128;
/// Hexadecimal digits of a trace id.
const TRACE_ID_DIGITS: usize = 32;

/// One rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// In milliseconds since 1970, on this process's clock.
    pub(crate) at_ms: i64,
    /// Which gateway refused.
    pub(crate) gateway: Arc<str>,
    /// Why.
    pub(crate) reason: Rejection,
    /// Of which tenant; empty: nobody's.
    pub(crate) tenant: String,
    /// Empty: the request named none.
    pub(crate) trace_id: String,
    /// As the client was told.
    pub(crate) request_id: String,
}

/// The one handle to them; clones are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newest(Arc<Mutex<HashMap<String, VecDeque<Refused>>>>);

impl Newest {
    /// Takes what a report tells. What cannot be meant is left out.
    pub(crate) fn record(&self, gateway: &str, told: Vec<proto::Rejected>, now_ms: i64) {
        if told.is_empty() {
            return;
        }
        let gateway = Arc::from(gateway);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for one in told.into_iter().take(REPORT_REJECTED_MAX) {
            let Some((key, refused)) = checked(&gateway, one, now_ms) else {
                continue;
            };
            if !kept.contains_key(&key) && kept.len() >= KEYS_MAX {
                forget_oldest(&mut kept);
            }
            let own = kept.entry(key).or_default();
            if own.len() >= EACH_MAX {
                own.pop_front();
            }
            own.push_back(refused);
        }
    }

    /// Of one compartment, newest first.
    pub(crate) fn of(&self, key: &str) -> Vec<Refused> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.get(key).into_iter().flatten();
        let mut all: Vec<Refused> = own.cloned().collect();
        // Gateways report one after the other.
        all.sort_by_key(|refused| std::cmp::Reverse(refused.at_ms));
        all
    }
}

/// A tenth of them, so that it is seldom done.
fn forget_oldest(kept: &mut HashMap<String, VecDeque<Refused>>) {
    let newest = |own: &VecDeque<Refused>| own.back().map_or(i64::MIN, |refused| refused.at_ms);
    let mut times: Vec<i64> = kept.values().map(newest).collect();
    times.sort_unstable();
    let Some(until) = times.get(KEYS_MAX / 10).copied() else {
        return;
    };
    let before = kept.len();
    kept.retain(|_, own| newest(own) > until);
    if kept.len() == before {
        kept.clear();
    }
}

fn checked(gateway: &Arc<str>, told: proto::Rejected, now_ms: i64) -> Option<(String, Refused)> {
    let mut reasons = Rejection::ALL.into_iter();
    let reason = reasons.find(|reason| reason.as_str() == told.reason)?;
    if !wire::stream::is_key(&told.key) {
        return None;
    }
    let is_trace = told.trace_id.len() == TRACE_ID_DIGITS
        && told.trace_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let age_ms = i64::try_from(told.age_ms).unwrap_or(i64::MAX);
    let refused = Refused {
        at_ms: now_ms.saturating_sub(age_ms),
        gateway: Arc::clone(gateway),
        reason,
        tenant: wire::stream::bounded_text(&told.tenant, TEXT_BYTES_MAX),
        trace_id: if is_trace {
            told.trace_id
        } else {
            String::new()
        },
        request_id: wire::stream::bounded_text(&told.request_id, TEXT_BYTES_MAX),
    };
    Some((told.key, refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, n: u64) -> proto::Rejected {
        proto::Rejected {
            key: key.to_owned(),
            reason: "route_full".to_owned(),
            tenant: "acme".to_owned(),
            trace_id: format!("{n:032x}"),
            request_id: n.to_string(),
            age_ms: 7,
        }
    }

    #[test]
    fn the_newest_are_kept_of_each_and_no_more() {
        let (newest, gateway) = (Newest::default(), "one");
        for n in 0..50 {
            newest.record(gateway, vec![told("route/a", n)], i64::try_from(n).unwrap());
        }
        let kept = newest.of("route/a");
        assert_eq!(kept.len(), EACH_MAX);
        assert_eq!((kept[0].request_id.as_str(), kept[0].at_ms), ("49", 42));
        assert!(newest.of("route/b").is_empty());
        for n in 0..2 * u64::try_from(KEYS_MAX).unwrap() {
            let at = 100 + i64::try_from(n).unwrap();
            newest.record(gateway, vec![told(&format!("tenant/t{n}"), n)], at);
        }
        assert!(newest.0.lock().unwrap().len() <= KEYS_MAX);
        assert!(newest.of("route/a").is_empty(), "the oldest give way");
        assert_eq!(newest.of("tenant/t3999").len(), 1);
        let many = (0..10_000)
            .map(|n| told(&format!("route/r{n}"), n))
            .collect();
        newest.record(gateway, many, 1);
        assert!(newest.0.lock().unwrap().len() <= KEYS_MAX);
    }

    #[test]
    fn what_cannot_be_meant_is_left_out() {
        let (newest, gateway) = (Newest::default(), "one");
        let odd = proto::Rejected {
            trace_id: "<script>".to_owned(),
            request_id: "x".repeat(10_000),
            age_ms: u64::MAX,
            ..told("route/a", 1)
        };
        let no_reason = proto::Rejected {
            reason: "because".to_owned(),
            ..told("route/b", 1)
        };
        newest.record(
            gateway,
            vec![odd, no_reason, told("<b>", 1), told("", 1)],
            5,
        );
        let kept = newest.of("route/a");
        assert_eq!(kept[0].trace_id, "");
        assert!(kept[0].request_id.len() <= TEXT_BYTES_MAX + 3);
        assert!(newest.of("route/b").is_empty() && newest.of("<b>").is_empty());
    }
}
