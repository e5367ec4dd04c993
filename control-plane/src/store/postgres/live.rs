//! What gateways last said, between control planes: one row a gateway in a table without a log.
//!
//! Separate because it has a connection and short limits of its own: a database that is slow must
//! cost a second's figures of other control planes' gateways, and nothing else. It must never be
//! asked for what is to run.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::pool::{Pool, bounded};
use super::{Database, sql};
use crate::store::StoreError;

/// Most rows of one answer.
const ROWS_MAX: i64 = 100;

/// What one gateway last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveRow {
    pub(crate) gateway: String,
    /// What is known of it beside its report, as JSON.
    pub(crate) state: String,
    /// Its newest report, as it came.
    pub(crate) report: Vec<u8>,
}

/// The table, on one connection.
#[derive(Clone, Debug)]
pub(crate) struct LiveTable(Pool);

impl Database {
    pub(in crate::store) fn live(&self) -> LiveTable {
        LiveTable(Pool::new(&self.server, 1, &[sql::PASSING]))
    }
}

impl LiveTable {
    /// Replaces the rows of these gateways, which are this replica's from now on.
    pub(crate) async fn put(&self, replica: &str, rows: Vec<LiveRow>) -> Result<(), StoreError> {
        let (mut gateways, mut states, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            gateways.push(row.gateway);
            states.push(row.state);
            reports.push(row.report);
        }
        let mut held = self.0.acquire().await?;
        let put = sqlx::query(sql::PUT_LIVE)
            .bind(replica)
            .bind(gateways)
            .bind(states)
            .bind(reports);
        let put = bounded(put.execute(held.connection())).await;
        held.done(put).map(drop)
    }

    /// Rows of other replicas that are younger than `lease_us` and not among those that are known;
    /// true: there may be more.
    pub(crate) async fn changed(
        &self,
        replica: &str,
        lease_us: i64,
        known: (Vec<String>, Vec<i64>),
    ) -> Result<(Vec<(LiveRow, i64)>, bool), StoreError> {
        let mut held = self.0.acquire().await?;
        let rows = sqlx::query(sql::LIVE)
            .bind(replica)
            .bind(lease_us)
            .bind(known.0)
            .bind(known.1)
            .bind(ROWS_MAX);
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let rows = held.done(rows)?;
        let is_full = i64::try_from(rows.len()).unwrap_or(ROWS_MAX) >= ROWS_MAX;
        let one = |row: &PgRow| -> Result<(LiveRow, i64), StoreError> {
            let live = LiveRow {
                gateway: row.try_get(0)?,
                state: row.try_get(2)?,
                report: row.try_get(3)?,
            };
            Ok((live, row.try_get(1)?))
        };
        let rows: Vec<_> = rows.iter().map(one).collect::<Result<_, _>>()?;
        Ok((rows, is_full))
    }

    /// Removes what nobody has replaced for long.
    pub(crate) async fn forget(&self, older_us: i64) -> Result<(), StoreError> {
        let mut held = self.0.acquire().await?;
        let forget = sqlx::query(sql::FORGET_LIVE).bind(older_us);
        let forget = bounded(forget.execute(held.connection())).await;
        held.done(forget).map(drop)
    }

    pub(crate) async fn close(&self) {
        self.0.close().await;
    }
}
