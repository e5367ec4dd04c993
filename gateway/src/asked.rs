//! What a request asks for, and who asks.
//!
//! Separate because all of it is decided from the head, on one snapshot, before anything is
//! taken: the route, the caller, the form in which the request will be sent. It must never await,
//! and it holds no slot.

use std::rc::Rc;

use http::Uri;
use http::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http_body::Body;
use hyper::body::Incoming;

use crate::core::{OnRoute, Snapshot};
use crate::framing::Framing;
use crate::head::{self, Halt, Head};
use crate::headers::{self, Sender};
use crate::held_body::Bounds;
use crate::reason::Reason;
use crate::request_body::Pump;
use crate::retry::Outgoing;
use crate::streams::{self, Asks};
use crate::target;
use crate::tenant::{Marks, NotLetIn};
use crate::upstream;
use crate::visit::{Early, Stop, Visit};
use crate::waiting::Patience;

/// What to do about a policy without routes.
const FIRST_STEPS: &str = "the policy has no routes: put one in force with bulkhead apply -f FILE";

/// A request that may be admitted.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) lane: OnRoute,
    /// Until the head goes out.
    snapshot: Rc<Snapshot>,
    /// The target in canonical form, if the client's is not.
    /// Boxed, as it is rare and the request's future is moved about.
    rewritten: Option<Box<Uri>>,
    framing: Framing,
    pub(crate) asks: Asks,
    /// The caller's own remaining time when it came.
    deadline_us: Option<u64>,
}

/// Reads the head, finds the route, then the caller.
pub(crate) fn identify(
    visit: &mut Visit,
    snapshot: &Rc<Snapshot>,
    parts: &Parts,
) -> Result<Asked, Early> {
    let policy = &*snapshot.policy;
    // Doubt comes first: what can be read in two ways must not choose a route.
    let head = head::read(parts, &policy.policy.gateway.http).map_err(|halt| match halt {
        Halt::Options => Early::Options,
        Halt::Refused(reason, detail) => Early::Stop(Stop::with(reason, detail)),
    })?;
    if visit.core.live.via.is_in(&parts.headers) {
        return Err(Stop::from(Reason::Loop).into());
    }
    let (lane, asks) = route(visit, snapshot, parts, &head)?;
    // A body that is too large by its own word keeps nobody waiting.
    if matches!(head.framing, Framing::Length(bytes) if bytes > lane.0.route.body_bytes_max) {
        return Err(Stop::from(Reason::BodyTooLarge).into());
    }
    let marks = Marks {
        headers: &parts.headers,
        host: head.host.as_deref(),
        path: &head.path,
        peer: visit.connection.peer().ip(),
        unix_s: crate::clock::unix_s,
    };
    visit.who = policy.tenants.find(marks).map_err(|why| match why {
        NotLetIn::Unknown => Stop::from(Reason::TenantUnknown),
        NotLetIn::Suspended => Stop::from(Reason::TenantSuspended),
        NotLetIn::Ambiguous => {
            Stop::with(Reason::BadRequest, "the identity can be read in two ways")
        }
    })?;
    // A stream holds a slot of the route's streams, and none of the route's own.
    let lane = match asks {
        Asks::Call => lane,
        Asks::Stream | Asks::Switch => lane.for_streams(visit.who).unwrap_or(lane),
    };
    visit.lane = Some(lane.clone());
    visit.goes(&lane);
    let rewritten = rewritten(&lane, parts, &head)?;
    let header = lane.0.route.deadline_header.as_ref();
    let deadline_us = head::deadline_us(&parts.headers, header);
    Ok(Asked {
        lane,
        snapshot: Rc::clone(snapshot),
        rewritten: rewritten.map(Box::new),
        framing: head.framing,
        asks,
        deadline_us,
    })
}

/// The target as the upstream gets it, where that is not as it came.
fn rewritten(lane: &OnRoute, parts: &Parts, head: &Head<'_>) -> Result<Option<Uri>, Stop> {
    let fields = lane.0.route.fields.as_ref();
    if let Some(fields) = fields.filter(|fields| !fields.keeps_path()) {
        let stripped = fields.target(&head.path, &parts.uri);
        let doubt = "the path cannot be rewritten";
        return stripped
            .map(Some)
            .ok_or(Stop::with(Reason::BadRequest, doubt));
    }
    target::origin_form(&parts.uri, &head.path)
        .map_err(|doubt| Stop::with(Reason::BadRequest, doubt.text()))
}

fn route(
    visit: &mut Visit,
    snapshot: &Snapshot,
    parts: &Parts,
    head: &Head<'_>,
) -> Result<(OnRoute, Asks), Stop> {
    let policy = &*snapshot.policy;
    let found = policy
        .table
        .find(head.host.as_deref(), &head.path, parts.method.as_str());
    let Some(lane) = found.and_then(|index| visit.core.lane(snapshot, index)) else {
        let detail = policy.routes.is_empty().then_some(FIRST_STEPS);
        return Err(Stop {
            detail,
            ..Stop::from(Reason::NoRoute)
        });
    };
    let lane = OnRoute(lane);
    let asks = streams::asked(parts, head.framing, &lane.0.route);
    visit.lane = Some(lane.clone());
    visit.goes(&lane);
    Ok((lane, asks))
}

impl Asked {
    /// The most that the client may send. What a gRPC stream says over hours is no body that
    /// anybody keeps: its age bounds it.
    fn body_bytes_max(&self, visit: &Visit) -> u64 {
        match self.lane.stream_terms() {
            Some(terms) if terms.grpc && visit.grpc => u64::MAX,
            Some(_) | None => self.lane.0.route.body_bytes_max,
        }
    }

    /// HTTP/2 may say that a request was not looked at: then it is sent anew. Or elsewhere, by a
    /// step of the fallback.
    fn may_be_sent_again(&self) -> bool {
        let route = &self.lane.0.route;
        route.http2 || route.fallback.other().is_some()
    }

    /// What reads the client's body, if there is one.
    pub(crate) fn pump(
        &self,
        visit: &Visit,
        body: &mut Option<Incoming>,
        may_repeat: bool,
    ) -> Option<Rc<Pump>> {
        let keep = may_repeat || self.may_be_sent_again();
        let body = body.take().filter(|body| !body.is_end_stream());
        body.map(|body| Pump::new(body, self.body_bytes_max(visit), keep))
    }

    /// How long this request may wait in line.
    pub(crate) fn patience(&self, visit: &Visit) -> Patience {
        let route = &self.lane.0.route;
        Patience {
            arrived_us: visit.arrived_us,
            queue_wait_us: route.queue_wait_us,
            total_us: route.total_us,
        }
    }

    /// When the caller's time is over: its own deadline, or the route's bound on an exchange.
    pub(crate) fn until_us(&self, visit: &Visit) -> u64 {
        let deadline_us = self.deadline_us.unwrap_or(u64::MAX);
        // A stream has its age instead of the route's bound.
        let total_us = match self.lane.stream_terms() {
            Some(_) => u64::MAX,
            None => self.lane.0.route.total_us,
        };
        visit.arrived_us.saturating_add(deadline_us.min(total_us))
    }

    /// The caller gives less time than the route would.
    pub(crate) fn is_hurried(&self) -> bool {
        let own_us = self.deadline_us.unwrap_or(u64::MAX);
        own_us < self.lane.0.route.total_us
    }

    /// When the exchange ends at the latest, for permits taken now.
    pub(crate) fn bounds(&self, visit: &Visit) -> Bounds {
        let route = &self.lane.0.route;
        let now_us = visit.core.now.last_us();
        let calls = Bounds {
            total_at_us: self.until_us(visit),
            hold_at_us: now_us.saturating_add(route.hold_us),
            body_idle_us: route.body_idle_us,
            of_stream: false,
        };
        match self.lane.stream_terms() {
            // The caller's own deadline holds for a stream too.
            Some(terms) => Bounds {
                total_at_us: calls.total_at_us,
                ..calls.of_stream(terms, now_us)
            },
            None => calls,
        }
    }

    /// The head as the upstream gets it.
    pub(crate) fn outgoing(
        &mut self,
        visit: &Visit,
        parts: &mut Parts,
        has_body: bool,
    ) -> Outgoing {
        let method = std::mem::take(&mut parts.method);
        let uri = std::mem::take(&mut parts.uri);
        let mut headers = std::mem::take(&mut parts.headers);
        let peer = visit.core.peer_text(visit.connection.peer().ip());
        let sender = Sender {
            peer: &peer,
            trusted: visit.trusted,
            via: visit.core.live.via.of(visit.version),
            tenant: self.lane.0.people.name(visit.who),
            identity: self.snapshot.policy.tenants.fields(),
            request_id: &visit.request_id,
            trace: visit.trail.as_ref().and_then(|trail| trail.context),
            propagates: visit.core.tell.telemetry.propagates(),
        };
        // HTTP/2 names its host in the target, HTTP/1.0 perhaps nowhere.
        if !headers.contains_key(HOST) {
            headers.extend(self.host(&uri).map(|host| (HOST, host)));
        }
        head::count_forward(&method, &mut headers);
        let reads_trailers = self.may_be_sent_again() && headers::accepts_trailers(&headers);
        headers::to_upstream(&mut headers, &sender, &visit.core.ids);
        let tenants = &self.snapshot.policy.tenants;
        tenants.drop_others(&mut headers, sender.tenant);
        if let Some(fields) = &self.lane.0.route.fields {
            fields.to_upstream(&mut headers);
        }
        if reads_trailers && self.lane.0.route.http2 {
            upstream::accept_trailers(&mut headers);
        }
        if has_body && !matches!(self.framing, Framing::Length(_)) {
            // Without it hyper would send a GET without its body.
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if self.asks == Asks::Switch {
            headers::switch_to_websocket(&mut headers);
        }
        Outgoing {
            method,
            uri: self.rewritten.take().map_or(uri, |rewritten| *rewritten),
            headers,
            reads_trailers,
        }
    }

    fn host(&self, sent: &Uri) -> Option<HeaderValue> {
        if let Some(authority) = sent.authority() {
            return HeaderValue::from_str(authority.as_str()).ok();
        }
        let first = self.lane.0.route.endpoints.first()?;
        HeaderValue::try_from(first.endpoint.authority()).ok()
    }
}
