//! A card of advice, and the answer to a what-if, in words.
//!
//! Separate because two pages show them, with the numbers that the API gives. It must never work
//! out a number: it only spells them.

use web::{AdviceCard, Advised, Answered};

use crate::advice::sums::GuaranteedSum;
use crate::advice::{Card, Confidence, Verdict, WhatIf, Why, percent, target};

/// The card.
pub(super) fn in_words(card: &Card) -> AdviceCard {
    let advice = &card.advice;
    let figures = [
        ("loss formula", &advice.loss_formula),
        ("bursts", &advice.bursts),
        ("rule of thumb", &advice.rule_of_thumb),
    ];
    let figures = figures.into_iter().filter_map(|(what, figure)| {
        let figure = figure.as_ref()?;
        Some((what, figure.limit, figure.because.clone()))
    });
    let left_out = advice
        .evidence
        .left_out
        .iter()
        .take(AdviceCard::LEFT_OUT_MAX);
    let left_out = left_out.map(|left| {
        let why = match left.why {
            Why::Incident => "hold time more than twice the usual",
            Why::CoolDown => "calls of the incident may still end in it",
            Why::BreakerOpen => "the breaker was open",
        };
        format!("{} to {}: {why}", when(left.from_ms), when(left.to_ms))
    });
    AdviceCard {
        summary: advice.summary.clone(),
        verdict: kind(advice.verdict).as_str(),
        figures: figures.collect(),
        evidence: evidence(card),
        left_out: left_out.collect(),
        left_out_more: advice
            .evidence
            .left_out
            .len()
            .saturating_sub(AdviceCard::LEFT_OUT_MAX),
    }
}

/// The kind of a verdict.
pub(super) const fn kind(verdict: Verdict) -> Advised {
    match verdict {
        Verdict::Raise => Advised::Raise,
        Verdict::Lower => Advised::Lower,
        Verdict::Keep => Advised::Keep,
        Verdict::TooLittleEvidence => Advised::TooLittle,
        Verdict::Unsettled => Advised::Unsettled,
    }
}

/// How sure.
pub(super) const fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Provisional => "provisional",
        Confidence::Final => "final",
    }
}

fn evidence(card: &Card) -> Vec<String> {
    let seen = &card.advice.evidence;
    let confidence = confidence(seen.confidence);
    let gateway = card.gateway.as_ref();
    let whose = gateway.map_or_else(
        || "the average gateway".to_owned(),
        |id| format!("gateway {id}"),
    );
    let mut lines = vec![format!(
        "{} arrivals in {} s of normal traffic on {whose}; confidence {confidence}; target {} \
         refused for {}{}",
        seen.arrivals,
        seen.seconds,
        percent(seen.target),
        card.class.as_str(),
        match seen.target > target(card.class) {
            true => ": so few calls cannot tell less",
            false => "",
        },
    )];
    if seen.windows > 0 {
        lines.push(format!(
            "{} from {} to {}, {} of them left out",
            web::text::plural(seen.windows, "window", "windows"),
            when(seen.from_ms),
            when(seen.to_ms),
            seen.left_out.len(),
        ));
    }
    if let Some(absorbs) = card.advice.absorbs {
        lines.push(format!(
            "the advised limit takes {absorbs:.2} times the peak before it refuses 1 %"
        ));
    }
    if let Some(share) = card.advice.predicted_refused {
        lines.push(format!(
            "the limit in force refuses {:.2} % of the peak by the formula; {:.2} % were refused",
            share * 100.0,
            seen.refused_share * 100.0,
        ));
    }
    lines
}

fn when(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms);
    at.map_or_else(|_| String::new(), |at| format!("{at:.0}"))
}

/// What another limit would do.
pub(super) fn answered(what_if: &WhatIf, sum: Option<&GuaranteedSum>) -> Answered {
    let (limit, now) = (what_if.limit, what_if.now);
    let percent = |share: f64| format!("{:.3} %", share * 100.0);
    let dash = || "–".to_owned();
    let summary = match (what_if.refused_share, what_if.refused_share_now) {
        (Some(then), Some(present)) => format!(
            "{limit} would refuse {} of the busiest window; {now} in force refuse {} by the same \
             formula.",
            percent(then),
            percent(present),
        ),
        _ => format!("Too little was measured to say what {limit} would do."),
    };
    let mut figures = Vec::new();
    if let Some(share) = what_if.refused_share {
        let present = what_if.refused_share_now.map_or_else(dash, percent);
        figures.push(("refused of the busiest window", percent(share), present));
    }
    if let Some(rate) = what_if.refused_per_s {
        figures.push(("refused at the peak", format!("{rate:.2}/s"), dash()));
    }
    if let Some(factor) = what_if.absorbs {
        let what = "of that demand until 1 % is refused";
        figures.push((what, format!("{factor:.2} times"), dash()));
    }
    if let Some(seconds) = what_if.fills_in_s {
        let what = "full when calls stop returning, after";
        figures.push((what, crate::sizing::time(seconds), dash()));
    }
    if let Some(sum) = sum {
        let what = if sum.fits {
            "guaranteed to all routes, which fits"
        } else {
            "guaranteed to all routes, which does not fit"
        };
        let of = format!("{} of {}", sum.guaranteed, sum.capacity);
        figures.push((what, of, dash()));
    }
    Answered {
        summary,
        meets: what_if.meets_target,
        figures,
        because: what_if.because.clone(),
    }
}
