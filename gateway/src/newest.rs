//! The newest rejections, sampled, with what finds each request again.
//!
//! Separate because a refusal must stay the cheapest answer: one core notes a compartment's
//! rejections ten times a second at most, and what is noted waits in a bounded list for the next
//! report. It must never make a request wait, nor keep a path, a query or a header.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use wire::stream::REPORT_REJECTED_MAX;
use wire::stream::proto;

/// How soon one core notes the next rejection of the same compartment.
const EVERY_US: u64 = 100_000;
/// Compartments share this many gates on each core; what shares one may be noted less often.
const GATES: usize = 64;

/// Rejections that wait for the next report; the oldest give way.
#[derive(Debug, Default)]
pub(crate) struct Newest(Mutex<VecDeque<Noted>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) key: Arc<str>,
    pub(crate) reason: &'static str,
    pub(crate) tenant: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) request_id: String,
    pub(crate) at_us: u64,
}

impl Newest {
    /// Notes one, unless somebody else does at this moment.
    pub(crate) fn note(&self, noted: Noted) {
        let Ok(mut kept) = self.0.try_lock() else {
            return;
        };
        if kept.len() >= REPORT_REJECTED_MAX {
            kept.pop_front();
        }
        kept.push_back(noted);
    }

    /// What is told in a report; nothing of it is told again.
    pub(crate) fn take(&self, now_us: u64) -> Vec<proto::Rejected> {
        let kept = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let message = |noted: Noted| proto::Rejected {
            key: noted.key.as_ref().to_owned(),
            reason: noted.reason.to_owned(),
            tenant: noted.tenant.unwrap_or_default(),
            trace_id: noted.trace_id.unwrap_or_default(),
            request_id: noted.request_id,
            age_ms: now_us.saturating_sub(noted.at_us) / 1_000,
        };
        kept.into_iter().map(message).collect()
    }
}

/// When one core may note again.
#[derive(Debug)]
pub(crate) struct Gates([Cell<u64>; GATES]);

impl Default for Gates {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Cell::new(0)))
    }
}

impl Gates {
    /// True when a rejection of this compartment is to be noted now.
    pub(crate) fn opens(&self, key: &Arc<str>, now_us: u64) -> bool {
        // A compartment keeps its text, so where that lies is its name here. No text is read.
        let place = Arc::as_ptr(key).cast::<u8>().addr() / 16 % GATES;
        let Some(gate) = self.0.get(place) else {
            return false;
        };
        if now_us < gate.get() {
            return false;
        }
        gate.set(now_us.saturating_add(EVERY_US));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(n: u64) -> Noted {
        Noted {
            key: "route/a".into(),
            reason: "route_full",
            tenant: None,
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
            request_id: n.to_string(),
            at_us: n,
        }
    }

    #[test]
    fn what_waits_is_bounded_and_told_once() {
        let newest = Newest::default();
        let count = u64::try_from(REPORT_REJECTED_MAX).unwrap() + 7;
        (0..count).for_each(|n| newest.note(noted(n)));
        let told = newest.take(5_000_000);
        assert_eq!(told.len(), REPORT_REJECTED_MAX);
        assert_eq!(told.last().unwrap().request_id, (count - 1).to_string());
        assert_eq!(told[0].age_ms, 4_999);
        assert_eq!(newest.take(5_000_000), Vec::new());
    }

    #[test]
    fn nobody_waits_for_whoever_notes() {
        let newest = Newest::default();
        let held = newest.0.lock().unwrap();
        newest.note(noted(1));
        drop(held);
        assert!(newest.take(0).is_empty());
    }

    #[test]
    fn a_flood_is_noted_ten_times_a_second() {
        let (gates, key) = (Gates::default(), Arc::<str>::from("route/a"));
        let open = (0..3_000_000)
            .step_by(100)
            .filter(|&us| gates.opens(&key, us));
        assert_eq!(open.count(), 30);
        let late = Arc::clone(&key);
        assert!(
            gates.opens(&late, 3_000_000),
            "a clone is the same compartment"
        );
        assert!(!gates.opens(&key, 3_000_001));
    }
}
