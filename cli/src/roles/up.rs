//! `bulkhead up`: control plane, dashboard and one gateway in one process.
//!
//! Separate because the gateway dials the control plane beside it like any other: what works here
//! works apart. It must never give the two a way to each other that a network would not have.

use std::time::Duration;

use http::Method;

use super::{Start, control_plane_role, quick, serving};
use crate::args::UpArgs;
use crate::error::Failure;
use crate::output;
use crate::ready::Ready;
use crate::remote::http::{Ask, ask};

/// The name of the gateway in this process. One store has at most one of them.
const ID: &str = "up";
/// Longest wait for our own admin port.
const ADMIN_MAX: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &UpArgs) -> Result<(), Failure> {
    let start = Start::new(args.flags(), args.common.config.clone())?;
    let quick = quick::policy(&start.settings)?;
    let mut config = control_plane_role::config(&start, quick)?;
    // The certificate is for a name that only others use.
    config.loopback_stream = config.tls.is_some();
    let control_plane = control_plane::start(config)?;
    let result = beside(&start, &control_plane);
    control_plane.stop();
    result
}

/// The gateway's whole life; the control plane outlives it, so that the pages show the drain.
fn beside(start: &Start, control_plane: &control_plane::Running) -> Result<(), Failure> {
    let dashboard = control_plane.dashboard();
    let stream = control_plane.loopback_stream().unwrap_or(dashboard);
    let source = gateway::Source::ControlPlane {
        urls: vec![format!("http://{}", reachable(stream))],
        ca: None,
        token: control_plane.gateway_token().clone(),
        // The store is in this process; a second copy could only be older.
        state_dir: None,
    };
    let mut config = serving::config(
        &start.settings,
        source,
        Some(ID.to_owned()),
        start.telemetry.handle(),
    );
    config.forbidden.extend([dashboard, stream]);
    let drain_timeout = config.drain_timeout;
    let gateway = gateway::start(config)?;
    greet(start, &gateway, dashboard);
    control_plane_role::invite(start, control_plane);
    let ready = Ready {
        pid: std::process::id(),
        gateway: gateway.listen(),
        dashboard: Some(dashboard),
        admin: Some(gateway.admin()),
    };
    let served = serving::serve(
        &gateway,
        &start.events,
        drain_timeout,
        &|| control_plane.reload(),
        || {
            start.ready(&ready)?;
            hint(
                &gateway,
                &control_plane_role::dashboard_url(start, dashboard),
            );
            Ok(())
        },
    );
    gateway.stop();
    served
}

/// An address that listens on all interfaces is dialled by loopback.
fn reachable(dashboard: std::net::SocketAddr) -> std::net::SocketAddr {
    let ip = match dashboard.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    (ip, dashboard.port()).into()
}

fn greet(start: &Start, gateway: &gateway::Running, dashboard: std::net::SocketAddr) {
    let listen: Vec<_> = gateway
        .listen()
        .iter()
        .map(|at| format!("http://{at}"))
        .collect();
    if output::person_reads_errors() {
        output::complain(&format!("gateway    {}", listen.join("  ")));
        let at = control_plane_role::dashboard_url(start, dashboard);
        output::complain(&format!("dashboard  {at}"));
        output::complain(&format!("admin      http://{}", gateway.admin()));
        output::complain(control_plane_role::how_to_sign_in(start));
    } else {
        tracing::info!(
            gateway = listen.join(" "),
            dashboard = %dashboard,
            admin = %gateway.admin(),
            "started"
        );
    }
}

/// A gateway without routes serves nobody: say what to do next.
fn hint(gateway: &gateway::Running, dashboard: &str) {
    let url = format!("http://{}/compartments", gateway.admin());
    let asked = ask(Ask {
        method: Method::GET,
        url: &url,
        ca: None,
        headers: Vec::new(),
        body: None,
        longest: ADMIN_MAX,
    });
    let has_routes = asked.is_ok_and(|answer| {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        text.contains("\"route/")
    });
    if !has_routes {
        tracing::warn!(
            "the policy has no routes, so every request is answered 404; next: `bulkhead apply \
             --server {dashboard} -f policy.toml`, or with a new --data-dir: --policy FILE, \
             or --upstream URL --limit N"
        );
    }
}
