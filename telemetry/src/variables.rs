//! The `OTEL_…` variables: which there are, and what becomes of each.
//!
//! Separate so that none is ignored in silence: every variable of the specification is honoured,
//! refused by its name, or answered with a warning. It must never put a value into a message:
//! headers hold tokens.

use std::str::FromStr;
use std::time::Duration;

use crate::settings::Fault;

/// Variables that settings read; those of single signals are made from [`OTLP`].
const KNOWN: [&str; 24] = [
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_PROPAGATORS",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_METRICS_EXEMPLAR_FILTER",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
];

/// Limits of one kind of record over the general ones.
const LIMITS: [&str; 4] = [
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
];

/// Kept by what is absent: our spans have no events and no links.
const EMPTY: [&str; 4] = [
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
];

/// The beginning of the exporter's variables; then nothing or a signal, then one of [`OTLP`].
pub(crate) const EXPORTER: &str = "OTEL_EXPORTER_OTLP_";
/// What is read of the exporter.
const OTLP: [&str; 9] = [
    "ENDPOINT",
    "PROTOCOL",
    "HEADERS",
    "TIMEOUT",
    "COMPRESSION",
    "INSECURE",
    "CERTIFICATE",
    "CLIENT_KEY",
    "CLIENT_CERTIFICATE",
];
const SIGNALS: [&str; 4] = ["", "TRACES_", "METRICS_", "LOGS_"];

/// Set, they would promise what this build does not do: beginnings or whole names, and why.
const REFUSED: [(&str, &str); 7] = [
    (
        "OTEL_CONFIG_FILE",
        "is not read by this build; use the other OTEL_ variables",
    ),
    (
        "OTEL_EXPERIMENTAL_CONFIG_FILE",
        "is not read by this build; use the other OTEL_ variables",
    ),
    (
        "OTEL_EXPORTER_ZIPKIN_",
        "is not supported; traces go out by OTLP",
    ),
    (
        "OTEL_EXPORTER_JAEGER_",
        "is not supported; traces go out by OTLP",
    ),
    (
        "OTEL_EXPORTER_PROMETHEUS_",
        "is not supported; /metrics is on the admin port (--admin)",
    ),
    (
        "OTEL_EXPORTER_OTLP_SPAN_INSECURE",
        "is obsolete; begin the endpoint with http://",
    ),
    (
        "OTEL_EXPORTER_OTLP_METRIC_INSECURE",
        "is obsolete; begin the endpoint with http://",
    ),
];

/// Names of variables that are shown at most, in characters.
const NAME_CHARS_MAX: usize = 80;

/// The variables that begin with `OTEL_`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables<'a>(&'a [(String, String)]);

impl<'a> Variables<'a> {
    pub(crate) const fn new(all: &'a [(String, String)]) -> Self {
        Self(all)
    }

    /// A variable that is there and not empty: the specification treats the two alike.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        let value = value.trim();
        (!value.is_empty()).then_some(value)
    }

    /// One variable of the exporter: that of the signal, or else the general one.
    pub(crate) fn of_signal(self, signal: &str, what: &str) -> Option<(String, &'a str)> {
        let names = [
            format!("{EXPORTER}{signal}_{what}"),
            format!("{EXPORTER}{what}"),
        ];
        names
            .into_iter()
            .find_map(|name| self.text(&name).map(|text| (name, text)))
    }

    pub(crate) fn parsed<T: FromStr>(
        self,
        name: &str,
        rule: &'static str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse().ok().filter(fits) {
            Some(value) => Ok(Some(value)),
            None => Err(Fault::new(name, rule)),
        }
    }

    /// Milliseconds.
    pub(crate) fn span(self, name: &str, default: Duration) -> Result<Duration, Fault> {
        let rule = "must be milliseconds, a whole number from 1 to 3600000";
        let ms = self.parsed(name, rule, |ms: &u64| (1..=3_600_000).contains(ms))?;
        Ok(ms.map_or(default, Duration::from_millis))
    }

    /// `true` or `false`, in any case.
    pub(crate) fn switch(self, name: &str) -> Result<bool, Fault> {
        match self.text(name) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(Fault::new(name, "must be true or false")),
        }
    }

    /// The first variable that would promise what this build does not do.
    pub(crate) fn refused(self) -> Result<(), Fault> {
        for (name, _) in self.0.iter().filter(|(name, _)| self.text(name).is_some()) {
            if let Some((_, why)) = REFUSED.iter().find(|(of, _)| name.starts_with(of)) {
                return Err(Fault::new(name, why));
            }
        }
        Ok(())
    }

    /// What to say of variables that have no effect.
    pub(crate) fn warnings(self) -> Vec<String> {
        let set = self.0.iter().filter(|(name, _)| self.text(name).is_some());
        set.filter(|(name, _)| !is_known(name))
            .map(|(name, _)| {
                let shown = name
                    .chars()
                    .take(NAME_CHARS_MAX)
                    .filter(|c| !c.is_control());
                let shown: String = shown.collect();
                if name == "OTEL_LOG_LEVEL" {
                    format!("the variable {shown} has no effect: --log sets what is logged")
                } else {
                    format!("the variable {shown} is not known and has no effect")
                }
            })
            .collect()
    }
}

fn is_known(name: &str) -> bool {
    let of_exporter = |name: &str| {
        name.strip_prefix(EXPORTER).is_some_and(|rest| {
            SIGNALS.iter().any(|signal| {
                rest.strip_prefix(signal)
                    .is_some_and(|what| OTLP.contains(&what))
            })
        })
    };
    KNOWN
        .iter()
        .chain(&LIMITS)
        .chain(&EMPTY)
        .any(|known| *known == name)
        || of_exporter(name)
}
