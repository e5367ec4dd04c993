//! Sessions of browsers: opened, found, ended.
//!
//! Separate because a cookie is looked at with every page. What a session may is asked of its user
//! each time; what is idle or old opens nothing, on any control plane of the store. It must never
//! take an id from outside for a new session.

use std::time::Duration;

use serde_json::json;
use subtle::ConstantTimeEq as _;
use wire::Secret;

use super::rows::{self, SESSION, SESSIONS_OF_USER_MAX};
use super::{Act, Book, Owner, People, PeopleError, Session, USED_STEP_MS, fresh};
use crate::limits::Author;
use crate::store::PeopleStep;

/// How long a session lasts, whatever happens in it.
pub(crate) const SESSION_AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// How long it lasts while nothing happens in it.
pub(crate) const SESSION_IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// Sessions that have ended and are removed with one write.
const SWEPT_MAX: usize = 100;

impl Session {
    /// Whether it still opens something.
    pub(crate) fn lasts(&self, now_ms: i64) -> bool {
        let within = |since: i64, longest: Duration| {
            let age = now_ms.saturating_sub(since);
            u128::from(age.unsigned_abs()) < longest.as_millis() || age < 0
        };
        within(self.created_ms, SESSION_AGE_MAX) && within(self.used_ms, SESSION_IDLE_MAX)
    }
}

impl Book {
    /// The steps that make room for one more session of this owner, and sweep what has ended.
    pub(super) fn room_for(&self, owner: &Owner, now_ms: i64) -> Vec<PeopleStep> {
        let ended = self.sessions.values().filter(|own| !own.lasts(now_ms));
        let ended = ended.take(SWEPT_MAX);
        let mut gone: Vec<&Session> = ended.collect();
        let own = self.sessions.values().filter(|own| own.lasts(now_ms));
        let mut own: Vec<&Session> = own.filter(|own| own.owner == *owner).collect();
        own.sort_by_key(|own| own.created_ms);
        let more = (own.len() + 1).saturating_sub(SESSIONS_OF_USER_MAX);
        gone.extend(own.iter().take(more).copied());
        gone.iter()
            .map(|own| PeopleStep::Forget(SESSION, own.id.clone()))
            .collect()
    }
}

impl People {
    /// Opens a session for whoever holds the admin token.
    pub(crate) async fn open_for_token(
        &self,
        token: &Secret,
        author: &Author,
        now_ms: i64,
    ) -> Result<Secret, PeopleError> {
        let owner = token_owner(token);
        let (secret, digest) = fresh("")?;
        let done = self.write(author, |book| {
            let session = Session {
                id: Session::id_of(&digest),
                digest: digest.clone(),
                owner: owner.clone(),
                created_ms: now_ms,
                origin: author.origin.clone(),
                used_ms: now_ms,
            };
            let mut steps = book.room_for(&owner, now_ms);
            steps.push(session.put()?);
            let act = Act {
                steps,
                action: "sign-in",
                subject: "admin token".to_owned(),
                before: serde_json::Value::Null,
                after: json!({ "session": session.id }),
            };
            Ok((act, ()))
        });
        done.await?;
        Ok(secret)
    }

    /// The session of this cookie while it lasts. Where other processes open sessions too, one
    /// that is not known here, or that looks idle here, is asked for.
    pub(crate) async fn session(&self, cookie: &str, now_ms: i64) -> Option<Session> {
        let digest = rows::digest(cookie);
        let id = Session::id_of(&digest);
        let own = self.with(|book| book.sessions.get(&id).cloned());
        let found = match own {
            Some(own) if own.lasts(now_ms) => Some(own),
            known if self.store.is_shared() => self.asked_for(&id, known).await,
            _ => None,
        };
        let found = found.filter(|own| own.lasts(now_ms))?;
        bool::from(found.digest.as_bytes().ct_eq(digest.as_bytes())).then_some(found)
    }

    /// Only a row that is there: what was ended elsewhere a moment ago is not.
    async fn asked_for(&self, id: &str, known: Option<Session>) -> Option<Session> {
        let row = self.store.person(SESSION, id).await.ok()??;
        let mut session: Session = rows::parse(&row).ok()?;
        session.used_ms = row.used_ms;
        if known.is_none() {
            // With whom it belongs to, who may be as new.
            let _silent = self.look().await;
        }
        self.with(|book| {
            if let Some(own) = book.sessions.get_mut(id) {
                own.used_ms = own.used_ms.max(row.used_ms);
            }
        });
        Some(session)
    }

    /// Somebody did something in it.
    pub(crate) fn used_session(&self, id: &str, now_ms: i64) {
        let is_due = self.with(|book| {
            let own = book.sessions.get_mut(id)?;
            let is_due = now_ms.saturating_sub(own.used_ms) >= USED_STEP_MS;
            if is_due {
                own.used_ms = now_ms;
            }
            Some(is_due)
        });
        if is_due == Some(true) {
            self.store.used_person(SESSION, id.to_owned(), now_ms);
        }
    }

    /// Ends one. `whose`: only when it is this owner's; anybody's without.
    pub(crate) async fn end_session(
        &self,
        id: &str,
        whose: Option<&Owner>,
        author: &Author,
    ) -> Result<(), PeopleError> {
        let done = self.write(author, |book| {
            let own = book.sessions.get(id);
            let own = own.filter(|own| whose.is_none_or(|owner| own.owner == *owner));
            let own = own.ok_or(PeopleError::Unknown("session"))?;
            let subject = match &own.owner {
                Owner::User(name) => format!("user:{name}"),
                Owner::AdminToken(_) => "admin token".to_owned(),
            };
            let act = Act {
                steps: vec![PeopleStep::Forget(SESSION, id.to_owned())],
                action: "session-end",
                subject,
                before: json!({ "session": own.id }),
                after: serde_json::Value::Null,
            };
            Ok((act, ()))
        });
        done.await
    }
}

/// What stands for the admin token in its sessions: of another one they open nothing.
pub(crate) fn token_owner(token: &Secret) -> Owner {
    let digest = rows::digest(&format!("session of {}", token.expose()));
    Owner::AdminToken(Session::id_of(&digest))
}
