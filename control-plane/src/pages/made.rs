//! Secrets between the form that made them and the page that shows them, once.
//!
//! Separate because the form answers with an address, and an address lies in histories: it holds a
//! ticket that is good once. It must never keep a secret longer than a page takes to load.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wire::{Secret, SecretError};

/// Secrets that wait for the page that shows them.
const MADE_MAX: usize = 16;
/// How long one waits.
const MADE_AGE_MAX: Duration = Duration::from_secs(60);

/// What was just made, for whoever comes with the ticket.
pub(crate) struct Made<T>(Arc<Mutex<VecDeque<Waiting<T>>>>);

struct Waiting<T> {
    /// Who asks with it is shown the secret.
    ticket: Secret,
    /// Who made it: nobody else is shown it.
    person: String,
    what: T,
    until: Instant,
}

impl<T> Clone for Made<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> fmt::Debug for Made<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made(..)")
    }
}

impl<T> Made<T> {
    /// Keeps it for a minute; the answer opens it once, for this person.
    pub(super) fn put(&self, person: &str, what: T, now: Instant) -> Result<Secret, SecretError> {
        let ticket = Secret::random()?;
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.until > now);
        if waiting.len() >= MADE_MAX {
            waiting.pop_front();
        }
        waiting.push_back(Waiting {
            ticket: ticket.clone(),
            person: person.to_owned(),
            what,
            until: now + MADE_AGE_MAX,
        });
        Ok(ticket)
    }

    /// What this ticket opens, for the only time. Somebody else's stays for whom it is.
    pub(super) fn take(&self, person: &str, ticket: &str, now: Instant) -> Option<T> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.until > now);
        let is_it = |one: &Waiting<T>| one.person == person && one.ticket.matches(ticket);
        let at = waiting.iter().position(is_it)?;
        waiting.remove(at).map(|one| one.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_for_a_minute() {
        let (made, now) = (Made::default(), crate::clock::now());
        let ticket = made.put("ann", "secret", now).unwrap();
        assert_eq!(made.take("ann", "", now), None);
        assert_eq!(made.take("bob", ticket.expose(), now), None);
        assert_eq!(made.take("ann", ticket.expose(), now), Some("secret"));
        assert_eq!(made.take("ann", ticket.expose(), now), None);
        let late = made.put("ann", "secret", now).unwrap();
        assert_eq!(made.take("ann", late.expose(), now + MADE_AGE_MAX), None);
        for _ in 0..2 * MADE_MAX {
            made.put("ann", "secret", now).unwrap();
        }
        assert_eq!(made.0.lock().unwrap().len(), MADE_MAX);
    }
}
