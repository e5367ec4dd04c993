//! `bulkhead size`: the arithmetic of a limit, shown.
//!
//! Separate because it asks nobody: numbers in, numbers out. It must never compute anything
//! itself: the linter and this command share one arithmetic.

use clap::Args;
use control_plane::sizing::{self, Question};
use serde_json::Value;

use crate::args::Format;
use crate::error::Failure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Arrivals per second, at the peak
    #[arg(long, value_name = "N")]
    rate: String,
    /// How long a call takes, best its 99th percentile
    #[arg(long, value_name = "SPAN")]
    latency: String,
    /// Attempt timeout of the route
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
    /// A limit to judge; without it, the suggested one is
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// Attempts in all, the first included
    #[arg(long, value_name = "N")]
    attempts: Option<String>,
    /// Share of recent successes that may be repeated
    #[arg(long, value_name = "SHARE")]
    retry_budget: Option<String>,
    /// critical, standard or sheddable
    #[arg(long, value_name = "CLASS", default_value = "standard")]
    class: String,
    /// Share of the arrivals that is sheddable: shows which class_reserve the others need
    #[arg(long, value_name = "SHARE")]
    sheddable: Option<String>,
    /// How the figures are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &SizeArgs) -> Result<(), Failure> {
    let answer = sizing::size(&question(args)?);
    if args.output == Format::Json {
        let document = serde_json::to_value(&answer).map_err(|error| Failure::System {
            what: "write the figures as JSON",
            source: error.into(),
        })?;
        return output::print_json(&document);
    }
    output::print(&answer.to_string())
}

fn question(args: &SizeArgs) -> Result<Question, Failure> {
    // The words are those of a policy, read by the same rule.
    let class = serde_json::from_value(Value::from(args.class.as_str())).map_err(|_| {
        wrong(
            "class",
            &args.class,
            "must be critical, standard or sheddable",
        )
    })?;
    Ok(Question {
        rate_milli: read("rate", &args.rate, sizing::parse_rate)?,
        latency: read("latency", &args.latency, sizing::parse_time)?,
        attempt_timeout: maybe("timeout", args.timeout.as_ref(), sizing::parse_time)?,
        limit: maybe("limit", args.limit.as_ref(), sizing::parse_limit)?,
        attempts: maybe("attempts", args.attempts.as_ref(), sizing::parse_attempts)?,
        retry_budget: maybe(
            "retry-budget",
            args.retry_budget.as_ref(),
            sizing::parse_share,
        )?,
        class,
        sheddable: maybe("sheddable", args.sheddable.as_ref(), sizing::parse_share)?,
    })
}

fn wrong(flag: &str, text: &str, rule: &str) -> Failure {
    Failure::Setting(format!("--{flag} = {text:?}: {rule}"))
}

fn read<T>(
    flag: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    parse(text).map_err(|rule| wrong(flag, text, &rule))
}

fn maybe<T>(
    flag: &str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    text.map(|text| read(flag, text, parse)).transpose()
}
