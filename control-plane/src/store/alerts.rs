//! Alerts in the store: rows with a body that only the alerts themselves read.
//!
//! Separate because alerts are no generations: they change while they live, and losing the last
//! seconds of one costs a notice, not a limit. It must never make a change of a limit wait for more
//! than one small transaction.

use super::{Store, StoreError};

/// Most alerts in one answer.
pub const ALERTS_PAGE_MAX: u32 = 500;
/// Most alerts that are kept; the oldest that are over go first.
pub(super) const ALERTS_MAX: u32 = 10_000;

/// One alert as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertRow {
    /// Its number.
    pub id: u64,
    /// The compartment it is about.
    pub compartment: String,
    /// `firing` or `resolved`.
    pub state: &'static str,
    /// `page` or `ticket`.
    pub severity: &'static str,
    /// When it ended, in milliseconds of the wall clock.
    pub resolved_ms: Option<i64>,
    /// The whole of it, as JSON.
    pub body: String,
}

/// Which alerts are wanted; empty texts are all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertFilter {
    /// `firing` or `resolved`.
    pub state: String,
    /// `page` or `ticket`.
    pub severity: String,
    /// The key of one compartment.
    pub compartment: String,
    /// Numbers below this one.
    pub before: Option<u64>,
}

impl Store {
    /// Writes alerts, new ones and those that changed, all or none.
    pub async fn put_alerts(&self, rows: Vec<AlertRow>) -> Result<(), StoreError> {
        let database = self.database.clone();
        self.write(async move { database.put_alerts(&rows).await })
            .await
    }

    /// The bodies of the alerts that fire or ended at `since_ms` or later, and the highest number
    /// ever given.
    pub async fn alerts_since(&self, since_ms: i64) -> Result<(Vec<String>, u64), StoreError> {
        self.database.alerts_since(since_ms).await
    }

    /// The bodies of alerts, newest first.
    pub async fn alerts(
        &self,
        filter: &AlertFilter,
        count: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.database
            .alerts(filter, count.min(ALERTS_PAGE_MAX))
            .await
    }

    /// Keeps the windows of the rules in place of what was kept before.
    pub async fn put_alert_windows(&self, body: String) -> Result<(), StoreError> {
        let database = self.database.clone();
        self.write(async move { database.put_alert_windows(&body).await })
            .await
    }

    /// What was kept last.
    pub async fn alert_windows(&self) -> Result<Option<String>, StoreError> {
        self.database.alert_windows().await
    }

    /// Runs a write where nobody can cancel it.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        write: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.writes.is_closed() {
            return Err(StoreError::Closed);
        }
        self.writes
            .spawn(write)
            .await
            .map_err(|_| StoreError::Closed)?
    }
}
