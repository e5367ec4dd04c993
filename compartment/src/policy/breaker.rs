//! `breaker` and `force_breaker` of an upstream.
//!
//! Separate because they say when an upstream is not asked, not where it is. A breaker without a
//! word must never be another one than that of the articles.

use std::time::Duration;

use super::cursor::{Keys, Node, Table};
use super::fault::Faults;
use super::scalar::{duration, flag, fraction, whole, word};
use super::types::Millionths;

/// `breaker` of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRules {
    /// The part of the calls whose failure is reason to open.
    pub failure_rate: Millionths,
    /// Of how many calls.
    pub calls: u32,
    /// How long it stays open before a few calls are let through.
    pub open: Duration,
    /// How many.
    pub probes: u32,
    /// A refusal by a limit of ours counts as a failure of the upstream.
    pub count_rejections: bool,
}

/// What an operator says of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedBreaker {
    /// Nothing passes.
    Open,
    /// Everything passes.
    Closed,
}

const BREAKER_KEYS: Keys = Keys {
    known: &[
        "failure_rate",
        "calls",
        "open",
        "probes",
        "count_rejections",
    ],
    unenforced: &[],
};

/// The most calls in the window of a breaker.
const BREAKER_CALLS_MAX: u32 = 1000;
/// The most probes of a breaker that is half open.
const BREAKER_PROBES_MAX: u32 = 100;

const BREAKER_DEFAULT: BreakerRules = BreakerRules {
    failure_rate: Millionths(500_000),
    calls: 20,
    open: Duration::from_secs(5),
    probes: 3,
    count_rejections: false,
};

pub(super) fn breaker(node: Node<'_>, faults: &mut Faults) -> Option<BreakerRules> {
    let default = BREAKER_DEFAULT;
    let table = Table::open(node, BREAKER_KEYS, faults)?;
    let failure_rate = table.or(
        "failure_rate",
        default.failure_rate,
        faults,
        |node, faults| fraction(node, false, 1, faults),
    );
    let calls = table.or("calls", default.calls, faults, |node, faults| {
        whole(node, 1, BREAKER_CALLS_MAX, faults)
    });
    let open = table.or("open", default.open, faults, duration);
    let probes = table.or("probes", default.probes, faults, |node, faults| {
        whole(node, 1, BREAKER_PROBES_MAX, faults)
    });
    let count_rejections = table.or("count_rejections", default.count_rejections, faults, flag);
    Some(BreakerRules {
        failure_rate: failure_rate?,
        calls: calls?,
        open: open?,
        probes: probes?,
        count_rejections: count_rejections?,
    })
}

/// An operator's word.
pub(super) fn forced(node: Node<'_>, faults: &mut Faults) -> Option<ForcedBreaker> {
    let words = [
        ("open", ForcedBreaker::Open),
        ("closed", ForcedBreaker::Closed),
    ];
    word(node, &words, faults)
}
