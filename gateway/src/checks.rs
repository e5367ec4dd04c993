//! Asks endpoints whether they are well, where a policy says so.
//!
//! Separate from the traffic: with connections of its own, on the background thread, and no
//! compartment counts it. It must never have more checks under way than its bound, nor outlive
//! the policy that asks for them.

use std::future::pending;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::clock::Clock;
use crate::dependencies::CheckTerms;
use crate::ids::Ids;
use crate::live_policy::Live;
use crate::resolve::Resolver;
use crate::upstream::{Dialler, NoConnection, Target};

/// Checks of one process at one time; more wait for their turn.
const CHECKS_AT_ONCE_MAX: usize = 64;
/// Longest time for a check, whatever its interval.
const CHECK_MAX: Duration = Duration::from_secs(5);
/// How soon a new policy is followed.
const FOLLOW_PERIOD: Duration = Duration::from_millis(200);

/// What the checks need.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) live: Arc<Live>,
    pub(crate) clock: Clock,
    /// The listeners of this process.
    pub(crate) own: Vec<SocketAddr>,
}

/// One endpoint that is checked. Dropping it ends that.
struct Checked {
    target: Arc<Target>,
    terms: CheckTerms,
    task: AbortHandle,
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.task.abort();
        self.target.standing.unchecked();
    }
}

/// Why a check did not bring a good answer.
#[derive(Debug, thiserror::Error)]
enum Bad {
    #[error(transparent)]
    Dial(#[from] NoConnection),
    #[error("no answer: {0}")]
    Http1(#[from] hyper::Error),
    #[error("no answer: {0}")]
    Http2(#[from] h2::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("no answer in time")]
    Late,
    #[error("the request cannot be written")]
    Request,
}

/// What all checks share.
struct Checker {
    dialler: Rc<Dialler>,
    turns: Semaphore,
    ids: Ids,
}

impl Checks {
    /// Follows the policy for ever.
    pub(crate) async fn keep(self) {
        let Self { live, clock, own } = self;
        let dialler = Rc::new(Dialler::new(Resolver::new(clock), clock, own));
        let checker = Rc::new(Checker {
            dialler,
            turns: Semaphore::new(CHECKS_AT_ONCE_MAX),
            ids: Ids::random(),
        });
        let follow = async {
            let mut tasks = JoinSet::new();
            let (mut all, mut version) = (Vec::new(), None);
            loop {
                let now = live.version();
                if version.replace(now) != Some(now) {
                    let wanted = live.dependencies.checked();
                    all = renew(all, wanted, &checker, &mut tasks);
                }
                while tasks.try_join_next().is_some() {}
                sleep(FOLLOW_PERIOD).await;
            }
        };
        LocalSet::new().run_until(follow).await
    }
}

/// Those that stay go on; those that are new begin.
fn renew(
    mut all: Vec<Checked>,
    wanted: Vec<(Arc<Target>, CheckTerms)>,
    checker: &Rc<Checker>,
    tasks: &mut JoinSet<()>,
) -> Vec<Checked> {
    let mut renewed = Vec::with_capacity(wanted.len());
    for (target, terms) in wanted {
        let same = |one: &Checked| Arc::ptr_eq(&one.target, &target) && one.terms == terms;
        let checked = match all.iter().position(same) {
            Some(index) => all.swap_remove(index),
            None => {
                let run = Rc::clone(checker).run(Arc::clone(&target), terms.clone());
                let task = tasks.spawn_local(run);
                Checked {
                    target,
                    terms,
                    task,
                }
            }
        };
        renewed.push(checked);
    }
    renewed
}

impl Checker {
    async fn run(self: Rc<Self>, target: Arc<Target>, terms: CheckTerms) {
        // Not all of them in one instant, now or later.
        let whole_us = crate::clock::whole_us(terms.interval);
        let mut pause_us = self.ids.next() % whole_us.max(1);
        loop {
            sleep(Duration::from_micros(pause_us)).await;
            // Never closed; if it were, there would just be no bound.
            let turn = self.turns.acquire().await;
            let longest = terms.interval.min(CHECK_MAX);
            let checked = timeout(longest, self.check(&target, &terms, longest)).await;
            drop(turn);
            let bad = checked.unwrap_or(Err(Bad::Late)).err();
            target.note_check(
                self.dialler.clock().now_us(),
                bad.as_ref().map(Bad::to_string),
            );
            if target.standing.checked(bad.is_none()) {
                told(&target, bad.as_ref());
            }
            // A tenth of the interval sooner or later.
            pause_us = whole_us - whole_us / 10 + self.ids.next() % (whole_us / 5).max(1);
        }
    }

    async fn check(
        &self,
        target: &Arc<Target>,
        terms: &CheckTerms,
        longest: Duration,
    ) -> Result<(), Bad> {
        let status = match terms.http2 {
            false => self.over_http1(target, terms, longest).await?,
            true => self.over_http2(target, terms, longest).await?,
        };
        match status.is_success() {
            true => Ok(()),
            false => Err(Bad::Status(status)),
        }
    }

    async fn over_http1(
        &self,
        target: &Arc<Target>,
        terms: &CheckTerms,
        longest: Duration,
    ) -> Result<StatusCode, Bad> {
        let begin = |socket| http1::handshake(TokioIo::new(socket));
        let (mut sender, connection) = self.dialler.dial(target, longest, begin).await?;
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = Uri::try_from(&terms.path).map_err(|_| Bad::Request)?;
        let host = HeaderValue::try_from(target.endpoint.authority()).map_err(|_| Bad::Request)?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(USER_AGENT, AGENT);
        let driven = async {
            // What went wrong is told by the request.
            drop(connection.await);
            pending().await
        };
        tokio::select! {
            answer = sender.send_request(request) => Ok(answer?.status()),
            never = driven => never,
        }
    }

    async fn over_http2(
        &self,
        target: &Arc<Target>,
        terms: &CheckTerms,
        longest: Duration,
    ) -> Result<StatusCode, Bad> {
        let dialled = self
            .dialler
            .dial(target, longest, h2::client::handshake)
            .await?;
        let (mut sender, connection) = dialled;
        let scheme = if target.secure.is_some() {
            "https"
        } else {
            "http"
        };
        let uri = format!("{scheme}://{}{}", target.endpoint.authority(), terms.path);
        let mut request = Request::new(());
        *request.uri_mut() = Uri::try_from(uri).map_err(|_| Bad::Request)?;
        request.headers_mut().insert(USER_AGENT, AGENT);
        let (answer, _) = sender.send_request(request, true)?;
        let driven = async {
            drop(connection.await);
            pending().await
        };
        tokio::select! {
            answer = answer => Ok(answer?.status()),
            never = driven => never,
        }
    }
}

fn told(target: &Target, bad: Option<&Bad>) {
    let endpoint = &target.endpoint;
    match bad {
        None => tracing::info!(%endpoint, "an endpoint is well again"),
        Some(why) => tracing::warn!(%endpoint, %why, "an endpoint is not well"),
    }
}

const AGENT: HeaderValue = HeaderValue::from_static("bulkhead-health");
