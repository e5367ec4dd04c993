//! The statements about changes.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::{Database, number, signed, sql};
use crate::store::changes::{CHANGES_AT_WORK_MAX, StepNot, StepRows};
use crate::store::write::Rows;
use crate::store::{AuditRow, CHANGES_OPEN_MAX, ChangeFilter, ChangeRow, Role, StoreError};

impl Database {
    pub(in crate::store) async fn change(
        &self,
        number: u64,
    ) -> Result<Option<ChangeRow>, StoreError> {
        let row = sqlx::query(sql::CHANGE)
            .bind(i64::try_from(number).unwrap_or(i64::MAX))
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(change).transpose()
    }

    pub(in crate::store) async fn changes(
        &self,
        filter: &ChangeFilter,
        count: u32,
    ) -> Result<Vec<ChangeRow>, StoreError> {
        let before = filter.before.and_then(|before| i64::try_from(before).ok());
        let rows = sqlx::query(sql::CHANGES)
            .bind(before.unwrap_or(i64::MAX))
            .bind(&filter.state)
            .bind(count)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(change).collect()
    }

    pub(in crate::store) async fn changes_at_work(&self) -> Result<Vec<ChangeRow>, StoreError> {
        let rows = sqlx::query(sql::CHANGES_AT_WORK)
            .bind(CHANGES_AT_WORK_MAX)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(change).collect()
    }

    pub(in crate::store) async fn change_document(
        &self,
        number: u64,
    ) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(sql::CHANGE_DOCUMENT)
            .bind(i64::try_from(number).unwrap_or(i64::MAX))
            .fetch_optional(&self.readers)
            .await?;
        let document = row.map(|row| row.try_get::<Option<String>, _>(0));
        Ok(document.transpose()?.flatten())
    }
}

impl Rows<SqliteConnection> for StepRows {
    type No = StepNot;

    async fn put(
        &self,
        connection: &mut SqliteConnection,
        audit: &mut AuditRow,
    ) -> Result<Result<(), StepNot>, StoreError> {
        if let Some((role, append)) = &self.makes {
            if *role == Role::Staged {
                let row = sqlx::query(sql::STAGED_CHANGE);
                let row = row.fetch_optional(&mut *connection).await?;
                let other = row.map(|row| number(&row, 0)).transpose()?;
                if let Some(other) = other.filter(|other| *other != self.row.number) {
                    return Ok(Err(StepNot::Taken(other)));
                }
            }
            if let Err(newest) = append.put(connection, audit).await? {
                return Ok(Err(StepNot::MovedOn(newest)));
            }
        }
        let is_new = self.row.number == 0;
        let number = match is_new {
            true => match next(connection, &self.row).await? {
                Some(number) => number,
                None => return Ok(Err(StepNot::TooMany)),
            },
            false => self.row.number,
        };
        let row = self.with(number, audit);
        if is_new {
            add(connection, &row).await?;
        } else if !step(connection, &row).await? {
            return Ok(Err(StepNot::Raced));
        }
        if let Some(document) = &self.document {
            let put = sqlx::query(sql::PUT_CHANGE_DOCUMENT).bind(signed(number)?);
            put.bind(document).execute(&mut *connection).await?;
        }
        Ok(Ok(()))
    }
}

/// The number of a new one; `None`: too many are open.
async fn next(
    connection: &mut SqliteConnection,
    row: &ChangeRow,
) -> Result<Option<u64>, StoreError> {
    let open = sqlx::query(sql::OPEN_CHANGES);
    let open = open.fetch_one(&mut *connection).await?;
    if row.state == "draft" && number(&open, 0)? >= u64::from(CHANGES_OPEN_MAX) {
        return Ok(None);
    }
    let last = sqlx::query(sql::LAST_CHANGE);
    let last = last.fetch_one(&mut *connection).await?;
    Ok(Some(number(&last, 0)?.saturating_add(1)))
}

async fn add(connection: &mut SqliteConnection, row: &ChangeRow) -> Result<(), StoreError> {
    sqlx::query(sql::ADD_CHANGE)
        .bind(signed(row.number)?)
        .bind(signed(row.version)?)
        .bind(&row.state)
        .bind(&row.author)
        .bind(&row.created_at)
        .bind(&row.gateway)
        .bind(row.staged.map(signed).transpose()?)
        .bind(row.published.map(signed).transpose()?)
        .bind(row.reverted.map(signed).transpose()?)
        .bind(row.due_ms)
        .bind(&row.body)
        .bind(None::<String>)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

async fn step(connection: &mut SqliteConnection, row: &ChangeRow) -> Result<bool, StoreError> {
    let done = sqlx::query(sql::STEP_CHANGE)
        .bind(signed(row.number)?)
        .bind(signed(row.version)?)
        .bind(&row.state)
        .bind(&row.gateway)
        .bind(row.staged.map(signed).transpose()?)
        .bind(row.published.map(signed).transpose()?)
        .bind(row.reverted.map(signed).transpose()?)
        .bind(row.due_ms)
        .bind(&row.body)
        .execute(&mut *connection)
        .await?;
    Ok(done.rows_affected() == 1)
}

fn change(row: &SqliteRow) -> Result<ChangeRow, StoreError> {
    let made = |column: usize| -> Result<Option<u64>, StoreError> {
        let made: Option<i64> = row.try_get(column)?;
        let made = made.map(u64::try_from).transpose();
        made.map_err(|_| StoreError::Row("changes"))
    };
    Ok(ChangeRow {
        number: number(row, 0)?,
        version: number(row, 1)?,
        state: row.try_get(2)?,
        author: row.try_get(3)?,
        created_at: row.try_get(4)?,
        gateway: row.try_get(5)?,
        staged: made(6)?,
        published: made(7)?,
        reverted: made(8)?,
        due_ms: row.try_get(9)?,
        body: row.try_get(10)?,
    })
}
