//! `bulkhead size`: from rate and latency to a limit, every step shown.
//!
//! Separate from the linter, which judges what is written, because here nothing is written yet.
//! The answer must never hold a number without the arithmetic that leads to it.

mod exact;
mod laws;
mod reserve;

use std::fmt;
use std::time::Duration;

use compartment::policy::{ATTEMPTS_MAX, DURATION_MAX, Millionths, decimal, parse_duration};
use compartment::{Class, LIMIT_MAX};
use serde::Serialize;

use crate::advice::target;

pub use exact::{Exact, time};
pub use laws::{
    headroom, in_flight, shed, suggested_limit, throughput_left, time_to_fill, worst_case,
};

pub use reserve::{Reserve, advised as advised_reserve, refused as refused_with_reserve};

/// The highest rate that is asked about, per second.
pub const RATE_MAX: u64 = 1_000_000_000;

/// What is known of the traffic and of what the author has in mind.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Arrivals, in thousandths of a request per second.
    pub rate_milli: u64,
    /// How long a call takes.
    pub latency: Duration,
    /// To the response head, each attempt.
    pub attempt_timeout: Option<Duration>,
    /// A limit to judge; without one, the suggested limit is judged.
    pub limit: Option<u32>,
    /// Attempts in all.
    pub attempts: Option<u32>,
    /// Share of successes that may be repeated.
    pub retry_budget: Option<Millionths>,
    /// How much it matters.
    pub class: Class,
    /// Share of the arrivals that is sheddable, where some are.
    pub sheddable: Option<Millionths>,
}

/// A rate such as `100` or `0.5`, in thousandths; above 0.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let milli = decimal(text, 1000).and_then(|milli| u64::try_from(milli).ok());
    milli
        .filter(|milli| *milli > 0 && *milli <= RATE_MAX * 1000)
        .ok_or_else(|| {
            format!("must be a rate per second above 0 and at most {RATE_MAX}, at most 3 decimals")
        })
}

/// A time such as `250ms`; above 0 and at most a day.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|time| !time.is_zero() && *time <= DURATION_MAX)
        .ok_or_else(|| {
            "must be a time above 0 and at most 24h, such as 250ms, 1.5s or 1h".to_owned()
        })
}

/// A limit: a whole number from 0 to 1,000,000.
pub fn parse_limit(text: &str) -> Result<u32, String> {
    let limit = text.parse().ok().filter(|limit| *limit <= LIMIT_MAX);
    limit.ok_or_else(|| format!("must be a whole number from 0 to {LIMIT_MAX}"))
}

/// A number of attempts, the first included.
pub fn parse_attempts(text: &str) -> Result<u32, String> {
    let attempts = text
        .parse()
        .ok()
        .filter(|attempts| (1..=ATTEMPTS_MAX).contains(attempts));
    attempts.ok_or_else(|| format!("must be a whole number from 1 to {ATTEMPTS_MAX}"))
}

/// A share from 0 to 1.
pub fn parse_share(text: &str) -> Result<Millionths, String> {
    let share = decimal(text, Millionths::ONE.0.into()).and_then(|share| u32::try_from(share).ok());
    let share = share
        .map(Millionths)
        .filter(|share| *share <= Millionths::ONE);
    share.ok_or_else(|| "must be a number from 0 to 1 with at most 6 decimals".to_owned())
}

/// One number of the answer and how it came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// What it is, for scripts.
    pub name: &'static str,
    /// What it is, for people.
    pub label: &'static str,
    /// The number: slots, per second, or seconds, as the unit says.
    pub value: Exact,
    /// `slots`, `per_second` or `seconds`.
    pub unit: Unit,
    /// The arithmetic.
    pub because: String,
    /// Whether a rule about this number holds, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Requests in flight.
    Slots,
    /// Requests per second.
    PerSecond,
    /// Seconds.
    Seconds,
}

/// Every figure, in the order of the argument.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The figures.
    pub figures: Vec<Figure>,
    /// What is refused with none of the last slots kept, one, and so on to the advised number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserves: Vec<Reserve>,
}

impl Answer {
    /// True when no rule is broken.
    pub fn holds(&self) -> bool {
        self.figures
            .iter()
            .all(|figure| figure.holds != Some(false))
    }
}

/// Works out every figure.
pub fn size(question: &Question) -> Answer {
    let rate = Exact::rate(question.rate_milli);
    let latency = Exact::seconds(question.latency);
    let (per_second, takes) = (format!("{rate}/s"), time(latency));
    let mut figures = Vec::new();

    let busy = in_flight(rate, latency);
    figures.push(Figure {
        name: "in_flight",
        label: "in flight",
        value: busy,
        unit: Unit::Slots,
        because: format!("{per_second} x {takes} (Little's law)"),
        holds: None,
    });
    let suggested = suggested_limit(busy, question.class);
    let factor = headroom(question.class);
    figures.push(Figure {
        name: "suggested_limit",
        label: "suggested limit",
        value: Exact::whole(suggested),
        unit: Unit::Slots,
        because: format!(
            "{busy} x {factor} for {}, in whole slots",
            question.class.as_str()
        ),
        holds: None,
    });
    let limit = question
        .limit
        .unwrap_or_else(|| u32::try_from(suggested).unwrap_or(LIMIT_MAX));
    figures.push(judged_limit(question, busy, limit));
    let throughput = throughput_left(limit, latency);
    figures.push(Figure {
        name: "throughput",
        label: "throughput left",
        value: throughput,
        unit: Unit::PerSecond,
        because: format!("{limit} / {takes}"),
        holds: None,
    });
    let lost = shed(rate, throughput);
    figures.push(Figure {
        name: "shed",
        label: "shed",
        value: lost,
        unit: Unit::PerSecond,
        because: format!("of {per_second}, beyond {throughput}/s"),
        holds: None,
    });
    figures.extend(timing(question, rate, limit));
    let reserves = class_reserve(question, busy, limit, &mut figures);
    Answer { figures, reserves }
}

/// How many last slots keep the others at the target of their class; what each number costs.
fn class_reserve(
    question: &Question,
    busy: Exact,
    limit: u32,
    figures: &mut Vec<Figure>,
) -> Vec<Reserve> {
    let Some(share) = question.sheddable.map(Exact::share) else {
        return Vec::new();
    };
    let (others, sheddable) = (busy.times(Exact::ONE.minus(share)), busy.times(share));
    let target = target(question.class);
    let found = advised_reserve(
        others.nearest_float(),
        sheddable.nearest_float(),
        limit,
        target,
    );
    let asked = format!("{others} and {sheddable} sheddable on {limit} slots");
    let goal = format!("{} of the others", percent(target));
    let (kept, because, holds) = match &found {
        Some(tried) => (
            tried.last().map_or(0, |last| last.kept),
            format!("the fewest that refuse at most {goal}: {asked}"),
            None,
        ),
        None => (
            0,
            format!("no number keeps refusals at {goal}: {asked}"),
            Some(false),
        ),
    };
    figures.push(Figure {
        name: "class_reserve",
        label: "class reserve",
        value: Exact::whole(kept.into()),
        unit: Unit::Slots,
        because,
        holds,
    });
    found.unwrap_or_default()
}

/// A share with two digits that say something.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 1.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.2} %")
    }
}

fn judged_limit(question: &Question, busy: Exact, limit: u32) -> Figure {
    let holds = Exact::whole(limit.into()) >= busy;
    let origin = if question.limit.is_some() {
        "as given"
    } else {
        "as suggested"
    };
    let verdict = if holds { "covers" } else { "is below" };
    Figure {
        name: "limit",
        label: "limit",
        value: Exact::whole(limit.into()),
        unit: Unit::Slots,
        because: format!("{origin}; {verdict} {busy} in flight"),
        holds: Some(holds),
    }
}

/// How fast the limit fills, and whether the timeout is short enough for it.
fn timing(question: &Question, rate: Exact, limit: u32) -> Vec<Figure> {
    let per_second = format!("{rate}/s");
    let fill = time_to_fill(limit, Exact::ZERO, rate);
    let mut figures = vec![Figure {
        name: "time_to_fill",
        label: "time to fill",
        value: fill,
        unit: Unit::Seconds,
        because: format!("{limit} / {per_second}; the timeout must be shorter"),
        holds: None,
    }];
    let Some(timeout) = question.attempt_timeout.map(Exact::seconds) else {
        return figures;
    };
    let shorter = timeout < fill;
    let verdict = if shorter {
        "shorter than"
    } else {
        "not shorter than"
    };
    figures.push(Figure {
        name: "timeout",
        label: "timeout",
        value: timeout,
        unit: Unit::Seconds,
        because: format!("{verdict} {}", time(fill)),
        holds: Some(shorter),
    });
    let (extra, why) = extra_attempts(question);
    let worst = worst_case(rate, extra, timeout);
    let fits = worst <= Exact::whole(limit.into());
    let factor = Exact::ONE.plus(extra);
    let verdict = if fits { "fits" } else { "exceeds" };
    figures.push(Figure {
        name: "worst_case",
        label: "worst case",
        value: worst,
        unit: Unit::Slots,
        because: format!(
            "{per_second} x {factor} x {}{why}; {verdict} {limit}",
            time(timeout)
        ),
        holds: Some(fits),
    });
    if !fits {
        figures.push(Figure {
            name: "limit_for_worst_case",
            label: "limit for that",
            value: Exact::whole(worst.ceil()),
            unit: Unit::Slots,
            because: format!("{worst} in whole slots"),
            holds: None,
        });
    }
    figures
}

/// The mean number of retries for each request, and what to say of it.
fn extra_attempts(question: &Question) -> (Exact, &'static str) {
    match (question.attempts, question.retry_budget) {
        (Some(0 | 1), _) | (None, None) => (Exact::ZERO, ""),
        (_, Some(budget)) => (Exact::share(budget), ""),
        (Some(attempts), None) => (
            Exact::whole(attempts.saturating_sub(1).into()),
            " (retries have no budget, so all may be repeated)",
        ),
    }
}

impl fmt::Display for Answer {
    /// One figure a line: what, how much, why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            let value = match figure.unit {
                Unit::Slots => figure.value.to_string(),
                Unit::PerSecond => format!("{}/s", figure.value),
                Unit::Seconds => time(figure.value),
            };
            let mark = match figure.holds {
                Some(true) => "  ok",
                Some(false) => "  NOT OK",
                None => "",
            };
            writeln!(
                f,
                "{:<16} {value:>10}   = {}{mark}",
                figure.label, figure.because
            )?;
        }
        for reserve in &self.reserves {
            writeln!(
                f,
                "{:<16} {:>10}   = {} of the others refused, {} of sheddable",
                "",
                format!("{} kept", reserve.kept),
                percent(reserve.others_refused),
                percent(reserve.sheddable_refused),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(rate: &str, latency: &str) -> Question {
        Question {
            rate_milli: parse_rate(rate).unwrap(),
            latency: parse_time(latency).unwrap(),
            attempt_timeout: None,
            limit: None,
            attempts: None,
            retry_budget: None,
            class: Class::Standard,
            sheddable: None,
        }
    }

    /// The figures by name, as they are written.
    fn check(question: &Question, want: &[(&str, &str)]) {
        let answer = size(question);
        for (name, value) in want {
            let figure = answer.figures.iter().find(|figure| figure.name == *name);
            let seen = figure.map(|figure| match figure.unit {
                Unit::Slots | Unit::PerSecond => figure.value.to_string(),
                Unit::Seconds => time(figure.value),
            });
            assert_eq!(seen.as_deref(), Some(*value), "{name} in\n{answer}");
        }
    }

    /// P10.
    #[test]
    fn littles_law() {
        for (rate, latency, slots) in [
            ("200", "50ms", "10"),
            ("300", "30ms", "9"),
            ("100", "200ms", "20"),
            ("20", "100ms", "2"),
            ("30", "50ms", "1.5"),
            ("50", "200ms", "10"),
            ("50", "5s", "250"),
            ("100", "8s", "800"),
            ("200", "2s", "400"),
        ] {
            check(&ask(rate, latency), &[("in_flight", slots)]);
        }
    }

    /// P11.
    #[test]
    fn headroom_by_class() {
        for (class, limit) in [
            (Class::Critical, "20"),
            (Class::Standard, "15"),
            (Class::Sheddable, "10"),
        ] {
            let question = Question {
                class,
                ..ask("200", "50ms")
            };
            check(
                &question,
                &[
                    ("in_flight", "10"),
                    ("suggested_limit", limit),
                    ("limit", limit),
                ],
            );
        }
    }

    /// P12.
    #[test]
    fn what_a_limit_costs_when_the_dependency_is_slow() {
        let question = Question {
            limit: Some(40),
            ..ask("50", "5s")
        };
        check(
            &question,
            &[("in_flight", "250"), ("throughput", "8"), ("shed", "42")],
        );
        assert!(!size(&question).holds(), "40 is below 250");
    }

    /// P13 and P14.
    #[test]
    fn time_to_fill_and_the_worst_case() {
        let mut question = Question {
            limit: Some(30),
            attempt_timeout: Some(Duration::from_millis(250)),
            ..ask("100", "200ms")
        };
        check(
            &question,
            &[("time_to_fill", "300 ms"), ("worst_case", "25")],
        );
        assert!(size(&question).holds());
        question.attempts = Some(2);
        question.retry_budget = Some(Millionths(100_000));
        check(&question, &[("worst_case", "27.5")]);
        assert!(size(&question).holds());
        question.retry_budget = Some(Millionths(250_000));
        check(
            &question,
            &[("worst_case", "31.25"), ("limit_for_worst_case", "32")],
        );
        assert!(!size(&question).holds());
        question.retry_budget = None;
        check(&question, &[("worst_case", "50")]);
        question.attempts = Some(1);
        question.attempt_timeout = Some(Duration::from_millis(300));
        assert!(
            !size(&question).holds(),
            "300 ms is not shorter than 300 ms"
        );
    }

    #[test]
    fn the_reserve_for_a_share_of_sheddable_requests() {
        let mut question = Question {
            limit: Some(20),
            sheddable: Some(Millionths(700_000)),
            ..ask("200", "100ms")
        };
        check(&question, &[("in_flight", "20"), ("class_reserve", "6")]);
        let answer = size(&question);
        assert_eq!(answer.reserves.len(), 7);
        let text = answer.to_string();
        assert!(
            text.contains("3 kept   = 0.72 % of the others refused, 33.6 % of sheddable"),
            "{text}"
        );
        question.sheddable = Some(Millionths::ONE);
        check(&question, &[("class_reserve", "0")]);
        question.sheddable = Some(Millionths(0));
        assert!(!size(&question).holds(), "20 asked for on 20 slots");
    }

    #[test]
    fn bad_words_are_refused_with_their_rule() {
        for text in ["0", "-1", "x", "1e3", "0.0001", "1000000001", ""] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        for text in ["0ms", "25h", "5"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        for text in ["-1", "1.5", "1000001", "unlimited"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
        for text in ["0", "11", "x"] {
            assert!(parse_attempts(text).is_err(), "{text}");
        }
        for text in ["1.1", "-0.1", "0.0000001"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        assert_eq!(parse_share("0.1"), Ok(Millionths(100_000)));
    }

    #[test]
    fn extremes_neither_panic_nor_wrap() {
        let question = Question {
            limit: Some(0),
            attempt_timeout: Some(DURATION_MAX),
            attempts: Some(10),
            ..ask("1000000000", "24h")
        };
        check(
            &question,
            &[("in_flight", "86400000000000"), ("throughput", "0")],
        );
    }
}
