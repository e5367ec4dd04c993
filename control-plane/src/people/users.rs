//! Users: made with a one-time link, set up by whoever holds it, changed by an admin, signed in.
//!
//! Separate because these are the rules about people. An admin never knows another one's password,
//! and a change of what somebody may ends the sessions that were opened before it. It must never
//! answer faster or otherwise for a name that nobody has, nor leave an installation without an
//! admin who can sign in.

use std::sync::PoisonError;

use serde_json::{Value as Json, json};
use subtle::ConstantTimeEq as _;
use wire::Secret;
use zeroize::Zeroizing;

use super::rows::{self, SOURCES_MAX, Setup, USER, USERS_MAX, User, password_rule, user_name};
use super::{Act, Book, Owner, Password, People, PeopleError, Session, Source, fresh};
use crate::access::Role;
use crate::clock;
use crate::limits::Author;
use crate::store::PeopleStep;

/// How long a one-time link works.
pub(crate) const SETUP_MS: i64 = 24 * 3600 * 1000;

/// The code of the first user.
#[derive(Debug)]
pub(crate) struct FirstCode {
    digest: String,
    ends_ms: i64,
}

/// What an admin changes of a user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserChange {
    pub(crate) role: Option<Role>,
    pub(crate) disabled: Option<bool>,
    /// The password is gone, and a new link sets another one.
    pub(crate) reset: bool,
}

/// Somebody who signs in.
pub(crate) struct SignIn<'a> {
    pub(crate) name: &'a str,
    pub(crate) password: Password,
    pub(crate) source: Option<Source>,
    pub(crate) author: &'a Author,
    pub(crate) now_ms: i64,
}

/// What a one-time code is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invited {
    /// The first admin, of any name.
    First,
    /// This user.
    User(String),
}

impl People {
    /// A code for the first user; `None` when there is somebody already.
    pub(crate) fn invite_first(&self, now_ms: i64) -> Result<Option<Secret>, PeopleError> {
        if !self.is_empty() {
            return Ok(None);
        }
        let (secret, digest) = fresh("")?;
        let ends_ms = now_ms.saturating_add(SETUP_MS);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        *first = Some(FirstCode { digest, ends_ms });
        Ok(Some(secret))
    }

    /// Whom a code is for, now.
    pub(crate) fn invited(&self, code: &str, now_ms: i64) -> Option<Invited> {
        self.with(|book| self.invited_in(book, &rows::digest(code), now_ms))
    }

    fn invited_in(&self, book: &Book, digest: &str, now_ms: i64) -> Option<Invited> {
        let is = |own: &str| bool::from(own.as_bytes().ct_eq(digest.as_bytes()));
        if book.users.is_empty() {
            let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            let holds = first
                .as_ref()
                .is_some_and(|first| is(&first.digest) && now_ms < first.ends_ms);
            return holds.then_some(Invited::First);
        }
        let holds = |user: &&User| {
            let setup = user.setup.as_ref();
            setup.is_some_and(|setup| is(&setup.digest) && now_ms < setup.ends_ms)
        };
        let user = book.users.values().find(holds)?;
        (!user.disabled).then(|| Invited::User(user.name.clone()))
    }

    /// Uses a code, once: the user has this password from then on.
    pub(crate) async fn set_up(
        &self,
        code: &str,
        typed: &str,
        password: Password,
        author: &Author,
        now_ms: i64,
    ) -> Result<String, PeopleError> {
        let digest = rows::digest(code);
        let invited = self.with(|book| self.invited_in(book, &digest, now_ms));
        let name = match invited.ok_or(PeopleError::Code)? {
            Invited::First => user_name(typed)?,
            Invited::User(name) => name,
        };
        password_rule(&password, &name)?;
        let hashed = self.hasher.hash(password).await?;
        let author = Author {
            name: name.clone(),
            ..author.clone()
        };
        let done = self.write(&author, |book| {
            let invited = self.invited_in(book, &digest, now_ms);
            let (mut user, action) = match invited.ok_or(PeopleError::Code)? {
                Invited::First => {
                    let user = User::new(&name, Role::Admin, clock::utc(), "set-up link");
                    (user, "user-create")
                }
                Invited::User(own) => {
                    let user = book.users.get(&own).cloned();
                    (user.ok_or(PeopleError::Code)?, "user-password")
                }
            };
            let before = user.setup.is_some().then(|| shown(&user));
            user.password = Some(hashed.clone());
            user.setup = None;
            let mut steps = vec![user.put()?];
            steps.extend(book.end_sessions(&user.name, None));
            let act = about(action, &user.name, steps, before, Some(shown(&user)));
            Ok((act, ()))
        });
        done.await?;
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(name)
    }

    /// Makes a user; whoever holds the code sets the password.
    pub(crate) async fn create_user(
        &self,
        typed: &str,
        role: Role,
        author: &Author,
        now_ms: i64,
    ) -> Result<(User, Secret), PeopleError> {
        let name = user_name(typed)?;
        let (secret, digest) = fresh("")?;
        let ends_ms = now_ms.saturating_add(SETUP_MS);
        let user = self.write(author, |book| {
            if book.users.contains_key(&name) {
                return Err(PeopleError::Taken);
            }
            if book.users.len() >= USERS_MAX {
                return Err(PeopleError::Full);
            }
            let mut user = User::new(&name, role, clock::utc(), &author.name);
            let digest = digest.clone();
            user.setup = Some(Setup { digest, ends_ms });
            let steps = vec![user.put()?];
            let act = about("user-create", &name, steps, None, Some(shown(&user)));
            Ok((act, user))
        });
        Ok((user.await?, secret))
    }

    /// Changes a user, and ends the sessions that were opened before.
    pub(crate) async fn change_user(
        &self,
        name: &str,
        change: UserChange,
        author: &Author,
        now_ms: i64,
    ) -> Result<(User, Option<Secret>), PeopleError> {
        self.changed(name, change, author, now_ms, false).await
    }

    /// Resets a user, the last admin too: whoever may write the store's files asks.
    pub(super) async fn reset_from_host(
        &self,
        name: &str,
        change: UserChange,
        author: &Author,
        now_ms: i64,
    ) -> Result<Secret, PeopleError> {
        let (_, code) = self.changed(name, change, author, now_ms, true).await?;
        code.ok_or(PeopleError::Code)
    }

    async fn changed(
        &self,
        name: &str,
        change: UserChange,
        author: &Author,
        now_ms: i64,
        from_host: bool,
    ) -> Result<(User, Option<Secret>), PeopleError> {
        let code = change.reset.then(|| fresh("")).transpose()?;
        let user = self.write(author, |book| {
            let old = book.users.get(name).ok_or(PeopleError::Unknown("user"))?;
            let mut user = old.clone();
            if let Some(role) = change.role {
                user.set_role(role);
            }
            user.disabled = change.disabled.unwrap_or(user.disabled);
            if let Some((_, digest)) = &code {
                let ends_ms = now_ms.saturating_add(SETUP_MS);
                let digest = digest.clone();
                user.setup = Some(Setup { digest, ends_ms });
                user.password = None;
                user.sources.clear();
            }
            if !from_host {
                keeps_an_admin(book, name, Some(&user))?;
            }
            let mut steps = Vec::new();
            // What changes nothing ends nothing.
            if user != *old {
                steps.push(user.put()?);
                steps.extend(book.end_sessions(name, None));
            }
            let (before, after) = (shown(old), shown(&user));
            let act = about("user-change", name, steps, Some(before), Some(after));
            Ok((act, user))
        });
        Ok((user.await?, code.map(|(secret, _)| secret)))
    }

    /// Removes a user, all sessions, and the tokens that are this user's.
    pub(crate) async fn delete_user(&self, name: &str, author: &Author) -> Result<(), PeopleError> {
        let done = self.write(author, |book| {
            let old = book.users.get(name).ok_or(PeopleError::Unknown("user"))?;
            keeps_an_admin(book, name, None)?;
            let mut steps = vec![PeopleStep::Forget(USER, name.to_owned())];
            steps.extend(book.end_sessions(name, None));
            // Somebody else of this name later must not find them at work.
            steps.extend(book.end_tokens(name));
            let act = about("user-delete", name, steps, Some(shown(old)), None);
            Ok((act, ()))
        });
        done.await
    }

    /// Opens a session for whoever knows the password.
    pub(crate) async fn sign_in(&self, asked: SignIn<'_>) -> Result<Secret, PeopleError> {
        let name = user_name(asked.name);
        let (name, is_name) = match name {
            Ok(name) => (name, true),
            // Counted like every other name.
            Err(_) => (asked.name.chars().take(32).collect(), false),
        };
        let user = self.proved(&name, is_name, &asked).await?;
        let (secret, digest) = fresh("")?;
        let author = Author {
            name: user.clone(),
            ..asked.author.clone()
        };
        let done = self.write(&author, |book| {
            let own = book.users.get(&user).filter(|user| !user.disabled);
            let mut own = own.cloned().ok_or(PeopleError::Wrong)?;
            own.signed_in_at = Some(clock::utc());
            if let Some(source) = &asked.source {
                own.sources.retain(|known| known != source.text());
                own.sources.push(source.text().to_owned());
                let more = own.sources.len().saturating_sub(SOURCES_MAX);
                own.sources.drain(..more);
            }
            let session = Session {
                id: Session::id_of(&digest),
                digest: digest.clone(),
                owner: Owner::User(user.clone()),
                created_ms: asked.now_ms,
                origin: asked.author.origin.clone(),
                used_ms: asked.now_ms,
            };
            let after = json!({ "session": session.id });
            let mut steps = book.room_for(&session.owner, asked.now_ms);
            steps.extend([own.put()?, session.put()?]);
            let act = about("sign-in", &user, steps, None, Some(after));
            Ok((act, ()))
        });
        done.await?;
        Ok(secret)
    }

    /// The user whose name and password these are; the same work for everybody.
    async fn proved(
        &self,
        name: &str,
        is_name: bool,
        asked: &SignIn<'_>,
    ) -> Result<String, PeopleError> {
        let source = asked.source.as_ref();
        let user = self.with(|book| book.users.get(name).filter(|_| is_name).cloned());
        let is_known = user
            .as_ref()
            .zip(source)
            .is_some_and(|(user, source)| user.sources.iter().any(|known| known == source.text()));
        let begun = self.tries.begin(name, source, is_known, clock::now());
        let begun = begun.map_err(|wait| PeopleError::TooMany(wait.as_secs().max(1)))?;
        let count = asked.password.chars().count();
        let password = match count <= rows::PASSWORD_CHARS_MAX {
            true => asked.password.clone(),
            false => Zeroizing::new(String::new()),
        };
        let kept = user.as_ref().filter(|user| !user.disabled);
        let kept = kept.and_then(|user| user.password.as_ref());
        match self.hasher.matches(password, kept, is_known).await? {
            true => {
                self.tries.right(&begun, source);
                Ok(name.to_owned())
            }
            false => Err(PeopleError::Wrong),
        }
    }

    /// Changes the own password. Other sessions end, and this one gets a new id.
    pub(crate) async fn change_password(
        &self,
        asked: SignIn<'_>,
        new: Password,
        session: &str,
    ) -> Result<Secret, PeopleError> {
        password_rule(&new, asked.name)?;
        let name = self.proved(asked.name, true, &asked).await?;
        let hashed = self.hasher.hash(new).await?;
        let (secret, digest) = fresh("")?;
        let done = self.write(asked.author, |book| {
            let user = book.users.get(&name).cloned();
            let mut user = user.ok_or(PeopleError::Wrong)?;
            let own = book.sessions.get(session).ok_or(PeopleError::Wrong)?;
            user.password = Some(hashed.clone());
            user.setup = None;
            let own = Session {
                id: Session::id_of(&digest),
                digest: digest.clone(),
                used_ms: asked.now_ms,
                ..own.clone()
            };
            let mut steps = book.end_sessions(&name, None);
            steps.extend([user.put()?, own.put()?]);
            Ok((about("user-password", &name, steps, None, None), ()))
        });
        done.await?;
        Ok(secret)
    }
}

/// Refuses what would leave nobody who can decide everything. `next` is what becomes of the user.
fn keeps_an_admin(book: &Book, name: &str, next: Option<&User>) -> Result<(), PeopleError> {
    let was = book.users.get(name).is_some_and(User::is_working_admin);
    let others = book.users.values().filter(|user| user.name != name);
    let stays = next.is_some_and(User::is_working_admin);
    if was && !stays && !others.into_iter().any(User::is_working_admin) {
        return Err(PeopleError::LastAdmin);
    }
    Ok(())
}

/// What the audit keeps of a user.
fn shown(user: &User) -> Json {
    json!({
        "role": user.role().word(),
        "disabled": user.disabled,
        "has_password": user.has_password(),
    })
}

pub(super) fn about(
    action: &'static str,
    name: &str,
    steps: Vec<PeopleStep>,
    before: Option<Json>,
    after: Option<Json>,
) -> Act {
    Act {
        steps,
        action,
        subject: format!("user:{name}"),
        before: before.unwrap_or(Json::Null),
        after: after.unwrap_or(Json::Null),
    }
}
