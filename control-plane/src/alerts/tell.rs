//! Telling: one notice after the other, each to its end or to its next try.
//!
//! Separate from looking at the rules, so that a receiver that hangs delays no alert. It must never
//! have two tries under way: what a receiver sees is in order.

use tokio_util::sync::CancellationToken;

use super::notice::{Notice, Sent};
use super::service::Alerts;
use crate::clock;

/// What became of notices since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Taken by a receiver.
    pub taken: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Given up.
    pub lost: u64,
}

impl Alerts {
    pub(super) async fn tell(&self, stopping: &CancellationToken) {
        loop {
            // Nothing is lost by a cancelled arm: what is to be told is read from the alerts.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.0.news.notified() => {}
            }
            while let Some(notice) = self.next_notice() {
                // A try that is cut off was told or not; it is told again after the restart.
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = self.deliver(&notice) => {}
                }
                // Whoever takes over must not tell it again.
                self.save_alerts().await;
            }
        }
    }

    fn next_notice(&self) -> Option<Notice> {
        let (config, origin) = (&self.0.config, format!("http://{}", self.0.own));
        let wanted = |severity| config.receiver(severity).is_some();
        let (now, leader) = (self.now(), &self.0.leader);
        if !leader.leads(clock::now()) {
            return None;
        }
        self.with(|inner| {
            // Nobody is told of what another process would not find.
            if leader.has_others() && !inner.unsaved.is_empty() {
                return None;
            }
            inner.desk.next(&mut inner.evaluator, now, &wanted, &origin)
        })
    }

    async fn deliver(&self, notice: &Notice) {
        let Some(receiver) = self.0.config.receiver(notice.severity) else {
            return;
        };
        let body = notice.body.to_string().into_bytes();
        let unix_s = self.now().unix_ms / 1_000;
        let (sent, why) = receiver.send(body, unix_s, self.0.own).await;
        let now = self.now();
        let told = self.with(|inner| {
            let told = inner.desk.done(&mut inner.evaluator, notice, sent, now);
            inner.unsaved.extend(&told);
            let tried = &mut inner.tried;
            match (sent, told.is_empty()) {
                (Sent::Taken, _) => tried.taken = tried.taken.saturating_add(1),
                (Sent::Failed, true) => tried.failed = tried.failed.saturating_add(1),
                (Sent::Failed | Sent::Refused, _) => tried.lost = tried.lost.saturating_add(1),
            }
            told
        });
        let (receiver, group) = (receiver.place(), notice.group.as_str());
        match (sent, told.is_empty()) {
            (Sent::Taken, _) => tracing::info!(%receiver, group, "a notice was taken"),
            (Sent::Failed, true) => {
                tracing::warn!(%receiver, group, why, "a notice was not taken; it is tried again");
            }
            (Sent::Failed | Sent::Refused, _) => {
                tracing::error!(%receiver, group, why, "a notice is lost: it is not tried again");
            }
        }
    }
}
