//! One compartment over time: in flight against its limit, and who was refused for which reason.
//!
//! Separate because both drawings and their table share one axis. It must never smooth: a step is
//! what was measured in it.

use compartment::Rejection;

use super::path::{HEIGHT, Scale, WIDTH};
use super::time;
use crate::text;

/// Most points of one chart.
pub const POINTS_MAX: usize = 720;
/// Rows of the table behind a chart; more points are put together.
const TABLE_ROWS_MAX: usize = 60;
/// Labels on the time axis.
const TICKS: usize = 5;
const DAY_MS: u64 = 86_400_000;

/// What was measured in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Mean in flight, in thousandths.
    pub mean_milli: u64,
    /// Most in flight at once.
    pub peak: u64,
    /// The limit at its end; `None` when unlimited.
    pub limit: Option<u64>,
    /// Everybody who asked.
    pub arrived: u64,
    /// Refusals by reason.
    pub rejected: Vec<(Rejection, u64)>,
    /// How long it was saturated, in thousandths of the step.
    pub saturated_permille: u64,
}

/// Something that happened, on the time axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, in milliseconds of Unix time.
    pub at_ms: i64,
    /// In a few words: `generation 44: limit 30 to 40`.
    pub text: String,
}

/// The figures of one compartment over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trend {
    /// Where the first step begins, in milliseconds of Unix time.
    pub from_ms: i64,
    /// How long a step is.
    pub step_ms: u64,
    /// The steps; `None` where nobody reported.
    pub points: Vec<Option<Point>>,
    /// Changes of the limit.
    pub marks: Vec<Mark>,
}

/// One reason's layer of the stacked chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// The reason.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// The filled path.
    pub path: String,
    /// How often in all.
    pub count: String,
    /// 0, 1, 2 …: picks colour and pattern.
    pub layer: usize,
}

/// One row of the table behind the charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// For `<time>`.
    pub iso: String,
    /// As shown.
    pub when: String,
    /// `None`: nobody reported.
    pub figures: Option<[String; 6]>,
}

impl Trend {
    /// True when there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.points.iter().all(Option::is_none)
    }

    /// True when a step is missing between others.
    pub fn has_gaps(&self) -> bool {
        self.points.iter().any(Option::is_none)
    }

    fn figures(&self, figure: impl Fn(&Point) -> Option<u64>) -> Vec<Option<u64>> {
        let points = self.points.iter();
        points
            .map(|point| point.as_ref().and_then(&figure))
            .collect()
    }

    fn measured(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().flatten()
    }

    /// The top of the first chart: a little above whatever is highest.
    pub fn top(&self) -> u64 {
        let highest = self
            .measured()
            .map(|point| point.peak.max(point.limit.unwrap_or(0)))
            .max();
        let highest = highest.unwrap_or(0).max(1);
        highest.saturating_add(highest.div_ceil(10))
    }

    fn scale(&self, top: u64) -> Scale {
        Scale {
            points: self.points.len(),
            top,
        }
    }

    /// Mean, peak and limit on a scale that others share.
    pub fn drawn_to(&self, top: u64) -> [String; 3] {
        let mean = self.figures(|point| Some(point.mean_milli));
        let peak = self.figures(|point| Some(point.peak));
        let limit = self.figures(|point| point.limit);
        let scale = self.scale(top);
        [
            self.scale(top.saturating_mul(1_000)).area(&mean),
            scale.line(&peak),
            scale.line(&limit),
        ]
    }

    /// The most in flight, the last limit, the time at it, what was rejected.
    pub fn brief(&self) -> [String; 4] {
        let limit = self.measured().last().and_then(|point| point.limit);
        let measured = u64::try_from(self.measured().count()).unwrap_or(u64::MAX);
        let saturated: u64 = self.measured().map(|point| point.saturated_permille).sum();
        let rejected: u64 = self.measured().map(|point| sum(&point.rejected)).sum();
        [
            text::count(self.measured().map(|point| point.peak).max().unwrap_or(0)),
            limit.map_or_else(|| "unlimited".to_owned(), text::count),
            text::percent(saturated, measured.saturating_mul(1_000)),
            text::count(rejected),
        ]
    }

    /// The mean in flight, filled.
    pub fn mean_area(&self) -> String {
        let top = self.top().saturating_mul(1_000);
        self.scale(top)
            .area(&self.figures(|point| Some(point.mean_milli)))
    }

    /// The peaks, as a line.
    pub fn peak_line(&self) -> String {
        self.scale(self.top())
            .line(&self.figures(|point| Some(point.peak)))
    }

    /// The limit, as a line in steps.
    pub fn limit_line(&self) -> String {
        self.scale(self.top())
            .line(&self.figures(|point| point.limit))
    }

    /// Where the marks stand, each with its text and number.
    pub fn marks_at(&self) -> Vec<(u64, usize, String)> {
        let span_ms = self.span_ms().max(1);
        let place = |mark: &Mark| {
            let since_ms = u64::try_from(mark.at_ms.saturating_sub(self.from_ms)).ok()?;
            (since_ms <= span_ms).then(|| {
                let x = u128::from(since_ms) * u128::from(WIDTH) / u128::from(span_ms);
                u64::try_from(x).unwrap_or(WIDTH)
            })
        };
        let marks = self.marks.iter().enumerate();
        marks
            .filter_map(|(n, mark)| {
                let text = format!("{}: {}", time::clock(mark.at_ms, true), mark.text);
                Some((place(mark)?, n + 1, text))
            })
            .collect()
    }

    fn span_ms(&self) -> u64 {
        let points = u64::try_from(self.points.len()).unwrap_or(u64::MAX);
        self.step_ms.saturating_mul(points)
    }

    /// The height of every drawing.
    pub const fn height(&self) -> u64 {
        HEIGHT
    }

    /// Labels of the time axis, evenly spread, UTC.
    pub fn ticks(&self) -> Vec<String> {
        let span_ms = self.span_ms();
        (0..TICKS)
            .map(|n| {
                let n = u64::try_from(n).unwrap_or(0);
                let since_ms = span_ms / (TICKS as u64 - 1) * n;
                let at_ms = self.from_ms.saturating_add_unsigned(since_ms);
                if span_ms > DAY_MS {
                    time::day_and_clock(at_ms)
                } else {
                    time::clock(at_ms, self.step_ms < 60_000)
                }
            })
            .collect()
    }

    /// The highest number refused in one step; 0: nobody was.
    pub fn refused_top(&self) -> u64 {
        let refused = self.measured().map(|point| sum(&point.rejected));
        refused.max().unwrap_or(0)
    }

    /// Refusals by reason, one layer above the other, most frequent lowest.
    pub fn stack(&self) -> Vec<StackRow> {
        let mut totals: Vec<(Rejection, u64)> = Rejection::ALL
            .into_iter()
            .map(|reason| (reason, self.measured().map(|point| of(point, reason)).sum()))
            .filter(|(_, total)| *total > 0)
            .collect();
        totals.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
        let order: Vec<Rejection> = totals.iter().map(|(reason, _)| *reason).collect();
        let scale = self.scale(self.refused_top());
        let layers = totals.into_iter().enumerate();
        let rows = layers.map(|(layer, (reason, total))| {
            let upto = order.get(..=layer).unwrap_or_default();
            // Drawn from the ground, the highest first: each layer covers the foot of the last.
            let heights =
                self.figures(|point| Some(upto.iter().map(|reason| of(point, *reason)).sum()));
            StackRow {
                name: reason.as_str(),
                title: crate::reason::title(reason),
                path: scale.area(&heights),
                count: text::count(total),
                layer,
            }
        });
        let mut rows: Vec<StackRow> = rows.collect();
        rows.reverse();
        rows
    }

    /// The table behind the charts, newest first; many steps are put together.
    pub fn table(&self) -> Vec<TableRow> {
        let together = self.points.len().div_ceil(TABLE_ROWS_MAX).max(1);
        let chunks = self.points.chunks(together).enumerate();
        let mut rows: Vec<TableRow> = chunks
            .map(|(n, points)| self.table_row(n * together, points))
            .collect();
        rows.reverse();
        rows
    }

    fn table_row(&self, at: usize, points: &[Option<Point>]) -> TableRow {
        let since_ms = self
            .step_ms
            .saturating_mul(u64::try_from(at).unwrap_or(u64::MAX));
        let at_ms = self.from_ms.saturating_add_unsigned(since_ms);
        let when = if self.span_ms() > DAY_MS {
            time::day_and_clock(at_ms)
        } else {
            time::clock(at_ms, true)
        };
        let known: Vec<&Point> = points.iter().flatten().collect();
        let count = u64::try_from(known.len()).unwrap_or(u64::MAX);
        let mean = |sum: u64| sum.checked_div(count).unwrap_or(0);
        let figures = (count > 0).then(|| {
            let mean_milli = mean(known.iter().map(|point| point.mean_milli).sum());
            let peak = known.iter().map(|point| point.peak).max().unwrap_or(0);
            let limit = known.last().and_then(|point| point.limit);
            let saturated = mean(known.iter().map(|point| point.saturated_permille).sum());
            [
                format!(
                    "{}.{}",
                    text::count(mean_milli / 1_000),
                    mean_milli % 1_000 / 100
                ),
                text::count(peak),
                limit.map_or_else(|| "unlimited".to_owned(), text::count),
                text::percent(saturated, 1_000_u64),
                text::count(known.iter().map(|point| point.arrived).sum::<u64>()),
                text::count(known.iter().map(|point| sum(&point.rejected)).sum::<u64>()),
            ]
        });
        TableRow {
            iso: time::iso(at_ms),
            when,
            figures,
        }
    }

    /// What the drawings show, in a sentence for those who do not see them.
    pub fn description(&self) -> String {
        let peak = self.measured().map(|point| point.peak).max().unwrap_or(0);
        let refused: u64 = self.measured().map(|point| sum(&point.rejected)).sum();
        let arrived: u64 = self.measured().map(|point| point.arrived).sum();
        let measured = u64::try_from(self.measured().count()).unwrap_or(u64::MAX);
        let saturated: u64 = self.measured().map(|point| point.saturated_permille).sum();
        format!(
            "From {} UTC, {}: at most {} in flight; saturated {} of the time; {} of {} rejected.",
            time::day_and_clock(self.from_ms),
            text::duration(self.span_ms()),
            text::count(peak),
            text::percent(saturated, measured.saturating_mul(1_000)),
            text::count(refused),
            text::count(arrived),
        )
    }
}

fn of(point: &Point, wanted: Rejection) -> u64 {
    let rejected = point.rejected.iter();
    let counts = rejected.filter(|(reason, _)| *reason == wanted);
    counts.map(|(_, count)| *count).sum()
}

fn sum(rejected: &[(Rejection, u64)]) -> u64 {
    rejected.iter().map(|(_, count)| *count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(mean: u64, peak: u64, full: u64, timeout: u64) -> Option<Point> {
        Some(Point {
            mean_milli: mean * 1_000,
            peak,
            limit: Some(10),
            arrived: 100,
            rejected: vec![
                (Rejection::RouteFull, full),
                (Rejection::QueueTimeout, timeout),
            ],
            saturated_permille: if peak >= 10 { 500 } else { 0 },
        })
    }

    fn trend() -> Trend {
        Trend {
            from_ms: 1_782_907_200_000,
            step_ms: 10_000,
            points: vec![
                point(4, 6, 0, 0),
                point(9, 10, 20, 5),
                None,
                point(5, 10, 10, 0),
            ],
            marks: vec![Mark {
                at_ms: 1_782_907_220_000,
                text: "generation 44: limit 30 to 10".to_owned(),
            }],
        }
    }

    #[test]
    fn lines_areas_and_marks_share_one_axis() {
        let trend = trend();
        assert_eq!(trend.top(), 11);
        assert!(trend.has_gaps() && !trend.is_empty());
        assert_eq!(trend.limit_line(), "M0 19H250V19H500M750 19H1000");
        assert_eq!(trend.peak_line(), "M0 91H250V19H500M750 19H1000");
        assert!(trend.mean_area().starts_with("M0 200V128H250V37H500V200Z"));
        let marks = trend.marks_at();
        assert_eq!(marks.len(), 1);
        assert_eq!((marks[0].0, marks[0].1), (500, 1));
        assert_eq!(trend.ticks().first().map(String::as_str), Some("12:00:00"));
    }

    #[test]
    fn several_share_one_scale() {
        let trend = trend();
        assert_eq!(trend.drawn_to(trend.top())[0], trend.mean_area());
        assert_eq!(trend.drawn_to(22)[1], "M0 146H250V110H500M750 110H1000");
        let brief = trend.brief().map(|word| word.replace('\u{a0}', " "));
        assert_eq!(brief, ["10", "10", "33 %", "35"]);
    }

    #[test]
    fn layers_are_stacked_most_frequent_lowest() {
        let rows = trend().stack();
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(
            names,
            ["queue_timeout", "route_full"],
            "the top is drawn first"
        );
        assert_eq!(rows[1].count, "30");
        assert_eq!(
            rows[0].path,
            "M0 200V200H250V0H500V200ZM750 200V120H1000V200Z"
        );
    }

    #[test]
    fn the_table_says_what_the_drawing_shows() {
        let table = trend().table();
        assert_eq!(table.len(), 4);
        assert_eq!(table[1].figures, None);
        let newest = table[0].figures.clone().unwrap();
        assert_eq!(newest[..3], ["5.0", "10", "10"].map(str::to_owned));
        let text = trend().description().replace('\u{a0}', " ");
        assert!(
            text.ends_with("saturated 33 % of the time; 35 of 300 rejected."),
            "{text}"
        );
    }

    #[test]
    fn nothing_measured_draws_nothing() {
        let empty = Trend {
            points: vec![None, None],
            ..trend()
        };
        assert!(empty.is_empty() && empty.stack().is_empty());
        assert_eq!((empty.mean_area(), empty.top()), (String::new(), 2));
    }
}
