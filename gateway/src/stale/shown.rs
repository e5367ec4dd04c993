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
        let (answers, stored_bytes) = self.size();
        // Those on their way into it take memory too.
        let bytes = stored_bytes + self.rooms.bytes();
        let whole = |count: usize| Figure::Whole(u64::try_from(count).unwrap_or(u64::MAX));
        let mut events = Family::new(Instrument::StaleEvents);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counted: [(&'static str, u64); 4] = [
            ("stored", of(&self.counts.stored)),
            ("evicted", of(&self.counts.evicted)),
            ("expired", of(&self.counts.expired)),
            ("given_up", self.rooms.given_up()),
        ];
        for (outcome, count) in counted {
            let count = Figure::Whole(count);
            events.push(vec![(Label::Outcome, Text::from(outcome))], count);
        }
        [
            Family::of(Instrument::StaleAnswers, whole(answers)),
            Family::of(Instrument::StaleSize, whole(bytes)),
            events,
        ]
    }
}
