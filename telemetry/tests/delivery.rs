//! What collectors get, over both protocols, and what their faults cost: nothing but telemetry.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failed step fails the test, and real time is what is measured"
)]

mod collector;

use std::sync::Arc;
use std::time::{Duration, Instant};

use collector::{Collector, Manner};
use telemetry::names::{Instrument, Label};
use telemetry::{
    Context, Distribution, Example, Family, Figure, Handle, Kind, Record, Settings, Source, Status,
    Telemetry, Text, Value,
};

/// Longest wait for what arrives.
const SOON: Duration = Duration::from_secs(20);

fn settings(pairs: &[(&str, String)]) -> Settings {
    let all: Vec<_> = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), v.clone()))
        .collect();
    Settings::read(&all).unwrap()
}

fn to(collector: &Collector, protocol: &str, further: &[(&'static str, &str)]) -> Settings {
    let mut pairs = vec![
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            format!("http://{}", collector.address),
        ),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.to_owned()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k1".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "10".to_owned()),
        ("OTEL_BLRP_SCHEDULE_DELAY", "10".to_owned()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100".to_owned()),
        ("OTEL_SERVICE_NAME", "edge".to_owned()),
    ];
    pairs.extend(
        further
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned())),
    );
    settings(&pairs)
}

fn record(kind: Kind, n: u8) -> Record {
    Record {
        kind,
        name: Text::from("GET route"),
        event: None,
        context: Some(Context {
            trace_id: [n; 16],
            parent: Some([7; 8]),
            span_id: [n; 8],
            sampled: true,
        }),
        trace_state: None,
        began_unix_ns: 1_000,
        ended_unix_ns: 2_000,
        status: Status::Error,
        attributes: vec![
            (Text::from("http.route"), Value::from("route")),
            (
                Text::from("bulkhead.queue.wait.duration"),
                Value::Number(0.5),
            ),
        ],
    }
}

struct Figures;

impl Source for Figures {
    fn families(&self) -> Vec<Family> {
        let mut holds = Family::new(Instrument::PermitHold);
        let mut durations = Distribution {
            sum_us: 900,
            ..Distribution::default()
        };
        durations.add(Some(512), 3);
        durations.example = Some(Example {
            us: 300,
            at_unix_ns: 5,
            trace_id: [9; 16],
            span_id: [9; 8],
        });
        let route = vec![(Label::Compartment, Text::from("route/a"))];
        holds.push(route, Figure::Durations(Box::new(durations)));
        vec![Family::of(Instrument::Retries, Figure::Whole(5)), holds]
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn everything_arrives(protocol: &str, further: &[(&'static str, &str)]) {
    let collector = Collector::start(Manner::Takes);
    let telemetry = Telemetry::start(to(&collector, protocol, further), "i1").unwrap();
    let (handle, figures) = (telemetry.handle(), Arc::new(Figures));
    handle.observe(&figures);
    handle.push(record(Kind::Server, 1));
    handle.push(record(Kind::Client, 2));
    handle.push(Record {
        event: Some("bulkhead.x".into()),
        ..record(Kind::Log(9), 3)
    });
    let got = &collector.got;
    until("all three signals", || {
        let got = got.lock().unwrap();
        got.spans.len() == 2 && got.logs.len() == 1 && !got.metrics.is_empty()
    });
    drop(telemetry);
    let got = got.lock().unwrap();
    let span = &got.spans[0];
    assert_eq!(
        (span.trace_id.as_slice(), span.parent_span_id.len()),
        ([1; 16].as_slice(), 8)
    );
    assert_eq!(
        (span.kind, span.name.as_str(), span.flags & 1),
        (2, "GET route", 1)
    );
    assert_eq!(got.spans[1].kind, 3);
    assert_eq!(
        (got.logs[0].event_name.as_str(), got.logs[0].severity_number),
        ("bulkhead.x", 9)
    );
    assert_eq!(got.logs[0].trace_id, [3; 16]);
    let text = format!("{:?}", got.metrics);
    for part in ["bulkhead.retries", "AsInt(5)", "0.000512", "count: 3"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("bulkhead.compartment.permit.hold.duration") && text.contains("[9, 9"));
    let resource = format!("{:?}", got.resources);
    assert!(
        resource.contains("edge") && resource.contains("i1"),
        "{resource}"
    );
    assert!(got.headers.iter().all(|headers| headers["api-key"] == "k1"));
    assert_eq!(handle.dropped(), telemetry::Dropped::default());
}

#[test]
fn everything_arrives_over_grpc() {
    everything_arrives("grpc", &[]);
}

#[test]
fn everything_arrives_over_http() {
    everything_arrives("http/protobuf", &[]);
}

#[test]
fn everything_arrives_compressed() {
    everything_arrives("grpc", &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
    everything_arrives(
        "http/protobuf",
        &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")],
    );
}

/// What is handed over never waits, what does not fit is dropped and counted, and the process
/// ends in time: whatever the collector does.
fn costs_nothing(protocol: &str, manner: Manner) {
    let collector = Collector::start(manner);
    let queue = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "64"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "64"),
    ];
    let telemetry = Telemetry::start(to(&collector, protocol, &queue), "i1").unwrap();
    let handle = telemetry.handle();
    let began = Instant::now();
    for n in 0..50_000_u32 {
        let n = u8::try_from(n % 250).unwrap() + 1;
        handle.push(record(Kind::Server, n));
        handle.push(record(Kind::Log(9), n));
    }
    // Fifty thousand that each waited a millisecond would take much longer.
    assert!(began.elapsed() < Duration::from_secs(20), "{manner:?}");
    let dropped = handle.dropped();
    // What is kept is the queue and one batch: 64 of each, twice, while the batch is on its way.
    assert!(
        dropped.spans >= 49_000 && dropped.logs >= 49_000,
        "{manner:?} {dropped:?}"
    );
    let began = Instant::now();
    drop(telemetry);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{manner:?}: the end takes its time"
    );
}

#[test]
fn a_collector_that_never_answers_costs_nothing() {
    costs_nothing("grpc", Manner::Silent);
    costs_nothing("http/protobuf", Manner::Silent);
}

#[test]
fn a_collector_that_is_away_costs_nothing() {
    costs_nothing("grpc", Manner::Away);
    costs_nothing("http/protobuf", Manner::Away);
}

#[test]
fn a_collector_that_says_later_costs_nothing() {
    costs_nothing("http/protobuf", Manner::Says(503));
}

#[test]
fn what_a_collector_refuses_for_good_is_counted_and_not_sent_again() {
    let collector = Collector::start(Manner::Says(400));
    let telemetry = Telemetry::start(to(&collector, "http/protobuf", &[]), "i1").unwrap();
    let handle = telemetry.handle();
    handle.push(record(Kind::Server, 1));
    until("the refusal is counted", || handle.dropped().spans == 1);
    drop(telemetry);
    assert_eq!(collector.got.lock().unwrap().trace_posts, 1);
}

#[test]
fn what_comes_before_the_end_arrives() {
    let collector = Collector::start(Manner::Takes);
    let late = [("OTEL_BSP_SCHEDULE_DELAY", "3600000")];
    let telemetry = Telemetry::start(to(&collector, "http/protobuf", &late), "i1").unwrap();
    (1..=100).for_each(|n| telemetry.handle().push(record(Kind::Server, n)));
    drop(telemetry);
    assert_eq!(collector.got.lock().unwrap().spans.len(), 100);
}

#[test]
fn nothing_runs_while_nothing_is_asked_for() {
    let telemetry = Telemetry::start(settings(&[]), "i1").unwrap();
    let handle = telemetry.handle();
    assert!(handle.traces().is_none() && !handle.takes_logs() && !handle.takes_examples());
    handle.push(record(Kind::Server, 1));
    assert_eq!(handle.dropped(), telemetry::Dropped::default());
    assert!(Handle::default().propagates());
}

#[test]
fn attributes_beyond_the_limits_are_cut_and_counted() {
    let collector = Collector::start(Manner::Takes);
    let limits = [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3"),
    ];
    let telemetry = Telemetry::start(to(&collector, "http/protobuf", &limits), "i1").unwrap();
    telemetry.handle().push(record(Kind::Server, 1));
    drop(telemetry);
    let got = collector.got.lock().unwrap();
    assert_eq!(
        (
            got.spans[0].attributes.len(),
            got.spans[0].dropped_attributes_count
        ),
        (1, 1)
    );
    assert!(format!("{:?}", got.spans[0].attributes).contains("\"rou\""));
}

/// A certificate for `localhost` that only those believe who were told its root.
struct Authority {
    root_pem: String,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl Authority {
    fn new(protocol: &[u8]) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = made.signing_key.serialize_der();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![made.cert.der().clone()],
                rustls_pki_types::PrivateKeyDer::try_from(key).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![protocol.to_vec()];
        Self {
            root_pem: made.cert.pem(),
            acceptor: Arc::new(config).into(),
        }
    }
}

/// TLS to a collector: both protocols, and nothing to one whose root nobody named.
#[test]
fn over_tls_only_whom_we_believe_gets_anything() {
    for (protocol, alpn) in [("grpc", &b"h2"[..]), ("http/protobuf", b"http/1.1")] {
        let (authority, other) = (Authority::new(alpn), Authority::new(alpn));
        let collector = Collector::start_with(Manner::Takes, Some(authority.acceptor.clone()));
        let folder = tempfile::tempdir().unwrap();
        let endpoint = format!("https://localhost:{}/v1/traces", collector.address.port());
        let send = |root_pem: &str, n: u8| {
            let path = folder.path().join(format!("{n}.pem"));
            std::fs::write(&path, root_pem).unwrap();
            let further = [
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str()),
                ("OTEL_METRICS_EXPORTER", "none"),
                ("OTEL_LOGS_EXPORTER", "none"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", path.to_str().unwrap()),
            ];
            let settings = to(&collector, protocol, &further);
            let telemetry = Telemetry::start(settings, "gw-1").unwrap();
            telemetry.handle().push(record(Kind::Server, n));
            telemetry
        };
        let _other = send(&other.root_pem, 1);
        let _known = send(&authority.root_pem, 2);
        let from = Instant::now();
        loop {
            let got = collector.got.lock().unwrap();
            if let Some(span) = got.spans.first() {
                assert_eq!(span.trace_id, [2; 16], "{protocol}");
                break;
            }
            drop(got);
            assert!(from.elapsed() < SOON, "{protocol}: nothing arrives");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(collector.got.lock().unwrap().spans.len(), 1, "{protocol}");
    }
}
