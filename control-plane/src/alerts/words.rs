//! Why an alert fires, in words, with its arithmetic.
//!
//! Separate so that page, API, notice and log say the same sentence. It must never round a figure
//! over the threshold that it did not pass.

use web::text::{count, duration, percent};

use super::alert::{Alert, Cause, Ended, State};
use super::rules::Rules;
use super::series::{Evidence, Rule};

/// One sentence: what was measured, and from where on it matters.
pub fn why(alert: &Alert, rules: &Rules) -> String {
    plain(&sentence(alert, rules))
}

fn sentence(alert: &Alert, rules: &Rules) -> String {
    let Evidence {
        window,
        heard_ms,
        short,
        short_ms,
        long,
    } = alert.evidence;
    let full = format!(
        "at its limit for {} of the last {} ({}; counts from {} %)",
        percent(window.time_ms, heard_ms),
        duration(rules.window_ms),
        duration(window.time_ms),
        Rules::FULL_PERCENT,
    );
    let refused = format!(
        "refused {} of {} requests, {}",
        count(window.refused),
        count(window.arrived),
        percent(window.refused, window.arrived.max(window.refused)),
    );
    match alert.rule {
        _ if alert.state == State::Pending => {
            format!("Lately {full}; {refused}. It has not lasted, so nobody is told.")
        }
        Rule::Fast => format!(
            "It was {full} and {refused}; counts above {} % and from {} refusals.",
            rules.fast_percent(),
            Rules::REFUSALS_MIN,
        ),
        Rule::Slow => format!(
            "It refused {} of the last {} ({} of {}) and {} of the last {} without their worst \
             {} ({} of {}); counts when both are above {} %.",
            percent(long.refused, long.arrived.max(long.refused)),
            duration(rules.long_ms()),
            count(long.refused),
            count(long.arrived),
            percent(short.refused, short.arrived.max(short.refused)),
            duration(short_ms),
            duration(rules.burst_ms()),
            count(short.refused),
            count(short.arrived),
            rules.slow_percent(),
        ),
        Rule::Full => format!("It was {full}; it {refused}. Nobody is paged for that."),
    }
}

/// `route/checkout refuses requests`.
pub fn summary(alert: &Alert) -> String {
    let what = match alert.cause {
        Cause::Refusing => "keeps refusing requests",
        Cause::Full => "stays full",
    };
    format!("{} {what}", alert.compartment)
}

/// Why it ended.
pub fn ended(ended: Ended, rules: &Rules) -> String {
    plain(&match ended {
        Ended::Quiet => format!("{} without trouble", duration(rules.clear_ms())),
        Ended::Superseded => "it refuses now, which has an alert of its own".to_owned(),
        Ended::Removed => "the policy does not name it any more".to_owned(),
        Ended::Unheard => format!("not heard of for {}", duration(rules.missing_ms())),
    })
}

/// The rule of a cause in words.
pub fn rule(cause: Cause, rules: &Rules) -> String {
    let window = duration(rules.window_ms);
    plain(&match cause {
        Cause::Refusing => format!(
            "Fires when a compartment was at its limit for at least {} % of the last {window} and \
             more than {} % of its requests and at least {} were refused meanwhile; or when more \
             than {} % were refused over the last {} and over the last {} without their worst {}. \
             Ends after {} with refusals within the budget of {} %.",
            Rules::FULL_PERCENT,
            rules.fast_percent(),
            Rules::REFUSALS_MIN,
            rules.slow_percent(),
            duration(rules.long_ms()),
            duration(rules.short_ms()),
            duration(rules.burst_ms()),
            duration(rules.clear_ms()),
            rules.budget_percent(),
        ),
        Cause::Full => format!(
            "A ticket when a compartment was at its limit for at least {} % of the last {window} \
             and refuses nobody to speak of. Ends after {} with less than {} % of it at the limit.",
            Rules::FULL_PERCENT,
            duration(rules.clear_ms()),
            Rules::CALM_PERCENT,
        ),
    })
}

/// A text for receivers that know no narrow spaces.
fn plain(text: &str) -> String {
    text.replace('\u{a0}', " ")
}
