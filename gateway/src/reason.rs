//! The closed list of ways in which a request does not get its upstream's answer, whole.
//!
//! Separate because status, fallback, metric and log all match it, without a wildcard: a new
//! reason does not compile until each of them knows it. It must never hold text of a caller's.

use compartment::Rejection;
use http::StatusCode;

/// Whose doing it was: ours (a limit, draining), the dependency's, or the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A limit of ours refused it.
    Rejected(Rejection),
    /// No policy is live yet: nothing is known, so nothing is let through.
    NoPolicy,
    /// Shutting down.
    Draining,
    /// No answer head within the attempt's time.
    AttemptTimeout,
    /// The whole exchange took too long.
    TotalTimeout,
    /// The permits were held too long.
    MaxHold,
    /// No connection to the dependency.
    UpstreamConnect,
    /// The dependency closed before or within its answer.
    UpstreamReset,
    /// The dependency's answer cannot be read without doubt.
    UpstreamProtocol,
    /// Nobody knows the caller.
    TenantUnknown,
    /// The caller is shut out.
    TenantSuspended,
    /// No route takes the request.
    NoRoute,
    /// The request cannot be read without doubt.
    BadRequest,
    /// The target is too long.
    UriTooLong,
    /// The head is too large.
    HeaderTooLarge,
    /// The body is too large.
    BodyTooLarge,
    /// The client did not send its request in time.
    RequestTimeout,
    /// The client left. Only counted.
    ClientGone,
    /// The client did not read. Only counted.
    SlowClient,
    /// Nothing passed on a stream for too long. Only counted.
    StreamIdle,
    /// A stream was as old as one may be. Only counted.
    StreamAge,
    /// It has passed this process before.
    Loop,
    /// A defect of ours.
    Internal,
}

/// What is fixed about a reason.
#[derive(Debug)]
pub(crate) struct Form {
    /// In answers, metrics and logs.
    pub(crate) name: &'static str,
    pub(crate) status: StatusCode,
    /// RFC 9209.
    pub(crate) proxy_status: &'static str,
    /// How the document of RFC 9457 begins.
    pub(crate) document: &'static str,
}

macro_rules! forms {
    ($($form:ident $name:literal $status:literal $error:literal $title:literal)*) => {$(
        static $form: Form = Form {
            name: $name,
            status: match StatusCode::from_u16($status) {
                Ok(status) => status,
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
            },
            proxy_status: concat!("bulkhead; error=", $error, "; details=\"", $name, "\""),
            document: concat!(
                r#"{"type":"urn:bulkhead:reason:"#, $name, r#"","title":""#, $title,
                r#"","status":"#, $status, r#","reason":""#, $name, "\"",
            ),
        };
    )*};
}

// `http_request_denied` is the word of RFC 9209 for a refusal by the proxy's own settings.
forms! {
    TENANT_FULL "tenant_full" 429 "http_request_denied" "Your slots are used up"
    TENANT_ROUTE_FULL "tenant_route_full" 429 "http_request_denied" "Your slots here are used up"
    TENANT_SHARE "tenant_share" 429 "http_request_denied" "Your share of this route is used up"
    ROUTE_FULL "route_full" 503 "http_request_denied" "The route is full"
    CLASS_RESERVE "class_reserve" 503 "http_request_denied" "The last slots are kept for others"
    STREAM_FULL "stream_full" 503 "http_request_denied" "The slots for streams are taken"
    UPSTREAM_FULL "upstream_full" 503 "http_request_denied" "The dependency is full"
    GATEWAY_FULL "gateway_full" 503 "http_request_denied" "The gateway is full"
    SPARE_EXHAUSTED "spare_exhausted" 503 "http_request_denied" "No spare slot is left"
    QUEUE_FULL "queue_full" 503 "http_request_denied" "No place to wait is left"
    QUEUE_TIMEOUT "queue_timeout" 503 "http_request_denied" "No slot became free in time"
    DEADLINE_TOO_SHORT "deadline_too_short" 503 "http_request_denied" "Too little time to wait"
    BREAKER_OPEN "breaker_open" 503 "http_request_denied" "The dependency is not well"
    CLOSED "closed" 503 "http_request_denied" "The route is closed"
    NO_POLICY "no_policy" 503 "proxy_configuration_error" "No policy is live yet"
    DRAINING "draining" 503 "http_request_denied" "Shutting down"
    ATTEMPT_TIMEOUT "attempt_timeout" 504 "http_response_timeout" "The dependency took too long"
    TOTAL_TIMEOUT "total_timeout" 504 "http_response_timeout" "The exchange took too long"
    MAX_HOLD "max_hold" 504 "http_response_timeout" "The permits were held too long"
    UPSTREAM_CONNECT "upstream_connect" 502 "connection_refused" "The dependency cannot be reached"
    UPSTREAM_RESET "upstream_reset" 502 "connection_terminated" "The dependency closed too early"
    UPSTREAM_PROTOCOL "upstream_protocol" 502 "http_protocol_error" "The answer cannot be read"
    TENANT_UNKNOWN "tenant_unknown" 401 "http_request_denied" "Unknown caller"
    TENANT_SUSPENDED "tenant_suspended" 403 "http_request_denied" "Suspended caller"
    NO_ROUTE "no_route" 404 "destination_not_found" "No route takes this request"
    BAD_REQUEST "bad_request" 400 "http_request_error" "The request cannot be read without doubt"
    URI_TOO_LONG "uri_too_long" 414 "http_request_error" "The target is too long"
    HEADER_TOO_LARGE "header_too_large" 431 "http_request_error" "The head is too large"
    BODY_TOO_LARGE "body_too_large" 413 "http_request_error" "The body is too large"
    REQUEST_TIMEOUT "request_timeout" 408 "http_request_error" "The request came too slowly"
    CLIENT_GONE "client_gone" 400 "http_request_error" "The client left"
    SLOW_CLIENT "slow_client" 408 "http_request_error" "The client does not read"
    STREAM_IDLE "stream_idle" 503 "connection_timeout" "Nothing passed for too long"
    STREAM_AGE "stream_age" 503 "connection_timeout" "The stream came to its longest age"
    LOOP "loop_detected" 508 "proxy_loop_detected" "The request goes in a circle"
    INTERNAL "internal" 500 "proxy_internal_error" "A defect of the gateway"
}

impl Reason {
    /// How many reasons there are beside the rejections.
    pub(crate) const COUNT: usize = Self::OWN.len();

    const OWN: [Self; 22] = [
        Self::NoPolicy,
        Self::Draining,
        Self::AttemptTimeout,
        Self::TotalTimeout,
        Self::MaxHold,
        Self::UpstreamConnect,
        Self::UpstreamReset,
        Self::UpstreamProtocol,
        Self::TenantUnknown,
        Self::TenantSuspended,
        Self::NoRoute,
        Self::BadRequest,
        Self::UriTooLong,
        Self::HeaderTooLarge,
        Self::BodyTooLarge,
        Self::RequestTimeout,
        Self::ClientGone,
        Self::SlowClient,
        Self::StreamIdle,
        Self::StreamAge,
        Self::Loop,
        Self::Internal,
    ];

    /// Every reason beside the rejections, which their compartments count.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::OWN.into_iter()
    }

    /// Place in [`Reason::all`]; beyond its end for a rejection.
    pub(crate) fn index(self) -> usize {
        Self::OWN
            .iter()
            .position(|&own| own == self)
            .unwrap_or(Self::COUNT)
    }

    /// The name in answers, metrics and logs.
    pub(crate) fn as_str(self) -> &'static str {
        self.form().name
    }

    /// The fallback stands in for what our own limits and times cut off. A failure of the
    /// dependency and a fault of the request keep their own face.
    pub(crate) const fn takes_fallback(self) -> bool {
        match self {
            Self::Rejected(_) | Self::AttemptTimeout | Self::TotalTimeout | Self::MaxHold => true,
            Self::NoPolicy
            | Self::Draining
            | Self::UpstreamConnect
            | Self::UpstreamReset
            | Self::UpstreamProtocol
            | Self::TenantUnknown
            | Self::TenantSuspended
            | Self::NoRoute
            | Self::BadRequest
            | Self::UriTooLong
            | Self::HeaderTooLarge
            | Self::BodyTooLarge
            | Self::RequestTimeout
            | Self::ClientGone
            | Self::SlowClient
            | Self::StreamIdle
            | Self::StreamAge
            | Self::Loop
            | Self::Internal => false,
        }
    }

    /// True when what else comes on the connection could be misread, or never comes.
    pub(crate) const fn closes_connection(self) -> bool {
        match self {
            Self::BadRequest
            | Self::UriTooLong
            | Self::HeaderTooLarge
            | Self::BodyTooLarge
            | Self::RequestTimeout
            | Self::ClientGone
            | Self::SlowClient
            | Self::Draining
            | Self::Internal => true,
            Self::Rejected(_)
            | Self::NoPolicy
            | Self::AttemptTimeout
            | Self::TotalTimeout
            | Self::MaxHold
            | Self::StreamIdle
            | Self::StreamAge
            | Self::UpstreamConnect
            | Self::UpstreamReset
            | Self::UpstreamProtocol
            | Self::TenantUnknown
            | Self::TenantSuspended
            | Self::Loop
            | Self::NoRoute => false,
        }
    }

    pub(crate) const fn form(self) -> &'static Form {
        match self {
            Self::Rejected(rejection) => form_of(rejection),
            Self::NoPolicy => &NO_POLICY,
            Self::Draining => &DRAINING,
            Self::AttemptTimeout => &ATTEMPT_TIMEOUT,
            Self::TotalTimeout => &TOTAL_TIMEOUT,
            Self::MaxHold => &MAX_HOLD,
            Self::UpstreamConnect => &UPSTREAM_CONNECT,
            Self::UpstreamReset => &UPSTREAM_RESET,
            Self::UpstreamProtocol => &UPSTREAM_PROTOCOL,
            Self::TenantUnknown => &TENANT_UNKNOWN,
            Self::TenantSuspended => &TENANT_SUSPENDED,
            Self::NoRoute => &NO_ROUTE,
            Self::BadRequest => &BAD_REQUEST,
            Self::UriTooLong => &URI_TOO_LONG,
            Self::HeaderTooLarge => &HEADER_TOO_LARGE,
            Self::BodyTooLarge => &BODY_TOO_LARGE,
            Self::RequestTimeout => &REQUEST_TIMEOUT,
            Self::ClientGone => &CLIENT_GONE,
            Self::SlowClient => &SLOW_CLIENT,
            Self::StreamIdle => &STREAM_IDLE,
            Self::StreamAge => &STREAM_AGE,
            Self::Loop => &LOOP,
            Self::Internal => &INTERNAL,
        }
    }
}

const fn form_of(rejection: Rejection) -> &'static Form {
    match rejection {
        Rejection::TenantFull => &TENANT_FULL,
        Rejection::TenantRouteFull => &TENANT_ROUTE_FULL,
        Rejection::TenantShare => &TENANT_SHARE,
        Rejection::RouteFull => &ROUTE_FULL,
        Rejection::ClassReserve => &CLASS_RESERVE,
        Rejection::StreamFull => &STREAM_FULL,
        Rejection::UpstreamFull => &UPSTREAM_FULL,
        Rejection::GatewayFull => &GATEWAY_FULL,
        Rejection::SpareExhausted => &SPARE_EXHAUSTED,
        Rejection::QueueFull => &QUEUE_FULL,
        Rejection::QueueTimeout => &QUEUE_TIMEOUT,
        Rejection::DeadlineTooShort => &DEADLINE_TOO_SHORT,
        Rejection::Closed => &CLOSED,
        Rejection::BreakerOpen => &BREAKER_OPEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_name_and_status() {
        for (reason, status) in [
            (Reason::Draining, 503),
            (Reason::AttemptTimeout, 504),
            (Reason::MaxHold, 504),
            (Reason::UpstreamConnect, 502),
            (Reason::TenantUnknown, 401),
            (Reason::TenantSuspended, 403),
            (Reason::NoRoute, 404),
            (Reason::BadRequest, 400),
            (Reason::UriTooLong, 414),
            (Reason::HeaderTooLarge, 431),
            (Reason::BodyTooLarge, 413),
            (Reason::RequestTimeout, 408),
        ] {
            assert_eq!(reason.form().status.as_u16(), status, "{reason:?}");
        }
        for rejection in Rejection::ALL {
            let form = Reason::Rejected(rejection).form();
            assert_eq!(form.name, rejection.as_str());
            let callers = form.name.starts_with("tenant_");
            assert_eq!(
                form.status.as_u16(),
                if callers { 429 } else { 503 },
                "{}",
                form.name
            );
        }
    }

    #[test]
    fn each_reason_is_counted_apart() {
        for (place, reason) in Reason::all().enumerate() {
            assert_eq!(reason.index(), place);
        }
        assert_eq!(Reason::Rejected(Rejection::Closed).index(), Reason::COUNT);
    }
}
