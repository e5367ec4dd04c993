//! What the store shows of itself.
//!
//! Separate because it is read by those who look at the process, never by a request. It must
//! never show whose an answer is.

use std::sync::atomic::{AtomicU64, Ordering};

use telemetry::names::{Instrument, Label};
use telemetry::{Family, Figure, Text};

use super::store::Store;

impl Store {
    pub(crate) fn families(&self) -> [Family; 3] {
        let (answers, bytes) = self.size();
        let whole = |count: usize| Figure::Whole(u64::try_from(count).unwrap_or(u64::MAX));
        let mut events = Family::new(Instrument::StaleEvents);
        let counted: [(&'static str, &AtomicU64); 4] = [
            ("stored", &self.counts.stored),
            ("evicted", &self.counts.evicted),
            ("expired", &self.counts.expired),
            ("given_up", &self.counts.given_up),
        ];
        for (outcome, count) in counted {
            let count = Figure::Whole(count.load(Ordering::Relaxed));
            events.push(vec![(Label::Outcome, Text::from(outcome))], count);
        }
        [
            Family::of(Instrument::StaleAnswers, whole(answers)),
            Family::of(Instrument::StaleSize, whole(bytes)),
            events,
        ]
    }
}
