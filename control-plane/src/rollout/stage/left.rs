//! What a gateway that leaves says of the newest generation: it may have died of it.
//!
//! Separate for length, and because it is a guess where an answer is a fact. It must never halt
//! what somebody runs, nor what nothing else can be sent instead of.

use std::sync::Arc;
use std::time::Instant;

use super::{ALL_AT_ONCE_MAX, Halt, Member, Stage};
use crate::fleet::RefusedFault;

impl Stage {
    /// One that leaves with the newest unanswered is waited for like a silent one: the next must
    /// not die of it at once. After a second one it goes to nobody else, where there is another
    /// generation to send.
    pub(super) fn leaves(&mut self, gone: &Member, utc: String) -> bool {
        let owes = |at: &Instant| gone.asked.is_some_and(|asked| asked >= *at);
        let Some(allowed) = gone.allowed.filter(owes) else {
            return false;
        };
        if self.proven || self.halt.is_some() {
            return false;
        }
        self.moved();
        let before = self.left.replace((Arc::clone(&gone.id), allowed));
        let (Some((before, _)), Some(safe)) = (before, &self.safe) else {
            return false;
        };
        let detail = format!(
            "its stream ended before it answered, as that of {before} did: they may have died of \
             it; the rest are sent generation {}",
            safe.number
        );
        let error = RefusedFault {
            pointer: String::new(),
            value: String::new(),
            detail,
        };
        self.halt_by(gone.id.as_ref().to_owned(), utc, vec![error]);
        true
    }

    pub(super) fn halt_by(&mut self, gateway: String, since: String, errors: Vec<RefusedFault>) {
        self.halt = Some(Arc::new(Halt {
            generation: self.newest.number,
            gateway,
            since,
            errors,
        }));
        self.moved();
    }

    /// All are sent it at once. Who just left counts: its death must not make a fleet a small one.
    pub(super) fn is_small(&self) -> bool {
        self.members.len() + usize::from(self.left.is_some()) <= ALL_AT_ONCE_MAX
    }
}
