//! How the history stands: kept or failing, since when, how much is lost and how large it is.
//!
//! Separate because it is what people see of a full disk. It must never hold more of an error
//! than its text.

use serde::Serialize;

use super::step::Step;
use super::{History, PENDING_ROWS_MAX};
use crate::clock;
use crate::store::StoreError;
use crate::store::figures::Size;

/// Whether figures are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = HistoryStanding)]
pub enum Standing {
    /// They are.
    #[default]
    Kept,
    /// The disk does not take them; those of the last minutes wait in memory.
    Failing,
}

/// From when on rows of one width are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = HistoryKept)]
pub struct Kept {
    /// The width.
    pub step: &'static str,
    /// The first second; `None` when there is none.
    #[schema(required)]
    pub from: Option<i64>,
}

/// What people see of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = History)]
pub struct HistoryState {
    /// Whether figures are kept.
    pub state: Standing,
    /// Why not.
    #[schema(required)]
    pub error: Option<String>,
    /// Since when not, in UTC.
    #[schema(required)]
    pub failing_since: Option<String>,
    /// Rows that were given up since the start of the process.
    pub lost_rows: u64,
    /// Rows that are not on disk yet.
    pub pending_rows: usize,
    /// And the most of them.
    pub pending_rows_max: usize,
    /// The file with its log.
    pub file_bytes: u64,
    /// Of that, what rows take.
    pub used_bytes: u64,
    /// And the most of that.
    pub used_bytes_max: u64,
    /// From when on there are rows.
    pub kept: Vec<Kept>,
}

#[derive(Debug, Default)]
pub(super) struct Status {
    error: Option<String>,
    failing_since: Option<String>,
    failures: u32,
    lost_rows: u64,
    pub(super) size: Size,
    pub(super) kept: Vec<(Step, Option<i64>)>,
}

impl Status {
    pub(super) fn failed(&mut self, error: &StoreError) {
        let text = causes(error);
        if self.failures == 0 {
            // Once for each streak; the state says the rest.
            tracing::error!(error = %text, "the history is not written; limits are not concerned");
            self.failing_since = Some(clock::utc());
        }
        self.failures = self.failures.saturating_add(1);
        self.error = Some(text);
    }

    pub(super) fn works(&mut self) {
        if self.failures > 0 {
            tracing::info!(
                history.lost_rows = self.lost_rows,
                "the history is written again"
            );
        }
        (self.failures, self.error, self.failing_since) = (0, None, None);
    }

    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn lost(&mut self, rows: u64) {
        self.lost_rows = self.lost_rows.saturating_add(rows);
    }

    pub(super) fn reason(&self) -> String {
        self.error
            .clone()
            .unwrap_or_else(|| "it is closed".to_owned())
    }
}

impl History {
    /// How it stands. Never waits.
    pub fn state(&self) -> HistoryState {
        let pending_rows = self.pending().rows();
        self.status(|status| HistoryState {
            state: match status.failures {
                0 => Standing::Kept,
                _ => Standing::Failing,
            },
            error: status.error.clone(),
            failing_since: status.failing_since.clone(),
            lost_rows: status.lost_rows,
            pending_rows,
            pending_rows_max: PENDING_ROWS_MAX,
            file_bytes: status.size.file_bytes,
            used_bytes: status.size.used_bytes,
            used_bytes_max: self.0.settings.bytes_max,
            kept: status
                .kept
                .iter()
                .map(|(step, from)| Kept {
                    step: step.as_str(),
                    from: *from,
                })
                .collect(),
        })
    }
}

/// An error and what it says of its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
