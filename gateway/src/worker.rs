//! One serving thread: a runtime of its own, its share of every listener, its connections.
//!
//! Separate because nothing on the path of a request crosses threads: what a thread accepts, it
//! serves to the end. It must never wait for another thread.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::server::{
    Accepting, Census, Listeners, Open, Serve, Stage, Tasks, accept_from, descriptors,
};

/// How long connections are still accepted and kept open after readiness has failed: clients
/// with a kept connection learn from `connection: close`, and probes hear first.
const LEAVING: Duration = Duration::from_millis(300);

/// What a serving thread is given.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) listeners: Listeners,
    pub(crate) census: Arc<Census>,
    /// Idle connections to upstreams that all threads together may keep.
    pub(crate) upstream_idle_max: usize,
    pub(crate) stage: watch::Receiver<Stage>,
}

impl Worker {
    /// Starts the thread. `make` runs on it, so that what serves there belongs to it.
    pub(crate) fn start<S: Serve>(
        self,
        number: usize,
        make: impl FnOnce() -> S + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Nothing here may block; this thread would only serve a mistake.
            .max_blocking_threads(1)
            .build()?;
        thread::Builder::new()
            .name(format!("bulkhead-{number}"))
            .spawn(move || {
                let local = LocalSet::new();
                local.block_on(&runtime, self.run(make));
                // Dropping the set ends every task that is left, and with it what they hold.
                drop(local);
            })
    }

    async fn run<S: Serve>(mut self, make: impl FnOnce() -> S) {
        let (stage, own_stage) = watch::channel(Stage::Serving);
        let service = make();
        let accepting = Rc::new(Accepting {
            now: service.now(),
            service,
            census: self.census,
            descriptors_max: descriptors::connections_max(),
            upstream_idle_max: self.upstream_idle_max,
            stage: own_stage,
            connections: Tasks::new("connection"),
            open: Rc::new(Open::default()),
        });
        let acceptors = Tasks::new("acceptor");
        for (listener, local) in self.listeners.into_sockets() {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    acceptors.spawn(accept_from(Rc::clone(&accepting), listener));
                }
                Err(error) => tracing::error!(%error, %local, "a thread cannot accept here"),
            }
        }
        // An error means that whoever would tell us is gone: stop.
        if self
            .stage
            .wait_for(|stage| *stage >= Stage::Leaving)
            .await
            .is_err()
        {
            return;
        }
        stage.send_replace(Stage::Leaving);
        accepting.open.tell(|connection| connection.leave());
        tokio::select! {
            () = sleep(LEAVING) => {}
            // Told to hurry: there is nothing to lose here but the pause.
            _ = self.stage.wait_for(|stage| *stage >= Stage::Refusing) => {}
        }
        stage.send_replace(Stage::Closing);
        accepting.open.tell(|connection| connection.go());
        drop(self.stage.wait_for(|stage| *stage >= Stage::Refusing).await);
        stage.send_replace(Stage::Refusing);
        accepting.open.tell(|connection| connection.refuse());
        drop(self.stage.wait_for(|stage| *stage >= Stage::Stopped).await);
        stage.send_replace(Stage::Stopped);
    }
}
