//! What telemetry costs one request: counted, sampled, not sampled, and off.

#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use telemetry::{
    Context, DurationCell, Handle, Kind, Record, Sampler, Settings, Status, Telemetry, Text, Value,
};

fn record() -> Record {
    let text = |text: &str| Value::from(text.to_owned());
    Record {
        kind: Kind::Server,
        name: Text::from("GET checkout".to_owned()),
        event: None,
        context: Some(Context {
            trace_id: [1; 16],
            parent: None,
            span_id: [2; 8],
            sampled: true,
        }),
        trace_state: None,
        began_unix_ns: 1,
        ended_unix_ns: 2,
        status: Status::Unset,
        attributes: vec![
            (Text::from("http.request.method"), Value::from("GET")),
            (Text::from("url.scheme"), Value::from("http")),
            (Text::from("url.path"), text("/checkout/1234")),
            (Text::from("http.response.status_code"), Value::Whole(200)),
            (Text::from("http.route"), text("checkout")),
            (Text::from("bulkhead.tenant"), text("acme")),
            (Text::from("bulkhead.compartment"), text("route/checkout")),
            (
                Text::from("bulkhead.queue.wait.duration"),
                Value::Number(0.1),
            ),
            (
                Text::from("bulkhead.permit.hold.duration"),
                Value::Number(0.1),
            ),
            (
                Text::from("bulkhead.request.id"),
                text("0193d7a4-5b1c-7c3e-8f00-000000000000"),
            ),
        ],
    }
}

fn request(c: &mut Criterion) {
    let cell = DurationCell::default();
    let mut us = 1_u64;
    c.bench_function("a duration is counted", |b| {
        b.iter(|| {
            us = us.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            cell.record(black_box(us >> 44), None);
        });
    });
    let mut state = 1_u64;
    let caller = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    c.bench_function("a context is read and the trace not kept", |b| {
        b.iter(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            Context::of(black_box(Some(caller)), Sampler::default(), || state)
        });
    });
    let off = Handle::default();
    c.bench_function("traces are off", |b| b.iter(|| black_box(&off).traces()));
    // Nobody listens there: after the first 64 every one is dropped and counted.
    let name = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let away = [
        name("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
        name("OTEL_BSP_MAX_QUEUE_SIZE", "64"),
    ];
    let telemetry = Telemetry::start(Settings::read(&away).unwrap(), "bench").unwrap();
    let handle = telemetry.handle();
    c.bench_function("a span is made and dropped", |b| {
        b.iter(|| handle.push(record()))
    });
}

criterion_group!(benches, request);
criterion_main!(benches);
