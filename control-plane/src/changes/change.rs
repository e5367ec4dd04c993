//! One change, as API and pages show it.
//!
//! Separate from its rows, which the store reads without knowing what they mean. Names are those
//! that others rely on.

use serde::Serialize;
use serde_json::json;

use super::body::Body;
use super::error::ChangeError;
use super::state::{State, Step};
use crate::clock;
use crate::limits::Author;
use crate::store::{AuditRow, ChangeRow, StoreError};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = PolicyChange)]
pub struct Change {
    /// Its number.
    pub number: u64,
    /// Rises with each step; the `etag`.
    pub version: u64,
    /// What has become of it.
    pub state: State,
    /// Who proposed it.
    pub author: String,
    /// When, in UTC.
    pub created_at: String,
    /// Where it is, or was, staged.
    pub gateway: Option<String>,
    /// The generation that went there.
    pub staged: Option<u64>,
    /// The generation that it became.
    pub published: Option<u64>,
    /// The generation that took it back.
    pub reverted: Option<u64>,
    #[serde(skip)]
    pub(crate) due_ms: Option<i64>,
    /// The rest.
    #[serde(flatten)]
    pub body: Body,
}

impl Default for Change {
    fn default() -> Self {
        Self {
            number: 0,
            version: 0,
            state: State::Draft,
            author: String::new(),
            created_at: String::new(),
            gateway: None,
            staged: None,
            published: None,
            reverted: None,
            due_ms: None,
            body: Body::default(),
        }
    }
}

impl Change {
    pub(crate) fn of(row: ChangeRow) -> Result<Self, StoreError> {
        let unread = || StoreError::Row("changes.body");
        Ok(Self {
            number: row.number,
            version: row.version,
            state: State::from_name(&row.state).ok_or_else(unread)?,
            author: row.author,
            created_at: row.created_at,
            gateway: row.gateway,
            staged: row.staged,
            published: row.published,
            reverted: row.reverted,
            due_ms: row.due_ms,
            body: serde_json::from_str(&row.body).map_err(|_| unread())?,
        })
    }

    pub(crate) fn row(&self) -> Result<ChangeRow, StoreError> {
        let unread = |_| StoreError::Row("changes.body");
        Ok(ChangeRow {
            number: self.number,
            version: self.version,
            state: self.state.as_str().to_owned(),
            author: self.author.clone(),
            created_at: self.created_at.clone(),
            gateway: self.gateway.clone(),
            staged: self.staged,
            published: self.published,
            reverted: self.reverted,
            due_ms: self.due_ms,
            body: serde_json::to_string(&self.body).map_err(unread)?,
        })
    }

    /// True while its deadline or its guard may still take it back. What was published with neither
    /// is as good as kept, whatever it is called.
    pub(crate) fn may_go(&self, now_ms: i64) -> bool {
        let is_watched = self.due_ms.is_some_and(|due_ms| now_ms < due_ms);
        self.state == State::Published && is_watched
    }

    /// An error when it is not what the caller saw.
    pub(crate) fn is_as(&self, seen: Option<u64>) -> Result<(), ChangeError> {
        match seen {
            Some(seen) if seen != self.version => Err(ChangeError::Moved {
                number: self.number,
                seen,
                current: self.version,
                state: self.state,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// The same after a step, not stored yet.
    pub(crate) fn step(
        &self,
        step: Step,
        comment: &str,
        author: &Author,
    ) -> Result<Self, ChangeError> {
        let state = self.state.after(step).ok_or(ChangeError::State {
            number: self.number,
            state: self.state,
            step,
        })?;
        if !self.body.has_room(step) {
            return Err(ChangeError::TooLong(self.number));
        }
        let mut next = self.clone();
        next.version = self.version.saturating_add(1);
        next.state = state;
        next.body
            .took(step.as_str(), &clock::utc(), comment, author);
        Ok(next)
    }
}

/// The audit row of a step; the store adds which change, and which generations.
pub(super) fn audit(change: &Change, step: &str, comment: &str, author: &Author) -> AuditRow {
    let body = &change.body;
    let about = json!({
        "step": step,
        "state": change.state,
        "differences": body.differences,
        "more": body.more,
        "emergency": author.emergency,
    });
    AuditRow {
        differences: about.to_string(),
        comment: comment.to_owned(),
        ..author.audit(&format!("change-{step}"), String::new())
    }
}
