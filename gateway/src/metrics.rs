//! The figures as Prometheus text.
//!
//! Separate so that every name and label of an instrument stands in one file. No label value
//! comes from a request, and tenants are summed: series must never grow with what callers send.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::time::Duration;

use compartment::{Figures, Level};

use crate::outcomes::Outcomes;

/// What is known of the process beside its compartments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process<'a> {
    pub(crate) outcomes: &'a Outcomes,
    pub(crate) connected: bool,
    /// Since the running policy was applied; `None` without one.
    pub(crate) policy_age_s: Option<f64>,
}

/// Kinds of instruments, as the text format spells them.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

/// Every instrument: the name of the telemetry contract in Prometheus spelling.
#[derive(Clone, Copy)]
enum Instrument {
    InFlight,
    Limit,
    Peak,
    Utilization,
    Time,
    Requests,
    Rejections,
    QueueDepth,
    LeftQueue,
    Leaked,
    Ended,
    Fallbacks,
    Retries,
    Generation,
    PolicyAge,
    ControlConnected,
}

impl Instrument {
    const fn name(self) -> &'static str {
        match self {
            Self::InFlight => "bulkhead_compartment_in_flight",
            Self::Limit => "bulkhead_compartment_limit",
            Self::Peak => "bulkhead_compartment_peak",
            Self::Utilization => "bulkhead_compartment_utilization_ratio",
            Self::Time => "bulkhead_compartment_time_seconds_total",
            Self::Requests => "bulkhead_compartment_requests_total",
            Self::Rejections => "bulkhead_compartment_rejections_total",
            Self::QueueDepth => "bulkhead_compartment_queue_depth",
            Self::LeftQueue => "bulkhead_compartment_queue_left_total",
            Self::Leaked => "bulkhead_permits_leaked_total",
            Self::Ended => "bulkhead_requests_ended_total",
            Self::Fallbacks => "bulkhead_fallback_answers_total",
            Self::Retries => "bulkhead_retries_total",
            Self::Generation => "bulkhead_policy_generation",
            Self::PolicyAge => "bulkhead_policy_age_seconds",
            Self::ControlConnected => "bulkhead_control_connected",
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Time
            | Self::Requests
            | Self::Rejections
            | Self::LeftQueue
            | Self::Leaked
            | Self::Ended
            | Self::Fallbacks
            | Self::Retries => Kind::Counter,
            Self::InFlight
            | Self::Limit
            | Self::Peak
            | Self::Utilization
            | Self::QueueDepth
            | Self::Generation
            | Self::PolicyAge
            | Self::ControlConnected => Kind::Gauge,
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::InFlight => "Requests that hold a slot.",
            Self::Limit => "Slots; absent where unlimited.",
            Self::Peak => "Most requests in flight since the start.",
            Self::Utilization => "In flight by limit.",
            Self::Time => "Time by state; saturated is at the limit.",
            Self::Requests => "Requests by outcome.",
            Self::Rejections => "Rejections by reason.",
            Self::QueueDepth => "Requests that wait for a slot.",
            Self::LeftQueue => "Requests that left while they waited.",
            Self::Leaked => "Permits that outlived their bound.",
            Self::Ended => {
                "Requests that got no whole answer of an upstream for a reason beside a limit."
            }
            Self::Fallbacks => "Designed answers given in place of a rejection or a timeout.",
            Self::Retries => "Attempts beyond the first.",
            Self::Generation => "Number of the running policy.",
            Self::PolicyAge => "Since the running policy was applied.",
            Self::ControlConnected => "1 while the control plane is connected.",
        }
    }
}

/// The whole page.
pub(crate) fn render(generation: u64, all: Folded, process: Process<'_>) -> String {
    let mut page = Text(String::new());
    // Writing to a string cannot fail.
    match write_all(&mut page, &all.all(), generation, process) {
        Ok(()) => page.0,
        Err(fmt::Error) => String::new(),
    }
}

fn write_all(
    page: &mut Text,
    all: &[Figures],
    generation: u64,
    process: Process<'_>,
) -> fmt::Result {
    compartments(page, all)?;
    outcomes(page, process.outcomes)?;
    page.family(Instrument::Generation)?;
    page.sample(Instrument::Generation, &[], generation)?;
    if let Some(age_s) = process.policy_age_s {
        page.family(Instrument::PolicyAge)?;
        page.sample(Instrument::PolicyAge, &[], age_s)?;
    }
    page.family(Instrument::ControlConnected)?;
    page.sample(
        Instrument::ControlConnected,
        &[],
        u8::from(process.connected),
    )
}

fn outcomes(page: &mut Text, outcomes: &Outcomes) -> fmt::Result {
    page.family(Instrument::Ended)?;
    for (reason, count) in outcomes.by_reason() {
        page.sample(Instrument::Ended, &[("reason", reason)], count)?;
    }
    page.family(Instrument::Fallbacks)?;
    let fixed = outcomes.static_fallbacks();
    page.sample(Instrument::Fallbacks, &[("kind", "static")], fixed)?;
    page.family(Instrument::Retries)?;
    page.sample(Instrument::Retries, &[], outcomes.retries())
}

fn compartments(page: &mut Text, all: &[Figures]) -> fmt::Result {
    let sums = |figures: &&Figures| !is_sum(figures);
    each(page, Instrument::InFlight, all.iter(), |f| {
        f64::from(f.in_flight)
    })?;
    page.family(Instrument::Limit)?;
    for figures in all.iter().filter(sums) {
        if let Some(slots) = figures.limit.slots() {
            let [key, level] = labels(figures);
            page.sample(Instrument::Limit, &[key, level, ("kind", "nominal")], slots)?;
        }
    }
    each(page, Instrument::Peak, all.iter().filter(sums), |f| {
        f64::from(f.peak)
    })?;
    each(
        page,
        Instrument::Utilization,
        all.iter().filter(sums),
        |f| f.saturation,
    )?;
    times(page, all.iter().filter(sums))?;
    page.family(Instrument::Requests)?;
    for figures in all {
        let [key, level] = labels(figures);
        let rejected: u64 = figures.rejected.values().sum();
        for (outcome, count) in [("admitted", figures.admitted), ("rejected", rejected)] {
            page.sample(
                Instrument::Requests,
                &[key, level, ("outcome", outcome)],
                count,
            )?;
        }
    }
    page.family(Instrument::Rejections)?;
    for figures in all {
        let [key, level] = labels(figures);
        for (reason, count) in &figures.rejected {
            let reason = ("reason", reason.as_str());
            page.sample(Instrument::Rejections, &[key, level, reason], count)?;
        }
    }
    each(page, Instrument::QueueDepth, all.iter(), |f| {
        f64::from(f.queued)
    })?;
    page.family(Instrument::LeftQueue)?;
    for figures in all {
        page.sample(Instrument::LeftQueue, &labels(figures), figures.left_queue)?;
    }
    page.family(Instrument::Leaked)?;
    for figures in all {
        page.sample(Instrument::Leaked, &labels(figures), figures.leaked)?;
    }
    Ok(())
}

/// Seconds in each state: counters, so that nothing between two looks is missed.
fn times<'a>(page: &mut Text, all: impl Iterator<Item = &'a Figures>) -> fmt::Result {
    page.family(Instrument::Time)?;
    for figures in all {
        let [key, level] = labels(figures);
        let by_state = [
            ("idle", figures.idle_us),
            ("busy", figures.busy_us),
            ("saturated", figures.saturated_us),
        ];
        for (state, us) in by_state {
            let seconds = Duration::from_micros(us).as_secs_f64();
            page.sample(Instrument::Time, &[key, level, ("state", state)], seconds)?;
        }
    }
    Ok(())
}

fn each<'a>(
    page: &mut Text,
    instrument: Instrument,
    all: impl Iterator<Item = &'a Figures>,
    value: impl Fn(&Figures) -> f64,
) -> fmt::Result {
    page.family(instrument)?;
    for figures in all {
        page.sample(instrument, &labels(figures), value(figures))?;
    }
    Ok(())
}

fn labels(figures: &Figures) -> [(&'static str, &str); 2] {
    let level = figures.level.as_str();
    [
        ("bulkhead_compartment", &figures.key),
        ("bulkhead_level", level),
    ]
}

/// Sums of tenants have no limit, peak or saturation of their own.
const fn is_sum(figures: &Figures) -> bool {
    match figures.level {
        Level::Tenant | Level::TenantRoute => true,
        Level::Route | Level::Stream | Level::Upstream | Level::Gateway => false,
    }
}

/// Gateway, routes and upstreams as they are; all tenants as `tenant/_other`, and all tenants of
/// one route as `route/ID/tenant/_other`.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    kept: Vec<Figures>,
    sums: BTreeMap<String, Figures>,
}

impl Folded {
    pub(crate) fn take(&mut self, figures: Figures) {
        let key = match figures.level {
            Level::Route | Level::Stream | Level::Upstream | Level::Gateway => {
                return self.kept.push(figures);
            }
            Level::Tenant => "tenant/_other".to_owned(),
            // `route/ID/tenant/ID`: no name has a slash in it.
            Level::TenantRoute => match figures.key.rsplit_once('/') {
                Some((before, _)) => format!("{before}/_other"),
                None => return,
            },
        };
        match self.sums.get_mut(&key) {
            Some(sum) => add(sum, &figures),
            None => {
                self.sums.insert(key.clone(), Figures { key, ..figures });
            }
        }
    }

    fn all(mut self) -> Vec<Figures> {
        self.kept.extend(self.sums.into_values());
        self.kept
    }
}

fn add(sum: &mut Figures, figures: &Figures) {
    sum.in_flight = sum.in_flight.saturating_add(figures.in_flight);
    sum.queued = sum.queued.saturating_add(figures.queued);
    sum.left_queue = sum.left_queue.saturating_add(figures.left_queue);
    sum.admitted = sum.admitted.saturating_add(figures.admitted);
    sum.leaked = sum.leaked.saturating_add(figures.leaked);
    for (reason, count) in &figures.rejected {
        let total = sum.rejected.entry(*reason).or_default();
        *total = total.saturating_add(*count);
    }
}

struct Text(String);

impl Text {
    fn family(&mut self, instrument: Instrument) -> fmt::Result {
        let (name, help) = (instrument.name(), instrument.help());
        let kind = match instrument.kind() {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n")
    }

    fn sample(
        &mut self,
        instrument: Instrument,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> fmt::Result {
        self.0.write_str(instrument.name())?;
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.write_char(if index == 0 { '{' } else { ',' })?;
            write!(self.0, "{label}=\"")?;
            self.escaped(text)?;
            self.0.write_char('"')?;
        }
        self.0.write_str(if labels.is_empty() { "" } else { "}" })?;
        writeln!(self.0, " {value}")
    }

    fn escaped(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                '\\' => self.0.write_str("\\\\")?,
                '"' => self.0.write_str("\\\"")?,
                '\n' => self.0.write_str("\\n")?,
                other => self.0.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use compartment::{Limit, Rejection};

    use super::*;
    use crate::report::tests::figures;

    fn page(compartments: Vec<Figures>) -> String {
        let mut folded = Folded::default();
        compartments
            .into_iter()
            .for_each(|figures| folded.take(figures));
        let process = Process {
            outcomes: &Outcomes::default(),
            connected: true,
            policy_age_s: Some(1.5),
        };
        render(42, folded, process)
    }

    #[test]
    fn figures_become_samples() {
        let text = page(vec![Figures {
            in_flight: 4,
            saturation: 0.4,
            saturated_us: 2_500_000,
            rejected: BTreeMap::from([(Rejection::RouteFull, 3)]),
            ..figures("route/a", 9)
        }]);
        let labels = "bulkhead_compartment=\"route/a\",bulkhead_level=\"route\"";
        for line in [
            format!("bulkhead_compartment_in_flight{{{labels}}} 4"),
            format!("bulkhead_compartment_limit{{{labels},kind=\"nominal\"}} 10"),
            format!("bulkhead_compartment_utilization_ratio{{{labels}}} 0.4"),
            format!("bulkhead_compartment_time_seconds_total{{{labels},state=\"saturated\"}} 2.5"),
            format!("bulkhead_compartment_requests_total{{{labels},outcome=\"admitted\"}} 9"),
            format!("bulkhead_compartment_requests_total{{{labels},outcome=\"rejected\"}} 3"),
            format!("bulkhead_compartment_rejections_total{{{labels},reason=\"route_full\"}} 3"),
            "bulkhead_policy_generation 42".to_owned(),
            "bulkhead_policy_age_seconds 1.5".to_owned(),
            "bulkhead_control_connected 1".to_owned(),
            "bulkhead_fallback_answers_total{kind=\"static\"} 0".to_owned(),
            "bulkhead_requests_ended_total{reason=\"no_route\"} 0".to_owned(),
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn each_family_is_declared_once_and_in_one_piece() {
        let text = page(vec![
            figures("gateway", 1),
            figures("route/a", 2),
            figures("tenant/t", 3),
        ]);
        let mut seen = Vec::new();
        for line in text.lines() {
            let name = match line.strip_prefix("# TYPE ") {
                Some(declared) => declared.split(' ').next().unwrap(),
                None if line.starts_with('#') => continue,
                None => line.split(['{', ' ']).next().unwrap(),
            };
            if seen.last() != Some(&name) {
                assert!(!seen.contains(&name), "{name} comes back in\n{text}");
                seen.push(name);
            }
        }
    }

    #[test]
    fn series_do_not_grow_with_tenants() {
        let few = page(
            (0..2)
                .map(|n| figures(&format!("tenant/t{n}"), n))
                .collect(),
        );
        let many = page(
            (0..500)
                .map(|n| figures(&format!("tenant/t{n}"), 1))
                .collect(),
        );
        assert_eq!(few.lines().count(), many.lines().count());
        assert!(many.contains(
            "bulkhead_compartment_requests_total{bulkhead_compartment=\"tenant/_other\",\
             bulkhead_level=\"tenant\",outcome=\"admitted\"} 500"
        ));
    }

    #[test]
    fn tenants_of_a_route_are_summed_on_that_route() {
        let text = page(vec![
            figures("route/a/tenant/t", 1),
            figures("route/a/tenant/u", 2),
        ]);
        assert!(text.contains("\"route/a/tenant/_other\""));
        assert!(!text.contains("tenant/t\"") && !text.contains("tenant/u\""));
    }

    #[test]
    fn no_limit_is_shown_where_there_is_none() {
        let text = page(vec![Figures {
            limit: Limit::UNLIMITED,
            ..figures("upstream/u", 1)
        }]);
        assert!(!text.contains("bulkhead_compartment_limit{"));
    }

    #[test]
    fn label_values_are_escaped() {
        let mut text = Text(String::new());
        text.escaped("a\\b\"c\nd").unwrap();
        assert_eq!(text.0, r#"a\\b\"c\nd"#);
    }
}
