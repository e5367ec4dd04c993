//! Two upstreams in trouble: one that fails for seconds, so that retries run into their budget, and
//! one whose two endpoints go and come back, so that its breaker opens and closes.
//!
//! Both are well again once the load has ended, so that what must come back can.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use crate::stub::{Wire, field};

/// What a policy says of the storm's retries.
pub(crate) const RETRY: &str = "attempts = 3\nbudget = 0.1\nwindow = \"2s\"\n";
const SHARE: f64 = 0.1;
const WINDOW: Duration = Duration::from_secs(2);
/// Allowed in every window whatever succeeded.
const ALWAYS: f64 = 3.0;
/// Well for so long, then failing for the rest.
const STORM_WELL_MS: u128 = 700;
const STORM_CYCLE_MS: u128 = 2_000;
const FLAP_CYCLE_MS: u128 = 1_600;
/// How often an endpoint looks whether it should be there.
const LOOK: Duration = Duration::from_millis(5);

/// What an endpoint does now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Failing,
    /// Nobody listens, and who was connected is cut.
    Gone,
}

/// Both upstreams.
pub(crate) struct Troubled {
    pub(crate) storm: SocketAddr,
    pub(crate) flap: [SocketAddr; 2],
    shared: Arc<Shared>,
}

struct Shared {
    start: Instant,
    is_over: AtomicBool,
    storm: Mutex<Storm>,
}

/// What reached the storm.
#[derive(Default)]
struct Storm {
    attempts: HashMap<String, u32>,
    answered: u64,
    most: u32,
}

impl Shared {
    fn at_ms(&self, cycle_ms: u128) -> u128 {
        self.start.elapsed().as_millis() % cycle_ms
    }

    fn storm(&self) -> State {
        let is_well = self.at_ms(STORM_CYCLE_MS) < STORM_WELL_MS;
        match is_well || self.is_over.load(Ordering::Relaxed) {
            true => State::Well,
            false => State::Failing,
        }
    }

    /// One goes, both fail, the other goes; between these all is well.
    fn flap(&self, endpoint: usize) -> State {
        match (self.at_ms(FLAP_CYCLE_MS), endpoint) {
            _ if self.is_over.load(Ordering::Relaxed) => State::Well,
            (400..600, 0) | (1_300..1_600, 1) => State::Gone,
            (700..1_200, _) => State::Failing,
            _ => State::Well,
        }
    }
}

impl Troubled {
    pub(crate) fn start() -> Self {
        let bound = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            (listener.local_addr().unwrap(), listener)
        };
        let (storm, one, other) = (bound(), bound(), bound());
        let shared = Arc::new(Shared {
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            storm: Mutex::default(),
        });
        let troubled = Self {
            storm: storm.0,
            flap: [one.0, other.0],
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            LocalSet::new().block_on(&runtime, async move {
                let mut all = JoinSet::new();
                let state = |of: &Arc<Shared>, endpoint: Option<usize>| {
                    let of = Arc::clone(of);
                    move || endpoint.map_or_else(|| of.storm(), |number| of.flap(number))
                };
                for (listener, endpoint) in [(storm.1, None), (one.1, Some(0)), (other.1, Some(1))]
                {
                    let state = Rc::new(state(&shared, endpoint));
                    all.spawn_local(run(
                        listener,
                        state,
                        Arc::clone(&shared),
                        endpoint.is_none(),
                    ));
                }
                while all.join_next().await.is_some() {}
            });
        });
        troubled
    }

    /// From now on all is well.
    pub(crate) fn end(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }

    /// Attempts beyond the first are no more than the budget allows: a share of what was answered,
    /// and a few in every window. No request was sent more often than its route says.
    pub(crate) fn judge(&self) -> Verdict {
        let storm = self.shared.storm.lock().unwrap();
        let requests = storm.attempts.len();
        let attempts: u32 = storm.attempts.values().sum();
        let windows = self.shared.start.elapsed().as_secs_f64() / WINDOW.as_secs_f64();
        Verdict {
            requests: u32::try_from(requests).unwrap().into(),
            attempts: attempts.into(),
            answered: u32::try_from(storm.answered).unwrap().into(),
            // The first window is begun and the last one is not over.
            always: ALWAYS * (windows.ceil() + 1.0),
            most: storm.most,
        }
    }
}

/// What reached the storm, and what may have.
pub(crate) struct Verdict {
    pub(crate) requests: f64,
    pub(crate) attempts: f64,
    pub(crate) answered: f64,
    always: f64,
    pub(crate) most: u32,
}

impl Verdict {
    pub(crate) fn retries(&self) -> f64 {
        self.attempts - self.requests
    }

    pub(crate) fn allowed(&self) -> f64 {
        SHARE * self.answered + self.always
    }
}

/// Listens and serves while it is there.
async fn run(
    first: std::net::TcpListener,
    state: Rc<impl Fn() -> State + 'static>,
    shared: Arc<Shared>,
    is_storm: bool,
) {
    let at = first.local_addr().unwrap();
    let mut listener = Some(first);
    loop {
        // Somebody else may have the port for a moment.
        let bound = listener
            .take()
            .map_or_else(|| std::net::TcpListener::bind(at), Ok);
        let Ok(bound) = bound else {
            sleep(LOOK).await;
            continue;
        };
        bound.set_nonblocking(true).unwrap();
        let bound = TcpListener::from_std(bound).unwrap();
        // Dropping them cuts every connection.
        let mut connections = JoinSet::new();
        while state() != State::Gone {
            while connections.try_join_next().is_some() {}
            tokio::select! {
                accepted = bound.accept() => {
                    let wire = Wire::of(accepted.unwrap().0);
                    let (state, shared) = (Rc::clone(&state), Arc::clone(&shared));
                    connections.spawn_local(serve(wire, state, shared, is_storm));
                }
                () = sleep(LOOK) => {}
            }
        }
        drop((bound, connections));
        while state() == State::Gone {
            sleep(LOOK).await;
        }
    }
}

async fn serve(wire: Wire, state: Rc<impl Fn() -> State>, shared: Arc<Shared>, is_storm: bool) {
    while let Some(head) = wire.head().await {
        if is_storm {
            let mut storm = shared.storm.lock().unwrap();
            let id = field(&head, "x-request-id").to_owned();
            let attempts = storm.attempts.entry(id).or_default();
            *attempts += 1;
            let attempts = *attempts;
            storm.most = storm.most.max(attempts);
        }
        if !wire.body(&head).await {
            return;
        }
        let echo = field(&head, "x-id");
        let (is_well, status) = match state() {
            State::Well => (true, "200 OK"),
            State::Failing | State::Gone => (false, "503 Busy"),
        };
        // Counted first: a retry that it pays for may arrive at once.
        shared.storm.lock().unwrap().answered += u64::from(is_storm && is_well);
        let answer = format!("HTTP/1.1 {status}\r\nx-echo: {echo}\r\ncontent-length: 2\r\n\r\nok");
        if !wire.send(answer.as_bytes()).await {
            return;
        }
    }
}
