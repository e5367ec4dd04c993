//! Tokens that let one gateway in: made by an admin, shown once, kept as digests.
//!
//! Separate because they open something. A token names its gateway, so who holds it can be no
//! other, and it opens the stream alone: pages and API know nothing of it. It must never be
//! compared in a time that tells how much of it was right.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wire::Secret;

use super::{OrderError, Orders, SHUT, TOKEN, body, named, order};
use crate::clock;
use crate::limits::Author;

/// Most tokens; two for each gateway, so that all can be rotated at once.
pub const TOKENS_MAX: usize = 2_000;
/// What begins every token, so that one that leaked is recognised.
const PREFIX: &str = "bhgw";

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Names it; no secret.
    pub id: String,
    /// The only gateway that it lets in.
    pub gateway: String,
    /// SHA-256 of the token, hexadecimal.
    pub digest: String,
    /// When it was made, in UTC.
    pub created_at: String,
    /// By whom.
    pub created_by: String,
}

/// A token that was just made.
#[derive(Debug)]
pub struct NewToken {
    /// What is kept of it.
    pub row: TokenRow,
    /// The token; nobody can ask for it again.
    pub token: Secret,
}

/// How a gateway was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// By the token that all gateways share.
    Shared,
    /// By a token of its own.
    Own(String),
}

impl Orders {
    /// Every token, by id.
    pub(crate) fn tokens(&self) -> Vec<TokenRow> {
        self.with(|book| book.tokens.values().cloned().collect())
    }

    /// Makes a token for one gateway. Older ones stay: that is how they are rotated.
    pub(crate) async fn create_token(
        &self,
        gateway: &str,
        author: &Author,
    ) -> Result<NewToken, OrderError> {
        let _turn = self.turn.lock().await;
        named(gateway)?;
        if self.with(|book| book.tokens.len()) >= TOKENS_MAX {
            return Err(OrderError::Full);
        }
        let (id, secret) = (Secret::random()?, Secret::random()?);
        let id: String = digest(id.expose()).chars().take(16).collect();
        let token = Secret::new(&format!("{PREFIX}_{id}_{}", secret.expose()))?;
        let row = TokenRow {
            id: id.clone(),
            gateway: gateway.to_owned(),
            digest: digest(token.expose()),
            created_at: clock::utc(),
            created_by: author.name.clone(),
        };
        let audit = self.audit("token-create", gateway, author);
        self.store
            .put_meta(format!("{TOKEN}{id}"), Some(body(&row)?), Some(audit))
            .await?;
        self.read().await?;
        Ok(NewToken { row, token })
    }

    /// Revokes a token: the stream that it opened ends.
    pub(crate) async fn revoke_token(&self, id: &str, author: &Author) -> Result<(), OrderError> {
        let _turn = self.turn.lock().await;
        let row = self.with(|book| book.tokens.get(id).cloned());
        let Some(row) = row else {
            return Err(OrderError::NoToken(id.chars().take(64).collect()));
        };
        let audit = self.audit("token-revoke", &row.gateway, author);
        self.store
            .put_meta(format!("{TOKEN}{id}"), None, Some(audit))
            .await?;
        Ok(self.read().await?)
    }

    /// Shuts a gateway out: its tokens are revoked, and the shared one lets its name in no more
    /// until a token of its own is made.
    pub(crate) async fn shut_out(&self, gateway: &str, author: &Author) -> Result<(), OrderError> {
        named(gateway)?;
        let own = self
            .tokens()
            .into_iter()
            .filter(|row| row.gateway == gateway);
        for row in own {
            self.revoke_token(&row.id, author).await?;
        }
        let _turn = self.turn.lock().await;
        if self.with(|book| book.shut.len()) >= super::ORDERS_MAX {
            return Err(OrderError::Full);
        }
        let audit = self.audit("revoke", gateway, author);
        let text = body(&order(author))?;
        self.store
            .put_meta(format!("{SHUT}{gateway}"), Some(text), Some(audit))
            .await?;
        Ok(self.read().await?)
    }

    /// Who a token is of: `None` for one that is not known.
    pub(crate) fn entry(&self, offered: &str) -> Option<Entry> {
        let id = offered.strip_prefix(PREFIX)?.strip_prefix('_')?;
        let (id, _) = id.split_once('_')?;
        let row = self.with(|book| book.tokens.get(id).cloned())?;
        // The digest of what was offered: how far two digests agree says nothing of the token.
        (row.digest == digest(offered)).then_some(Entry::Own(row.id))
    }

    /// Whether this entry lets this gateway in, now.
    pub(crate) fn lets_in(&self, entry: &Entry, gateway: &str) -> bool {
        self.with(|book| match entry {
            Entry::Shared => !book.shut.contains_key(gateway),
            Entry::Own(id) => book
                .tokens
                .get(id)
                .is_some_and(|row| row.gateway == gateway),
        })
    }
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
