//! The rows of one compartment over a range, on a grid.
//!
//! Separate because a reader should not know which rows are on disk, which wait in memory and
//! which are not summed up yet. Slots of which nobody was heard stay empty; slots in which a
//! compartment of the policy merely had no traffic are zeros. It must never draw a line through
//! a gap.

use std::collections::BTreeMap;
use std::sync::Arc;

use compartment::Limit;

use super::pending::Unwritten;
use super::row::Row;
use super::step::{Range, Step};
use super::{Heard, History, HistoryError};
use crate::store::figures::{Figures, Found};

/// One slot of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// When it starts.
    pub at_s: i64,
    /// Who was heard of.
    pub heard: Heard,
    /// What happened; `None`: nobody knows.
    pub figures: Option<Row>,
}

impl Point {
    /// So many a second, over all gateways.
    #[expect(
        clippy::cast_precision_loss,
        reason = "for people: no digit that is shown is lost"
    )]
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let covered = self.heard.covered_us;
        (covered > 0).then(|| count as f64 * 1e6 / covered as f64)
    }

    /// The mean number of permits out, over all gateways.
    #[expect(
        clippy::cast_precision_loss,
        reason = "for people: no digit that is shown is lost"
    )]
    pub fn in_flight(&self) -> Option<f64> {
        let (row, covered) = (self.figures.as_ref()?, self.heard.covered_us);
        (covered > 0).then(|| row.in_flight_us as f64 / covered as f64)
    }

    /// The share of the time at the limit, over all gateways.
    #[expect(
        clippy::cast_precision_loss,
        reason = "for people: no digit that is shown is lost"
    )]
    pub fn saturated(&self) -> Option<f64> {
        let (row, covered) = (self.figures.as_ref()?, self.heard.gateway_us);
        (covered > 0).then(|| (row.saturated_us as f64 / covered as f64).min(1.0))
    }
}

/// A compartment over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which.
    pub key: String,
    /// The width of a point.
    pub step: Step,
    /// What the points cover.
    pub range: Range,
    /// One for each slot, in order.
    pub points: Vec<Point>,
    /// The same for each gateway; of rows of ten seconds only.
    pub gateways: Vec<(Arc<str>, Vec<Point>)>,
}

/// Rows of ten seconds by slot and gateway.
type Fine = BTreeMap<(i64, Arc<str>), (Option<Row>, u64)>;
/// By slot, over all gateways.
type Coarse = BTreeMap<i64, (Option<Row>, Heard)>;

impl History {
    /// The rows of one compartment over a range, at most [`super::POINTS_MAX`] of them.
    pub async fn series(
        &self,
        key: &str,
        range: Range,
        step: Step,
    ) -> Result<Series, HistoryError> {
        let range = range.on_grid(step);
        let stop = range
            .from_s
            .saturating_add(step.seconds().saturating_mul(super::POINTS_MAX));
        let range = range.until(stop);
        let database = self.database()?;
        // Before the file is read: what is written in between is seen twice, and told by its name.
        let unwritten = self.pending().of(key, range);
        let hours = database.rolled(Step::Hour).await?;
        let minutes = database.rolled(Step::Minute).await?;
        let (made, fine) = match step {
            Step::TenSeconds => (vec![], range),
            Step::Minute => (
                vec![(Step::Minute, range.until(minutes))],
                range.since(minutes),
            ),
            Step::Hour => (
                vec![
                    (Step::Hour, range.until(hours)),
                    (Step::Minute, range.since(hours).until(minutes)),
                ],
                range.since(hours.max(minutes)),
            ),
        };
        let mut slots = Coarse::new();
        for (from, range) in made {
            coarse(&database, &mut slots, key, (step, from), range).await?;
        }
        let fine = with_unwritten(read_fine(&database, key, fine).await?, unwritten);
        fold(&mut slots, step, &fine);
        let is_tenant = key.starts_with("tenant/") || key.contains("/tenant/");
        let gateways = match step {
            Step::TenSeconds => by_gateway(&fine, range, is_tenant),
            Step::Minute | Step::Hour => Vec::new(),
        };
        Ok(Series {
            key: key.to_owned(),
            step,
            range,
            points: points(slots, range, step, is_tenant),
            gateways,
        })
    }
}

/// Adds rows of a minute or an hour to the slots that they lie in.
async fn coarse(
    database: &Figures,
    slots: &mut Coarse,
    key: &str,
    (step, from): (Step, Step),
    range: Range,
) -> Result<(), HistoryError> {
    let range = kept(database, from, range).await?;
    for (slot, heard) in database.heard(from, range).await? {
        slots.entry(step.slot(slot)).or_default().1.then(heard);
    }
    for Found { slot, row, .. } in database.rows(from, key, range).await? {
        then(&mut slots.entry(step.slot(slot)).or_default().0, &row);
    }
    Ok(())
}

/// What of a range there are rows of: a grid is searched second by second.
async fn kept(database: &Figures, step: Step, range: Range) -> Result<Range, HistoryError> {
    let Some((first, last)) = database.kept(step).await? else {
        return Ok(range.until(i64::MIN));
    };
    Ok(range
        .since(first)
        .until(last.saturating_add(step.seconds())))
}

async fn read_fine(database: &Figures, key: &str, range: Range) -> Result<Fine, HistoryError> {
    let range = kept(database, Step::TenSeconds, range).await?;
    let mut fine = Fine::new();
    for (slot, gateway, heard) in database.heard_by_gateway(range).await? {
        fine.entry((slot, gateway)).or_default().1 = heard.covered_us;
    }
    for Found { slot, gateway, row } in database.rows(Step::TenSeconds, key, range).await? {
        fine.entry((slot, gateway)).or_default().0 = Some(row);
    }
    Ok(fine)
}

/// Adds what is not on disk. What is on its way there counts only where the disk has nothing.
fn with_unwritten(mut fine: Fine, unwritten: Unwritten) -> Fine {
    let Unwritten { open, writing } = unwritten;
    for (start, slot) in writing {
        for (gateway, us) in slot.heard_us {
            let own = &mut fine.entry((start, gateway)).or_default().1;
            *own = (*own).max(us);
        }
        for ((_, gateway), row) in slot.rows {
            fine.entry((start, gateway))
                .or_default()
                .0
                .get_or_insert(row);
        }
    }
    for (start, slot) in open {
        for (gateway, us) in slot.heard_us {
            let own = &mut fine.entry((start, gateway)).or_default().1;
            *own = own.saturating_add(us);
        }
        for ((_, gateway), row) in slot.rows {
            then(&mut fine.entry((start, gateway)).or_default().0, &row);
        }
    }
    fine
}

fn then(sum: &mut Option<Row>, row: &Row) {
    match sum {
        Some(sum) => sum.then(row),
        None => *sum = Some(row.clone()),
    }
}

/// Adds rows of ten seconds up: over gateways first, then over time.
fn fold(slots: &mut Coarse, step: Step, fine: &Fine) {
    let mut sums = Coarse::new();
    for ((slot, _), (row, covered_us)) in fine {
        let sum = sums.entry(*slot).or_default();
        if *covered_us > 0 {
            sum.1.beside(one_gateway(*covered_us));
        }
        match (&mut sum.0, row) {
            (Some(sum), Some(row)) => sum.beside(row),
            (sum @ None, Some(row)) => *sum = Some(row.clone()),
            (_, None) => {}
        }
    }
    for (slot, (row, heard)) in sums {
        let own = slots.entry(step.slot(slot)).or_default();
        own.1.then(heard);
        if let Some(row) = row {
            then(&mut own.0, &row);
        }
    }
}

const fn one_gateway(covered_us: u64) -> Heard {
    Heard {
        covered_us,
        gateway_us: covered_us,
        gateways: 1,
    }
}

fn by_gateway(fine: &Fine, range: Range, is_tenant: bool) -> Vec<(Arc<str>, Vec<Point>)> {
    let mut split: BTreeMap<Arc<str>, Coarse> = BTreeMap::new();
    for ((slot, gateway), (row, covered_us)) in fine {
        let own = split.entry(Arc::clone(gateway)).or_default();
        own.insert(*slot, (row.clone(), one_gateway(*covered_us)));
    }
    let points = |(gateway, slots)| (gateway, points(slots, range, Step::TenSeconds, is_tenant));
    split.into_iter().map(points).collect()
}

/// One point for each slot of the grid.
fn points(mut slots: Coarse, range: Range, step: Step, is_tenant: bool) -> Vec<Point> {
    let mut limit: Option<Limit> = None;
    let mut points = Vec::new();
    let mut at_s = range.from_s;
    while at_s < range.to_s {
        let (row, heard) = slots.remove(&at_s).unwrap_or_default();
        // A tenant without a row may be one of the others, who are summed under one name.
        let is_idle = heard.covered_us > 0 && !is_tenant;
        let mut figures = row.or_else(|| is_idle.then(Row::default));
        if let Some(row) = &mut figures {
            // A limit that changes is told even where nothing else happens, so the last holds.
            row.limit = row.limit.or(limit);
            limit = row.limit;
        }
        points.push(Point {
            at_s,
            heard,
            figures,
        });
        at_s = at_s.saturating_add(step.seconds());
    }
    points
}
