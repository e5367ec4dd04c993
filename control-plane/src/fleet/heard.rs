//! The last word of every gateway, also of those that are gone.
//!
//! Separate from the sums because a page keeps showing what it last knew, marked as old, and a sum
//! never counts it. It must never be taken for the present.

use std::sync::Arc;
use std::time::{Duration, Instant};

use compartment::Figures;

use super::{Fleet, Member};

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
}

impl Fleet {
    /// What every known gateway last said, by name.
    pub fn heard(&self, now: Instant) -> Vec<Heard> {
        let ago = |at: Instant| now.saturating_duration_since(at);
        let one = |member: &Member| Heard {
            id: Arc::clone(&member.id),
            fresh: member.is_fresh(now),
            seen_ago: ago(member.seen.at),
            figures_ago: member.figures.as_ref().map(|(at, _)| ago(*at)),
            figures: member
                .figures
                .as_ref()
                .map(|(_, list)| Arc::clone(list))
                .unwrap_or_default(),
        };
        let mut all: Vec<_> = self.with(|members| {
            members.forget_the_gone(now);
            members.list.iter().map(one).collect()
        });
        all.sort_by(|one: &Heard, other| one.id.cmp(&other.id));
        all
    }
}
