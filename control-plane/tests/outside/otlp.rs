//! An alert as a collector gets it: an event when it fires, one when it is over, and a gauge.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use control_plane::Config;
use control_plane::alerts::{AlertConfig, Rules};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message as _;
use telemetry::{Events, Settings, Telemetry};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::alerts::{Counted, WINDOW_MS};
use crate::support::gateway::Gateway;
use crate::support::{Plane, config, eventually, policy, policy_file};

/// No other test of this process has an alert on this one.
const KEY: &str = "route/b";

#[derive(Default)]
struct Got {
    logs: Vec<LogRecord>,
    /// The newest export with the gauge: how many alerts fire, by name and severity.
    active: Vec<(String, String, i64)>,
}

/// A collector for OTLP over HTTP.
struct Collector {
    address: SocketAddr,
    got: Arc<Mutex<Got>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::<Mutex<Got>>::default();
        let kept = Arc::clone(&got);
        // Both end with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream.unwrap(), &kept));
            }
        });
        Self { address, got }
    }

    fn events(&self, name: &str) -> Vec<LogRecord> {
        let got = self.got.lock().unwrap();
        let own = |one: &&LogRecord| {
            one.event_name == name && value(&one.attributes, "compartment.key") == KEY
        };
        got.logs.iter().filter(own).cloned().collect()
    }

    fn firing(&self) -> i64 {
        let got = self.got.lock().unwrap();
        let own = |one: &&(String, String, i64)| {
            (one.0.as_str(), one.1.as_str()) == ("BulkheadCompartmentRefusing", "page")
        };
        got.active.iter().filter(own).map(|one| one.2).sum()
    }
}

/// Answers every export on one connection until the other side ends it.
fn serve(stream: TcpStream, got: &Mutex<Got>) {
    let mut answers = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if path.is_empty() {
                path = line;
            } else if line.is_empty() {
                break;
            } else if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        keep(&path, &body, &mut got.lock().unwrap());
        let _gone = answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }
}

fn keep(path: &str, body: &[u8], got: &mut Got) {
    if path.contains("/v1/logs") {
        let request = ExportLogsServiceRequest::decode(body).unwrap();
        let scopes = request.resource_logs.into_iter().flat_map(|r| r.scope_logs);
        got.logs.extend(scopes.flat_map(|scope| scope.log_records));
    }
    if path.contains("/v1/metrics") {
        let request = ExportMetricsServiceRequest::decode(body).unwrap();
        let scopes = request.resource_metrics.into_iter();
        let scopes = scopes.flat_map(|resource| resource.scope_metrics);
        let gauge = scopes
            .flat_map(|scope| scope.metrics)
            .find(|metric| metric.name == "bulkhead.alert.active");
        let Some(metric::Data::Gauge(gauge)) = gauge.and_then(|gauge| gauge.data) else {
            return;
        };
        let points = gauge.data_points.into_iter().map(|point| {
            let Some(number_data_point::Value::AsInt(count)) = point.value else {
                unreachable!("a count is whole: {point:?}")
            };
            let label = |name| value(&point.attributes, name);
            (label("alert"), label("severity"), count)
        });
        got.active = points.collect();
    }
}

/// An attribute as text; empty: there is none.
fn value(attributes: &[KeyValue], name: &str) -> String {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let found = attributes.iter().find(|one| one.key == name);
    let found = found.and_then(|one| one.value.clone()?.value);
    match found {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => other.map_or_else(String::new, |other| format!("{other:?}")),
    }
}

fn telemetry(collector: &Collector) -> Telemetry {
    let endpoint = format!("http://{}", collector.address);
    let settings = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Telemetry::start(Settings::read(&settings).unwrap(), "i1").unwrap()
}

/// From the reports of a gateway to what the collector keeps: the event of an alert once when it
/// fires and once when it is over, under one id, and the gauge from 0 to 1 and back.
#[tokio::test(flavor = "multi_thread")]
async fn an_alert_goes_out_as_events_and_as_a_gauge() {
    let collector = Collector::start();
    let telemetry = telemetry(&collector);
    let events = Events::new(telemetry.handle()).unwrap();
    // The log is one for the process; of other tests' lines this one takes none for its own.
    let all = tracing_subscriber::registry().with(events);
    tracing::subscriber::set_global_default(all).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        import: Some(policy_file(folder.path(), &policy())),
        alerts: AlertConfig {
            rules: Rules {
                window_ms: WINDOW_MS,
                ..Rules::default()
            },
            ..AlertConfig::default()
        },
        telemetry: telemetry.handle(),
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, config).unwrap();
    let gateway = Gateway::connect(&plane, "gw-a").await;
    let mut counted = Counted::of(KEY);
    counted.report(&gateway, 3_000, false, 0).await;
    eventually("the gauge is exported", || {
        !collector.got.lock().unwrap().active.is_empty()
    });
    assert_eq!(collector.firing(), 0);
    assert!(collector.events("bulkhead.alert.fired").is_empty());

    counted.report(&gateway, 2 * WINDOW_MS, true, 10).await;
    eventually("it has fired", || {
        collector.firing() == 1 && !collector.events("bulkhead.alert.fired").is_empty()
    });
    assert!(collector.events("bulkhead.alert.resolved").is_empty());
    let fired = collector.events("bulkhead.alert.fired");
    let page = |one: &&LogRecord| value(&one.attributes, "severity") == "page";
    let fired: Vec<&LogRecord> = fired.iter().filter(page).collect();
    assert_eq!(fired.len(), 1, "once: {fired:?}");
    let of = |name| value(&fired[0].attributes, name);
    assert_eq!(of("alert"), "BulkheadCompartmentRefusing");
    assert!(of("why").contains("refused"), "{fired:?}");
    assert_eq!(fired[0].severity_number, 13, "a warning");

    counted.report(&gateway, 4 * WINDOW_MS, false, 0).await;
    eventually("it is over", || {
        collector.firing() == 0 && !collector.events("bulkhead.alert.resolved").is_empty()
    });
    let over = collector.events("bulkhead.alert.resolved");
    let same = |one: &&LogRecord| value(&one.attributes, "alert.id") == of("alert.id");
    let over: Vec<&LogRecord> = over.iter().filter(same).collect();
    assert_eq!(over.len(), 1, "once, under the same id: {over:?}");
    assert_eq!(over[0].severity_number, 9, "for information");
    assert!(!value(&over[0].attributes, "why").is_empty());
}
