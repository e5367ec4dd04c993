//! Where telemetry goes and how much of it, by the standard `OTEL_…` variables.
//!
//! Separate so that everything is checked before anything starts. It must never say the value of
//! a variable.

use std::time::Duration;

use crate::output::{Output, outputs, pairs};
use crate::sampler::Sampler;
use crate::variables::Variables;

/// Largest queue that can be asked for, in records.
const QUEUE_MAX: usize = 65_536;

/// A variable that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable {name} {rule}")]
pub struct Fault {
    name: String,
    rule: &'static str,
}

impl Fault {
    pub(crate) fn new(name: &str, rule: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            rule,
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Figures.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// In lower case, as in paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP/gRPC.
    Grpc,
    /// OTLP/HTTP, binary.
    Http,
}

/// How records are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    pub(crate) queue_max: usize,
    pub(crate) batch_max: usize,
    pub(crate) delay: Duration,
    pub(crate) timeout: Duration,
    pub(crate) attributes_max: usize,
    pub(crate) value_chars_max: usize,
}

/// Everything that telemetry needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) outputs: Vec<Output>,
    pub(crate) sampler: Sampler,
    pub(crate) propagates: bool,
    pub(crate) spans: Batching,
    pub(crate) records: Batching,
    pub(crate) metrics_period: Duration,
    pub(crate) metrics_timeout: Duration,
    pub(crate) examples: bool,
    pub(crate) resource: Vec<(String, String)>,
    /// What to tell the operator once the log is there.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the variables that begin with `OTEL_`.
    pub fn read(all: &[(String, String)]) -> Result<Self, Fault> {
        let variables = Variables::new(all);
        let is_off = variables.switch("OTEL_SDK_DISABLED")?;
        let outputs = if is_off {
            Vec::new()
        } else {
            outputs(variables)?
        };
        if outputs.is_empty() {
            return Self::off(variables, is_off);
        }
        variables.refused()?;
        check_metrics(variables)?;
        let ms = Duration::from_millis;
        Ok(Self {
            sampler: sampler(variables)?,
            propagates: propagates(variables)?,
            spans: batching(variables, "OTEL_BSP_", "OTEL_SPAN_", ms(5_000))?,
            records: batching(variables, "OTEL_BLRP_", "OTEL_LOGRECORD_", ms(1_000))?,
            metrics_period: variables.span("OTEL_METRIC_EXPORT_INTERVAL", ms(60_000))?,
            metrics_timeout: variables.span("OTEL_METRIC_EXPORT_TIMEOUT", ms(30_000))?,
            examples: examples(variables)?,
            resource: resource(variables)?,
            warnings: variables.warnings(),
            outputs,
        })
    }

    /// Nothing is sent. Propagation goes on: it is part of the request path, not of an exporter.
    fn off(variables: Variables<'_>, is_disabled: bool) -> Result<Self, Fault> {
        let warnings = if is_disabled {
            Vec::new()
        } else {
            variables.warnings()
        };
        let none = Batching {
            queue_max: 0,
            batch_max: 0,
            delay: Duration::ZERO,
            timeout: Duration::ZERO,
            attributes_max: 0,
            value_chars_max: 0,
        };
        Ok(Self {
            outputs: Vec::new(),
            sampler: Sampler::default(),
            propagates: propagates(variables)?,
            spans: none,
            records: none,
            metrics_period: Duration::MAX,
            metrics_timeout: Duration::ZERO,
            examples: false,
            resource: Vec::new(),
            warnings,
        })
    }

    /// Whether anything is sent.
    pub fn is_on(&self) -> bool {
        !self.outputs.is_empty()
    }

    pub(crate) fn output(&self, signal: Signal) -> Option<&Output> {
        self.outputs.iter().find(|output| output.signal == signal)
    }
}

fn resource(variables: Variables<'_>) -> Result<Vec<(String, String)>, Fault> {
    let name = "OTEL_RESOURCE_ATTRIBUTES";
    let mut found = variables
        .text(name)
        .map_or(Ok(Vec::new()), |text| pairs(name, text))?;
    if let Some(service) = variables.text("OTEL_SERVICE_NAME") {
        found.retain(|(key, _)| key != "service.name");
        found.push(("service.name".to_owned(), service.to_owned()));
    }
    Ok(found)
}

fn sampler(variables: Variables<'_>) -> Result<Sampler, Fault> {
    let rule = "must be a share from 0 to 1";
    let fits = |ratio: &f64| (0.0..=1.0).contains(ratio);
    let ratio = variables
        .parsed("OTEL_TRACES_SAMPLER_ARG", rule, fits)?
        .unwrap_or(1.0);
    let name = "OTEL_TRACES_SAMPLER";
    match variables.text(name) {
        None => Ok(Sampler::default()),
        Some(text) => Sampler::named(text, ratio).ok_or_else(|| {
            Fault::new(
                name,
                "must be always_on, always_off or traceidratio, or parentbased_…",
            )
        }),
    }
}

/// Whether trace contexts are read and written. Baggage passes as any other field does.
fn propagates(variables: Variables<'_>) -> Result<bool, Fault> {
    let name = "OTEL_PROPAGATORS";
    let Some(text) = variables.text(name) else {
        return Ok(true);
    };
    let mut found = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    if found
        .clone()
        .all(|part| ["tracecontext", "baggage", "none"].contains(&part))
    {
        return Ok(found.any(|part| part == "tracecontext"));
    }
    Err(Fault::new(name, "must be tracecontext, baggage or none"))
}

fn batching(
    variables: Variables<'_>,
    prefix: &str,
    limits: &str,
    delay: Duration,
) -> Result<Batching, Fault> {
    let named = |end: &str| format!("{prefix}{end}");
    let rule = "must be a whole number from 1 to 65536";
    let fits = |count: &usize| (1..=QUEUE_MAX).contains(count);
    let queue = variables
        .parsed(&named("MAX_QUEUE_SIZE"), rule, fits)?
        .unwrap_or(2_048);
    let batch_name = named("MAX_EXPORT_BATCH_SIZE");
    let batch = variables.parsed(&batch_name, rule, fits)?;
    if batch.is_some_and(|batch| batch > queue) {
        return Err(Fault::new(
            &batch_name,
            "must be at most the size of the queue",
        ));
    }
    let limit = |end: &str| -> Result<Option<usize>, Fault> {
        let rule = "must be a whole number";
        let own = variables.parsed(&format!("{limits}{end}"), rule, |_| true)?;
        Ok(own.or(variables.parsed(&format!("OTEL_{end}"), rule, |_| true)?))
    };
    Ok(Batching {
        queue_max: queue,
        batch_max: batch.unwrap_or_else(|| queue.min(512)),
        delay: variables.span(&named("SCHEDULE_DELAY"), delay)?,
        timeout: variables.span(&named("EXPORT_TIMEOUT"), Duration::from_millis(30_000))?,
        attributes_max: limit("ATTRIBUTE_COUNT_LIMIT")?.unwrap_or(128),
        value_chars_max: limit("ATTRIBUTE_VALUE_LENGTH_LIMIT")?.unwrap_or(usize::MAX),
    })
}

fn examples(variables: Variables<'_>) -> Result<bool, Fault> {
    let name = "OTEL_METRICS_EXEMPLAR_FILTER";
    match variables.text(name) {
        None | Some("trace_based") => Ok(true),
        Some("always_off") => Ok(false),
        Some(_) => Err(Fault::new(name, "must be trace_based or always_off")),
    }
}

fn check_metrics(variables: Variables<'_>) -> Result<(), Fault> {
    for (name, only, rule) in [
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "cumulative",
            "must be cumulative: sums since the start are what this build sends",
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram",
            "must be explicit_bucket_histogram: buckets are fixed in this build",
        ),
    ] {
        if variables
            .text(name)
            .is_some_and(|text| !text.eq_ignore_ascii_case(only))
        {
            return Err(Fault::new(name, rule));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
