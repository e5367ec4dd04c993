//! Writing the history: new rows, coarser rows made of finer ones, the end of old ones.
//!
//! Separate from reading because all of it is done by one task, in transactions that are safe to
//! repeat. It must never make a coarse row of anything but the finer rows that are stored.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Row as _, Sqlite};
use tokio_stream::StreamExt as _;

use super::super::sum::Sum;
use super::super::{DAY_S, Kind, NAMES_MAX, Names, kept_names_from, signed, written};
use super::{Figures, end, sql};
use crate::history::{LimitChange, Row, Slot, Slots, Step};
use crate::store::StoreError;

/// Most seconds of rows that one transaction removes.
const CHUNK_S: i64 = 3_600;
/// Pages given back to the file system at once.
const VACUUM: &str = "PRAGMA incremental_vacuum(2000)";

type Connection = PoolConnection<Sqlite>;
/// Names that a transaction made: known to others when it is stored.
type Fresh = Names;

impl Figures {
    /// Adds rows of ten seconds. What is older than `kept_from_s` is not wanted any more; the
    /// answer is how many rows that were.
    pub(in crate::store::figures) async fn add(
        &self,
        slots: &Slots,
        kept_from_s: i64,
    ) -> Result<u64, StoreError> {
        let mut connection = self.begin().await?;
        let mut fresh = Fresh::new();
        let mut too_old = 0_u64;
        let adding = async {
            for (start, slot) in slots {
                if *start < kept_from_s {
                    too_old = too_old.saturating_add(u64::try_from(slot.rows.len()).unwrap_or(0));
                    continue;
                }
                self.add_slot(&mut connection, *start, slot, &mut fresh)
                    .await?;
            }
            Ok(())
        };
        let added = adding.await;
        end(connection, added).await?;
        self.with_names(|names| {
            if names.len().saturating_add(fresh.len()) > NAMES_MAX {
                names.clear();
            }
            names.extend(fresh);
        });
        Ok(too_old)
    }

    async fn add_slot(
        &self,
        connection: &mut Connection,
        start: i64,
        slot: &Slot,
        fresh: &mut Fresh,
    ) -> Result<(), StoreError> {
        for (gateway, us) in &slot.heard_us {
            let gateway = self
                .id(connection, Kind::Gateway, gateway, start, fresh)
                .await?;
            sqlx::query(sql::ADD_HEARD)
                .bind(start)
                .bind(gateway)
                .bind(signed(*us))
                .execute(&mut **connection)
                .await?;
        }
        for ((key, gateway), row) in &slot.rows {
            let key = self
                .id(connection, Kind::Compartment, key, start, fresh)
                .await?;
            let gateway = self
                .id(connection, Kind::Gateway, gateway, start, fresh)
                .await?;
            add_row(connection, (start, key, gateway), row).await?;
        }
        // Rows that came late: what was made of this slot is made again.
        sqlx::query(sql::LOWER_ROLLED)
            .bind(Step::Minute.slot(start))
            .bind(Step::Minute.seconds())
            .execute(&mut **connection)
            .await?;
        Ok(())
    }

    /// The number of a name, made with its first use.
    async fn id(
        &self,
        connection: &mut Connection,
        kind: Kind,
        name: &Arc<str>,
        at_s: i64,
        fresh: &mut Fresh,
    ) -> Result<i64, StoreError> {
        let (place, day) = ((kind, Arc::clone(name)), at_s.div_euclid(DAY_S));
        let known = fresh.get(&place).copied();
        let known = known.or_else(|| self.with_names(|names| names.get(&place).copied()));
        if let Some((id, seen)) = known
            && seen == day
        {
            return Ok(id);
        }
        let row = sqlx::query(sql::NAME)
            .bind(kind.number())
            .bind(&**name)
            .bind(at_s)
            .fetch_one(&mut **connection)
            .await?;
        let id = row.try_get(0)?;
        fresh.insert(place, (id, day));
        Ok(id)
    }

    /// Makes the next row of a width of the finer ones, when all of those are there: they are
    /// before `done_until_s`. False when there is nothing to do.
    pub(in crate::store::figures) async fn roll(
        &self,
        step: Step,
        done_until_s: i64,
    ) -> Result<bool, StoreError> {
        let finer = match step {
            Step::TenSeconds => return Ok(false),
            Step::Minute => Step::TenSeconds,
            Step::Hour => Step::Minute,
        };
        let until = self.rolled(step).await?;
        let next = sqlx::query(sql::next_heard(finer))
            .bind(until)
            .fetch_one(&self.readers)
            .await?;
        let Some(next) = next.try_get::<Option<i64>, _>(0)? else {
            return Ok(false);
        };
        let start = step.slot(next);
        let stop = start.saturating_add(step.seconds());
        if stop > done_until_s {
            return Ok(false);
        }
        let mut connection = self.begin().await?;
        let rolled = self
            .roll_one(&mut connection, (step, finer), (start, stop))
            .await;
        end(connection, rolled).await?;
        Ok(true)
    }

    async fn roll_one(
        &self,
        connection: &mut Connection,
        (step, finer): (Step, Step),
        (start, stop): (i64, i64),
    ) -> Result<(), StoreError> {
        for clear in [sql::clear_figures(step), sql::clear_heard(step)] {
            sqlx::query(clear)
                .bind(start)
                .bind(stop)
                .execute(&mut **connection)
                .await?;
        }
        let heard = sqlx::query(sql::sum_heard(finer))
            .bind(start)
            .bind(stop)
            .fetch_one(&mut **connection)
            .await?;
        sqlx::query(sql::insert_heard(step))
            .bind(start)
            .bind(heard.try_get::<Option<i64>, _>(0)?.unwrap_or(0))
            .bind(heard.try_get::<Option<i64>, _>(1)?.unwrap_or(0))
            .bind(heard.try_get::<Option<i64>, _>(2)?.unwrap_or(0))
            .execute(&mut **connection)
            .await?;
        // Read on another connection, row by row: an hour of many compartments is no small thing.
        let mut source = sqlx::query(sql::source(finer))
            .bind(start)
            .bind(stop)
            .fetch(&self.readers);
        let mut sum = Sum::default();
        while let Some(row) = source.next().await {
            let row = row?;
            let (key, slot): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let bytes: Vec<u8> = row.try_get(2)?;
            if let Ok(figures) = Row::from_bytes(&bytes)
                && let Some((key, done)) = sum.take(key, slot, figures)
            {
                add_made(connection, step, (start, key), &done).await?;
            }
        }
        if let Some((key, done)) = sum.end() {
            add_made(connection, step, (start, key), &done).await?;
        }
        sqlx::query("UPDATE rolled SET until = ? WHERE seconds = ?")
            .bind(stop)
            .bind(step.seconds())
            .execute(&mut **connection)
            .await?;
        if step == Step::Minute {
            sqlx::query(sql::LOWER_ROLLED)
                .bind(Step::Hour.slot(start))
                .bind(Step::Hour.seconds())
                .execute(&mut **connection)
                .await?;
        }
        Ok(())
    }

    /// Removes rows of a width from before a second, at most an hour of them. False when none is
    /// left to remove.
    pub(in crate::store::figures) async fn expire(
        &self,
        step: Step,
        before_s: i64,
    ) -> Result<bool, StoreError> {
        let mut first = i64::MAX;
        for ask in [sql::kept(step), sql::first_figures(step)] {
            let row = sqlx::query(ask).fetch_one(&self.readers).await?;
            first = first.min(row.try_get::<Option<i64>, _>(0)?.unwrap_or(i64::MAX));
        }
        if first >= before_s {
            return Ok(false);
        }
        let chunk = CHUNK_S.saturating_mul(step.seconds().div_euclid(10).max(1));
        self.clear(step, first, before_s.min(first.saturating_add(chunk)))
            .await?;
        Ok(true)
    }

    /// Removes all rows of a width from one second up to another.
    pub(in crate::store::figures) async fn clear(
        &self,
        step: Step,
        from_s: i64,
        to_s: i64,
    ) -> Result<(), StoreError> {
        let mut connection = self.begin().await?;
        let clearing = async {
            for clear in [sql::clear_figures(step), sql::clear_heard(step)] {
                sqlx::query(clear)
                    .bind(from_s)
                    .bind(to_s)
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        };
        let cleared = clearing.await;
        end(connection, cleared).await
    }

    /// Forgets names that no row uses any more, and old changes; gives space back.
    pub(in crate::store::figures) async fn tidy(&self, now_s: i64) -> Result<(), StoreError> {
        for kind in [Kind::Compartment, Kind::Gateway] {
            sqlx::query("DELETE FROM names WHERE kind = ? AND seen < ?")
                .bind(kind.number())
                .bind(kept_names_from(kind, now_s))
                .execute(&self.writer)
                .await?;
        }
        self.with_names(|names| names.clear());
        sqlx::query("DELETE FROM limit_changes WHERE at_ms < ?")
            .bind(kept_names_from(Kind::Compartment, now_s).saturating_mul(1_000))
            .execute(&self.writer)
            .await?;
        sqlx::query(VACUUM).execute(&self.writer).await?;
        Ok(())
    }

    /// Notes what changed with a generation, and that it was looked at.
    pub(in crate::store::figures) async fn mark(
        &self,
        changes: &[(String, LimitChange)],
        notes: [(&str, &str); 2],
    ) -> Result<(), StoreError> {
        let mut connection = self.begin().await?;
        let marking = async {
            for (key, change) in changes {
                sqlx::query(
                    "INSERT INTO limit_changes (key, at_ms, generation, before, after) \
                     VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                )
                .bind(key)
                .bind(change.at_ms)
                .bind(signed(change.generation))
                .bind(written(change.before))
                .bind(written(change.after))
                .execute(&mut *connection)
                .await?;
            }
            for (key, value) in notes {
                sqlx::query(
                    "INSERT INTO meta (key, value) VALUES (?, ?) \
                     ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                )
                .bind(key)
                .bind(value)
                .execute(&mut *connection)
                .await?;
            }
            Ok(())
        };
        let marked = marking.await;
        end(connection, marked).await
    }
}

/// Adds one row of ten seconds to what is there.
async fn add_row(
    connection: &mut Connection,
    (slot, key, gateway): (i64, i64, i64),
    row: &Row,
) -> Result<(), StoreError> {
    let inserted = sqlx::query(sql::insert(Step::TenSeconds))
        .bind(slot)
        .bind(key)
        .bind(gateway)
        .bind(row.to_bytes())
        .execute(&mut **connection)
        .await?;
    if inserted.rows_affected() > 0 {
        return Ok(());
    }
    // The rest of a slot that an earlier process began, or that came late.
    let known =
        sqlx::query("SELECT figures FROM figures_10s WHERE slot = ? AND key = ? AND gateway = ?")
            .bind(slot)
            .bind(key)
            .bind(gateway)
            .fetch_one(&mut **connection)
            .await?;
    let bytes: Vec<u8> = known.try_get(0)?;
    let mut sum = Row::from_bytes(&bytes).unwrap_or_default();
    sum.then(row);
    sqlx::query("UPDATE figures_10s SET figures = ? WHERE slot = ? AND key = ? AND gateway = ?")
        .bind(sum.to_bytes())
        .bind(slot)
        .bind(key)
        .bind(gateway)
        .execute(&mut **connection)
        .await?;
    Ok(())
}

async fn add_made(
    connection: &mut Connection,
    step: Step,
    (slot, key): (i64, i64),
    row: &Row,
) -> Result<(), StoreError> {
    sqlx::query(sql::insert(step))
        .bind(slot)
        .bind(key)
        .bind(0_i64)
        .bind(row.to_bytes())
        .execute(&mut **connection)
        .await?;
    Ok(())
}
