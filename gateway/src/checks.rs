//! Asks endpoints whether they are well, where a policy says so.
//!
//! Separate from the traffic: with connections of its own, on the background thread, and no
//! compartment counts it. It must never have more checks of one upstream under way than its bound,
//! or let one upstream keep another's waiting, nor outlive the policy that asks for them.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use compartment::Name;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::clock::Clock;
use crate::dependencies::{CheckTerms, Dependency};
use crate::ids::Ids;
use crate::live_policy::Live;
use crate::resolve::Resolver;
use crate::upstream::{Dialler, NoConnection, Target};

/// Checks of one upstream at one time; more wait for their turn.
const CHECKS_AT_ONCE_MAX: usize = 8;
/// Checks of the process at one time, each with a connection of its own.
const CHECKS_MAX: usize = 256;
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

/// One endpoint that is checked. Dropping it ends that, and nothing is forgotten.
struct Checked {
    target: Arc<Target>,
    terms: CheckTerms,
    task: AbortHandle,
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is checked of one upstream.
struct OfUpstream {
    /// Its own: checks that an upstream does not answer keep none of another's waiting.
    turns: Rc<Semaphore>,
    /// By the address of the target, which lives as long as what is here.
    endpoints: HashMap<*const Target, Checked>,
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
    ids: Ids,
    places: Semaphore,
}

/// All that is checked, by upstream.
struct Round {
    checker: Rc<Checker>,
    upstreams: HashMap<Name, OfUpstream>,
    tasks: JoinSet<()>,
}

impl Checks {
    /// Follows the policy for ever.
    pub(crate) async fn keep(self) {
        let Self { live, clock, own } = self;
        let mut round = Round::new(clock, own);
        let follow = async {
            let mut version = None;
            loop {
                let now = live.version();
                if version.replace(now) != Some(now) {
                    round.renew(live.dependencies.checked());
                }
                while round.tasks.try_join_next().is_some() {}
                sleep(FOLLOW_PERIOD).await;
            }
        };
        LocalSet::new().run_until(follow).await
    }
}

impl Round {
    fn new(clock: Clock, own: Vec<SocketAddr>) -> Self {
        let dialler = Rc::new(Dialler::new(Resolver::new(clock), clock, own));
        Self {
            checker: Rc::new(Checker {
                dialler,
                ids: Ids::random(),
                places: Semaphore::new(CHECKS_MAX),
            }),
            upstreams: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Those that stay go on, by other terms too; those that are new begin.
    fn renew(&mut self, wanted: Vec<(Name, CheckTerms, Arc<Dependency>)>) {
        let mut before = std::mem::take(&mut self.upstreams);
        for (name, terms, dependency) in wanted {
            let known = before.get_mut(&name);
            let turns = known.as_ref().map(|known| Rc::clone(&known.turns));
            let turns = turns.unwrap_or_else(|| Rc::new(Semaphore::new(CHECKS_AT_ONCE_MAX)));
            let mut endpoints = known.map(|known| std::mem::take(&mut known.endpoints));
            let mut renewed = HashMap::with_capacity(dependency.targets.len());
            for target in &dependency.targets {
                let at = Arc::as_ptr(target);
                let same = endpoints.as_mut().and_then(|known| known.remove(&at));
                let same = same.filter(|one| one.terms == terms);
                let checked = same.unwrap_or_else(|| self.begin(target, &terms, &turns));
                renewed.insert(at, checked);
            }
            forget(endpoints.unwrap_or_default());
            let of_upstream = OfUpstream {
                turns,
                endpoints: renewed,
            };
            self.upstreams.insert(name, of_upstream);
        }
        for gone in before.into_values() {
            forget(gone.endpoints);
        }
    }

    fn begin(
        &mut self,
        target: &Arc<Target>,
        terms: &CheckTerms,
        turns: &Rc<Semaphore>,
    ) -> Checked {
        let checker = Rc::clone(&self.checker);
        let run = checker.run(Arc::clone(target), terms.clone(), Rc::clone(turns));
        Checked {
            target: Arc::clone(target),
            terms: terms.clone(),
            task: self.tasks.spawn_local(run),
        }
    }
}

/// Nobody checks them any more: what their checks said holds no longer.
fn forget(endpoints: HashMap<*const Target, Checked>) {
    for checked in endpoints.into_values() {
        checked.target.standing.unchecked();
    }
}

impl Checker {
    async fn run(self: Rc<Self>, target: Arc<Target>, terms: CheckTerms, turns: Rc<Semaphore>) {
        // Not all of them in one instant, now or later.
        let whole_us = crate::clock::whole_us(terms.interval);
        let mut pause_us = self.ids.next() % whole_us.max(1);
        loop {
            sleep(Duration::from_micros(pause_us)).await;
            // Never closed; if it were, there would just be no bound.
            let turn = turns.acquire().await;
            // Second, so that an upstream waits for a place with no more than its turns.
            let place = self.places.acquire().await;
            let longest = terms.interval.min(CHECK_MAX);
            let checked = timeout(longest, self.check(&target, &terms, longest)).await;
            drop((place, turn));
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

#[cfg(test)]
mod tests {
    use compartment::policy::{Health, Policy};

    use super::*;
    use crate::dependencies::Dependencies;
    use crate::testing::{policy, route};

    /// Upstreams of these names, of which nobody answers.
    fn checked(names: &[&str], interval: Duration) -> Policy {
        let mut policy = policy(&[route("a", "/a")]);
        let mut one = policy.upstreams.remove(0);
        one.health = Some(Health {
            path: "/".to_owned(),
            interval,
        });
        for name in names {
            one.id = Name::new(name).unwrap();
            policy.upstreams.push(one.clone());
        }
        policy
    }

    fn renew(round: &mut Round, dependencies: &Dependencies, policy: &Policy) -> Vec<Arc<Target>> {
        let prepared = dependencies.prepare(policy).unwrap();
        dependencies.keep(policy, &prepared);
        round.renew(dependencies.checked());
        let all = dependencies.all().into_iter();
        all.flat_map(|(_, one)| one.targets.clone()).collect()
    }

    fn run(test: impl AsyncFnOnce(Round, Dependencies)) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let round = Round::new(Clock::start(), Vec::new());
        let all = LocalSet::new();
        runtime.block_on(all.run_until(test(round, Dependencies::default())));
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn other_terms_forget_nothing_and_none_forget_all() {
        run(async |mut round, dependencies| {
            let targets = renew(&mut round, &dependencies, &checked(&["u"], HOUR));
            let standing = &targets[0].standing;
            assert!((0..3).any(|_| standing.checked(false)) && standing.is_out(0));
            let same = renew(&mut round, &dependencies, &checked(&["u"], HOUR));
            assert!(Arc::ptr_eq(&same[0], &targets[0]) && round.tasks.len() == 1);
            renew(&mut round, &dependencies, &checked(&["u"], 2 * HOUR));
            assert!(
                standing.is_out(0),
                "how often it is asked says nothing of how it is"
            );
            // The one before ends, and another has begun.
            while round.tasks.len() > 1 {
                drop(round.tasks.join_next().await);
            }
            let mut unchecked = checked(&["u"], HOUR);
            unchecked.upstreams[0].health = None;
            renew(&mut round, &dependencies, &unchecked);
            assert!(!standing.is_out(0));
            while round.tasks.join_next().await.is_some() {}
        });
    }

    #[test]
    fn an_upstream_whose_checks_take_long_keeps_no_other_waiting() {
        run(async |mut round, dependencies| {
            let often = checked(&["calm", "slow"], Duration::from_millis(5));
            let targets = renew(&mut round, &dependencies, &often);
            let [calm, slow] = &targets[..] else { panic!() };
            let turns = Rc::clone(&round.upstreams[&Name::new("slow").unwrap()].turns);
            // Before its first check: all of its turns are taken, and stay so.
            let taken = turns.try_acquire_many(u32::try_from(CHECKS_AT_ONCE_MAX).unwrap());
            let (began, mut last) = (Clock::start(), None);
            let mut seen = 0;
            while seen < 5 {
                assert!(began.now_us() < 10_000_000, "{seen} checks in time");
                sleep(Duration::from_millis(1)).await;
                let now = calm.last_check().map(|check| check.at_us);
                seen += u32::from(now != last);
                last = now;
            }
            assert!(slow.last_check().is_none());
            // By new terms too it waits for its own turn.
            renew(&mut round, &dependencies, &checked(&["calm", "slow"], HOUR));
            let same = &round.upstreams[&Name::new("slow").unwrap()].turns;
            assert!(Rc::ptr_eq(same, &turns));
            drop(taken);
        });
    }
}
