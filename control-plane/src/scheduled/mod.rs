//! Overrides with a start and an end: "acme 80 until Friday 18:00".
//!
//! Separate because they change limits while nobody looks. The one that leads does what is due,
//! each step written down before the next, so that whoever leads after it goes on where it was. It
//! must never lift what somebody else set.

mod due;
mod step;
mod when;

use compartment::policy::Value;

use crate::clock;
use crate::limits::{Author, COMMENT_BYTES_MAX, Fields, Limits, LimitsError};
use crate::rollout::Rollout;
use crate::store::{NotScheduled, ScheduledRow, Store, StoreError};

pub use step::{Before, Override, State};
pub use when::When;

/// Tries of a change of one that moves meanwhile.
const TRIES_MAX: usize = 8;
/// Longest time ahead of an end.
const AHEAD_MS_MAX: i64 = 2 * 366 * 86_400_000;

/// An override and its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    /// Its number.
    pub id: i64,
    /// What it is.
    pub one: Override,
}

/// What somebody asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The compartment.
    pub key: String,
    /// Which of its fields.
    pub field: String,
    /// What it is to be.
    pub value: Value,
    /// From; `None`: from now on.
    pub start: Option<String>,
    /// To.
    pub end: String,
    /// Why.
    pub comment: String,
}

/// Why an override is not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// One of its fields.
    #[error("{field}: {rule}")]
    Field {
        /// Which: `start`, `end`, `value`, `comment`.
        field: &'static str,
        /// What must hold.
        rule: String,
    },
    /// Another one is about the same field at the same time.
    #[error(
        "override {0} is about the same field at the same time: cancel it, or choose another time"
    )]
    Overlaps(i64),
    /// Too many.
    #[error(
        "{} overrides wait or run, which is the most",
        crate::store::SCHEDULED_OPEN_MAX
    )]
    Full,
    /// No such one.
    #[error("there is no override {0}")]
    Unknown(String),
    /// The setting `approvals` asks for a second person.
    #[error("override {0} needs a second person, and this is not one")]
    OwnApproval(i64),
    /// It was approved already, or needed no approval.
    #[error("override {0} waits for nobody's approval")]
    NotProposed(i64),
    /// The setting `approvals` asks for a second person.
    #[error("a second person is asked for here: plan the longer time as an override of its own")]
    NeedsSecond,
    /// It is over.
    #[error("override {0} is over")]
    Over(i64),
    /// Somebody else changed it in this moment.
    #[error("override {0} changed in this moment; look again")]
    Moved(i64),
    /// The policy does not take it.
    #[error(transparent)]
    Limits(#[from] LimitsError),
}

impl From<StoreError> for OverrideError {
    fn from(error: StoreError) -> Self {
        Self::Limits(error.into())
    }
}

fn field(field: &'static str, rule: impl Into<String>) -> OverrideError {
    let rule = rule.into();
    OverrideError::Field { field, rule }
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Overrides {
    store: Store,
    limits: Limits,
    rollout: Rollout,
}

impl Overrides {
    pub(crate) const fn new(store: Store, limits: Limits, rollout: Rollout) -> Self {
        Self {
            store,
            limits,
            rollout,
        }
    }

    /// All that are kept, the newest first.
    pub async fn list(&self, open_only: bool) -> Result<Vec<Numbered>, StoreError> {
        let rows = self.store.scheduled(open_only).await?;
        rows.iter().map(numbered).collect()
    }

    /// The one of this number.
    pub async fn get(&self, id: &str) -> Result<Numbered, OverrideError> {
        Ok(numbered(&self.row(id).await?)?)
    }

    async fn row(&self, id: &str) -> Result<ScheduledRow, OverrideError> {
        let unknown = || OverrideError::Unknown(wire::stream::bounded_text(id, 40));
        let number = id.parse::<i64>().map_err(|_| unknown())?;
        let row = self.store.scheduled_one(number).await?;
        row.ok_or_else(unknown)
    }

    /// Makes one: its value is tried on the newest policy, and nothing is set before its start.
    pub async fn create(&self, asked: Asked, author: &Author) -> Result<Numbered, OverrideError> {
        let now_ms = clock::unix_ms();
        let start = match &asked.start {
            Some(text) => When::parse(text).map_err(|rule| field("start", rule))?,
            None => When::at(now_ms),
        };
        let end = end(&asked.end, start.unix_ms, now_ms)?;
        if asked.comment.len() > COMMENT_BYTES_MAX {
            let rule = format!("must have at most {COMMENT_BYTES_MAX} bytes");
            return Err(field("comment", rule));
        }
        if asked.value == Value::Null {
            return Err(field("value", "must be what the field is to be meanwhile"));
        }
        let fields = Fields {
            values: vec![(asked.field.clone(), asked.value.clone())],
            comment: String::new(),
        };
        self.limits
            .patch(&asked.key, &fields, None, true, author)
            .await?;
        let state = match self.limits.asks_second(author).await? {
            true => State::Proposed,
            false => State::Waiting,
        };
        let one = Override {
            state,
            person: author.person.clone(),
            key: asked.key,
            field: asked.field,
            value: asked.value,
            start,
            end,
            comment: asked.comment,
            by: author.name.clone(),
            at: clock::utc(),
            ..Override::default()
        };
        let id = self
            .put(0, &one, String::new(), "override-create", author)
            .await?;
        Ok(Numbered { id, one })
    }

    /// Ends one now: one that runs is lifted at once. Where the setting asks for a second person
    /// the end of one that runs waits for that one; what is ahead is only withdrawn.
    pub async fn cancel(&self, id: &str, author: &Author) -> Result<Numbered, OverrideError> {
        let asks = self.limits.asks_second(author).await?;
        self.change(id, "override-cancel", author, |one| {
            let is_ahead = matches!(one.state, State::Proposed | State::Waiting);
            let is_ahead = is_ahead && one.before == Before::Unknown;
            if asks && !is_ahead {
                if one.end_asked_by.is_none() {
                    one.end_asked_by = Some(author.name.clone());
                    one.end_asked_person.clone_from(&author.person);
                }
                return Ok(());
            }
            one.end_asked_by = None;
            one.cancelled_by = Some(author.name.clone());
            if is_ahead {
                one.state = State::Cancelled;
            }
            Ok(())
        })
        .await
    }

    /// Lets one that waits for a second person go on, or its end come; whoever asked for it is not
    /// one.
    pub async fn approve(&self, id: &str, author: &Author) -> Result<Numbered, OverrideError> {
        let number = self.get(id).await?.id;
        self.change(id, "override-approve", author, |one| {
            if let Some(asked_by) = one.end_asked_by.take() {
                if author.person == one.end_asked_person {
                    return Err(OverrideError::OwnApproval(number));
                }
                one.cancelled_by = Some(asked_by);
                one.end_approved_by = Some(author.name.clone());
                return Ok(());
            }
            if one.state != State::Proposed {
                return Err(OverrideError::NotProposed(number));
            }
            if author.person == one.person {
                return Err(OverrideError::OwnApproval(number));
            }
            one.state = State::Waiting;
            one.approved_by = Some(author.name.clone());
            Ok(())
        })
        .await
    }

    /// Gives one another end.
    pub async fn extend(
        &self,
        id: &str,
        until: &str,
        author: &Author,
    ) -> Result<Numbered, OverrideError> {
        if self.limits.asks_second(author).await? {
            return Err(OverrideError::NeedsSecond);
        }
        self.change(id, "override-extend", author, |one| {
            one.end = end(until, one.start.unix_ms, clock::unix_ms())?;
            Ok(())
        })
        .await
    }

    async fn change(
        &self,
        id: &str,
        action: &str,
        author: &Author,
        change: impl Fn(&mut Override) -> Result<(), OverrideError> + Sync,
    ) -> Result<Numbered, OverrideError> {
        let mut moved = OverrideError::Unknown(String::new());
        // What is due may be done to it in the same moment.
        for _ in 0..TRIES_MAX {
            let row = self.row(id).await?;
            let Numbered { id, mut one } = numbered(&row)?;
            if !one.state.is_open() || one.cancelled_by.is_some() {
                return Err(OverrideError::Over(id));
            }
            change(&mut one)?;
            match self.put(id, &one, row.body, action, author).await {
                Err(OverrideError::Moved(id)) => moved = OverrideError::Moved(id),
                Err(error) => return Err(error),
                Ok(_) => return Ok(Numbered { id, one }),
            }
        }
        Err(moved)
    }

    async fn put(
        &self,
        id: i64,
        one: &Override,
        was: String,
        action: &str,
        author: &Author,
    ) -> Result<i64, OverrideError> {
        let body = serde_json::to_string(one).map_err(|_| StoreError::Row("scheduled.body"))?;
        let row = ScheduledRow {
            id,
            slot: format!("{}\n{}", one.key, one.field),
            starts_ms: one.start.unix_ms,
            ends_ms: one.end.unix_ms,
            is_open: one.state.is_open(),
            body: body.clone(),
        };
        let mut audit = author.audit(action, format!("override:{id}"));
        audit.comment.clone_from(&one.comment);
        audit.differences = match author.emergency {
            true => emergency(body),
            false => body,
        };
        let put = self.store.put_scheduled(row, was, audit).await?;
        put.map_err(|why| match why {
            NotScheduled::Full => OverrideError::Full,
            NotScheduled::Overlaps(other) => OverrideError::Overlaps(other),
            NotScheduled::Moved => OverrideError::Moved(id),
        })
    }
}

/// The same, with the word that nobody else was asked.
fn emergency(body: String) -> String {
    let rest = body
        .strip_prefix('{')
        .map(|rest| format!("{{\"emergency\":true,{rest}"));
    rest.unwrap_or(body)
}

fn end(text: &str, start_ms: i64, now_ms: i64) -> Result<When, OverrideError> {
    let end = When::parse(text).map_err(|rule| field("end", rule))?;
    if end.unix_ms <= start_ms || end.unix_ms <= now_ms {
        return Err(field("end", "must be after the start, and ahead"));
    }
    if end.unix_ms.saturating_sub(now_ms) > AHEAD_MS_MAX {
        return Err(field("end", "must be within two years"));
    }
    Ok(end)
}

fn numbered(row: &ScheduledRow) -> Result<Numbered, StoreError> {
    let one = serde_json::from_str(&row.body).map_err(|_| StoreError::Row("scheduled.body"))?;
    Ok(Numbered { id: row.id, one })
}

#[cfg(test)]
mod tests;
