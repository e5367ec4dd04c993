//! The steps of one route's fallback, in the units of the request path.
//!
//! Separate because they are made when a policy is put in force. The upstream of a step is a
//! route of its own, without a ladder: there is nothing that could go in a circle. It must never
//! hold what belongs to one request.

use std::sync::Arc;

use compartment::StepFigures;

use super::fixed::FixedAnswer;
use super::stats::StepStats;
use crate::live_policy::LiveRoute;

/// What stands in for an answer, step by step.
#[derive(Debug, Default)]
pub(crate) struct Ladder {
    pub(crate) steps: Vec<Step>,
}

/// One step with its counts.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) stats: Arc<StepStats>,
}

#[derive(Debug)]
pub(crate) enum What {
    Stale {
        age_us_max: u64,
        /// Where its answers lie.
        begins: Box<[u8]>,
    },
    Upstream(Arc<LiveRoute>),
    Static(FixedAnswer),
}

impl What {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Stale { .. } => Kind::Stale,
            Self::Upstream(_) => Kind::Upstream,
            Self::Static(_) => Kind::Static,
        }
    }
}

/// What kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stale,
    Upstream,
    Static,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Stale, Self::Upstream, Self::Static];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Upstream => "upstream",
            Self::Static => "static",
        }
    }
}

impl Ladder {
    /// How old a stored answer may be, where some are kept.
    pub(crate) fn age_us_max(&self) -> Option<u64> {
        self.steps.iter().find_map(|step| match &step.what {
            What::Stale { age_us_max, .. } => Some(*age_us_max),
            What::Upstream(_) | What::Static(_) => None,
        })
    }

    /// Where its stored answers lie, where some are kept.
    pub(crate) fn stale_begins(&self) -> Option<&[u8]> {
        self.steps.iter().find_map(|step| match &step.what {
            What::Stale { begins, .. } => Some(&**begins),
            What::Upstream(_) | What::Static(_) => None,
        })
    }

    /// The other dependency, as a route that leads there.
    pub(crate) fn other(&self) -> Option<&Arc<LiveRoute>> {
        self.steps.iter().find_map(|step| match &step.what {
            What::Upstream(other) => Some(other),
            What::Stale { .. } | What::Static(_) => None,
        })
    }

    /// A step looks at the request itself.
    pub(crate) fn uses_request(&self) -> bool {
        self.age_us_max().is_some() || self.other().is_some()
    }

    pub(crate) fn figures(&self, now_us: u64) -> Vec<StepFigures> {
        let steps = self.steps.iter();
        let figures = steps.map(|step| step.stats.figures(step.what.kind().as_str(), now_us));
        figures.collect()
    }
}
