//! The history's one task: write what is closed, make coarser rows, let old ones go.
//!
//! Separate because each step is a function that may be repeated at any time: it reads what is
//! stored and pending, not the signal that woke it. It must never run twice at once, and a step
//! that fails must never keep the others from their turn.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::History;
use super::flushes::Flushes;
use super::step::Step;
use crate::clock;
use crate::leader::Leader;
use crate::store::StoreError;
use crate::store::figures::Figures;

/// Longest time until closed slots are looked for.
const PERIOD: Duration = Duration::from_secs(2);
/// How often size and age are looked at.
const EXPIRE_PERIOD: Duration = Duration::from_secs(60);
const TIDY_PERIOD: Duration = Duration::from_secs(3_600);
/// Most coarser rows (in time) that are made before new ones are written again.
const ROLLS_MAX: u32 = 200;
/// Most pieces of old rows that go in one turn.
const EXPIRES_MAX: u32 = 50;
/// A minute is summed up this long after its end, so that late reports are in it.
const ROLL_AFTER_S: i64 = 15;
/// After so many failures in a row the file is opened anew.
const REOPEN_AFTER: u32 = 3;
/// Rows further ahead were made by a clock that has been set back.
const AHEAD_MAX_S: i64 = 86_400;
/// What the bound on the whole leaves of each width, in the order in which it is taken.
const LEAST_S: [(Step, i64); 6] = [
    (Step::TenSeconds, 3_600),
    (Step::Minute, 86_400),
    (Step::Hour, 30 * 86_400),
    // A bound that is too small for the policy is a bound all the same.
    (Step::TenSeconds, 600),
    (Step::Minute, 3_600),
    (Step::Hour, 3_600),
];

/// What one turn remembers for the next.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Whether this process is the one that looks after what all of them wrote.
    leader: Leader,
    measured: Option<Instant>,
    expired: Option<Instant>,
    tidied: Option<Instant>,
    /// A moment on both clocks: rows age by the one that never jumps, so that a wall clock which
    /// is set years ahead for a minute does not empty the history.
    since: Option<(Instant, i64)>,
}

impl Upkeep {
    /// Now, but never more than has passed since the first turn after the newest row of then.
    fn aged_s(&mut self, at: Instant, now_s: i64, newest_s: Option<i64>) -> i64 {
        let newest_s = newest_s.filter(|newest| *newest <= now_s);
        let (began, then_s) = *self.since.get_or_insert((at, newest_s.unwrap_or(now_s)));
        let passed = at.saturating_duration_since(began).as_secs();
        now_s.min(then_s.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)))
    }
}

impl History {
    /// Keeps the history until the process goes down.
    pub(crate) async fn run(self, leader: Leader, stopping: CancellationToken) {
        let mut upkeep = Upkeep {
            leader,
            ..Upkeep::default()
        };
        loop {
            // Nothing is lost by a cancelled arm: each only says when to look.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.0.wake.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            // A turn goes to its end: a transaction dropped half way is in doubt.
            self.turn(
                &mut upkeep,
                clock::now(),
                clock::unix_ms().div_euclid(1_000),
            )
            .await;
        }
    }

    /// Writes all that is pending and lets the file go. The readings have ended by now.
    pub async fn close(&self) {
        if let Err(error) = self.flush(None).await {
            self.status(|status| status.failed(&error));
        }
        let database = self
            .0
            .database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(database) = database {
            database.close().await;
        }
    }

    /// One turn at a moment on both clocks.
    pub(super) async fn turn(&self, upkeep: &mut Upkeep, at: Instant, now_s: i64) {
        if self.database().is_err() {
            self.reopen().await;
        }
        let done = match self.flush(Some(now_s)).await {
            Ok(()) => self.look_after(upkeep, at, now_s).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => self.status(super::status::Status::works),
            Err(StoreError::Closed) => {}
            Err(error) => {
                self.status(|status| status.failed(&error));
                let failures = self.status(|status| status.failures());
                if failures.is_multiple_of(REOPEN_AFTER) {
                    let database = self
                        .0
                        .database
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                    if let Some(database) = database {
                        database.close().await;
                    }
                }
            }
        }
    }

    /// Writes the slots that are closed at this second; `None`: all.
    async fn flush(&self, now_s: Option<i64>) -> Result<(), StoreError> {
        // Without a file the slots stay where they are, up to their bound.
        let Ok(database) = self.database() else {
            return Err(StoreError::Closed);
        };
        if let Some(doubt) = self.flushes(|flushes| flushes.doubt()) {
            // Before anything joins those rows: they are there already, or they go again.
            if database.holds(&doubt).await? {
                self.pending().written();
            }
            self.flushes(Flushes::settle);
        }
        let slots = self.pending().begin(now_s);
        if slots.is_empty() {
            return Ok(());
        }
        let newest_s = slots.keys().next_back().copied().unwrap_or_default();
        let now_s = now_s.unwrap_or(newest_s);
        let flush = self.flushes(|flushes| flushes.begin(now_s));
        let too_old = database
            .add(&slots, kept_from(Step::TenSeconds, now_s), &flush)
            .await?;
        self.flushes(Flushes::settle);
        drop(slots);
        self.pending().written();
        self.status(|status| status.lost(too_old));
        Ok(())
    }

    async fn look_after(
        &self,
        upkeep: &mut Upkeep,
        at: Instant,
        now_s: i64,
    ) -> Result<(), StoreError> {
        let Ok(database) = self.database() else {
            return Err(StoreError::Closed);
        };
        let due = |last: Option<Instant>, period: Duration| {
            last.is_none_or(|last| at.saturating_duration_since(last) >= period)
        };
        if !upkeep.leader.leads(clock::now()) {
            if due(upkeep.measured, EXPIRE_PERIOD) {
                upkeep.measured = Some(at);
                self.measure(&database).await?;
            }
            return Ok(());
        }
        let oldest = self.pending().oldest().unwrap_or(i64::MAX);
        let done_until = oldest.min(now_s.saturating_sub(ROLL_AFTER_S));
        let rolled = roll(&database, done_until).await;
        if due(upkeep.expired, EXPIRE_PERIOD) {
            upkeep.expired = Some(at);
            self.expire(&database, upkeep, at, now_s).await?;
        }
        if due(upkeep.tidied, TIDY_PERIOD) {
            upkeep.tidied = Some(at);
            let newest = upkeep.aged_s(at, now_s, None);
            database.tidy(newest).await?;
        }
        rolled
    }

    async fn expire(
        &self,
        database: &Figures,
        upkeep: &mut Upkeep,
        at: Instant,
        now_s: i64,
    ) -> Result<(), StoreError> {
        let newest = database.kept(Step::TenSeconds).await?.map(|(_, last)| last);
        let aged_s = upkeep.aged_s(at, now_s, newest);
        for step in Step::ALL {
            let ahead = now_s.saturating_add(AHEAD_MAX_S);
            database.clear(step, ahead, i64::MAX).await?;
            let before = kept_from(step, aged_s).min(needed_from(database, step).await?);
            for _ in 0..EXPIRES_MAX {
                if !database.expire(step, before).await? {
                    break;
                }
            }
        }
        self.shrink(database, aged_s).await?;
        self.measure(database).await
    }

    /// How much is kept, and from when on.
    async fn measure(&self, database: &Figures) -> Result<(), StoreError> {
        let mut kept = Vec::new();
        for step in Step::ALL {
            let first = database.kept(step).await?.map(|(first, _)| first);
            kept.push((step, first));
        }
        let size = database.size().await?;
        self.status(|status| (status.size, status.kept) = (size, kept));
        Ok(())
    }

    /// Lets the oldest rows go early while the whole is too large: the finest first, and of each
    /// width not the last of it.
    async fn shrink(&self, database: &Figures, now_s: i64) -> Result<(), StoreError> {
        for (step, least_s) in LEAST_S {
            let before = step.slot(now_s.saturating_sub(least_s));
            let before = before.min(needed_from(database, step).await?);
            for _ in 0..EXPIRES_MAX {
                if database.size().await?.used_bytes <= self.0.settings.bytes_max {
                    return Ok(());
                }
                if !database.expire(step, before).await? {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Makes what can be made of rows before a second.
async fn roll(database: &Figures, done_until_s: i64) -> Result<(), StoreError> {
    for _ in 0..ROLLS_MAX {
        if !database.roll(Step::Minute, done_until_s).await? {
            break;
        }
    }
    let minutes = database.rolled(Step::Minute).await?;
    for _ in 0..ROLLS_MAX {
        if !database.roll(Step::Hour, minutes).await? {
            break;
        }
    }
    Ok(())
}

/// The first second of which rows of a width are kept, on whole hours.
fn kept_from(step: Step, now_s: i64) -> i64 {
    Step::Hour.slot(now_s.saturating_sub(step.keep_seconds()))
}

/// Rows from here on are not summed up yet.
async fn needed_from(database: &Figures, step: Step) -> Result<i64, StoreError> {
    let coarser = match step {
        Step::TenSeconds => Step::Minute,
        Step::Minute => Step::Hour,
        Step::Hour => return Ok(i64::MAX),
    };
    Ok(Step::Hour.slot(database.rolled(coarser).await?))
}
