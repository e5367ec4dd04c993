//! What is told of requests: spans, lines, figures; and what callers can do to it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gateway::{AccessLogConfig, Telling};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use telemetry::Telemetry;

use super::*;
use crate::collector::{Collector, Manner};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const RETRY: &str = "compartment = { limit = 1, reserved = 1 }\n\
                     retry = { attempts = 2, budget = 0.1, window = \"10s\" }";

fn exporter(collector: &Collector, further: &[(&str, &str)]) -> Telemetry {
    let endpoint = format!("http://{}", collector.address);
    let mut all = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    all.extend([
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ]);
    all.extend(further);
    let all: Vec<_> = all
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Telemetry::start(telemetry::Settings::read(&all).unwrap(), "test").unwrap()
}

fn telling(exporter: &Telemetry) -> Telling {
    Telling {
        telemetry: exporter.handle(),
        ..Telling::default()
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let all = span.attributes.iter();
    all.map(|pair| {
        let value = pair.value.as_ref().and_then(|value| value.value.clone());
        let text = match value {
            Some(Any::StringValue(text)) => text,
            Some(Any::IntValue(number)) => number.to_string(),
            Some(Any::DoubleValue(number)) => format!("{number}"),
            other => format!("{other:?}"),
        };
        (pair.key.clone(), text)
    })
    .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traced(path: &str, script: &str, flags: &str) -> String {
    let id = format!("x-id: {flags}-{script}\r\n").replace([' ', '|'], "");
    let context =
        format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-{flags}\r\ntracestate: a=b\r\n");
    request("GET", path, script, &(context + &id))
}

#[test]
fn a_request_is_told_with_each_of_its_attempts() {
    let collector = Collector::start(Manner::Takes);
    let exporter = exporter(&collector, &[]);
    let bench = bench_telling("", &[("one", RETRY)], telling(&exporter));
    assert_eq!(
        bench.ask(traced("/one?secret=1", "503 | ok", "01")).status,
        200
    );
    eventually("three spans", || {
        collector.got.lock().unwrap().spans.len() == 3
    });
    let got = collector.got.lock().unwrap();
    let of = |kind| {
        got.spans
            .iter()
            .filter(|span| span.kind == kind)
            .collect::<Vec<_>>()
    };
    let (server, calls) = (of(2)[0], of(3));
    assert!(
        got.spans
            .iter()
            .all(|span| hex(&span.trace_id) == TRACE && span.flags & 1 == 1)
    );
    assert_eq!(
        (
            hex(&server.parent_span_id).as_str(),
            server.trace_state.as_str()
        ),
        ("00f067aa0ba902b7", "a=b")
    );
    assert_eq!(server.name, "GET one");
    let told = attributes(server);
    for (key, value) in [
        ("http.route", "one"),
        ("http.response.status_code", "200"),
        ("url.path", "/one"),
        ("bulkhead.compartment", "route/one"),
        ("http.response.body.size", "2"),
    ] {
        assert_eq!(told[key], value, "{told:?}");
    }
    let hold: f64 = told["bulkhead.permit.hold.duration"].parse().unwrap();
    assert!(hold > 0.005, "a retry waits inside the permits: {told:?}");
    assert!(!format!("{:?}", got.spans).contains("secret"));
    // Each attempt is a span of its own, and the upstream is told which.
    let statuses: Vec<_> = calls
        .iter()
        .map(|span| attributes(span)["http.response.status_code"].clone())
        .collect();
    assert_eq!(statuses, ["503", "200"]);
    assert_eq!(attributes(calls[1])["http.request.resend_count"], "1");
    for (call, arrived) in calls.iter().zip(bench.stub.seen()) {
        assert_eq!(call.parent_span_id, server.span_id);
        let sent = format!("traceparent: 00-{TRACE}-{}-01", hex(&call.span_id));
        assert!(
            arrived.head.to_ascii_lowercase().contains(&sent),
            "{sent} in {}",
            arrived.head
        );
    }
}

#[test]
fn a_refusal_is_told_with_its_reason_and_what_is_not_kept_is_not() {
    let collector = Collector::start(Manner::Takes);
    let exporter = exporter(&collector, &[]);
    let bench = bench_telling("", &[("one", ""), ("two", "")], telling(&exporter));
    let mut held = bench.send(traced("/one", "hold", "00"));
    eventually("it is held", || bench.in_flight("route/one") == 1);
    assert_eq!(bench.ask(traced("/one", "ok", "01")).status, 503);
    assert_eq!(bench.ask(get("/nowhere", "ok")).status, 404);
    bench.stub.open();
    assert_eq!(held.answer().status, 200);
    eventually("two spans", || {
        collector.got.lock().unwrap().spans.len() == 2
    });
    drop(exporter);
    let got = collector.got.lock().unwrap();
    assert_eq!(
        got.spans.len(),
        2,
        "the caller of the first did not want it kept"
    );
    let told = attributes(&got.spans[0]);
    assert_eq!(
        (
            told["bulkhead.reason"].as_str(),
            told["error.type"].as_str()
        ),
        ("route_full", "route_full")
    );
    assert!(got.spans[1].parent_span_id.is_empty() && got.spans[1].name == "GET");
    // The decision of a caller that wanted nothing kept goes on.
    assert!(
        bench.stub.seen()[0]
            .head
            .to_ascii_lowercase()
            .contains("-00\r\n")
    );
    // Figures carry an example of a kept trace, by which one finds the other.
    let figures = format!("{:?}", got.metrics);
    assert!(
        figures.contains("http.server.request.duration"),
        "{figures}"
    );
    let example = format!("{:?}", got.spans[0].span_id);
    assert!(
        figures.contains(&format!("span_id: {example}")),
        "{example}"
    );
}

#[test]
fn every_step_of_a_fallback_is_a_span_with_what_it_came_to() {
    let collector = Collector::start(Manner::Takes);
    let exporter = exporter(&collector, &[]);
    let ladder = "compartment = { limit = 1 }\n\
                  [[routes.fallback]]\nkind = \"stale\"\nmax_age = \"60s\"\n\
                  [[routes.fallback]]\nkind = \"upstream\"\nupstream = \"other\"\nlimit = 2\n\
                  [[routes.fallback]]\nkind = \"static\"\nstatus = 203\nbody = \"fixed\"\n";
    let fixed = "compartment = { limit = 0 }\n\
                 [[routes.fallback]]\nkind = \"static\"\nstatus = 203\nbody = \"fixed\"\n";
    let routes = [("one", ladder), ("two", fixed)];
    let bench = bench_telling("", &routes, telling(&exporter));
    let mut held = bench.send(traced("/one", "hold-body", "00"));
    assert_eq!(held.head().status, 200);
    for (path, script, status, steps) in [
        (
            "/one",
            "500",
            203,
            &[
                ("stale", "nothing_stored"),
                ("upstream", "status_5xx"),
                ("static", "answered"),
            ][..],
        ),
        (
            "/one",
            "ok",
            200,
            &[("stale", "nothing_stored"), ("upstream", "answered")],
        ),
        ("/two", "ok", 203, &[("static", "answered")]),
    ] {
        collector.got.lock().unwrap().spans.clear();
        assert_eq!(
            bench.ask(traced(path, script, "01")).status,
            status,
            "{script}"
        );
        let asks = steps.iter().any(|(kind, _)| *kind == "upstream");
        let count = 1 + steps.len() + usize::from(asks);
        eventually("its spans", || {
            collector.got.lock().unwrap().spans.len() == count
        });
        let got = collector.got.lock().unwrap();
        let of = |kind| got.spans.iter().filter(move |span| span.kind == kind);
        let server = of(2).next().unwrap();
        let last = steps.last().unwrap().0;
        assert_eq!(attributes(server)["bulkhead.fallback"], last);
        assert!(attributes(server).contains_key("bulkhead.reason"));
        let told: Vec<_> = of(1).collect();
        for (span, (kind, outcome)) in told.iter().zip(steps) {
            let attributes = attributes(span);
            assert_eq!(span.name, format!("fallback {kind}"));
            assert_eq!(attributes["bulkhead.fallback"], *kind);
            assert_eq!(attributes["bulkhead.fallback.outcome"], *outcome);
            assert_eq!(span.parent_span_id, server.span_id);
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        }
        // The attempt at the other upstream is the step's, and that upstream is told so.
        let by_kind = |name: &str| told.iter().find(|span| span.name.ends_with(name));
        assert_eq!(of(3).count(), usize::from(asks));
        for call in of(3) {
            assert_eq!(call.parent_span_id, by_kind("upstream").unwrap().span_id);
            let sent = format!("traceparent: 00-{TRACE}-{}-01", hex(&call.span_id));
            let arrived = bench.stub.seen().pop().unwrap().head.to_ascii_lowercase();
            assert!(arrived.contains(&sent), "{sent} in {arrived}");
        }
    }
}

#[test]
fn names_of_callers_make_no_series() {
    let bench = bench(&[("one", ""), ("two", "")]);
    let lines = |bench: &Bench| {
        let mut client = Client::connect(bench.running.admin());
        client.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
        let page = client.answer().body;
        assert!(!page.contains("hostile"), "{page}");
        page.lines().count()
    };
    let odd = |n: usize| {
        let more = format!("x-tenant-id: hostile{n}\r\nx-hostile-{n}: 1\r\n");
        bench.ask(request(
            "GET",
            &format!("/one/hostile{n}?hostile={n}"),
            "ok",
            &more,
        ));
        bench.ask(request("GET", &format!("/hostile{n}"), "ok", &more));
        bench.ask(request(&format!("HOSTILE{n}"), "/one", "ok", &more));
        let host = format!("GET /one HTTP/1.1\r\nhost: hostile{n}.test\r\n\r\n");
        bench.ask(host);
    };
    odd(0);
    let before = lines(&bench);
    (1..60).for_each(odd);
    assert_eq!(lines(&bench), before);
}

#[test]
fn the_access_log_has_a_line_for_each_request() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("access.jsonl");
    let log = AccessLogConfig {
        path: path.clone(),
        share_millionths: 1_000_000,
    };
    let told = Telling {
        access_log: Some(log),
        ..Telling::default()
    };
    let bench = bench_telling("", &[("one", "")], told);
    assert_eq!(bench.ask(get("/one/a?token=secret", "ok")).status, 200);
    assert_eq!(bench.ask(get("/nowhere", "ok")).status, 404);
    let held = bench.send(get("/one", "hold"));
    eventually("it is held", || bench.in_flight("route/one") == 1);
    assert_eq!(bench.ask(get("/one", "ok")).status, 503);
    drop(held);
    eventually("it is gone", || bench.in_flight("route/one") == 0);
    bench.running.stop();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |n: usize, key: &str| lines[n][key].clone();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(
        (of(0, "status"), of(0, "route"), of(0, "bytes")),
        (200.into(), "one".into(), 2.into())
    );
    assert!(
        of(0, "upstream_us").as_u64() <= of(0, "duration_us").as_u64(),
        "{text}"
    );
    assert!(
        of(0, "hold_us").is_u64() && of(0, "path") == "/one/a",
        "{text}"
    );
    assert_eq!(
        (of(1, "reason"), of(1, "route")),
        ("no_route".into(), Value::Null)
    );
    assert_eq!(
        (of(2, "reason"), of(2, "compartment")),
        ("route_full".into(), "route/one".into())
    );
    assert_eq!(
        (of(3, "reason"), of(3, "status")),
        ("client_gone".into(), 0.into())
    );
}

#[test]
fn a_bad_collector_changes_no_answer_and_no_end() {
    for manner in [Manner::Silent, Manner::Says(503)] {
        let collector = Collector::start(manner);
        let exporter = exporter(&collector, &[("OTEL_BSP_MAX_QUEUE_SIZE", "16")]);
        let bench = bench_telling("", &[("one", "")], telling(&exporter));
        for _ in 0..200 {
            assert_eq!(bench.ask(get("/one", "ok")).status, 200);
        }
        eventually("spans are dropped", || {
            exporter.handle().dropped().spans > 300
        });
        let begun = Instant::now();
        bench.running.stop();
        drop(exporter);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
