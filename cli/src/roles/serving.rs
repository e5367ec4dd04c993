//! A running gateway, from its first policy to the end of its drain.
//!
//! Separate because `up` and `gateway` live through the same phases. It must never end while a
//! request is in flight, unless its time is up.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::LOOPBACK;
use crate::error::Failure;
use crate::settings::Settings;
use crate::signals::Event;

/// How often it is asked whether the first policy is live, until it is.
const LIVE_PERIOD: Duration = Duration::from_millis(20);
/// What the wait for the drain allows beyond the drain's own time.
const DRAIN_SLACK: Duration = Duration::from_millis(500);

/// Longest wait for requests in flight, unless told otherwise.
const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The part of a gateway's configuration that comes from settings alone.
pub(super) fn config(
    settings: &Settings,
    source: gateway::Source,
    id: Option<String>,
    telemetry: telemetry::Handle,
) -> gateway::Config {
    let listen = settings.addresses("listen", (LOOPBACK, 8080).into());
    gateway::Config {
        id: id.unwrap_or_else(|| name_of(&listen)),
        listen,
        admin: settings.address("admin", (LOOPBACK, 9901).into()),
        workers: settings.count("workers"),
        source,
        drain_timeout: settings.span("drain_timeout", DRAIN_TIMEOUT_DEFAULT),
        forbidden: Vec::new(),
        least_rate: gateway::LeastRate::default(),
        telling: telling(settings, telemetry),
    }
}

/// What the gateway tells, and to whom.
fn telling(settings: &Settings, telemetry: telemetry::Handle) -> gateway::Telling {
    let share_millionths = settings.share("access_log_share");
    let access_log = settings.path("access_log");
    let tenants_max = settings.count("metric_tenants");
    gateway::Telling {
        telemetry,
        access_log: access_log.map(|path| gateway::AccessLogConfig {
            path,
            share_millionths,
        }),
        tenants_max: tenants_max.unwrap_or(gateway::METRIC_TENANTS_DEFAULT),
    }
}

/// Host name and port: the same after a restart, another one for each gateway of a machine.
fn name_of(listen: &[SocketAddr]) -> String {
    let host = host_name();
    match listen.first().map(SocketAddr::port) {
        Some(port) if port != 0 => format!("{host}-{port}"),
        Some(_) | None => format!("{host}-pid-{}", std::process::id()),
    }
}

/// The name of this machine or container.
pub(super) fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .trim()
        .chars()
        .filter(char::is_ascii_graphic)
        .take(64)
        .collect();
    if host.is_empty() {
        "gateway".to_owned()
    } else {
        host
    }
}

/// Serves until a signal asks to drain, then drains. `live` runs once, when the first policy is;
/// `reload` whenever files are to be read again, beside the gateway's own.
pub(super) fn serve(
    gateway: &gateway::Running,
    events: &Receiver<Event>,
    drain_timeout: Duration,
    reload: &dyn Fn(),
    live: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut live = Some(live);
    loop {
        if live.is_some() && gateway.wait_live(Duration::ZERO) {
            live.take().map_or(Ok(()), |live| live())?;
        }
        let next = if live.is_some() {
            events.recv_timeout(LIVE_PERIOD)
        } else {
            events.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match next {
            Ok(Event::Reload) => {
                gateway.reload();
                reload();
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Without the thread that catches signals nobody could end this process in order.
            Ok(Event::Drain) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    tracing::info!("draining: no new requests, {drain_timeout:?} for those in flight");
    gateway.begin_drain();
    if gateway.wait_drained(drain_timeout + DRAIN_SLACK) {
        tracing::info!("drained");
    } else {
        tracing::warn!("requests were still in flight when the time to drain was over");
        gateway.refuse_rest();
    }
    Ok(())
}
