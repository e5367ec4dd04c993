//! What the control plane says of itself: its figures, and each call as a duration and a span.
//!
//! Separate because it lies around every route, API and pages alike. It must never put a path, a
//! query or a caller's name into a series: a route's own pattern is all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use telemetry::names::attribute as a;
use telemetry::names::{Instrument, Label};
use telemetry::{
    Context, Distribution, Example, Family, Figure, Handle, Kind, Record, Source, Status, Text,
    Value,
};

use crate::clock;
use crate::metrics;
use crate::state::AppState;

/// Kinds of answers that are counted apart; all routes, methods and statuses there are fit in.
const SERIES_MAX: usize = 2_000;

/// The figures of a control plane.
#[derive(Debug)]
pub(crate) struct Observed {
    telemetry: Handle,
    state: AppState,
    durations: Mutex<BTreeMap<Call, Distribution>>,
}

/// One kind of call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    method: &'static str,
    /// `None`: no such page.
    route: Option<Arc<str>>,
    status: u16,
}

impl Observed {
    pub(crate) fn new(telemetry: Handle, state: &AppState) -> Arc<Self> {
        let observed = Arc::new(Self {
            telemetry,
            state: state.clone(),
            durations: Mutex::default(),
        });
        observed.telemetry.observe(&observed);
        observed
    }

    fn count(&self, call: Call, us: u64, example: Option<Example>) {
        let mut durations = self
            .durations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if durations.len() >= SERIES_MAX && !durations.contains_key(&call) {
            return;
        }
        let sum = durations.entry(call).or_default();
        sum.add(Some(us), 1);
        sum.sum_us = sum.sum_us.saturating_add(us);
        sum.example = example.or(sum.example);
    }
}

impl Source for Observed {
    fn scope(&self) -> &'static str {
        "bulkhead.control-plane"
    }

    fn families(&self) -> Vec<Family> {
        let mut families = metrics::families(&self.state);
        let mut calls = Family::new(Instrument::ServerDuration);
        let durations = self
            .durations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (call, sum) in &*durations {
            calls.push(labels(call), Figure::Durations(Box::new(sum.clone())));
        }
        families.push(calls);
        families
    }
}

fn labels(call: &Call) -> Vec<(Label, Text)> {
    let status = Text::from(call.status.to_string());
    let mut labels = vec![
        (Label::Method, Text::Fixed(call.method)),
        (Label::Scheme, Text::Fixed("http")),
        (Label::Status, status.clone()),
    ];
    labels.extend(
        call.route
            .clone()
            .map(|route| (Label::Route, Text::Shared(route))),
    );
    labels.extend((call.status >= 500).then_some((Label::ErrorType, status)));
    labels
}

/// Around every route of the dashboard's port but the gateways' stream.
pub(crate) async fn around(
    State(observed): State<Arc<Observed>>,
    request: Request,
    next: Next,
) -> Response {
    let method = method(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().into());
    let caller = request
        .headers()
        .get("traceparent")
        .map(|value| value.as_bytes().to_vec());
    let context = observed.telemetry.traces().map(|sampler| {
        Context::of(caller.as_deref(), sampler, || {
            getrandom::u64().unwrap_or_default()
        })
    });
    let (began, began_unix_ns) = (clock::now(), unix_ns());
    let answer = next.run(request).await;
    let us = us_since(began);
    let call = Call {
        method,
        route,
        status: answer.status().as_u16(),
    };
    let kept = context.filter(|context| context.sampled);
    let example = kept
        .filter(|_| observed.telemetry.takes_examples())
        .map(|context| Example {
            us,
            at_unix_ns: began_unix_ns,
            trace_id: context.trace_id,
            span_id: context.span_id,
        });
    if let Some(context) = kept {
        let ended_unix_ns = began_unix_ns.saturating_add(us.saturating_mul(1_000));
        observed
            .telemetry
            .push(span(&call, context, began_unix_ns, ended_unix_ns));
    }
    observed.count(call, us, example);
    answer
}

fn span(call: &Call, context: Context, began_unix_ns: u64, ended_unix_ns: u64) -> Record {
    let failed = call.status >= 500;
    let mut attributes = vec![
        (Text::from(a::METHOD), Value::from(call.method)),
        (Text::from(a::SCHEME), Value::from("http")),
        (Text::from(a::STATUS), Value::Whole(call.status.into())),
    ];
    let route = call
        .route
        .clone()
        .map(|route| (Text::from(a::ROUTE), Value::from(route)));
    attributes.extend(route);
    let kind = failed.then(|| (Text::from(a::ERROR_TYPE), call.status.to_string().into()));
    attributes.extend(kind);
    let name = match &call.route {
        Some(route) => Text::from(format!("{} {route}", call.method)),
        None => Text::Fixed(call.method),
    };
    Record {
        kind: Kind::Server,
        name,
        event: None,
        context: Some(context),
        trace_state: None,
        began_unix_ns,
        ended_unix_ns,
        status: if failed { Status::Error } else { Status::Unset },
        attributes,
    }
}

/// Out of a closed list: callers can make any up.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

fn us_since(began: Instant) -> u64 {
    let passed = clock::now().saturating_duration_since(began);
    u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
}

fn unix_ns() -> u64 {
    u64::try_from(clock::unix_ms())
        .unwrap_or_default()
        .saturating_mul(1_000_000)
}
