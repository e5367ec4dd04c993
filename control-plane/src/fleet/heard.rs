//! The last word of every gateway, also of those that are gone.
//!
//! Separate from the sums because a page keeps showing what it last knew, marked as old, and a sum
//! never counts it. It must never be taken for the present.

use std::sync::Arc;
use std::time::{Duration, Instant};

use compartment::Figures;

use super::{Fleet, Member};

/// How far apart the marks are that "lately" is measured from: it reaches back once to twice this.
const MARK_EVERY: Duration = Duration::from_secs(10);

/// Where the figures of one gateway stood some seconds ago.
#[derive(Debug, Default)]
pub(super) struct Marks {
    older: Option<Figured>,
    newer: Option<Figured>,
}

/// Figures and when they came.
type Figured = (Instant, Arc<Vec<Figures>>);

impl Marks {
    /// Takes note of new figures; the answer is what nobody needs any more, to be dropped later.
    pub(super) fn note(&mut self, at: Instant, figures: &Arc<Vec<Figures>>) -> Option<Figured> {
        let due = self
            .newer
            .as_ref()
            .is_none_or(|(then, _)| at.saturating_duration_since(*then) >= MARK_EVERY);
        if !due {
            return None;
        }
        let passed = self.newer.replace((at, Arc::clone(figures)));
        std::mem::replace(&mut self.older, passed)
    }

    /// What newer figures are compared with.
    fn earlier(&self) -> Option<&Figured> {
        self.older.as_ref().or(self.newer.as_ref())
    }
}

/// What one gateway last said.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The gateway.
    pub id: Arc<str>,
    /// Whether its figures count.
    pub fresh: bool,
    /// Since it last said anything.
    pub seen_ago: Duration,
    /// Since its figures came; `None` when none ever did.
    pub figures_ago: Option<Duration>,
    /// Its newest figures.
    pub figures: Arc<Vec<Figures>>,
    /// Its figures of some seconds before, and how many.
    pub earlier: Option<(Duration, Arc<Vec<Figures>>)>,
}

impl Fleet {
    /// What every known gateway last said, by name.
    pub fn heard(&self, now: Instant) -> Vec<Heard> {
        let ago = |at: Instant| now.saturating_duration_since(at);
        let one = |member: &Member| {
            let newest = member.figures.as_ref();
            let earlier = newest
                .zip(member.marks.earlier())
                .filter(|(new, old)| new.0 > old.0);
            Heard {
                id: Arc::clone(&member.id),
                fresh: member.is_fresh(now),
                seen_ago: ago(member.seen.at),
                figures_ago: newest.map(|(at, _)| ago(*at)),
                figures: newest.map(|(_, list)| Arc::clone(list)).unwrap_or_default(),
                earlier: earlier.map(|(_, (at, list))| (ago(*at), Arc::clone(list))),
            }
        };
        let mut all: Vec<_> = self.with(|members| {
            members.forget_the_gone(now);
            members.list.iter().map(one).collect()
        });
        all.sort_by(|one: &Heard, other| one.id.cmp(&other.id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lately_reaches_back_once_to_twice_the_distance_of_marks() {
        let (mut marks, start) = (Marks::default(), crate::clock::now());
        let mut figures = Vec::new();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            let list = Arc::new(Vec::new());
            marks.note(now, &list);
            figures.push(list);
            let (at, _) = marks.earlier().unwrap();
            let back = now.duration_since(*at);
            assert!(back < MARK_EVERY * 2, "{back:?} at {second} s");
            assert!(second < 20 || back >= MARK_EVERY, "{back:?} at {second} s");
        }
        let kept = figures
            .iter()
            .filter(|list| Arc::strong_count(list) > 1)
            .count();
        assert_eq!(kept, 2, "no more than two are kept");
    }
}
