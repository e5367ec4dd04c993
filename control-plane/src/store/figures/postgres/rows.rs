//! Rows of the history as statements take them: thousands at once, as one array for each column.
//!
//! Separate from the transactions that they are part of, for length. Whatever puts or removes rows
//! counts them too; it must never commit anything.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sqlx::{PgConnection, Row as _};

use super::super::{DAY_S, Kind, Names, signed};
use super::sql;
use crate::history::{Row, Step};
use crate::store::{StoreError, storable};

/// Most rows in one statement.
pub(super) const ROWS_MAX: usize = 5_000;

/// Where a row of ten seconds stands: slot, compartment, gateway.
pub(super) type Place = (i64, i64, i64);

/// The numbers of names, made with their first use.
pub(super) async fn ask_names(
    connection: &mut PgConnection,
    some: &[(Kind, Arc<str>, i64)],
    fresh: &mut Names,
) -> Result<(), StoreError> {
    // Two names that a text of the database cannot tell apart would be one row twice.
    let mut seen: BTreeMap<(i64, String), i64> = BTreeMap::new();
    let as_text = |kind: Kind, name: &str| (kind.number(), storable(name).into_owned());
    for (kind, name, at_s) in some {
        let last = seen.entry(as_text(*kind, name)).or_insert(*at_s);
        *last = (*last).max(*at_s);
    }
    let kinds: Vec<_> = seen.keys().map(|(kind, _)| *kind).collect();
    let names: Vec<_> = seen.keys().map(|(_, name)| name.as_str()).collect();
    let rows = sqlx::query(sql::NAMES)
        .bind(kinds)
        .bind(names)
        .bind(seen.values().copied().collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut ids: HashMap<(i64, String), i64> = HashMap::with_capacity(rows.len());
    for row in rows {
        ids.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
    }
    for (kind, name, at_s) in some {
        let id = ids.get(&as_text(*kind, name));
        let id = *id.ok_or(StoreError::Row("names.id"))?;
        fresh.insert((*kind, Arc::clone(name)), (id, at_s.div_euclid(DAY_S)));
    }
    Ok(())
}

pub(super) async fn add_heard(
    connection: &mut PgConnection,
    heard: &BTreeMap<(i64, i64), u64>,
) -> Result<(), StoreError> {
    let all: Vec<_> = heard.iter().collect();
    for some in all.chunks(ROWS_MAX) {
        sqlx::query(sql::ADD_HEARD)
            .bind(some.iter().map(|((slot, _), _)| *slot).collect::<Vec<_>>())
            .bind(
                some.iter()
                    .map(|((_, gateway), _)| *gateway)
                    .collect::<Vec<_>>(),
            )
            .bind(some.iter().map(|(_, us)| signed(**us)).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Adds rows of ten seconds to what is there: the rest of a slot that an earlier process began,
/// or that came late.
pub(super) async fn add_rows(
    connection: &mut PgConnection,
    rows: BTreeMap<Place, Row>,
) -> Result<(), StoreError> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    for some in rows.chunks_mut(ROWS_MAX) {
        let mut known = HashMap::new();
        let found = sqlx::query(sql::KNOWN)
            .bind(some.iter().map(|((slot, ..), _)| *slot).collect::<Vec<_>>())
            .bind(some.iter().map(|((_, key, _), _)| *key).collect::<Vec<_>>())
            .bind(
                some.iter()
                    .map(|((.., gateway), _)| *gateway)
                    .collect::<Vec<_>>(),
            )
            .fetch_all(&mut *connection)
            .await?;
        for row in found {
            let place: Place = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            known.insert(place, row.try_get::<Vec<u8>, _>(3)?);
        }
        let (mut new, mut changed, mut grown) = (Vec::new(), Vec::new(), 0_i64);
        for (place, row) in some {
            let Some(bytes) = known.get(place) else {
                new.push((*place, row.to_bytes()));
                continue;
            };
            let mut sum = Row::from_bytes(bytes).unwrap_or_default();
            sum.then(row);
            let made = sum.to_bytes();
            grown = grown.saturating_add(length(&made).saturating_sub(length(bytes)));
            changed.push((*place, made));
        }
        insert(connection, Step::TenSeconds, &new).await?;
        if !changed.is_empty() {
            put(connection, sql::CHANGE, &changed).await?;
            used(connection, 0, grown).await?;
        }
    }
    Ok(())
}

/// New rows of a width.
pub(super) async fn insert(
    connection: &mut PgConnection,
    step: Step,
    rows: &[(Place, Vec<u8>)],
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    put(connection, sql::insert(step), rows).await?;
    let bytes = rows.iter().map(|(_, figures)| length(figures)).sum();
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    used(connection, count, bytes).await
}

pub(super) async fn put(
    connection: &mut PgConnection,
    sql: &'static str,
    rows: &[(Place, Vec<u8>)],
) -> Result<(), StoreError> {
    sqlx::query(sql)
        .bind(rows.iter().map(|((slot, ..), _)| *slot).collect::<Vec<_>>())
        .bind(rows.iter().map(|((_, key, _), _)| *key).collect::<Vec<_>>())
        .bind(
            rows.iter()
                .map(|((.., gateway), _)| *gateway)
                .collect::<Vec<_>>(),
        )
        .bind(
            rows.iter()
                .map(|(_, figures)| figures.as_slice())
                .collect::<Vec<_>>(),
        )
        .execute(connection)
        .await?;
    Ok(())
}

/// Removes rows of a width, and counts what they took.
pub(super) async fn clear(
    connection: &mut PgConnection,
    step: Step,
    (from_s, to_s): (i64, i64),
) -> Result<(), StoreError> {
    let gone = sqlx::query(sql::clear_figures(step))
        .bind(from_s)
        .bind(to_s)
        .fetch_one(&mut *connection)
        .await?;
    let (rows, bytes): (i64, i64) = (gone.try_get(0)?, gone.try_get(1)?);
    sqlx::query(sql::clear_heard(step))
        .bind(from_s)
        .bind(to_s)
        .execute(&mut *connection)
        .await?;
    if rows == 0 {
        return Ok(());
    }
    used(connection, rows.saturating_neg(), bytes.saturating_neg()).await
}

pub(super) async fn used(
    connection: &mut PgConnection,
    rows: i64,
    bytes: i64,
) -> Result<(), StoreError> {
    sqlx::query(sql::USE)
        .bind(rows)
        .bind(bytes)
        .execute(connection)
        .await?;
    Ok(())
}

fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}
