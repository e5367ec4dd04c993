//! How long permits were held, by size, with the times that matter marked.
//!
//! Separate because its axis is a time of its own, in octaves. It must never be drawn linearly:
//! a timeout a hundred times the usual hold would leave one bar.

use compartment::Histogram;

use super::path::{HEIGHT, WIDTH};
use crate::text;

/// One bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldBar {
    /// Left edge.
    pub x: u64,
    /// Width.
    pub width: u64,
    /// Top edge.
    pub y: u64,
    /// Height.
    pub height: u64,
    /// Up to how long, as text.
    pub upto: String,
    /// How many.
    pub count: String,
    /// Of all.
    pub share: String,
}

/// A time on the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldMark {
    /// Where.
    pub x: u64,
    /// What: `attempt timeout 250 ms`.
    pub text: String,
    /// Its number beside the drawing.
    pub number: usize,
}

/// The chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldChart {
    /// The bars, shortest first, without empty ones at the ends.
    pub bars: Vec<HoldBar>,
    /// Timeout, fill time.
    pub marks: Vec<HoldMark>,
    /// How many in all.
    pub count: u64,
    /// Mean, p50 and p99 as text.
    pub summary: [String; 3],
}

impl HoldChart {
    /// The chart of `hold`; `times` are marked where they lie. `None` when nothing ended.
    pub fn new(hold: &Histogram, times: &[(&str, u64)]) -> Option<Self> {
        let buckets: Vec<(Option<u64>, u64)> = hold.buckets().collect();
        let first = buckets.iter().position(|(_, count)| *count > 0)?;
        let last = buckets.iter().rposition(|(_, count)| *count > 0)?;
        let place = |us: u64| {
            let at = buckets
                .iter()
                .position(|(upto, _)| upto.is_none_or(|upto| us < upto));
            at.unwrap_or(buckets.len())
        };
        let marked = times.iter().map(|(_, us)| place(*us));
        let from = marked.clone().chain([first]).min()?.saturating_sub(1);
        let to = marked
            .chain([last])
            .max()?
            .saturating_add(2)
            .min(buckets.len());
        let shown = buckets.get(from..to)?;
        let steps = u64::try_from(shown.len()).unwrap_or(u64::MAX).max(1);
        let x = |at: usize| {
            let at = u64::try_from(at.saturating_sub(from)).unwrap_or(u64::MAX);
            at.saturating_mul(WIDTH) / steps
        };
        let tallest = shown.iter().map(|(_, count)| *count).max()?.max(1);
        let total = hold.count();
        let bars = shown.iter().enumerate().map(|(n, (upto, count))| {
            let height = text::wide_ratio(*count, tallest, 200);
            let left = x(from + n);
            HoldBar {
                x: left,
                width: x(from + n + 1).saturating_sub(left),
                y: HEIGHT - height.min(HEIGHT),
                height,
                upto: upto.map_or_else(|| "more".to_owned(), micros),
                count: text::count(*count),
                share: text::percent(*count, total),
            }
        });
        let marks = times.iter().enumerate().map(|(n, (what, us))| HoldMark {
            x: x(place(*us)),
            text: format!("{what} {}", micros(*us)),
            number: n + 1,
        });
        let quantile = |permille| hold.quantile_us(permille).map_or_else(String::new, micros);
        Some(Self {
            bars: bars.collect(),
            marks: marks.collect(),
            count: total,
            summary: [
                hold.mean_us().map_or_else(String::new, micros),
                quantile(500),
                quantile(990),
            ],
        })
    }

    /// The height of the drawing.
    pub const fn height(&self) -> u64 {
        HEIGHT
    }
}

/// Below a millisecond in microseconds, else as any duration.
fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}\u{a0}µs"),
        _ => text::duration(us / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_marks_share_one_axis() {
        let mut hold = Histogram::new();
        hold.record_n(50_000, 30);
        hold.record_n(100_000, 10);
        let chart = HoldChart::new(&hold, &[("attempt timeout", 250_000), ("fills in", 20_000)]);
        let chart = chart.unwrap();
        assert_eq!(chart.count, 40);
        let tallest: Vec<&HoldBar> = chart.bars.iter().filter(|bar| bar.height == 200).collect();
        assert_eq!(tallest.len(), 1);
        assert_eq!((tallest[0].count.as_str(), tallest[0].y), ("30", 0));
        let (timeout, fills) = (&chart.marks[0], &chart.marks[1]);
        assert!(
            fills.x < tallest[0].x && tallest[0].x < timeout.x,
            "{chart:?}"
        );
        assert!(timeout.x <= WIDTH);
        assert_eq!(
            timeout.text.replace('\u{a0}', " "),
            "attempt timeout 250 ms"
        );
        let end = chart.bars.last().unwrap();
        assert_eq!(end.x + end.width, WIDTH);
    }

    #[test]
    fn nothing_ended_and_the_ends_of_the_range() {
        assert_eq!(HoldChart::new(&Histogram::new(), &[("x", 1)]), None);
        let mut hold = Histogram::new();
        hold.record(0);
        hold.record(u64::MAX);
        let chart = HoldChart::new(&hold, &[("timeout", u64::MAX), ("fills in", 0)]).unwrap();
        assert!(chart.marks.iter().all(|mark| mark.x <= WIDTH));
        assert_eq!(chart.bars.last().unwrap().upto, "more");
    }
}
