//! Connections to Postgres, each use of one with an end.
//!
//! Separate because the library's pool waits for its whole time-out when nobody listens, cannot
//! tell a server that is gone from a pool that is in use, and sets no limit to a statement whose
//! server fell silent. It must never give back a connection that is in the middle of something.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor as _, PgConnection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock;
use crate::store::StoreError;
use crate::store::address::Server;

/// Longest wait for a connection that is in use.
const TURN_MAX: Duration = Duration::from_secs(6);
/// Longest wait for a connection that is made, or asked whether it still is one.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Longest wait for the answer to a statement; the server's own limit is shorter.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// For so long after a failed connection nobody else tries: they would wait one after another.
const AWAY_MAX: Duration = Duration::from_secs(1);

/// Some connections to one server.
#[derive(Clone, Debug)]
pub(in crate::store) struct Pool {
    connections: PgPool,
    /// As many as connections: who holds one of these never waits for another user of the pool.
    places: Arc<Semaphore>,
    seen: Arc<Mutex<Seen>>,
}

/// What became of the connections that were asked for.
#[derive(Debug, Default)]
struct Seen {
    /// When one failed last, until one works again.
    failed: Option<Instant>,
    /// When one worked last: who began to wait before that and fails late says nothing of now.
    worked: Option<Instant>,
}

/// A connection in use.
#[derive(Debug)]
pub(in crate::store) struct Held {
    connection: PoolConnection<Postgres>,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    /// Connects when somebody asks. Every connection is set up by these statements.
    pub(in crate::store) fn new(
        server: &Server,
        connections_max: u32,
        setup: &'static [&'static str],
    ) -> Self {
        let connections = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(CONNECT_MAX)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    for statement in setup {
                        connection.execute(*statement).await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(PgConnectOptions::clone(&server.options));
        let places = usize::try_from(connections_max).unwrap_or(1);
        Self {
            connections,
            places: Arc::new(Semaphore::new(places)),
            seen: Arc::default(),
        }
    }

    pub(in crate::store) async fn acquire(&self) -> Result<Held, StoreError> {
        let place = Arc::clone(&self.places).acquire_owned();
        let place = tokio::time::timeout(TURN_MAX, place).await;
        let place = place
            .map_err(|_| StoreError::Busy)?
            .map_err(|_| StoreError::Closed)?;
        let now = clock::now();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < AWAY_MAX;
        if self.seen().failed.is_some_and(is_recent) {
            return Err(StoreError::Away(None));
        }
        let error = match self.connections.acquire().await {
            Ok(connection) => {
                *self.seen() = Seen {
                    failed: None,
                    worked: Some(clock::now()),
                };
                return Ok(Held {
                    connection,
                    _place: place,
                });
            }
            // A place was free, so it was the server that kept us waiting.
            Err(sqlx::Error::PoolTimedOut) => StoreError::Away(None),
            Err(error) => error.into(),
        };
        if matches!(error, StoreError::Away(_)) {
            let mut seen = self.seen();
            if seen.worked.is_none_or(|at| at < now) {
                seen.failed = Some(clock::now());
            }
        }
        Err(error)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) async fn close(&self) {
        self.connections.close().await;
    }
}

impl Held {
    pub(in crate::store) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Gives the connection back, or ends it when what it said tells that it is of no more use.
    pub(in crate::store) fn done<T>(
        mut self,
        outcome: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if outcome.as_ref().is_err_and(StoreError::ends_connection) {
            self.connection.close_on_drop();
        }
        outcome
    }

    /// Ends the connection: it is in the middle of something.
    pub(in crate::store) fn end(mut self) {
        self.connection.close_on_drop();
    }
}

/// The answer to a statement, or that there was none in time.
pub(in crate::store) async fn bounded<T>(
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(StoreError::Away(None)),
    }
}
