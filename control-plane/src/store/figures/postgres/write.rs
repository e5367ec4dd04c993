//! Writing the history on Postgres: many rows in few statements.
//!
//! Separate from reading because all of it is done by one task of a process, in transactions that
//! are safe to repeat and take turns with those of other processes. It must never make a coarse
//! row of anything but the finer rows that are stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Executor as _, PgConnection, Row as _};
use tokio_stream::StreamExt as _;

use super::super::sum::Sum;
use super::super::{
    DAY_S, Kind, NAMES_MAX, Names, flushes_before, kept_names_from, signed, written,
};
use super::rows::{Place, ROWS_MAX, add_heard, add_rows, ask_names, clear, insert};
use super::{Figures, sql};
use crate::history::{Flush, LimitChange, Row, Slots, Step};
use crate::store::postgres::pool::bounded;
use crate::store::{StoreError, storable};

/// Most seconds of rows that one transaction removes.
const CHUNK_S: i64 = 3_600;
/// Longest time for one transaction.
const WRITE_MAX: Duration = Duration::from_secs(60);

impl Figures {
    /// Runs a transaction in its turn: stored when all of it went well, else not begun.
    async fn write<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut held = self.writer.acquire().await?;
        let writing = async {
            let connection = held.connection();
            connection.execute(sql::BEGIN).await?;
            connection.execute(sql::TURN).await?;
            let done = work(&mut *connection).await?;
            connection.execute(sql::COMMIT).await?;
            Ok(done)
        };
        let done = tokio::time::timeout(WRITE_MAX, writing).await;
        let done = done.unwrap_or(Err(StoreError::Away(None)));
        if done.is_ok() {
            return held.done(done);
        }
        if bounded(held.connection().execute(sql::ROLLBACK))
            .await
            .is_err()
        {
            held.end();
            return done;
        }
        held.done(done)
    }

    pub(in crate::store::figures) async fn add(
        &self,
        slots: &Slots,
        kept_from_s: i64,
        flush: &Flush,
    ) -> Result<u64, StoreError> {
        let wanted = || slots.iter().filter(|(start, _)| **start >= kept_from_s);
        let old = slots.iter().filter(|(start, _)| **start < kept_from_s);
        let too_old: usize = old.map(|(_, slot)| slot.rows.len()).sum();
        let mut rows: BTreeMap<Place, Row> = BTreeMap::new();
        let mut heard: BTreeMap<(i64, i64), u64> = BTreeMap::new();
        let first = wanted().next().map(|(start, _)| *start);
        let Some(first) = first else {
            return Ok(u64::try_from(too_old).unwrap_or(u64::MAX));
        };
        let fresh = self
            .write(async |connection: &mut PgConnection| {
                let (ids, fresh) = self.ids(connection, slots, kept_from_s).await?;
                let id = |kind, name: &Arc<str>| ids.get(&(kind, Arc::clone(name))).copied();
                for (start, slot) in wanted() {
                    for ((key, gateway), row) in &slot.rows {
                        let ids = id(Kind::Compartment, key).zip(id(Kind::Gateway, gateway));
                        let (key, gateway) = ids.ok_or(StoreError::Row("names.id"))?;
                        let sum = rows.entry((*start, key, gateway));
                        sum.and_modify(|sum| sum.then(row))
                            .or_insert_with(|| row.clone());
                    }
                    for (gateway, us) in &slot.heard_us {
                        let gateway = id(Kind::Gateway, gateway);
                        let gateway = gateway.ok_or(StoreError::Row("names.id"))?;
                        let sum = heard.entry((*start, gateway)).or_default();
                        *sum = sum.saturating_add(*us);
                    }
                }
                add_heard(connection, &heard).await?;
                add_rows(connection, std::mem::take(&mut rows)).await?;
                put_note(connection, &flush.writer, &flush.number).await?;
                // Rows that came late: what was made of these slots is made again.
                sqlx::query(sql::LOWER_ROLLED)
                    .bind(Step::Minute.slot(first))
                    .bind(Step::Minute.seconds())
                    .execute(connection)
                    .await?;
                Ok(fresh)
            })
            .await?;
        self.with_names(|names| {
            if names.len().saturating_add(fresh.len()) > NAMES_MAX {
                names.clear();
            }
            names.extend(fresh);
        });
        Ok(u64::try_from(too_old).unwrap_or(u64::MAX))
    }

    pub(in crate::store::figures) async fn holds(&self, flush: &Flush) -> Result<bool, StoreError> {
        self.write(async |connection: &mut PgConnection| {
            let note = sqlx::query(sql::NOTE).bind(&flush.writer);
            let note = note.fetch_optional(connection).await?;
            let number = note.map(|row| row.try_get::<String, _>(0)).transpose()?;
            Ok(number.as_ref() == Some(&flush.number))
        })
        .await
    }

    /// The numbers of all names in these slots; those that were asked for are told apart.
    async fn ids(
        &self,
        connection: &mut PgConnection,
        slots: &Slots,
        kept_from_s: i64,
    ) -> Result<(HashMap<(Kind, Arc<str>), i64>, Names), StoreError> {
        let mut seen: BTreeMap<(i64, Arc<str>), (Kind, i64)> = BTreeMap::new();
        let mut see = |kind: Kind, name: &Arc<str>, at_s: i64| {
            seen.insert((kind.number(), Arc::clone(name)), (kind, at_s));
        };
        // By time, so that the last one stays.
        for (start, slot) in slots.iter().filter(|(start, _)| **start >= kept_from_s) {
            for (key, gateway) in slot.rows.keys() {
                see(Kind::Compartment, key, *start);
                see(Kind::Gateway, gateway, *start);
            }
            for gateway in slot.heard_us.keys() {
                see(Kind::Gateway, gateway, *start);
            }
        }
        let mut ids = HashMap::with_capacity(seen.len());
        let mut asked = Vec::new();
        for ((_, name), (kind, at_s)) in seen {
            let place = (kind, Arc::clone(&name));
            let known = self.with_names(|names| names.get(&place).copied());
            match known.filter(|(_, day)| *day == at_s.div_euclid(DAY_S)) {
                Some((id, _)) => {
                    ids.insert(place, id);
                }
                None => asked.push((kind, name, at_s)),
            }
        }
        let mut fresh = Names::new();
        for some in asked.chunks(ROWS_MAX) {
            ask_names(connection, some, &mut fresh).await?;
        }
        ids.extend(fresh.iter().map(|(place, (id, _))| (place.clone(), *id)));
        Ok((ids, fresh))
    }

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
        let mut held = self.readers.acquire().await?;
        let next = sqlx::query(sql::next_heard(finer)).bind(until);
        let next = bounded(next.fetch_one(held.connection())).await;
        let Some(next) = held.done(next)?.try_get::<Option<i64>, _>(0)? else {
            return Ok(false);
        };
        let start = step.slot(next);
        let stop = start.saturating_add(step.seconds());
        if stop > done_until_s {
            return Ok(false);
        }
        self.write(async |connection: &mut PgConnection| {
            self.roll_one(connection, (step, finer), (start, stop))
                .await
        })
        .await?;
        Ok(true)
    }

    async fn roll_one(
        &self,
        connection: &mut PgConnection,
        (step, finer): (Step, Step),
        (start, stop): (i64, i64),
    ) -> Result<(), StoreError> {
        clear(connection, step, (start, stop)).await?;
        let heard = sqlx::query(sql::sum_heard(finer))
            .bind(start)
            .bind(stop)
            .fetch_one(&mut *connection)
            .await?;
        let sum = |column: usize| -> Result<i64, StoreError> {
            Ok(heard.try_get::<Option<i64>, _>(column)?.unwrap_or(0))
        };
        sqlx::query(sql::insert_heard(step))
            .bind(start)
            .bind(sum(0)?)
            .bind(sum(1)?)
            .bind(sum(2)?)
            .execute(&mut *connection)
            .await?;
        // Read on another connection, row by row: an hour of many compartments is no small thing.
        let mut reader = self.readers.acquire().await?;
        let mut sum = Sum::default();
        let mut made = Vec::new();
        {
            let mut source = sqlx::query(sql::source(finer))
                .bind(start)
                .bind(stop)
                .fetch(reader.connection());
            while let Some(row) = source.next().await {
                let row = row?;
                let (key, slot): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                if let Ok(figures) = Row::from_bytes(row.try_get(2)?)
                    && let Some((key, done)) = sum.take(key, slot, figures)
                {
                    made.push(((start, key, 0), done.to_bytes()));
                }
                if made.len() >= ROWS_MAX {
                    insert(connection, step, &std::mem::take(&mut made)).await?;
                }
            }
        }
        if let Some((key, done)) = sum.end() {
            made.push(((start, key, 0), done.to_bytes()));
        }
        insert(connection, step, &made).await?;
        let mut rolled = vec![(sql::SET_ROLLED, stop, step)];
        if step == Step::Minute {
            rolled.push((sql::LOWER_ROLLED, Step::Hour.slot(start), Step::Hour));
        }
        for (sql, until, step) in rolled {
            sqlx::query(sql)
                .bind(until)
                .bind(step.seconds())
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }

    pub(in crate::store::figures) async fn expire(
        &self,
        step: Step,
        before_s: i64,
    ) -> Result<bool, StoreError> {
        let mut first = i64::MAX;
        for ask in [sql::kept(step), sql::first_figures(step)] {
            let mut held = self.readers.acquire().await?;
            let row = bounded(sqlx::query(ask).fetch_one(held.connection())).await;
            let row = held.done(row)?;
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

    pub(in crate::store::figures) async fn clear(
        &self,
        step: Step,
        from_s: i64,
        to_s: i64,
    ) -> Result<(), StoreError> {
        self.write(async |connection: &mut PgConnection| {
            clear(connection, step, (from_s, to_s)).await
        })
        .await
    }

    pub(in crate::store::figures) async fn tidy(&self, now_s: i64) -> Result<(), StoreError> {
        self.write(async |connection: &mut PgConnection| {
            for kind in [Kind::Compartment, Kind::Gateway] {
                sqlx::query(sql::FORGET_NAMES)
                    .bind(kind.number())
                    .bind(kept_names_from(kind, now_s))
                    .execute(&mut *connection)
                    .await?;
            }
            let changes = kept_names_from(Kind::Compartment, now_s);
            sqlx::query(sql::FORGET_CHANGES)
                .bind(changes.saturating_mul(1_000))
                .execute(&mut *connection)
                .await?;
            sqlx::query(sql::FORGET_FLUSHES)
                .bind(flushes_before(now_s))
                .execute(connection)
                .await?;
            Ok(())
        })
        .await?;
        self.with_names(|names| names.clear());
        Ok(())
    }

    pub(in crate::store::figures) async fn mark(
        &self,
        changes: &[(String, LimitChange)],
        notes: [(&str, &str); 2],
    ) -> Result<(), StoreError> {
        self.write(async |connection: &mut PgConnection| {
            for some in changes.chunks(ROWS_MAX) {
                let keys = some.iter().map(|(key, _)| storable(key));
                let column = |of: fn(&LimitChange) -> i64| {
                    some.iter().map(|(_, one)| of(one)).collect::<Vec<_>>()
                };
                let limits = |of: fn(&LimitChange) -> Option<compartment::Limit>| {
                    some.iter()
                        .map(|(_, one)| written(of(one)))
                        .collect::<Vec<_>>()
                };
                sqlx::query(sql::ADD_CHANGES)
                    .bind(keys.collect::<Vec<_>>())
                    .bind(column(|one| one.at_ms))
                    .bind(column(|one| signed(one.generation)))
                    .bind(limits(|one| one.before))
                    .bind(limits(|one| one.after))
                    .execute(&mut *connection)
                    .await?;
            }
            for (key, value) in notes {
                put_note(connection, key, value).await?;
            }
            Ok(())
        })
        .await
    }
}

async fn put_note(connection: &mut PgConnection, key: &str, value: &str) -> Result<(), StoreError> {
    let note = sqlx::query(sql::PUT_NOTE).bind(key).bind(value);
    note.execute(connection).await?;
    Ok(())
}
