//! What is wrong with a policy, measured figures in the place of assumed ones.
//!
//! Separate from the linter, which must not read a measurement, and from the cards, which speak of
//! one compartment: here the same rules are asked again with what was seen. It must never make a
//! rule of its own that the linter would have to know.

use std::collections::HashMap;
use std::time::Duration;

use compartment::Key;
use compartment::policy::{Assume, Path, Policy};

use super::{Band, Card, Verdict, percent};
use crate::linter::{Finding, Severity, lint};

/// What a finding rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measures {
    /// The policy alone.
    Policy,
    /// Measured traffic.
    Traffic,
}

/// Every finding: what the policy alone says, then what only the measured figures say.
pub(crate) fn findings(policy: &Policy, cards: &[Card]) -> Vec<(Measures, Finding)> {
    let by_key: HashMap<&str, &Card> = cards.iter().map(|card| (card.key.as_str(), card)).collect();
    let written = lint(policy);
    let mut measured = policy.clone();
    for route in &mut measured.routes {
        let card = by_key.get(Key::Route(route.id.clone()).to_string().as_str());
        route.compartment.assume = card
            .and_then(|card| seen(card))
            .or(route.compartment.assume);
    }
    let known = |finding: &Finding| written.contains(finding);
    let news: Vec<Finding> = lint(&measured)
        .into_iter()
        .filter(|one| !known(one))
        .map(|one| Finding {
            // Traffic refuses no policy.
            severity: one.severity.min(Severity::Warning),
            ..one
        })
        .collect();
    let bands = policy
        .routes
        .iter()
        .enumerate()
        .filter_map(|(index, route)| {
            let key = Key::Route(route.id.clone()).to_string();
            let path = Path::root().key("routes").index(index);
            band(
                by_key.get(key.as_str())?,
                path.key("compartment").key("limit"),
            )
        });
    let bands: Vec<Finding> = bands.collect();
    let of_policy = written
        .into_iter()
        .map(|finding| (Measures::Policy, finding));
    let of_traffic = news.into_iter().chain(bands);
    of_policy
        .chain(of_traffic.map(|finding| (Measures::Traffic, finding)))
        .collect()
}

/// The peak rate and p99 that were measured, where there is enough of both.
fn seen(card: &Card) -> Option<Assume> {
    let evidence = &card.advice.evidence;
    let enough = match card.advice.verdict {
        Verdict::Raise | Verdict::Lower | Verdict::Keep => evidence.peak_rate_milli > 0,
        Verdict::TooLittleEvidence | Verdict::Unsettled => false,
    };
    let p99_us = evidence.p99_hold_us.filter(|_| enough)?;
    Some(Assume {
        rate_milli: evidence.peak_rate_milli,
        p99: Duration::from_micros(p99_us),
    })
}

fn band(card: &Card, path: Path) -> Option<Finding> {
    let advised = card.advice.advised?;
    let (rule, message) = match card.advice.band? {
        Band::ProtectsNothing => (
            "L16",
            format!(
                "never more than 30 % of the limit {} was in use: it protects nothing; {advised} \
                 would do",
                card.advice.limit,
            ),
        ),
        Band::OneSpikeAway => (
            "L17",
            format!(
                "{} is full or refuses under normal load ({:.2} % refused, target {}): the \
                 traffic asks for {advised}",
                card.advice.limit,
                card.advice.evidence.refused_share * 100.0,
                percent(card.advice.evidence.target),
            ),
        ),
    };
    Some(Finding {
        rule,
        severity: Severity::Warning,
        path,
        message,
    })
}
