//! What people ordered about gateways: drained, shut out, tokens of their own.
//!
//! Separate from the fleet, which says how things are: an order outlives streams and processes,
//! lies in the store with its audit row and is followed by whoever holds the gateway's stream. It
//! must never keep a secret, only its digest.

mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::limits::Author;
use crate::store::{AuditRow, Store, StoreError};

pub(crate) use tokens::Entry;
pub use tokens::{NewToken, TOKENS_MAX, TokenRow};

/// How often orders that another process wrote are read.
const PERIOD: Duration = Duration::from_secs(1);
/// Most gateways that an order stands for.
pub const ORDERS_MAX: usize = 1_000;
/// Before the name of a drained gateway.
const DRAIN: &str = "gateway/drain/";
/// Before the name of a gateway that only a token of its own lets in.
const SHUT: &str = "gateway/shut/";
/// Before the id of a token.
const TOKEN: &str = "gateway/token/";
/// Before all of them.
const ALL: &str = "gateway/";

/// Who ordered it, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Order {
    /// When, in UTC.
    pub since: String,
    /// Who.
    pub by: String,
}

/// Everything that stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Book {
    drained: BTreeMap<String, Order>,
    shut: BTreeMap<String, Order>,
    tokens: BTreeMap<String, TokenRow>,
}

/// Why an order is not taken.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// Too many stand.
    #[error("orders stand for {ORDERS_MAX} gateways and {TOKENS_MAX} tokens, which is the most")]
    Full,
    /// Not a name.
    #[error("gateway = {0:?}: must have 1 to 128 bytes and no control characters")]
    Name(String),
    /// No such token.
    #[error("there is no token {0:?}")]
    NoToken(String),
    /// No random numbers.
    #[error(transparent)]
    Secret(#[from] wire::SecretError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All orders.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    store: Store,
    book: Arc<Mutex<Book>>,
    moved: watch::Sender<()>,
    /// One writer at a time, so that bounds hold.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Orders {
    /// Reads what stands.
    pub(crate) async fn open(store: Store) -> Result<Self, StoreError> {
        let orders = Self {
            store,
            book: Arc::default(),
            moved: watch::channel(()).0,
            turn: Arc::default(),
        };
        orders.read().await?;
        Ok(orders)
    }

    /// Told when something else is ordered.
    pub(crate) fn follow(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }

    /// Reads what other processes wrote, until the process goes down.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        loop {
            // Nothing is lost by a cancelled arm.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            // That the store does not answer is told by the rollout; what stood stands.
            let _silent = self.read().await;
        }
    }

    async fn read(&self) -> Result<(), StoreError> {
        // Rows from before a write must not take the place of what it left.
        let _turn = self.turn.lock().await;
        self.fetch().await
    }

    /// Only with the turn.
    async fn fetch(&self) -> Result<(), StoreError> {
        let mut book = Book::default();
        for (name, body) in self.store.meta(ALL).await? {
            if let Some(id) = name.strip_prefix(DRAIN) {
                book.drained.insert(id.to_owned(), parse(&body)?);
            } else if let Some(id) = name.strip_prefix(SHUT) {
                book.shut.insert(id.to_owned(), parse(&body)?);
            } else if let Some(id) = name.strip_prefix(TOKEN) {
                book.tokens.insert(id.to_owned(), parse(&body)?);
            }
        }
        let is_new = self.with(|own| {
            let is_new = *own != book;
            *own = book;
            is_new
        });
        if is_new {
            self.moved.send_replace(());
        }
        Ok(())
    }

    /// What was just stored counts at once, whether or not the store can be read now.
    fn set(&self, change: impl FnOnce(&mut Book)) {
        self.with(change);
        self.moved.send_replace(());
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Book) -> T) -> T {
        // No change of it can be left half done.
        ask(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The order to drain this gateway, if it stands.
    pub(crate) fn drained(&self, gateway: &str) -> Option<Order> {
        self.with(|book| book.drained.get(gateway).cloned())
    }

    /// Orders a gateway to be not ready, or takes the order back.
    pub(crate) async fn drain(
        &self,
        gateway: &str,
        drained: bool,
        author: &Author,
    ) -> Result<(), OrderError> {
        let _turn = self.turn.lock().await;
        named(gateway)?;
        let (known, count) =
            self.with(|book| (book.drained.contains_key(gateway), book.drained.len()));
        if known == drained {
            return Ok(());
        }
        if drained && count >= ORDERS_MAX {
            return Err(OrderError::Full);
        }
        let order = drained.then(|| order(author));
        let text = order.as_ref().map(body).transpose()?;
        let action = if drained { "drain" } else { "undrain" };
        let audit = self.audit(action, gateway, author);
        self.store
            .put_meta(format!("{DRAIN}{gateway}"), text, Some(audit))
            .await?;
        self.set(|book| {
            book.drained.remove(gateway);
            let drained = order.map(|order| (gateway.to_owned(), order));
            book.drained.extend(drained);
        });
        Ok(())
    }

    /// Lets a gateway go back to the newest generation: only the audit row is kept of that.
    pub(crate) async fn gave_word(&self, gateway: &str, author: &Author) -> Result<(), StoreError> {
        let audit = self.audit("go-back", gateway, author);
        let text = body(&order(author))?;
        self.store
            .put_meta("word/last".to_owned(), Some(text), Some(audit))
            .await
    }

    /// The row of an order about a gateway.
    fn audit(&self, action: &str, about: &str, author: &Author) -> AuditRow {
        AuditRow {
            differences: serde_json::json!({ "about": about }).to_string(),
            ..author.audit(action, format!("gateway:{about}"))
        }
    }
}

/// The rule for names of gateways.
pub(crate) fn named(gateway: &str) -> Result<(), OrderError> {
    let kept = wire::stream::bounded_text(gateway, crate::stream::ID_BYTES_MAX);
    if gateway.is_empty() || kept != gateway {
        return Err(OrderError::Name(kept));
    }
    Ok(())
}

fn order(author: &Author) -> Order {
    Order {
        since: clock::utc(),
        by: author.name.clone(),
    }
}

fn body<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_| StoreError::Row("meta.gateway"))
}

fn parse<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Row("meta.gateway"))
}

#[cfg(test)]
mod tests;
