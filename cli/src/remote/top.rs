//! `bulkhead top`: the compartments, again and again, the fullest first.
//!
//! Separate because it compares two looks: what it shows beyond `get` is what happened in between.
//! It must never show a difference over a restart as a negative number, or go on when nobody reads.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use super::client::Client;
use super::get::{hold, rows, total, would_reject};
use super::history::cell;
use crate::args::Format;
use crate::args_tools::TopArgs;
use crate::clock;
use crate::error::Failure;
use crate::output::{self, Side, Table};

/// Rows on a terminal that does not say how high it is.
const ROWS_DEFAULT: usize = 22;
/// Lines that are not rows: two above the table, its head, and the last one.
const LINES_AROUND: usize = 4;
/// Looks where nobody watches: with two there is something to compare.
const LOOKS_UNWATCHED: u64 = 2;
/// The shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let watched = std::io::stdout().is_terminal();
    let looks = args.count.or((!watched).then_some(LOOKS_UNWATCHED));
    let interval = args.interval.max(INTERVAL_MIN);
    let mut before = Before::default();
    let mut look = 0_u64;
    loop {
        let said = client.json(Method::GET, "/compartments")?;
        let now = clock::now();
        if args.client.output == Format::Json {
            output::print_json(&said)?;
        } else {
            let text = screen(&said, &before, now, rows_max(watched));
            output::print(&if watched {
                format!("{CLEAR}{text}")
            } else {
                text
            })?;
        }
        before = Before::of(&said, now);
        look = look.saturating_add(1);
        if looks.is_some_and(|looks| look >= looks) {
            return Ok(());
        }
        std::thread::park_timeout(interval);
    }
}

/// The counters of one look.
#[derive(Debug, Default)]
struct Before {
    at: Option<Instant>,
    counted: HashMap<String, (u64, u64)>,
}

impl Before {
    fn of(said: &Value, at: Instant) -> Self {
        let all = rows(said, "compartments");
        Self {
            at: Some(at),
            counted: all.map(|row| (cell(row, "key"), counters(row))).collect(),
        }
    }
}

/// Arrived and rejected since the gateways started.
fn counters(row: &Value) -> (u64, u64) {
    let arrived = row.get("arrived").and_then(Value::as_u64);
    (arrived.unwrap_or(0), total(row, "rejected").unwrap_or(0))
}

/// `12/s` of what was counted in between; a dash at the first look.
fn rate(before: Option<u64>, now: u64, between: Option<Duration>) -> String {
    let Some((before, between)) = before.zip(between) else {
        return "-".to_owned();
    };
    // A counter that went down began anew.
    let passed = if now < before { now } else { now - before };
    let millis = u64::try_from(between.as_millis())
        .unwrap_or(u64::MAX)
        .max(1);
    let tenths = passed.saturating_mul(10_000) / millis;
    format!("{}.{}/s", tenths / 10, tenths % 10)
}

/// How full, in thousandths.
fn urgency(row: &Value) -> u64 {
    let of = |name: &str| row.get(name).and_then(Value::as_u64);
    match (of("in_flight"), of("limit")) {
        (Some(in_flight), Some(limit)) if limit > 0 => in_flight.saturating_mul(1_000) / limit,
        _ => 0,
    }
}

fn screen(said: &Value, before: &Before, now: Instant, rows_max: usize) -> String {
    let between = before.at.map(|at| now.saturating_duration_since(at));
    let mut all: Vec<&Value> = rows(said, "compartments").collect();
    all.sort_by_cached_key(|row| (std::cmp::Reverse(urgency(row)), cell(row, "key")));
    let mut table = Table::new(&[
        ("key", Side::Left),
        ("mode", Side::Left),
        ("in flight", Side::Right),
        ("limit", Side::Right),
        ("full", Side::Right),
        ("queued", Side::Right),
        ("borrowed", Side::Right),
        ("hold p99", Side::Right),
        ("arriving", Side::Right),
        ("rejecting", Side::Right),
        ("would reject", Side::Right),
    ]);
    for row in all.iter().take(rows_max) {
        let (arrived, rejected) = counters(row);
        let then = before.counted.get(&cell(row, "key"));
        let full = match row.get("in_flight") {
            Some(_) => format!("{} %", urgency(row) / 10),
            None => String::new(),
        };
        table.row(vec![
            cell(row, "key"),
            cell(row, "mode"),
            cell(row, "in_flight"),
            cell(row, "limit"),
            full,
            cell(row, "queued"),
            cell(row, "borrowed"),
            hold(row),
            rate(then.map(|then| then.0), arrived, between),
            rate(then.map(|then| then.1), rejected, between),
            would_reject(row),
        ]);
    }
    let more = all.len().saturating_sub(rows_max);
    let more = match more {
        0 => String::new(),
        more => format!("{more} more\n"),
    };
    format!(
        "generation {}, {} gateways reporting\n\n{}{more}",
        cell(said, "generation"),
        output::printable(&cell(said, "reporting")),
        table.text()
    )
}

fn rows_max(watched: bool) -> usize {
    if !watched {
        return usize::MAX;
    }
    let lines = std::env::var("LINES")
        .ok()
        .and_then(|lines| lines.parse().ok());
    lines.map_or(ROWS_DEFAULT, |lines: usize| {
        lines.saturating_sub(LINES_AROUND).max(1)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(arrived: u64, refused: u64) -> Value {
        json!({"generation": 7, "reporting": "1 of 1", "compartments": [
            {"key": "route/calm", "mode": "enforce", "in_flight": 1, "limit": 10, "arrived": 5,
             "rejected": {}},
            {"key": "route/full", "mode": "enforce", "in_flight": 10, "limit": 10,
             "arrived": arrived, "rejected": {"route_full": refused}},
            {"key": "route/silent", "limit": 9}]})
    }

    #[test]
    fn the_fullest_comes_first_with_what_happened_in_between() {
        let start = clock::now();
        let first = screen(&said(100, 4), &Before::default(), start, 9);
        assert!(!first.contains("0/s"), "nothing to compare with: {first}");
        let before = Before::of(&said(100, 4), start);
        let text = screen(&said(125, 9), &before, start + Duration::from_secs(2), 9);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "generation 7, 1 of 1 gateways reporting");
        assert!(lines[3].starts_with("route/full"), "{text}");
        for words in ["100 %", "12.5/s", "2.5/s"] {
            assert!(lines[3].contains(words), "{words} in {text}");
        }
        assert!(lines[4].contains("0.0/s"), "{text}");
        let silent: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(
            silent[..2],
            ["route/silent", "9"],
            "no figures, no zeros: {text}"
        );
        let again = screen(&said(3, 1), &before, start + Duration::from_secs(1), 1);
        assert!(again.contains("3.0/s"), "it began anew: {again}");
        assert!(again.ends_with("2 more\n"), "{again}");
    }
}
