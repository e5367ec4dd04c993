//! The figures of a gateway as families of points.
//!
//! Separate so that `/metrics` and OTLP show the same ones: both read them here. No label value
//! comes from a request, and tenants are summed but for a bounded number: series must never grow
//! with what callers send.

use std::sync::{Arc, Mutex, PoisonError};

use compartment::breaker::BreakerState;
use compartment::{Figures, Histogram, Level};
use telemetry::names::{Instrument, Label};
use telemetry::{Distribution, Family, Figure, Text};

use crate::clock::Clock;
use crate::endpoint_metrics;
use crate::folded::{Folded, Named};
use crate::outcomes::Outcomes;
use crate::report::Reporter;
use crate::standing::Standing;
use crate::tell::Tell;

/// Reads everything that a gateway has to say of itself.
#[derive(Debug)]
pub(crate) struct Metrics {
    reporter: Reporter,
    standing: Arc<Standing>,
    clock: Clock,
    tell: Tell,
    named: Mutex<Named>,
}

impl Metrics {
    pub(crate) fn new(
        reporter: Reporter,
        standing: Arc<Standing>,
        clock: Clock,
        tell: Tell,
    ) -> Arc<Self> {
        let named = Mutex::new(Named::new(tell.tenants_max));
        let metrics = Arc::new(Self {
            reporter,
            standing,
            clock,
            tell,
            named,
        });
        metrics.tell.telemetry.observe(&metrics);
        metrics
    }

    /// Everything that `/metrics` shows. Takes as long as reading 100,000 tenants does.
    pub(crate) fn page(&self) -> String {
        let mut families = self.read();
        families.push(self.tell.telemetry.dropped_family(&self.lines_dropped()));
        telemetry::page(&families)
    }

    fn lines_dropped(&self) -> [(&'static str, u64); 1] {
        [("access_log", self.tell.access_lines_dropped())]
    }

    fn read(&self) -> Vec<Family> {
        let all = {
            // Held while all is read: two readers would name twice as many.
            let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            let mut folded = Folded::new(&mut named);
            self.reporter.each(&mut |figures| folded.take(figures));
            folded.take_departed(&self.reporter.departed_tenants());
            folded.finish()
        };
        let mut families = compartments(&all);
        families.extend(endpoint_metrics::families(&all));
        families.extend(outcomes(self.reporter.outcomes()));
        families.extend(self.reporter.stale().families());
        families.extend(self.process());
        families.extend(self.reporter.http().families());
        families
    }

    fn process(&self) -> Vec<Family> {
        let generation = Figure::Whole(self.reporter.generation());
        let control_plane = self.standing.control_plane();
        let connected = Figure::Whole(u64::from(control_plane.is_some()));
        let age = self
            .standing
            .policy_age_s(self.clock.now_us())
            .map(Figure::Number);
        let mut families = vec![Family::of(Instrument::Generation, generation)];
        families.extend(age.map(|age| Family::of(Instrument::PolicyAge, age)));
        let held_back = Figure::Whole(u64::from(self.standing.is_held_back()));
        families.push(Family::of(Instrument::PolicyHeldBack, held_back));
        families.push(Family::of(Instrument::ControlConnected, connected));
        families.extend(control_plane.and_then(|url| in_use(&url)));
        families
    }
}

/// Names the control plane whose stream is open.
fn in_use(url: &str) -> Option<Family> {
    let url: http::Uri = url.parse().ok()?;
    let mut labels = vec![(Label::ServerAddress, Text::from(url.host()?.to_owned()))];
    let port = url.port_u16().map(|port| port.to_string());
    labels.extend(port.map(|port| (Label::ServerPort, Text::from(port))));
    let mut family = Family::new(Instrument::ControlInUse);
    family.push(labels, Figure::Whole(1));
    Some(family)
}

impl telemetry::Source for Metrics {
    fn scope(&self) -> &'static str {
        "bulkhead.gateway"
    }

    fn families(&self) -> Vec<Family> {
        self.read()
    }

    /// What the exporter lost it adds by itself, once for a process.
    fn dropped(&self) -> Vec<(&'static str, u64)> {
        self.lines_dropped().to_vec()
    }
}

fn outcomes(outcomes: &Outcomes) -> [Family; 3] {
    let mut ended = Family::new(Instrument::Ended);
    for (reason, count) in outcomes.by_reason() {
        ended.push(
            vec![(Label::Reason, Text::from(reason))],
            Figure::Whole(count),
        );
    }
    let mut fallbacks = Family::new(Instrument::Fallbacks);
    for (kind, count) in outcomes.fallbacks() {
        fallbacks.push(vec![(Label::Kind, Text::from(kind))], Figure::Whole(count));
    }
    let mut missed = Family::new(Instrument::FallbackFailures);
    for (kind, why, count) in outcomes.missed() {
        let labels = vec![
            (Label::Kind, Text::from(kind)),
            (Label::Reason, Text::from(why)),
        ];
        missed.push(labels, Figure::Whole(count));
    }
    [ended, fallbacks, missed]
}

/// One family after the other, each over all compartments.
fn compartments(all: &[Figures]) -> Vec<Family> {
    // The key is shared by all points of its compartment: there may be thousands.
    let all: Vec<(&Figures, [(Label, Text); 2])> = all.iter().map(|f| (f, labels(f))).collect();
    let of = |instrument, points: &dyn Fn(&Figures, &mut Points<'_>)| {
        let mut family = Family::new(instrument);
        for (figures, labels) in &all {
            points(
                figures,
                &mut Points {
                    labels,
                    family: &mut family,
                },
            );
        }
        family
    };
    use Instrument as I;
    vec![
        of(I::InFlight, &|f, to| to.whole(f.in_flight.into())),
        of(I::Limit, &limits),
        of(I::Peak, &|f, to| {
            if !is_sum(f) {
                to.whole(f.peak.into());
            }
        }),
        of(I::Utilization, &|f, to| {
            if !is_sum(f) {
                to.point(&[], Figure::Number(f.saturation));
            }
        }),
        of(I::Time, &times),
        of(I::Requests, &|f, to| {
            let shadow = sum(&f.shadow_rejected);
            let counts = [
                ("admitted", f.admitted),
                ("rejected", sum(&f.rejected)),
                ("shadow_rejected", shadow),
            ];
            for (outcome, count) in counts {
                to.point(
                    &[(Label::Outcome, Text::from(outcome))],
                    Figure::Whole(count),
                );
            }
        }),
        of(I::Rejections, &|f, to| {
            for (reason, count) in &f.rejected {
                let reason = (Label::Reason, Text::from(reason.as_str()));
                to.point(&[reason], Figure::Whole(*count));
            }
        }),
        of(I::QueueDepth, &|f, to| to.whole(f.queued.into())),
        of(I::LeftQueue, &|f, to| to.whole(f.left_queue)),
        of(I::QueueWait, &|f, to| to.durations(f.level, &f.wait)),
        of(I::PermitHold, &|f, to| to.durations(f.level, &f.hold)),
        of(I::Leaked, &|f, to| to.whole(f.leaked)),
        of(I::BreakerState, &breaker_states),
        of(I::BreakerChanges, &breaker_changes),
        of(I::Retries, &retries),
        of(I::RetriesRefused, &retries_refused),
    ]
}

fn times(figures: &Figures, to: &mut Points<'_>) {
    if is_sum(figures) {
        return;
    }
    let states = [
        ("idle", figures.idle_us),
        ("busy", figures.busy_us),
        ("saturated", figures.saturated_us),
    ];
    for (state, us) in states {
        let time = Figure::Number(seconds(us));
        to.point(&[(Label::State, Text::from(state))], time);
    }
}

/// 1 for the state that it is in, 0 for the others.
fn breaker_states(figures: &Figures, to: &mut Points<'_>) {
    let Some(own) = &figures.breaker else { return };
    for state in BreakerState::ALL {
        let is_it = Figure::Whole(u64::from(own.state == state));
        to.point(&[(Label::State, Text::from(state.as_str()))], is_it);
    }
}

fn breaker_changes(figures: &Figures, to: &mut Points<'_>) {
    let Some(own) = &figures.breaker else { return };
    let counts = [
        (BreakerState::Open, own.opened),
        (BreakerState::HalfOpen, own.half_opened),
        (BreakerState::Closed, own.closed),
    ];
    for (state, count) in counts {
        let state = (Label::State, Text::from(state.as_str()));
        to.point(&[state], Figure::Whole(count));
    }
}

fn retries(figures: &Figures, to: &mut Points<'_>) {
    if let Some(own) = &figures.retry {
        to.whole(own.retries);
    }
}

fn retries_refused(figures: &Figures, to: &mut Points<'_>) {
    let refused = figures.retry.iter().flat_map(|own| &own.refused);
    for (why, count) in refused {
        let why = (Label::Reason, Text::from(why.as_str()));
        to.point(&[why], Figure::Whole(*count));
    }
}

/// What is in force, by kind.
fn limits(figures: &Figures, to: &mut Points<'_>) {
    if is_sum(figures) {
        return;
    }
    let kind = |kind: &'static str| [(Label::Kind, Text::from(kind))];
    if let Some(slots) = figures.limit.slots() {
        // In this build nothing but the policy sets a limit; they differ once advice may.
        for name in ["nominal", "effective"] {
            to.point(&kind(name), Figure::Whole(slots.into()));
        }
    }
    if let Some(slots) = figures.candidate {
        to.point(&kind("candidate"), Figure::Whole(slots.into()));
    }
}

struct Points<'a> {
    labels: &'a [(Label, Text); 2],
    family: &'a mut Family,
}

impl Points<'_> {
    fn point(&mut self, further: &[(Label, Text)], figure: Figure) {
        let labels = self.labels.iter().chain(further).cloned().collect();
        self.family.push(labels, figure);
    }

    fn whole(&mut self, value: u64) {
        self.point(&[], Figure::Whole(value));
    }

    /// Twenty-odd lines each: of tenants on routes, and of what nobody used, there are none.
    fn durations(&mut self, level: Level, histogram: &Histogram) {
        let is_shown = match level {
            Level::Route | Level::Stream | Level::Fallback | Level::Upstream | Level::Gateway => {
                true
            }
            Level::Tenant | Level::TenantRoute => histogram.count() > 0,
        };
        if is_shown {
            self.point(&[], Figure::Durations(Box::new(distribution(histogram))));
        }
    }
}

/// Four steps an octave become whole octaves: every edge of ours is one of theirs.
fn distribution(histogram: &Histogram) -> Distribution {
    let sum_us = histogram.sum_us();
    let mut distribution = Distribution {
        sum_us,
        ..Distribution::default()
    };
    for (edge_us, count) in histogram.buckets() {
        distribution.add(edge_us, count);
    }
    distribution
}

fn labels(figures: &Figures) -> [(Label, Text); 2] {
    [
        (Label::Compartment, Text::from(figures.key.clone())),
        (Label::Level, Text::from(figures.level.as_str())),
    ]
}

fn sum(counts: &std::collections::BTreeMap<compartment::Rejection, u64>) -> u64 {
    counts
        .values()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

/// Sums of tenants have no limit, peak, saturation or time of their own.
fn is_sum(figures: &Figures) -> bool {
    figures.key.ends_with("/_other")
}

#[expect(clippy::cast_precision_loss, reason = "285 years are exact")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use compartment::breaker::BreakerFigures;
    use compartment::{Limit, Rejection, RetryFigures, RetryRefusal};

    use super::*;
    use crate::report::tests::figures;

    fn page_with(named: &mut Named, all: Vec<Figures>) -> String {
        let mut folded = Folded::new(named);
        all.into_iter().for_each(|figures| folded.take(figures));
        telemetry::page(&compartments(&folded.finish()))
    }

    fn page(all: Vec<Figures>) -> String {
        page_with(&mut Named::new(0), all)
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
    }

    #[test]
    fn figures_become_samples() {
        let mut hold = Histogram::new();
        hold.record_n(300, 2);
        let text = page(vec![Figures {
            in_flight: 4,
            saturation: 0.4,
            candidate: Some(7),
            rejected: BTreeMap::from([(Rejection::RouteFull, 3)]),
            shadow_rejected: BTreeMap::from([(Rejection::ClassReserve, 2)]),
            idle_us: 1_500_000,
            busy_us: 250_000,
            saturated_us: 5,
            hold,
            ..figures("route/a", 9)
        }]);
        let of = "bulkhead_compartment=\"route/a\",bulkhead_level=\"route\"";
        let name = |rest: &str| format!("bulkhead_compartment_{rest}");
        for (metric, labels, value) in [
            ("in_flight", "", "4"),
            ("limit", ",kind=\"nominal\"", "10"),
            ("limit", ",kind=\"effective\"", "10"),
            ("limit", ",kind=\"candidate\"", "7"),
            ("utilization_ratio", "", "0.4"),
            ("requests_total", ",outcome=\"admitted\"", "9"),
            ("requests_total", ",outcome=\"rejected\"", "3"),
            ("requests_total", ",outcome=\"shadow_rejected\"", "2"),
            ("rejections_total", ",reason=\"route_full\"", "3"),
            ("time_seconds_total", ",state=\"idle\"", "1.5"),
            ("time_seconds_total", ",state=\"busy\"", "0.25"),
            ("time_seconds_total", ",state=\"saturated\"", "0.000005"),
            (
                "permit_hold_duration_seconds_bucket",
                ",le=\"0.000512\"",
                "2",
            ),
            (
                "permit_hold_duration_seconds_bucket",
                ",le=\"0.000256\"",
                "0",
            ),
            ("permit_hold_duration_seconds_count", "", "2"),
            ("queue_wait_duration_seconds_count", "", "0"),
        ] {
            has(&text, &format!("{}{{{of}{labels}}} {value}", name(metric)));
        }
    }

    #[test]
    fn breakers_and_retries_become_samples() {
        let text = page(vec![
            Figures {
                breaker: Some(Box::new(BreakerFigures {
                    state: BreakerState::HalfOpen,
                    since_ms: 1,
                    opened: 3,
                    half_opened: 4,
                    closed: 2,
                    failure_rate: 0.5,
                    calls: 10,
                })),
                ..figures("upstream/u", 1)
            },
            Figures {
                retry: Some(Box::new(RetryFigures {
                    budget_left: 1,
                    retries: 5,
                    refused: BTreeMap::from([(RetryRefusal::Budget, 6)]),
                })),
                ..figures("route/a", 1)
            },
        ]);
        let of = |key: &str| {
            let level = key.split('/').next().unwrap();
            format!("bulkhead_compartment=\"{key}\",bulkhead_level=\"{level}\"")
        };
        let (upstream, route) = (of("upstream/u"), of("route/a"));
        for state in BreakerState::ALL {
            let (state, is_it) = (state.as_str(), u64::from(state == BreakerState::HalfOpen));
            let labels = format!("{upstream},state=\"{state}\"");
            has(
                &text,
                &format!("bulkhead_breaker_state{{{labels}}} {is_it}"),
            );
        }
        for (state, count) in [("open", 3), ("half_open", 4), ("closed", 2)] {
            let labels = format!("{upstream},state=\"{state}\"");
            has(
                &text,
                &format!("bulkhead_breaker_changes_total{{{labels}}} {count}"),
            );
        }
        has(&text, &format!("bulkhead_retries_total{{{route}}} 5"));
        let labels = format!("{route},reason=\"budget\"");
        has(
            &text,
            &format!("bulkhead_retries_refused_total{{{labels}}} 6"),
        );
        // Of those that have neither nothing is shown.
        for (name, lines) in [
            ("breaker_", 8),
            ("retries_total", 1),
            ("retries_refused", 1),
        ] {
            let begins = format!("bulkhead_{name}");
            let found = text
                .lines()
                .filter(|line| line.starts_with(&begins))
                .count();
            assert_eq!(found, lines, "{name}");
        }
    }

    #[test]
    fn each_family_is_declared_once_and_in_one_piece() {
        let text = page(
            ["gateway", "route/a", "tenant/t"]
                .map(|key| figures(key, 1))
                .to_vec(),
        );
        let mut seen = Vec::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().unwrap();
            assert!(!seen.contains(&name), "{name} comes back in\n{text}");
            seen.push(name);
        }
    }

    #[test]
    fn series_do_not_grow_with_tenants() {
        let many = |count: u64| {
            page_with(
                &mut Named::new(3),
                (0..count)
                    .map(|n| figures(&format!("tenant/t{n}"), n + 1))
                    .collect(),
            )
        };
        assert_eq!(many(20).lines().count(), many(500).lines().count());
        let text = page(
            (0..500)
                .map(|n| figures(&format!("tenant/t{n}"), 1))
                .collect(),
        );
        has(
            &text,
            "bulkhead_compartment_requests_total{bulkhead_compartment=\"tenant/_other\",\
             bulkhead_level=\"tenant\",outcome=\"admitted\"} 500",
        );
    }

    #[test]
    fn no_limit_is_shown_where_there_is_none() {
        let unlimited = Figures {
            limit: Limit::UNLIMITED,
            ..figures("upstream/u", 1)
        };
        assert!(!page(vec![unlimited]).contains("bulkhead_compartment_limit{"));
    }

    #[test]
    fn every_edge_of_the_page_is_an_edge_of_what_is_counted() {
        let mut histogram = Histogram::new();
        let sizes = (0..30).map(|octave| 3_u64 << octave);
        sizes.clone().for_each(|us| histogram.record(us));
        let distribution = distribution(&histogram);
        assert_eq!(distribution.count(), 30);
        for (edge, below) in telemetry::DURATION_EDGES_US.iter().zip(1..) {
            let want = sizes.clone().filter(|us| us < edge).count();
            let have: u64 = distribution.counts.iter().take(below).sum();
            assert_eq!(usize::try_from(have).unwrap(), want, "{edge}");
        }
    }
}
