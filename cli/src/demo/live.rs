//! The demo without end: play after play, with the dashboard to watch it and change it.
//!
//! Separate because here the gateway with compartments is steered by a real control plane, so a
//! limit changed on the page changes the traffic. It must never keep anything: its store goes when
//! it ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::scenario::{Mode, Phase, Play, Route};
use super::traffic::{self, Call, Outcome};
use super::upstreams::Upstreams;
use super::{joined, stage};
use crate::error::Failure;
use crate::{clock, output, signals};

/// How often the terminal gets a line.
const LINE_PERIOD: Duration = Duration::from_secs(1);

pub(super) fn run(play: Play, dashboard: SocketAddr) -> Result<(), Failure> {
    if !dashboard.ip().is_loopback() {
        let text = format!("--dashboard {dashboard}: the demo has no sign-in, so loopback only");
        return Err(Failure::Setting(text));
    }
    let events = signals::catch()?;
    let upstreams = Upstreams::start()?;
    let urls = upstreams.urls();
    let folder = Folder::new()?;
    let control_plane = control_plane::start(control_plane::Config {
        database_url: format!("sqlite://{}", folder.0.join("demo.db").display()).into(),
        dashboard,
        no_login: true,
        admin_token: None,
        audit_key: None,
        gateway_token: None,
        import: None,
        import_document: Some(Mode::With.policy(&urls)?),
        behind_tls_proxy: false,
        tls: None,
        loopback_stream: false,
        alerts: control_plane::alerts::AlertConfig::default(),
        history: control_plane::history::HistorySettings::default(),
        telemetry: Default::default(),
    })?;
    let source = gateway::Source::ControlPlane {
        urls: vec![format!("http://{}", control_plane.dashboard())],
        ca: None,
        token: control_plane.gateway_token().clone(),
        state_dir: None,
    };
    let with = stage::gateway(source, Mode::With, vec![control_plane.dashboard()])?;
    let source = gateway::Source::Document(Mode::Without.policy(&urls)?);
    let without = stage::gateway(source, Mode::Without, Vec::new())?;
    output::print(&format!(
        "live page: http://{}   (Ctrl-C ends)\n\
         per second and route: completed, fallback, failed\n",
        control_plane.dashboard()
    ))?;
    let mut result = Ok(());
    loop {
        let tally = Tally::default();
        let over = |line: &Line<'_>| {
            drop(output::print(&line.text()));
            !matches!(
                events.recv_timeout(LINE_PERIOD),
                Err(RecvTimeoutError::Timeout)
            )
        };
        match one_play(&upstreams, (&with, &without), play, &tally, over) {
            Ok(false) => {}
            Ok(true) => break,
            Err(failure) => {
                result = Err(failure);
                break;
            }
        }
    }
    with.stop();
    without.stop();
    control_plane.stop();
    result
}

/// Calls that ended since the last line, for both gateways.
#[derive(Default)]
struct Tally {
    ended: [Mutex<Vec<Call>>; 2],
    stop: AtomicBool,
}

impl Tally {
    fn note(&self, mode: usize, call: Call) -> bool {
        if let Some(ended) = self.ended.get(mode) {
            ended
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(call);
        }
        !self.stop.load(Ordering::Relaxed)
    }

    fn take(&self, mode: usize) -> Vec<Call> {
        let ended = self.ended.get(mode).map(Mutex::lock);
        ended.map_or_else(Vec::new, |ended| {
            std::mem::take(&mut *ended.unwrap_or_else(PoisonError::into_inner))
        })
    }
}

struct Line<'a> {
    second: u64,
    phase: Phase,
    tally: &'a Tally,
}

impl Line<'_> {
    fn text(&self) -> String {
        let mut out = format!("{:>4} s {:<8}", self.second, self.phase.name());
        for (index, mode) in Mode::ALL.iter().enumerate() {
            let calls = self.tally.take(index);
            out.push_str(match mode {
                Mode::With => "| compartments:",
                Mode::Without => " | one pool:",
            });
            for route in Route::ALL {
                let count = |outcomes: &[Outcome]| {
                    let mine = calls.iter().filter(|call| call.route == route);
                    mine.filter(|call| outcomes.contains(&call.outcome)).count()
                };
                let completed = count(&[Outcome::Completed]);
                let fallback = count(&[Outcome::Fallback]);
                let failed = count(&[Outcome::Refused, Outcome::Failed]);
                let name = route.name().get(..3).unwrap_or_default();
                out.push_str(&format!(" {name} {completed:>2}/{fallback:>2}/{failed:>2}"));
            }
        }
        out.push('\n');
        out
    }
}

/// One play; true when a signal ended it.
fn one_play(
    upstreams: &Upstreams,
    (with, without): (&gateway::Running, &gateway::Running),
    play: Play,
    tally: &Tally,
    over: impl Fn(&Line<'_>) -> bool,
) -> Result<bool, Failure> {
    let start = clock::now() + stage::CURTAIN;
    let targets = [stage::targets(with)?, stage::targets(without)?];
    std::thread::scope(|scope| {
        let clients: Vec<_> = targets
            .into_iter()
            .enumerate()
            .map(|(mode, at)| {
                scope.spawn(move || traffic::play(at, play, start, |call| tally.note(mode, call)))
            })
            .collect();
        let stopped = lines(upstreams, play, start, tally, &over);
        tally.stop.store(true, Ordering::Relaxed);
        upstreams.set_slow(false);
        for client in clients {
            joined(client)?;
        }
        Ok(stopped)
    })
}

/// A line a second, and the latency changed at its times.
fn lines(
    upstreams: &Upstreams,
    play: Play,
    start: Instant,
    tally: &Tally,
    over: &impl Fn(&Line<'_>) -> bool,
) -> bool {
    loop {
        let at = clock::now().saturating_duration_since(start);
        if at >= play.length {
            return false;
        }
        let inside = |phase: &&Phase| at < play.bounds(**phase).1;
        let phase = Phase::ALL
            .iter()
            .find(inside)
            .copied()
            .unwrap_or(Phase::After);
        upstreams.set_slow(phase == Phase::Slow);
        if over(&Line {
            second: at.as_secs(),
            phase,
            tally,
        }) {
            return true;
        }
    }
}

/// A folder of this process alone, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt as _;

        let path = std::env::temp_dir().join(format!("bulkhead-demo-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| Failure::Unwritable {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
