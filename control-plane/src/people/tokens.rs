//! Tokens of the API: made by an admin, shown once, kept as digests, with a role and an end.
//!
//! Separate because programs hold these. A token may what its role may and no more; the scope
//! `emergency` is beside the role. It must never be compared in a time that tells how much of it
//! was right, nor be used up by being asked for.

use serde_json::json;
use subtle::ConstantTimeEq as _;
use wire::Secret;

use super::rows::{self, API_TOKENS_MAX, ApiToken, Behind, NAME_BYTES_MAX, TOKEN, token_name};
use super::{Act, Book, People, PeopleError, USED_STEP_MS};
use crate::access::Role;
use crate::auth::Scopes;
use crate::clock;
use crate::limits::Author;
use crate::store::PeopleStep;

/// What begins every token, so that one that leaked is recognised.
pub(crate) const PREFIX: &str = "bhk_";
/// Days that a token lives unless told otherwise, and at most.
pub(crate) const EXPIRY_DAYS_DEFAULT: u32 = 90;
pub(crate) const EXPIRY_DAYS_MAX: u32 = 3_650;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// What a new token is to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) scopes: Scopes,
    pub(crate) days: u32,
    /// Whose it is to be; without it, the maker's.
    pub(crate) person: Option<String>,
    /// The user who makes it; `None`: the process itself, by its admin token or without a login.
    pub(crate) maker: Option<String>,
}

impl Book {
    /// What this user may now; `None`: there is none, or it is disabled.
    fn role_of(&self, name: &str) -> Option<Role> {
        let user = self.users.get(name).filter(|user| !user.disabled)?;
        Some(user.role())
    }
}

impl People {
    /// Makes one; nobody can ask for it again.
    pub(crate) async fn create_token(
        &self,
        wanted: &Wanted,
        author: &Author,
        now_ms: i64,
    ) -> Result<(ApiToken, Secret), PeopleError> {
        let name = token_name(&wanted.name)?;
        if !(1..=EXPIRY_DAYS_MAX).contains(&wanted.days) {
            return Err(PeopleError::Expiry);
        }
        let id: String = rows::digest(Secret::random()?.expose())
            .chars()
            .take(16)
            .collect();
        let random = Secret::random()?;
        let secret = Secret::new(&format!("{PREFIX}{id}_{}", random.expose()))?;
        let ends_ms = now_ms.saturating_add(DAY_MS.saturating_mul(i64::from(wanted.days)));
        let by = match author.person.as_str() {
            "" => &author.name,
            person => person,
        };
        let typed = wanted.person.as_ref().map(|typed| {
            let person = || PeopleError::Person(wire::stream::bounded_text(typed, NAME_BYTES_MAX));
            rows::user_name(typed).map_err(|_| person())
        });
        let user = typed.transpose()?.or_else(|| wanted.maker.clone());
        let behind = user.map_or(Behind::Process, Behind::User);
        let token = ApiToken::new(
            id,
            &name,
            wanted.role,
            wanted.scopes,
            rows::digest(secret.expose()),
            clock::utc(),
            by,
            behind,
            ends_ms,
        );
        let done = self.write(author, |book| {
            if book.tokens.len() >= API_TOKENS_MAX {
                return Err(PeopleError::Full);
            }
            if let Some(name) = token.user() {
                let most = book.role_of(name);
                let most = most.ok_or_else(|| PeopleError::Person(name.to_owned()))?;
                if token.role() > most {
                    return Err(PeopleError::Beyond(most));
                }
            }
            let act = Act {
                steps: vec![token.put()?],
                action: "token-create",
                subject: format!("token:{}", token.id),
                before: serde_json::Value::Null,
                after: shown(&token),
            };
            Ok((act, ()))
        });
        done.await?;
        Ok((token, secret))
    }

    /// Revokes one.
    pub(crate) async fn revoke_token(&self, id: &str, author: &Author) -> Result<(), PeopleError> {
        let done = self.write(author, |book| {
            let token = book.tokens.get(id).ok_or(PeopleError::Unknown("token"))?;
            let act = Act {
                steps: vec![PeopleStep::Forget(TOKEN, id.to_owned())],
                action: "token-revoke",
                subject: format!("token:{id}"),
                before: shown(token),
                after: serde_json::Value::Null,
            };
            Ok((act, ()))
        });
        done.await
    }

    /// The token that was offered, while it lives and whoever it is of may sign in, with no more
    /// than that one may now. Known and unknown ones cost the same.
    pub(crate) fn token(&self, offered: &str, now_ms: i64) -> Option<ApiToken> {
        let digest = rows::digest(offered);
        let id = offered.strip_prefix(PREFIX).unwrap_or("");
        let id = id.split_once('_').map_or("", |(id, _)| id);
        let own = self.with(|book| book.tokens.get(id).cloned());
        let kept = own.as_ref().map_or("", |own| own.digest.as_str());
        let nothing = "0".repeat(digest.len());
        let kept = if kept.is_empty() { &nothing } else { kept };
        let is_same = bool::from(kept.as_bytes().ct_eq(digest.as_bytes()));
        let mut own = own.filter(|own| is_same && now_ms < own.ends_ms)?;
        if let Some(name) = own.user() {
            let most = self.with(|book| book.role_of(name))?;
            own.cap_role(most);
        }
        Some(own)
    }

    /// It was used just now.
    pub(crate) fn used_token(&self, id: &str, now_ms: i64) {
        let is_due = self.with(|book| {
            let own = book.tokens.get_mut(id)?;
            let is_due = now_ms.saturating_sub(own.used_ms) >= USED_STEP_MS;
            if is_due {
                own.used_ms = now_ms;
            }
            Some(is_due)
        });
        if is_due == Some(true) {
            self.store.used_person(TOKEN, id.to_owned(), now_ms);
        }
    }
}

fn shown(token: &ApiToken) -> serde_json::Value {
    json!({
        "name": token.name,
        "role": token.role().word(),
        "person": token.person(),
        "emergency": token.scopes().emergency,
        "ends_ms": token.ends_ms,
    })
}
