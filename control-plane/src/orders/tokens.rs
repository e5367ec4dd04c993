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

    /// Makes a token for one gateway. Older ones stay: that is how they are rotated. The name is
    /// shut out no more.
    pub(crate) async fn create_token(
        &self,
        gateway: &str,
        author: &Author,
    ) -> Result<NewToken, OrderError> {
        named(gateway)?;
        let _turn = self.turn.lock().await;
        // Another process may have shut it out a moment ago.
        self.fetch().await?;
        let is_shut = self.with(|book| book.shut.contains_key(gateway));
        if is_shut {
            // Those that the shut-out could not delete would open again with its end.
            self.forget_all(gateway, author).await?;
        }
        if self.with(|book| book.tokens.len()) >= TOKENS_MAX {
            return Err(OrderError::Full);
        }
        let (row, token) = fresh(gateway, author)?;
        let audit = self.audit("token-create", gateway, author);
        self.store
            .put_meta(format!("{TOKEN}{}", row.id), Some(body(&row)?), Some(audit))
            .await?;
        if is_shut {
            let audit = self.audit("unrevoke", gateway, author);
            self.store
                .put_meta(format!("{SHUT}{gateway}"), None, Some(audit))
                .await?;
        }
        self.set(|book| {
            book.shut.remove(gateway);
            book.tokens.insert(row.id.clone(), row.clone());
        });
        Ok(NewToken { row, token })
    }

    /// Revokes a token: the stream that it opened ends.
    pub(crate) async fn revoke_token(&self, id: &str, author: &Author) -> Result<(), OrderError> {
        let _turn = self.turn.lock().await;
        let row = self.with(|book| book.tokens.get(id).cloned());
        let Some(row) = row else {
            return Err(OrderError::NoToken(id.chars().take(64).collect()));
        };
        self.forget(&row, author).await
    }

    /// Shuts a gateway out: neither the shared token nor one of its own lets its name in until
    /// another one is made for it.
    pub(crate) async fn shut_out(&self, gateway: &str, author: &Author) -> Result<(), OrderError> {
        named(gateway)?;
        let _turn = self.turn.lock().await;
        // For tokens that another process just made; its failing keeps nobody in.
        let _silent = self.fetch().await;
        let (is_shut, count) = self.with(|book| (book.shut.contains_key(gateway), book.shut.len()));
        if !is_shut {
            if count >= super::ORDERS_MAX {
                return Err(OrderError::Full);
            }
            let audit = self.audit("revoke", gateway, author);
            let order = order(author);
            self.store
                .put_meta(format!("{SHUT}{gateway}"), Some(body(&order)?), Some(audit))
                .await?;
            self.set(|book| drop(book.shut.insert(gateway.to_owned(), order)));
        }
        // From here on its tokens open nothing; one whose deletion fails goes with the next call.
        self.forget_all(gateway, author).await
    }

    /// Only with the turn.
    async fn forget_all(&self, gateway: &str, author: &Author) -> Result<(), OrderError> {
        let all = self.tokens().into_iter();
        for row in all.filter(|row| row.gateway == gateway) {
            self.forget(&row, author).await?;
        }
        Ok(())
    }

    pub(super) async fn forget(&self, row: &TokenRow, author: &Author) -> Result<(), OrderError> {
        let audit = self.audit("token-revoke", &row.gateway, author);
        self.store
            .put_meta(format!("{TOKEN}{}", row.id), None, Some(audit))
            .await?;
        self.set(|book| drop(book.tokens.remove(&row.id)));
        Ok(())
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
        self.with(|book| {
            let is_shut = book.shut.contains_key(gateway);
            !is_shut
                && match entry {
                    Entry::Shared => true,
                    Entry::Own(id) => book
                        .tokens
                        .get(id)
                        .is_some_and(|row| row.gateway == gateway),
                }
        })
    }
}

fn fresh(gateway: &str, author: &Author) -> Result<(TokenRow, Secret), OrderError> {
    let (id, secret) = (Secret::random()?, Secret::random()?);
    let id: String = digest(id.expose()).chars().take(16).collect();
    let token = Secret::new(&format!("{PREFIX}_{id}_{}", secret.expose()))?;
    let row = TokenRow {
        id,
        gateway: gateway.to_owned(),
        digest: digest(token.expose()),
        created_at: clock::utc(),
        created_by: author.name.clone(),
    };
    Ok((row, token))
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
