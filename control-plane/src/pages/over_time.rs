//! The panel of what a compartment did over time, and the advice that rests on it.
//!
//! Separate because it reads the history, which may be slow or away: the page is then shown
//! without it, and says why. Nothing here may decide a number of the advice.

use compartment::policy::Policy;
use compartment::{Histogram, Key};
use web::chart::{HoldChart, Mark, POINTS_MAX, Point, Trend};
use web::{AdviceCard, OverTime};

use super::card_words;
use crate::advice::{Card, Measured};
use crate::clock;
use crate::history::{HistoryError, LimitChange, Point as Slot, Range, Row, Series, Step};
use crate::state::AppState;

/// Most changes of the limit that are marked.
const MARKS_MAX: usize = 12;
/// Points of each gateway in the drawing that compares them.
const SPLIT_POINTS_MAX: usize = 90;

/// The panel for `key` over the range of this name; an hour when there is none.
pub(super) async fn panel(
    state: &AppState,
    policy: Option<&Policy>,
    key: &str,
    range: &str,
) -> OverTime {
    let offered = OverTime::RANGES.iter().find(|(name, ..)| *name == range);
    let (name, _, seconds) = offered.copied().unwrap_or(("1h", "", 3_600));
    let empty = OverTime {
        range: name,
        trend: None,
        split: Vec::new(),
        hold: None,
        trouble: None,
        advice: None,
    };
    match filled(state, policy, key, seconds).await {
        Ok((trend, split, hold, advice)) => OverTime {
            trend,
            split,
            hold,
            advice,
            ..empty
        },
        Err(error) => OverTime {
            trouble: Some(error.to_string()),
            ..empty
        },
    }
}

/// Each gateway by its name.
type Split = Vec<(String, Trend)>;
type Filled = (Option<Trend>, Split, Option<HoldChart>, Option<AdviceCard>);

async fn filled(
    state: &AppState,
    policy: Option<&Policy>,
    key: &str,
    seconds: i64,
) -> Result<Filled, HistoryError> {
    let to_s = clock::unix_ms().div_euclid(1_000);
    let range = Range {
        from_s: to_s.saturating_sub(seconds),
        to_s,
    };
    let step = match seconds {
        0..=3_600 => Step::TenSeconds,
        3_601..=86_400 => Step::Minute,
        _ => Step::Hour,
    };
    let series = state.history.series(key, range, step).await?;
    let from_ms = series.range.from_s.saturating_mul(1_000);
    let changes = state.history.limit_changes(key, from_ms, i64::MAX).await?;
    let parsed = key.parse::<Key>().ok();
    let measured = match policy.zip(parsed.as_ref()) {
        Some((policy, key)) => Measured::read(&state.history, policy, key, to_s).await?,
        None => None,
    };
    let card = measured.as_ref().map(Measured::card);
    let trend = Some(trend(&series, &changes)).filter(|trend| !trend.is_empty());
    let hold = hold(&series, policy, parsed.as_ref(), card.as_ref());
    let split = split(&series);
    Ok((
        trend,
        split,
        hold,
        card.map(|card| card_words::in_words(&card)),
    ))
}

/// Each gateway by itself, coarser: there may be several.
fn split(series: &Series) -> Split {
    let one = |(gateway, slots): &(std::sync::Arc<str>, Vec<Slot>)| {
        let together = slots.len().div_ceil(SPLIT_POINTS_MAX).max(1);
        let step_s = u64::try_from(series.step.seconds()).unwrap_or(1);
        let trend = Trend {
            from_ms: series.range.from_s.saturating_mul(1_000),
            step_ms: step_s
                .saturating_mul(1_000)
                .saturating_mul(u64::try_from(together).unwrap_or(1)),
            points: slots.chunks(together).map(point).collect(),
            marks: Vec::new(),
        };
        (gateway.as_ref().to_owned(), trend)
    };
    let gateways = series.gateways.iter().map(one);
    let reporting = gateways.filter(|(_, trend)| !trend.is_empty());
    reporting.take(OverTime::SPLIT_MAX).collect()
}

fn trend(series: &Series, changes: &[LimitChange]) -> Trend {
    let together = series.points.len().div_ceil(POINTS_MAX).max(1);
    let points = series.points.chunks(together).map(point);
    let step_ms = u64::try_from(series.step.seconds())
        .unwrap_or(1)
        .saturating_mul(1_000);
    let marks = changes.iter().take(MARKS_MAX).map(|change| {
        let limit = |limit: Option<compartment::Limit>| {
            limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
        };
        let (before, after) = (limit(change.before), limit(change.after));
        Mark {
            at_ms: change.at_ms,
            text: format!(
                "generation {}: limit {before} to {after}",
                change.generation
            ),
        }
    });
    Trend {
        from_ms: series.range.from_s.saturating_mul(1_000),
        step_ms: step_ms.saturating_mul(u64::try_from(together).unwrap_or(1)),
        points: points.collect(),
        marks: marks.collect(),
    }
}

/// Some slots as one; `None` when nobody was heard in any of them.
fn point(slots: &[Slot]) -> Option<Point> {
    let known: Vec<(&Slot, &Row)> = slots
        .iter()
        .filter_map(|slot| Some((slot, slot.figures.as_ref()?)))
        .collect();
    let covered_us: u64 = known.iter().map(|(slot, _)| slot.heard.covered_us).sum();
    let gateway_us: u64 = known.iter().map(|(slot, _)| slot.heard.gateway_us).sum();
    if covered_us == 0 {
        return None;
    }
    let mut sum = Row::default();
    known.iter().for_each(|(_, row)| sum.then(row));
    let gateways = known
        .iter()
        .map(|(slot, _)| slot.heard.gateways)
        .max()
        .unwrap_or(1);
    let share = |part_us: u64, whole_us: u64| {
        let permille = u128::from(part_us) * 1_000 / u128::from(whole_us.max(1));
        u64::try_from(permille).unwrap_or(u64::MAX)
    };
    let slots = known.last().and_then(|(_, row)| row.limit?.slots());
    Some(Point {
        mean_milli: share(sum.in_flight_us, covered_us),
        peak: sum.peak,
        // In flight is over all gateways, so what it is drawn against is too.
        limit: slots.map(|slots| u64::from(slots).saturating_mul(gateways)),
        arrived: sum.arrived,
        rejected: sum.rejected,
        saturated_permille: share(sum.saturated_us, gateway_us).min(1_000),
    })
}

fn hold(
    series: &Series,
    policy: Option<&Policy>,
    key: Option<&Key>,
    card: Option<&Card>,
) -> Option<HoldChart> {
    let mut hold = Histogram::new();
    let rows = series
        .points
        .iter()
        .filter_map(|slot| slot.figures.as_ref());
    rows.for_each(|row| hold.merge(&row.hold));
    let mut times = Vec::new();
    if let Some((Key::Route(id), policy)) = key.zip(policy) {
        let route = policy.routes.iter().find(|route| route.id == *id);
        let attempt = route.map(|route| route.timeout.attempt.as_micros());
        let attempt_us = attempt.and_then(|us| u64::try_from(us).ok());
        times.extend(attempt_us.map(|us| ("attempt timeout", us)));
    }
    times.extend(
        card.and_then(fills_in_us)
            .map(|us| ("time to fill at the peak", us)),
    );
    HoldChart::new(&hold, &times)
}

/// Limit by peak rate: in this time it is full when calls stop returning.
fn fills_in_us(card: &Card) -> Option<u64> {
    let slots = u128::from(card.advice.limit.slots()?);
    let rate_milli = u128::from(card.advice.evidence.peak_rate_milli);
    let us = (slots * 1_000_000_000).checked_div(rate_milli)?;
    u64::try_from(us).ok().filter(|us| *us > 0)
}
