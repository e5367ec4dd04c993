//! The request path as the server side knows it.
//!
//! Separate so that the two sides meet in one small place. It must never decide anything.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap};
use http::{Request, Response, Version};
use hyper::body::Incoming;

use crate::app;
use crate::connection::{Connection, Protocol};
use crate::core::Core;
use crate::error::{Said, own_answer};
use crate::held_body::AnswerBody;
use crate::now::Now;
use crate::reason::Reason;
use crate::server::{Bounds, HeadFault, Serve, Tasks};

/// Serves the requests of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    core: Rc<Core>,
    /// Looks after what is idle as long as anybody serves.
    _house: Rc<Tasks>,
}

impl Service {
    /// Runs on the thread that `core` belongs to.
    pub(crate) fn new(core: Rc<Core>) -> Self {
        let house = Tasks::new("housekeeping");
        house.spawn(Rc::clone(&core).keep_house());
        house.spawn(Rc::clone(&core).rehearse());
        Self {
            core,
            _house: Rc::new(house),
        }
    }

    fn own(&self, reason: Reason, detail: &'static str) -> Response<Bytes> {
        let core = &self.core;
        core.outcomes().count(reason);
        let said = Said {
            reason,
            request_id: &core.request_id(core.now.read_us()),
            refuser: None,
            detail: Some(detail),
            proxy_status: None,
            random: core.ids.next(),
            version: Version::HTTP_11,
            grpc: false,
        };
        own_answer(&said, HeaderMap::new())
    }
}

impl Service {
    fn own_on(
        &self,
        connection: &Connection,
        reason: Reason,
        detail: &'static str,
    ) -> Response<AnswerBody> {
        let mut answer = self.own(reason, detail);
        if connection.protocol() == Protocol::Http2 {
            answer.headers_mut().remove(CONNECTION);
        }
        answer.map(|body| AnswerBody::Own(Some(body)))
    }
}

impl Serve for Service {
    type Body = AnswerBody;

    fn serve(
        self,
        connection: Rc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<AnswerBody>> + 'static {
        app::serve(self.core, connection, request)
    }

    fn leaves_request(body: &AnswerBody) -> bool {
        match body {
            AnswerBody::Own(_) => true,
            AnswerBody::Held(held) => {
                let pump = held.parts.as_ref().and_then(|parts| parts.pump.as_ref());
                pump.is_some_and(|pump| !pump.is_read())
            }
        }
    }

    fn ends_at_us(body: &AnswerBody) -> u64 {
        body.ends_at_us()
    }

    fn broken(&self, connection: &Connection) -> Response<AnswerBody> {
        self.own_on(
            connection,
            Reason::Internal,
            "the request was given up; it is logged",
        )
    }

    fn draining(&self, connection: &Connection) -> Response<AnswerBody> {
        let detail = "the gateway stops, and the time for requests in flight is over";
        self.own_on(connection, Reason::Draining, detail)
    }

    fn refuse(&self, _: &Connection, fault: HeadFault) -> Response<Bytes> {
        let (reason, detail) = match fault {
            HeadFault::Malformed => (Reason::BadRequest, "the head is not HTTP"),
            HeadFault::TargetTooLong => (Reason::UriTooLong, "the target is longer than allowed"),
            HeadFault::TooLarge => (Reason::HeaderTooLarge, "the head is larger than allowed"),
            HeadFault::Timeout => (Reason::RequestTimeout, "the head did not come to its end"),
        };
        self.own(reason, detail)
    }

    fn bounds(&self) -> Bounds {
        let snapshot = self.core.snapshot();
        let policy = snapshot.as_ref().map(|snapshot| &snapshot.policy.policy);
        policy.map_or_else(Bounds::before_any_policy, |policy| {
            Bounds::of(&policy.gateway.http)
        })
    }

    fn now(&self) -> Rc<Now> {
        Rc::clone(&self.core.now)
    }
}
