//! What a compartment did over time, and which limit that asks for.
//!
//! Separate because this panel rests on the history, which may be away while the live figures are
//! there. It must never be shown as the present.

use crate::chart::{HoldChart, Trend};

/// The panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverTime {
    /// How far back: one of the offered ranges.
    pub range: &'static str,
    /// In flight, limit, refusals; `None` while nothing is recorded.
    pub trend: Option<Trend>,
    /// The same by gateway; empty where rows are kept for all together.
    pub split: Vec<(String, Trend)>,
    /// How long permits were held in that time.
    pub hold: Option<HoldChart>,
    /// Why there are no figures, when the history is away.
    pub trouble: Option<String>,
    /// Which limit the traffic asks for; `None` for a compartment without a limit of its own.
    pub advice: Option<AdviceCard>,
}

impl OverTime {
    /// Most gateways that are drawn apart.
    pub const SPLIT_MAX: usize = 12;

    /// One scale for all gateways.
    pub fn split_top(&self) -> u64 {
        self.split
            .iter()
            .map(|(_, trend)| trend.top())
            .max()
            .unwrap_or(1)
    }

    /// The offered ranges: name in the address, words, seconds.
    pub const RANGES: [(&'static str, &'static str, i64); 4] = [
        ("15m", "15 minutes", 900),
        ("1h", "1 hour", 3_600),
        ("24h", "24 hours", 86_400),
        ("14d", "14 days", 1_209_600),
    ];
}

/// A card of advice, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdviceCard {
    /// In one sentence.
    pub summary: String,
    /// `raise`, `lower`, `keep`, `too_little_evidence` or `unsettled`.
    pub verdict: &'static str,
    /// Each figure: what it is, the limit, its arithmetic.
    pub figures: Vec<(&'static str, u32, String)>,
    /// What it rests on, line by line.
    pub evidence: Vec<String>,
    /// Windows that were left out: from when to when, and why.
    pub left_out: Vec<String>,
    /// How many more were.
    pub left_out_more: usize,
}

impl AdviceCard {
    /// Most windows that are listed as left out.
    pub const LEFT_OUT_MAX: usize = 10;
}
