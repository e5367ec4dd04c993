//! `bulkhead demo`: the traced collapse, contained, beside the same traffic without compartments.
//!
//! Separate because it is the product's claim in one command: real gateways, real sockets, one
//! open-loop schedule for both. It must never treat the two gateways differently but in limits.

mod figures;
mod live;
mod report;
mod scenario;
mod stage;
mod traffic;
mod upstreams;
mod verdict;

use std::time::Instant;

use figures::{Measured, Seen};
use scenario::{Mode, Play};
use traffic::{Call, Targets};
use upstreams::Upstreams;

use crate::args::Format;
use crate::args_tools::DemoArgs;
use crate::clock;
use crate::error::{Failure, exit};
use crate::{log, output};

/// What the demo logs of its gateways: the figures are on standard output.
const LOG_FILTER: &str = "error";

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let _log = log::start(LOG_FILTER, telemetry::Handle::default())?;
    let play = Play::of_seconds(args.seconds);
    if args.once {
        once(play, args.output)
    } else {
        live::run(play, args.dashboard)
    }
}

/// Plays once, says what was seen, exits 1 when isolation failed.
fn once(play: Play, format: Format) -> Result<(), Failure> {
    let upstreams = Upstreams::start()?;
    let urls = upstreams.urls();
    let raise = |mode: Mode| {
        let source = gateway::Source::Document(mode.policy(&urls)?);
        stage::gateway(source, mode, Vec::new())
    };
    let (with, without) = (raise(Mode::With)?, raise(Mode::Without)?);
    if output::person_reads_errors() {
        output::complain(&format!(
            "playing {} s: a quarter healthy, half slow, a quarter after",
            play.length.as_secs()
        ));
    }
    let start = clock::now() + stage::CURTAIN;
    let direct = upstreams.neighbours();
    let (one, other) = (stage::targets(&with)?, stage::targets(&without)?);
    let (with_calls, without_calls, direct_calls) = std::thread::scope(|scope| {
        let with = scope.spawn(|| collect(one, play, start));
        let without = scope.spawn(|| collect(other, play, start));
        let direct = scope.spawn(|| collect(direct, play, start));
        stage::conduct(&upstreams, play, start);
        (joined(with), joined(without), joined(direct))
    });
    let seen = Seen {
        play,
        with: Measured::of(&with_calls?, play),
        without: Measured::of(&without_calls?, play),
        direct: Measured::of(&direct_calls?, play),
        left: stage::left_in_flight(&with)?,
    };
    with.stop();
    without.stop();
    let checks = verdict::judge(&seen);
    match format {
        Format::Json => output::print_json(&report::document(&seen, &checks))?,
        Format::Table => output::print(&report::text(&seen, &checks))?,
    }
    if checks.iter().all(|check| check.held) {
        Ok(())
    } else {
        Err(Failure::Said(exit::TROUBLE))
    }
}

fn collect(targets: Targets, play: Play, start: Instant) -> Result<Vec<Call>, Failure> {
    let mut calls = Vec::new();
    traffic::play(targets, play, start, |call| {
        calls.push(call);
        true
    })?;
    Ok(calls)
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    let ended = Failure::Answer("the demo's clients ended early".to_owned());
    thread.join().unwrap_or(Err(ended))
}
