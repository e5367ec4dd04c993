//! Advice: which limit the measured traffic asks for, with its arithmetic.
//!
//! Separate from the store that holds the figures and from whoever shows them: figures in, a card
//! out. One place decides, so that a stronger method can replace this one. It must never be
//! learned from an incident, nor say a number without the evidence it rests on.

mod book;
mod card;
mod erlang;
mod evidence;
mod findings;
pub(crate) mod sums;
mod what_if;
mod windows;
mod words;

use compartment::{Class, LIMIT_MAX, Limit};
use serde::Serialize;

pub(crate) use self::book::Book;
pub(crate) use self::card::{Card, Measured};
pub use self::evidence::{Confidence, Evidence};
pub(crate) use self::findings::{Measures, findings};
pub use self::what_if::{WhatIf, what_if};
pub use self::windows::{LeftOut, Why, Window};
pub(crate) use self::words::percent;
use self::words::{near, near_time};
use crate::sizing::{Exact, headroom, in_flight, suggested_limit};

/// A compartment below this many slots is never called oversized: its bursts need them.
const OVERSIZED_SLOTS_MIN: u32 = 6;
/// One that never exceeds this share of its limit protects nothing (P16).
const IDLE_PERCENT: u64 = 30;
/// One that is this full on average in its busy windows is a spike away from refusing (P16).
const FULL_PERCENT: u64 = 90;

/// Where bursts are higher than can be seen, the limit is raised by one part in so many.
const BURST_STEP: u32 = 4;

/// With fewer arrivals not even a first word is said.
const SO_FAR_ARRIVALS_MIN: u64 = 100;
/// Refusals come in clumps: only beyond this many times the target they speak against a limit.
const BEYOND_CHANCE: f64 = 2.0;

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subject {
    /// The limit in force.
    pub limit: Limit,
    /// Whose target and headroom count.
    pub class: Class,
}

/// What to do with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The measured traffic needs more.
    Raise,
    /// It needs less.
    Lower,
    /// The limit is right, or too near to be worth a change.
    Keep,
    /// Not enough traffic was seen.
    TooLittleEvidence,
    /// Most of what was seen was an incident, or a new normal that somebody must confirm.
    Unsettled,
}

/// One limit and how it came about.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = AdvisedFigure)]
pub struct Figure {
    /// Slots.
    pub limit: u32,
    /// The arithmetic.
    pub because: String,
}

/// Outside of the bands in which a limit protects without hurting (P16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// It never exceeds 30 % of its limit.
    ProtectsNothing,
    /// It is 90 % full under normal load, or refuses more than its target.
    OneSpikeAway,
}

/// The card of one compartment.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = AdviceOfFigures)]
pub struct Advice {
    /// What to do.
    pub verdict: Verdict,
    /// In one sentence.
    pub summary: String,
    /// The limit in force.
    pub limit: Limit,
    /// The limit that the traffic asks for; `None` without enough evidence.
    #[schema(required)]
    pub advised: Option<u32>,
    /// Where nothing is advised: what the normal traffic seen so far asks for by the loss formula.
    /// A first word, not advice: it moves with every window.
    #[schema(required)]
    pub so_far: Option<u32>,
    /// The target: the share of arrivals that may be refused.
    pub target: f64,
    /// The rule of thumb: peak rate x p99 x the factor of the class (P11).
    #[schema(required)]
    pub rule_of_thumb: Option<Figure>,
    /// The loss formula for the target.
    #[schema(required)]
    pub loss_formula: Option<Figure>,
    /// What bursts ask for beyond the formula, which knows only averages; `None` without bursts.
    #[schema(required)]
    pub bursts: Option<Figure>,
    /// What the limit in force refuses of that traffic; `None` when unlimited.
    #[schema(required)]
    pub predicted_refused: Option<f64>,
    /// How much more demand the advised limit takes before it refuses 1 %.
    #[schema(required)]
    pub absorbs: Option<f64>,
    /// Whether the limit in force lies outside of the bands.
    #[schema(required)]
    pub band: Option<Band>,
    /// What all of it rests on.
    pub evidence: Evidence,
}

/// The share of arrivals that a limit for this class may refuse.
pub const fn target(class: Class) -> f64 {
    match class {
        Class::Critical => 0.0001,
        Class::Standard => 0.001,
        Class::Sheddable => 0.01,
    }
}

/// Works out the card. `windows` are those of one gateway, in the order of time: a limit counts
/// in each process by itself.
pub fn advise(subject: Subject, windows: &[Window]) -> Advice {
    let sorted = windows::sort(windows);
    let evidence = Evidence::of(&sorted, target(subject.class));
    if let Some(verdict) = evidence.is_not_enough() {
        let so_far = loss_formula(subject.class, &evidence)
            .filter(|_| evidence.arrivals >= SO_FAR_ARRIVALS_MIN)
            .map(|figure| figure.limit);
        return silent(subject, verdict, so_far, evidence);
    }
    let rule_of_thumb = rule_of_thumb(subject.class, &evidence);
    let loss_formula = loss_formula(subject.class, &evidence);
    let slots = subject.limit.slots();
    let formula = loss_formula.as_ref().map(|figure| figure.limit);
    let bursts = formula.and_then(|formula| bursts(slots, formula, &evidence));
    let advised = bursts.as_ref().map(|figure| figure.limit).or(formula);
    let verdict = match (advised, slots) {
        (Some(advised), Some(now)) => compare(now, advised),
        (Some(_), None) => Verdict::Lower,
        (None, _) => Verdict::Unsettled,
    };
    let band = slots.and_then(|now| band(now, &sorted.usable, &evidence));
    let offered = evidence.offered;
    Advice {
        verdict,
        summary: summary(subject, verdict, (advised, None), &evidence),
        limit: subject.limit,
        advised,
        so_far: None,
        target: evidence.target,
        predicted_refused: slots.map(|now| erlang::refused_share(offered, now)),
        absorbs: advised.map(|advised| what_if::absorbs(offered, advised)),
        rule_of_thumb,
        loss_formula,
        bursts,
        band,
        evidence,
    }
}

fn silent(subject: Subject, verdict: Verdict, so_far: Option<u32>, evidence: Evidence) -> Advice {
    Advice {
        verdict,
        summary: summary(subject, verdict, (None, so_far), &evidence),
        limit: subject.limit,
        advised: None,
        so_far,
        target: evidence.target,
        rule_of_thumb: None,
        loss_formula: None,
        bursts: None,
        predicted_refused: None,
        absorbs: None,
        band: None,
        evidence,
    }
}

/// `ceil(factor x peak rate x p99)`, in exact arithmetic.
fn rule_of_thumb(class: Class, evidence: &Evidence) -> Option<Figure> {
    let p99 = Exact::ratio(evidence.p99_hold_us?.into(), 1_000_000);
    let rate = evidence.peak_rate();
    let limit = suggested_limit(in_flight(rate, p99), class);
    Some(Figure {
        limit: u32::try_from(limit).unwrap_or(LIMIT_MAX).min(LIMIT_MAX),
        because: format!(
            "{}/s at the peak x {} (p99) x {} for {}, in whole slots",
            near(rate),
            near_time(p99),
            headroom(class),
            class.as_str(),
        ),
    })
}

/// The smallest limit that meets the target; a critical one also bears half as much demand again.
fn loss_formula(class: Class, evidence: &Evidence) -> Option<Figure> {
    let offered = evidence.offered;
    let own = erlang::smallest_limit(offered, evidence.target)?;
    let target_percent = percent(evidence.target);
    let mean_ms = evidence.mean_hold_us.unwrap_or_default() / 1_000;
    let mut because = format!(
        "{}/s x {mean_ms} ms (mean) = {offered:.2} slots on average; {own} refuse {target_percent}",
        near(evidence.peak_rate()),
    );
    let mut limit = own;
    if class == Class::Critical {
        let more = erlang::smallest_limit(offered * 1.5, target(Class::Standard))?;
        limit = own.max(more);
        because.push_str(&format!("; {more} refuse 0.1 % of half as much again"));
    }
    Some(Figure { limit, because })
}

/// The formula takes arrivals to be independent of each other. What was seen speaks against it
/// where the usual peak of a window is higher, or where the limit refuses although the formula
/// says that it would not: then how high the bursts go is not known, so it is a step.
fn bursts(now: Option<u32>, formula: u32, evidence: &Evidence) -> Option<Figure> {
    let refuses = evidence.refused_share > evidence.target * BEYOND_CHANCE;
    if let Some(now) = now.filter(|now| refuses && formula <= now.saturating_add(1)) {
        let share = evidence.refused_share * 100.0;
        return Some(Figure {
            limit: now.saturating_add(now.div_ceil(BURST_STEP)).min(LIMIT_MAX),
            because: format!(
                "{now} refused {share:.2} % although the formula asks for {formula}: arrivals \
                 come in bursts; a step of a quarter, then look again"
            ),
        });
    }
    (evidence.usual_peak > formula).then(|| Figure {
        limit: evidence.usual_peak,
        because: format!(
            "half of the windows had {} in flight at once, more than the {formula} of the formula",
            evidence.usual_peak,
        ),
    })
}

/// A change is worth it only beyond a dead band: advice that moves with every day is not
/// followed on any.
fn compare(now: u32, advised: u32) -> Verdict {
    let (now, advised) = (u64::from(now), u64::from(advised));
    if advised * 100 > now * 105 && advised > now + 1 {
        Verdict::Raise
    } else if advised * 100 < now * 85 && advised + 2 < now {
        Verdict::Lower
    } else {
        Verdict::Keep
    }
}

fn band(now: u32, usable: &[&Window], evidence: &Evidence) -> Option<Band> {
    let slots = u64::from(now);
    let peak = usable.iter().map(|window| window.peak).max()?;
    if now >= OVERSIZED_SLOTS_MIN && u64::from(peak) * 100 < slots * IDLE_PERCENT {
        return Some(Band::ProtectsNothing);
    }
    let full = evidence.busy_in_flight_milli >= slots * FULL_PERCENT * 10;
    (now > 0 && (full || evidence.refused_share > evidence.target)).then_some(Band::OneSpikeAway)
}

fn summary(
    subject: Subject,
    verdict: Verdict,
    (advised, so_far): (Option<u32>, Option<u32>),
    evidence: &Evidence,
) -> String {
    let now = subject.limit;
    let refused = evidence.refused_share * 100.0;
    match (verdict, advised) {
        (Verdict::Raise, Some(advised)) => {
            format!("raise from {now} to {advised}: {refused:.2} % were refused")
        }
        (Verdict::Lower, Some(advised)) => {
            format!("{advised} would do instead of {now}: {refused:.2} % were refused")
        }
        (Verdict::Keep, Some(advised)) => {
            format!("keep {now}: the traffic asks for {advised}")
        }
        (Verdict::TooLittleEvidence, _) => {
            let so_far = so_far.map(|slots| format!(", which ask for {slots} so far"));
            format!(
                "too little evidence: {} arrivals in {} s of normal traffic{}",
                evidence.arrivals,
                evidence.seconds,
                so_far.unwrap_or_default(),
            )
        }
        (Verdict::Unsettled | Verdict::Raise | Verdict::Lower | Verdict::Keep, _) => {
            let so_far = so_far.map(|slots| format!("; the normal ones ask for {slots}"));
            format!(
                "no advice: {} of {} windows were an incident or followed one{}",
                evidence.left_out.len(),
                evidence.windows.saturating_add(evidence.left_out.len()),
                so_far.unwrap_or_default(),
            )
        }
    }
}

#[cfg(test)]
mod tests;
