//! Log lines as telemetry records.
//!
//! Separate because it listens to the log, whoever writes it: an event has one name, and is in
//! the log and in telemetry alike. It must never hand on what the exporter itself logs.

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context as LayerContext;

use crate::context::Context;
use crate::export::is_exporter;
use crate::names::event::PREFIX;
use crate::pipe::Handle;
use crate::record::{Kind, Record, Status, Text, Value, bounded};
use crate::{SpanId, TraceId, clock};

/// Fields of one log line that are kept.
const FIELDS_MAX: usize = 32;
/// The field that holds a trace's id in a log line.
const TRACE_FIELD: &str = "trace.id";
/// The field that holds a span's id in a log line.
const SPAN_FIELD: &str = "span.id";

/// Hands log lines to the exporter.
#[derive(Debug)]
pub struct Events(Handle);

impl Events {
    /// `None` while no log records go out.
    pub fn new(handle: Handle) -> Option<Self> {
        handle.takes_logs().then_some(Self(handle))
    }
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        if is_exporter() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        let severity = match level {
            Level::ERROR => 17,
            Level::WARN => 13,
            Level::INFO => 9,
            Level::DEBUG => 5,
            Level::TRACE => 1,
        };
        let name = fields.message.unwrap_or(Text::Fixed(""));
        let event = name.as_str().starts_with(PREFIX).then(|| name.clone());
        let context = fields.trace_id.map(|trace_id| Context {
            trace_id,
            parent: None,
            span_id: fields.span_id.unwrap_or_default(),
            sampled: fields.span_id.is_some(),
        });
        let now_unix_ns = clock::unix_ns();
        self.0.push(Record {
            kind: Kind::Log(severity),
            name,
            event,
            context,
            trace_state: None,
            began_unix_ns: now_unix_ns,
            ended_unix_ns: now_unix_ns,
            status: Status::Unset,
            attributes: fields.others,
        });
    }
}

#[derive(Default)]
struct Fields {
    message: Option<Text>,
    trace_id: Option<TraceId>,
    span_id: Option<SpanId>,
    others: Vec<(Text, Value)>,
}

impl Fields {
    fn keep(&mut self, field: &Field, value: Value) {
        if self.others.len() < FIELDS_MAX {
            self.others.push((Text::Fixed(field.name()), value));
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = Some(bounded(value)),
            TRACE_FIELD => self.trace_id = from_hex(value),
            SPAN_FIELD => self.span_id = from_hex(value),
            _ => self.keep(field, bounded(value).into()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, Value::Whole(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(
            field,
            Value::Whole(i64::try_from(value).unwrap_or(i64::MAX)),
        );
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, Value::Number(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, Value::Switch(value));
    }
}

/// An id in hexadecimal; `None` for anything else, and for the id that is none.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.len() != N * 2 {
        return None;
    }
    let mut id = [0; N];
    for (place, pair) in id.iter_mut().zip(bytes.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *place = u8::from_str_radix(pair, 16).ok()?;
    }
    (id != [0; N]).then_some(id)
}
