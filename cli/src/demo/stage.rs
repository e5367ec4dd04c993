//! The stage of the demo: upstreams and the two gateways, in this process.
//!
//! Separate because one play and the endless one are set up alike. It must never listen beyond
//! loopback.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use super::scenario::{Mode, Phase, Play, Route};
use super::traffic::Targets;
use super::upstreams::Upstreams;
use crate::clock;
use crate::error::Failure;
use crate::remote::http::{Ask, ask};

/// Longest wait for a gateway's first policy.
const LIVE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the last permits once every call has ended.
const EMPTY_MAX: Duration = Duration::from_secs(2);
/// How often the figures are asked for meanwhile.
const ASK_PERIOD: Duration = Duration::from_millis(20);
/// Between the set-up and the first request.
pub(super) const CURTAIN: Duration = Duration::from_millis(200);

/// One gateway of the demo; `forbidden` are listeners of this process that no upstream may be.
pub(super) fn gateway(
    source: gateway::Source,
    mode: Mode,
    forbidden: Vec<SocketAddr>,
) -> Result<gateway::Running, Failure> {
    let loopback = ([127, 0, 0, 1], 0).into();
    let running = gateway::start(gateway::Config {
        listen: vec![loopback],
        admin: loopback,
        workers: Some(1),
        source,
        drain_timeout: Duration::from_secs(1),
        id: format!("demo-{}", mode.name()),
        forbidden,
        telling: gateway::Telling::default(),
        least_rate: gateway::LeastRate::default(),
    })?;
    if running.wait_live(LIVE_MAX) {
        return Ok(running);
    }
    Err(Failure::Answer(
        "the demo's gateway did not get its policy".to_owned(),
    ))
}

/// Every route at one gateway.
pub(super) fn targets(running: &gateway::Running) -> Result<Targets, Failure> {
    let nowhere = || Failure::Answer("the demo's gateway listens nowhere".to_owned());
    let at = running.listen().first().copied().ok_or_else(nowhere)?;
    Ok(Route::ALL.iter().map(|route| (*route, at)).collect())
}

/// Changes the latency at its times until the play is over.
pub(super) fn conduct(upstreams: &Upstreams, play: Play, start: Instant) {
    for phase in Phase::ALL {
        let (from, _) = play.bounds(phase);
        std::thread::sleep((start + from).saturating_duration_since(clock::now()));
        upstreams.set_slow(phase == Phase::Slow);
    }
}

/// Permits that are out although every call has ended; asked until none is, or time is up.
pub(super) fn left_in_flight(running: &gateway::Running) -> Result<u64, Failure> {
    let end = clock::now() + EMPTY_MAX;
    loop {
        let url = format!("http://{}/compartments", running.admin());
        let answer = ask(Ask {
            method: Method::GET,
            url: &url,
            ca: None,
            headers: Vec::new(),
            body: None,
            longest: EMPTY_MAX,
        })?;
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        let all = said.get("compartments").and_then(Value::as_array);
        let left = all.map(|all| {
            all.iter()
                .filter_map(|one| one.get("in_flight").and_then(Value::as_u64))
                .sum::<u64>()
        });
        match left {
            Some(0) => return Ok(0),
            Some(left) if clock::now() >= end => return Ok(left),
            Some(_) => std::thread::sleep(ASK_PERIOD),
            None => {
                let text = "the demo's gateway does not show its compartments";
                return Err(Failure::Answer(text.to_owned()));
            }
        }
    }
}
