//! The `OTEL_…` variables: honoured, refused by name, or warned of.

use super::*;

fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
    let all: Vec<_> = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Settings::read(&all).map_err(|fault| fault.to_string())
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

fn uris(pairs: &[(&str, &str)]) -> Vec<String> {
    let settings = read(pairs).unwrap();
    settings
        .outputs
        .iter()
        .map(|output| output.uri.to_string())
        .collect()
}

#[test]
fn nothing_goes_out_unless_an_endpoint_or_an_exporter_is_named() {
    assert!(!read(&[]).unwrap().is_on());
    assert!(!read(&[("OTEL_SERVICE_NAME", "edge")]).unwrap().is_on());
    assert!(read(&[ENDPOINT]).unwrap().is_on());
    assert!(
        !read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")])
            .unwrap()
            .is_on()
    );
    assert!(read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "yes")]).is_err());
    assert_eq!(
        uris(&[("OTEL_LOGS_EXPORTER", "otlp")]),
        ["http://localhost:4318/v1/logs"]
    );
    let none = |name| (name, "none");
    let off = [
        "OTEL_TRACES_EXPORTER",
        "OTEL_METRICS_EXPORTER",
        "OTEL_LOGS_EXPORTER",
    ]
    .map(none);
    assert!(!read(&[ENDPOINT, off[0], off[1], off[2]]).unwrap().is_on());
    assert_eq!(
        uris(&[ENDPOINT, off[0], off[2]]),
        ["http://collector:4318/v1/metrics"]
    );
}

#[test]
fn the_general_endpoint_is_a_base_and_a_signals_own_is_not() {
    assert_eq!(
        uris(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1/otlp/"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://b:2/own"),
        ]),
        [
            "http://a:1/otlp/v1/traces",
            "http://a:1/otlp/v1/metrics",
            "http://b:2/own"
        ]
    );
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(
        uris(&[("OTEL_TRACES_EXPORTER", "otlp"), grpc]),
        ["http://localhost:4317/"]
    );
    let bare = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317");
    let secure = read(&[bare, grpc]).unwrap();
    let traces = secure.output(Signal::Traces).unwrap();
    assert!(traces.tls.is_some() && traces.uri.scheme_str() == Some("https"));
    let plain = ("OTEL_EXPORTER_OTLP_INSECURE", "true");
    assert_eq!(uris(&[bare, grpc, plain]), ["http://collector:4317/"]);
}

#[test]
fn a_signals_own_variable_wins() {
    let settings = read(&[
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "700"),
        ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "300"),
        ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1"),
    ])
    .unwrap();
    let of = |signal| settings.output(signal).unwrap();
    assert_eq!(of(Signal::Traces).protocol, Protocol::Grpc);
    assert_eq!(of(Signal::Traces).timeout, Duration::from_millis(700));
    assert!(!of(Signal::Traces).gzip && of(Signal::Logs).gzip);
    assert_eq!(of(Signal::Logs).protocol, Protocol::Http);
    assert_eq!(of(Signal::Logs).timeout, Duration::from_millis(300));
    assert_eq!(of(Signal::Metrics).headers[0].1, "a b");
    // Headers hold tokens.
    assert!(!format!("{settings:?}").contains("a b"));
}

#[test]
fn what_cannot_be_honoured_is_refused_by_its_name_and_never_by_its_value() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/s3cret"),
        ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/s3cret"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/s3cret"),
        ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "/s3cret"),
        ("OTEL_EXPORTER_OTLP_SPAN_INSECURE", "s3cret"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json s3cret"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://s3cret:4318"),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://user:s3cret@a"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "s3cret"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd s3cret"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "s3cret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a=b\u{1}s3cret"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "delta s3cret",
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "s3cret",
        ),
        ("OTEL_EXPORTER_ZIPKIN_ENDPOINT", "s3cret"),
        ("OTEL_EXPORTER_PROMETHEUS_PORT", "s3cret"),
        ("OTEL_CONFIG_FILE", "s3cret"),
        ("OTEL_TRACES_EXPORTER", "console s3cret"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote s3cret"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5 s3cret"),
        ("OTEL_PROPAGATORS", "tracecontext,s3cret"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0s3cret"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "-1s3cret"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "s3cret"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "s3cret"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "always_on s3cret"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "s3cret"),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "s3cret"),
        ("OTEL_RESOURCE_ATTRIBUTES", "s3cret"),
    ] {
        let refused = read(&[ENDPOINT, (name, value)]).unwrap_err();
        assert!(
            refused.starts_with(&format!("the variable {name} ")),
            "{name}: {refused}"
        );
        assert!(!refused.contains("s3cret"), "{refused}");
    }
}

#[test]
fn a_batch_is_not_larger_than_its_queue() {
    let of = |queue, batch| {
        read(&[
            ENDPOINT,
            ("OTEL_BSP_MAX_QUEUE_SIZE", queue),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", batch),
        ])
    };
    assert_eq!(of("10", "5").unwrap().spans.batch_max, 5);
    assert!(
        of("10", "11")
            .unwrap_err()
            .contains("OTEL_BSP_MAX_EXPORT_BATCH_SIZE")
    );
    let alone = read(&[ENDPOINT, ("OTEL_BSP_MAX_QUEUE_SIZE", "100")]).unwrap();
    assert_eq!((alone.spans.queue_max, alone.spans.batch_max), (100, 100));
}

#[test]
fn limits_of_one_kind_win_over_the_general_ones() {
    let settings = read(&[
        ENDPOINT,
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "7"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3"),
        ("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "9"),
    ])
    .unwrap();
    assert_eq!(
        (
            settings.spans.attributes_max,
            settings.records.attributes_max
        ),
        (3, 7)
    );
    assert_eq!(settings.records.value_chars_max, 9);
}

#[test]
fn what_nobody_knows_is_warned_of() {
    let warned = |name| read(&[ENDPOINT, (name, "x")]).unwrap().warnings;
    assert_eq!(warned("OTEL_SPAN_LINK_COUNT_LIMIT"), Vec::<String>::new());
    assert_eq!(
        warned("OTEL_TRACE_EXPORTER"),
        ["the variable OTEL_TRACE_EXPORTER is not known and has no effect"]
    );
    assert!(warned("OTEL_LOG_LEVEL")[0].contains("--log"));
    assert!(warned("OTEL_EXPORTER_OTLP_TRACES_ENDPOINTS")[0].contains("not known"));
}

#[test]
fn propagation_is_on_unless_told_otherwise() {
    assert!(read(&[]).unwrap().propagates);
    assert!(
        read(&[ENDPOINT, ("OTEL_PROPAGATORS", "baggage,tracecontext")])
            .unwrap()
            .propagates
    );
    assert!(!read(&[("OTEL_PROPAGATORS", "none")]).unwrap().propagates);
    assert!(!read(&[("OTEL_PROPAGATORS", "baggage")]).unwrap().propagates);
}

#[test]
fn a_resource_is_what_the_operator_says() {
    let settings = read(&[
        ENDPOINT,
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=a,deployment.environment.name=x%2Cy",
        ),
        ("OTEL_SERVICE_NAME", "edge"),
    ])
    .unwrap();
    let found = |key: &str| {
        settings
            .resource
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, v)| v.as_str())
    };
    assert_eq!(found("service.name"), Some("edge"));
    assert_eq!(found("deployment.environment.name"), Some("x,y"));
}
