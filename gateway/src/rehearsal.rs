//! A fallback exercised on purpose, before anybody needs it.
//!
//! Separate because nobody is refused here: each step of a ladder is asked by itself, one after
//! the other, whatever the ones before it can do. It must never take a tenant's slot, count as an
//! answer that was needed, nor tell what is stored.

use std::rc::Rc;
use std::sync::Arc;

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT, VIA};
use http::{Method, Uri};
use tokio::sync::{Mutex, mpsc, oneshot};
use wire::stream::proto::RehearsedStep;

use crate::core::{Core, OnRoute};
use crate::error::REQUEST_ID;
use crate::fallback::{self, Kind, What};
use crate::live_policy::Live;
use crate::retry::Outgoing;

/// Marks what is sent by a rehearsal; of a client's own the fields of this family are removed.
const DRILL: HeaderName = HeaderName::from_static("x-bulkhead-drill");
/// Rehearsals that wait for a serving thread.
const JOBS_MAX: usize = 4;

/// One step that asks another upstream.
#[derive(Debug)]
pub(crate) struct Job {
    route: String,
    path: String,
    done: oneshot::Sender<RehearsedStep>,
}

/// What the serving threads take rehearsals from: whoever is free takes the next.
#[derive(Debug)]
pub(crate) struct Rehearsals {
    jobs: mpsc::Sender<Job>,
    next: Mutex<mpsc::Receiver<Job>>,
}

impl Default for Rehearsals {
    fn default() -> Self {
        let (jobs, next) = mpsc::channel(JOBS_MAX);
        Self {
            jobs,
            next: Mutex::new(next),
        }
    }
}

/// Asks every step of the route's fallback. `path`: a client's, or empty for the route's own.
/// The error says why there is nothing to ask.
pub(crate) async fn rehearse(
    live: &Arc<Live>,
    route: &str,
    path: &str,
    now_us: u64,
) -> Result<Vec<RehearsedStep>, String> {
    let current = live.current().ok_or("no policy is in force")?;
    let found = current.routes.iter().zip(&current.policy.routes);
    let mut found = found.filter(|(one, _)| one.id.as_str() == route);
    let (ready, asked) = found.next().ok_or("there is no such route here")?;
    if ready.fallback.steps.is_empty() {
        return Err("the route has no fallback".to_owned());
    }
    let path = match path {
        "" => asked.path.text().to_owned(),
        path => path.to_owned(),
    };
    let mut steps = Vec::new();
    for step in &ready.fallback.steps {
        let told = match &step.what {
            What::Stale { age_us_max, .. } => {
                let (live, route, age_us_max) = (Arc::clone(live), route.to_owned(), *age_us_max);
                let look = move || stored(&live, &route, age_us_max, now_us);
                let looked = tokio::task::spawn_blocking(look).await;
                looked.unwrap_or_else(|_| missed(Kind::Stale, "broken"))
            }
            What::Upstream(_) => ask_a_core(&live.rehearsals, route, &path).await,
            What::Static(fixed) => RehearsedStep {
                answers: true,
                status: fixed.answer(HeaderMap::new()).status().as_u16().into(),
                ..missed(Kind::Static, "")
            },
        };
        steps.push(told);
    }
    Ok(steps)
}

fn missed(kind: Kind, why: &str) -> RehearsedStep {
    RehearsedStep {
        kind: kind.as_str().to_owned(),
        why: why.to_owned(),
        ..RehearsedStep::default()
    }
}

/// How many answers could be given now, and how old the youngest is.
fn stored(live: &Live, route: &str, age_us_max: u64, now_us: u64) -> RehearsedStep {
    let (count, youngest_us) = live.stale.ready(route, age_us_max, now_us);
    let why = if count > 0 { "" } else { "nothing_stored" };
    RehearsedStep {
        answers: count > 0,
        stored: Some(u64::try_from(count).unwrap_or(u64::MAX)),
        age_ms: youngest_us.map(|age_us| age_us / 1_000),
        ..missed(Kind::Stale, why)
    }
}

async fn ask_a_core(rehearsals: &Rehearsals, route: &str, path: &str) -> RehearsedStep {
    let (done, told) = oneshot::channel();
    let job = Job {
        route: route.to_owned(),
        path: path.to_owned(),
        done,
    };
    if rehearsals.jobs.try_send(job).is_err() {
        return missed(Kind::Upstream, "too_many_rehearsals");
    }
    told.await
        .unwrap_or_else(|_| missed(Kind::Upstream, "stopped"))
}

impl Core {
    /// Takes rehearsals as long as the thread serves.
    pub(crate) async fn rehearse(self: Rc<Self>) {
        loop {
            let job = self.live.rehearsals.next.lock().await.recv().await;
            let Some(job) = job else { return };
            let told = self.one(&job.route, &job.path).await;
            // Whoever asked may have left.
            let _left = job.done.send(told);
        }
    }

    async fn one(self: &Rc<Self>, route: &str, path: &str) -> RehearsedStep {
        let lane = self.snapshot().and_then(|snapshot| {
            let routes = &snapshot.policy.routes;
            let index = routes.iter().position(|one| one.id.as_str() == route)?;
            let own = OnRoute(self.lane(&snapshot, index)?);
            own.for_fallback().map(|other| (own, other))
        });
        let Some((own, other)) = lane else {
            return missed(Kind::Upstream, "no_such_step");
        };
        let Some(outgoing) = self.marked(&own, &other, path) else {
            return missed(Kind::Upstream, "no_such_path");
        };
        let began_us = self.now.read_us();
        let asked = fallback::rehearse(self, &other, outgoing).await;
        let took_us = self.now.read_us().saturating_sub(began_us);
        match asked {
            Ok(status) => RehearsedStep {
                answers: true,
                status: status.as_u16().into(),
                took_us,
                ..missed(Kind::Upstream, "")
            },
            Err(miss) => RehearsedStep {
                took_us,
                ..missed(Kind::Upstream, miss.as_str())
            },
        }
    }

    /// A request of our own, which says so. `path` is a client's; what the route rewrites holds
    /// for it as for the requests that it stands for.
    fn marked(&self, own: &OnRoute, other: &OnRoute, path: &str) -> Option<Outgoing> {
        let mut uri: Uri = path.parse().ok()?;
        let is_path = uri.authority().is_none() && uri.path().starts_with('/');
        let endpoint = other.0.route.endpoints.first().filter(|_| is_path)?;
        let host = endpoint.endpoint.authority();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::try_from(host).ok()?);
        headers.insert(USER_AGENT, HeaderValue::from_static("bulkhead-drill"));
        headers.insert(DRILL, HeaderValue::from_static("fallback"));
        let request_id = self.request_id(self.now.last_us());
        headers.insert(REQUEST_ID, request_id.header());
        headers.insert(VIA, self.live.via.of(http::Version::HTTP_11));
        if let Some(fields) = &own.0.route.fields {
            if !fields.keeps_path() {
                uri = fields.target(uri.path(), &uri)?;
            }
            fields.to_upstream(&mut headers);
        }
        Some(Outgoing {
            method: Method::GET,
            uri,
            headers,
            reads_trailers: false,
        })
    }
}
