//! What a route asks of its upstream's protocol: gRPC needs HTTP/2, a WebSocket cannot have it.
//!
//! Separate because these compare a route with how its upstream speaks, not with numbers. What an
//! upstream would really do is not known here: it must never refuse a policy.

use compartment::policy::{Path, Policy, Route};

use super::shape::warning;
use super::{Finding, Severity};

/// Judges one route that has streams.
pub(super) fn lint(path: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let Some(stream) = route.compartment.stream else {
        return;
    };
    let Some(upstream) = policy.upstreams.get(route.upstream) else {
        return;
    };
    let (here, id) = (path.key("compartment").key("stream"), &upstream.id);
    if stream.grpc && !upstream.http2 {
        let message = format!(
            "gRPC needs HTTP/2 to the upstream, and upstreams.{id}.http2 is false: its calls go \
             out over HTTP/1.1 and fail; set upstreams.{id}.http2 = true"
        );
        findings.push(warning("protocol", here.key("grpc"), message));
    }
    if upstream.http2 && !stream.grpc {
        findings.push(Finding {
            rule: "protocol",
            severity: Severity::Info,
            path: here,
            message: format!(
                "upstreams.{id}.http2 is true, so a WebSocket handshake reaches it as a plain \
                 request and is never switched; event streams pass. For WebSockets leave http2 \
                 out, for gRPC set grpc = true"
            ),
        });
    }
}
