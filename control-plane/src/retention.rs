//! The job that lets documents of old generations go.
//!
//! Separate because it runs for months beside everything else and nothing waits for it. Of several
//! control planes the one that leads does it. It must never decide what is old by anything but the
//! bounds that are told everywhere.

use std::error::Error;
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::leader::Leader;
use crate::store::{DOCUMENTS_KEPT, DOCUMENTS_KEPT_DAYS, FORGOTTEN_AT_ONCE_MAX, Old, Store};

/// The first look, once a start has settled, and each look while there is more to do, or while
/// another one leads or the store is away.
const SOON: Duration = Duration::from_secs(10);
/// Between looks that find nothing more.
const PERIOD: Duration = Duration::from_secs(3_600);

/// Looks until the process goes down.
pub(crate) async fn run(store: Store, leader: Leader, stopping: CancellationToken) {
    let mut wait = SOON;
    loop {
        // Nothing is lost by a cancelled arm.
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = match leader.leads(clock::now()) {
            true => turn(&store).await,
            false => SOON,
        };
    }
}

/// One look; when the next one is due.
async fn turn(store: &Store) -> Duration {
    let Ok(before) = before(clock::timestamp()) else {
        return PERIOD;
    };
    let old = Old {
        newest_kept: DOCUMENTS_KEPT,
        before,
        at_most: FORGOTTEN_AT_ONCE_MAX,
    };
    match store.forget_documents(old).await {
        Ok(0) => PERIOD,
        Ok(documents) => {
            tracing::info!(documents, "documents of old generations are kept no more");
            match documents < u64::from(FORGOTTEN_AT_ONCE_MAX) {
                true => PERIOD,
                false => SOON,
            }
        }
        Err(error) => {
            tracing::debug!(
                error = &error as &dyn Error,
                "documents of old generations are still kept"
            );
            SOON
        }
    }
}

/// The moment before which a generation is old, as generations have it.
fn before(now: jiff::Timestamp) -> Result<String, jiff::Error> {
    let kept = SignedDuration::from_hours(DOCUMENTS_KEPT_DAYS * 24);
    Ok(format!("{:.3}", now.checked_sub(kept)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_back_in_the_form_that_generations_have() {
        let now = "2026-11-30T12:00:00.25Z".parse().unwrap();
        assert_eq!(before(now).unwrap(), "2026-09-01T12:00:00.250Z");
        assert_eq!(before(now).unwrap().len(), clock::utc().len());
    }
}
