//! The background thread: takes policies, reports figures, answers the admin port.
//!
//! Separate from the serving threads so that nothing here can delay a request: it has a runtime
//! and a small blocking pool of its own. It must never touch a client's socket, nor an upstream's
//! but to check whether it is well.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::admin::{self, Admin};
use crate::checks::Checks;
use crate::intake::Intake;
use crate::policy_source::PolicySource;
use crate::report::Reporter;
use crate::saturation;
use crate::watch::Watch;

/// Threads for work that takes long: applying a policy, reading every compartment, the disk, and
/// looking up the name of the control plane, where a dead resolver holds several for half a minute.
const BLOCKING_THREADS_MAX: usize = 16;
/// How often compartments that nobody needs any more are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(5);
/// How often files of roots are read again.
const ROOTS_PERIOD: Duration = Duration::from_secs(5);
/// How often it is looked whether all permits come back.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Owns the thread; dropping it stops the thread and waits until it has ended.
#[derive(Debug)]
pub(crate) struct Background {
    reload: Arc<Notify>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread on a listener that is bound already.
    pub(crate) fn start(
        source: PolicySource,
        intake: Arc<Intake>,
        listener: TcpListener,
        admin: Arc<Admin>,
        reporter: Reporter,
        watch: Watch,
        checks: Checks,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("bulkhead-slow")
            .build()?;
        listener.set_nonblocking(true)?;
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(entered);
        let (reload, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (reloaded, stopped) = (Arc::clone(&reload), Arc::clone(&stop));
        let run = move || {
            runtime.block_on(async {
                // None of the others ends; the last one ends them, between two steps.
                tokio::select! {
                    () = source.follow(Arc::clone(&intake), reloaded) => {}
                    () = again(SWEEP_PERIOD, Arc::clone(&intake), Intake::sweep) => {}
                    () = again(ROOTS_PERIOD, intake, Intake::read_roots_again) => {}
                    () = keep_watch(watch) => {}
                    () = checks.keep() => {}
                    () = saturation::watch(reporter) => {}
                    () = admin::serve(listener, admin) => {}
                    () = stopped.notified() => {}
                }
            });
        };
        let thread = thread::Builder::new()
            .name("bulkhead-back".to_owned())
            .spawn(run)?;
        Ok(Self {
            reload,
            stop,
            thread: Some(thread),
        })
    }

    /// Looks at the source again. Several calls before it does count as one.
    pub(crate) fn reload(&self) {
        self.reload.notify_one();
    }
}

/// Does this on its period, for ever.
async fn again(period: Duration, intake: Arc<Intake>, what: fn(&Intake)) {
    let mut period = tokio::time::interval(period);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        let intake = Arc::clone(&intake);
        // A panic inside is reported by the panic hook; the next period tries again.
        let _done = tokio::task::spawn_blocking(move || what(&intake)).await;
    }
}

/// Looks whether all permits come back, for ever.
async fn keep_watch(watch: Watch) {
    let mut period = tokio::time::interval(WATCH_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = Arc::new(Mutex::new(watch));
    loop {
        period.tick().await;
        let watch = Arc::clone(&watch);
        // A panic inside is reported by the panic hook; the next period tries again.
        let look = move || watch.lock().unwrap_or_else(PoisonError::into_inner).look();
        let _looked = tokio::task::spawn_blocking(look).await;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook.
            let _ended = thread.join();
        }
    }
}
