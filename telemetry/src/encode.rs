//! Records as OTLP messages.
//!
//! Separate because the wire's types live only here and in the transports. It must never run on a
//! serving thread.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status as SpanStatus,
};

use crate::context::Context;
use crate::record::{Kind, Record, Status, Text, Value};
use crate::settings::{Batching, Settings};

/// The trace was sampled.
const SAMPLED: u32 = 1;
/// It is known whether the parent is of another process; it is.
const REMOTE_PARENT: u32 = 0x300;
const LOCAL_PARENT: u32 = 0x100;

/// What all records of this process have in common.
pub(crate) fn resource(settings: &Settings, instance: &str) -> Resource {
    let version = env!("CARGO_PKG_VERSION");
    let own = [
        ("service.name", "bulkhead"),
        ("service.version", version),
        ("service.instance.id", instance),
        ("telemetry.sdk.name", "bulkhead"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", version),
    ];
    let own = own
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let mut all: Vec<(String, String)> = Vec::new();
    // What the operator says comes last and wins.
    for (key, value) in own.chain(settings.resource.iter().cloned()) {
        all.retain(|(known, _)| *known != key);
        all.push((key, value));
    }
    let pid = key_value("process.pid", Any::IntValue(std::process::id().into()));
    let texts = all
        .into_iter()
        .map(|(key, value)| key_value(&key, Any::StringValue(value)));
    Resource {
        attributes: texts.chain([pid]).collect(),
        ..Resource::default()
    }
}

pub(crate) fn scope(name: &str) -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    })
}

pub(crate) fn traces(
    records: &[Box<Record>],
    resource: &Resource,
    limits: &Batching,
) -> ExportTraceServiceRequest {
    let spans = records
        .iter()
        .filter_map(|record| span(record, limits))
        .collect();
    let scope_spans = ScopeSpans {
        scope: scope("bulkhead"),
        spans,
        ..ScopeSpans::default()
    };
    let of_resource = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![of_resource],
    }
}

pub(crate) fn logs(
    records: &[Box<Record>],
    resource: &Resource,
    limits: &Batching,
) -> ExportLogsServiceRequest {
    let log_records = records
        .iter()
        .filter_map(|record| log(record, limits))
        .collect();
    let scope_logs = ScopeLogs {
        scope: scope("bulkhead"),
        log_records,
        ..ScopeLogs::default()
    };
    let of_resource = ResourceLogs {
        resource: Some(resource.clone()),
        scope_logs: vec![scope_logs],
        ..ResourceLogs::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![of_resource],
    }
}

fn span(record: &Record, limits: &Batching) -> Option<Span> {
    let (kind, place) = match record.kind {
        Kind::Server => (SpanKind::Server, REMOTE_PARENT),
        Kind::Client => (SpanKind::Client, LOCAL_PARENT),
        Kind::Internal => (SpanKind::Internal, LOCAL_PARENT),
        Kind::Log(_) => return None,
    };
    let Context {
        trace_id,
        parent,
        span_id,
        sampled,
    } = record.context?;
    let code = match record.status {
        Status::Unset => StatusCode::Unset,
        Status::Error => StatusCode::Error,
    };
    let (attributes, dropped_attributes_count) = attributes(record, limits);
    Some(Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        trace_state: record
            .trace_state
            .as_ref()
            .map_or("", Text::as_str)
            .to_owned(),
        parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
        flags: (u32::from(sampled) * SAMPLED) | parent.map_or(LOCAL_PARENT, |_| place),
        name: record.name.as_str().to_owned(),
        kind: kind.into(),
        start_time_unix_nano: record.began_unix_ns,
        end_time_unix_nano: record.ended_unix_ns.max(record.began_unix_ns),
        attributes,
        dropped_attributes_count,
        status: Some(SpanStatus {
            message: String::new(),
            code: code.into(),
        }),
        ..Span::default()
    })
}

fn log(record: &Record, limits: &Batching) -> Option<LogRecord> {
    let severity_number = match record.kind {
        Kind::Log(severity) => severity,
        Kind::Server | Kind::Client | Kind::Internal => return None,
    };
    let (attributes, dropped_attributes_count) = attributes(record, limits);
    let context = record.context;
    Some(LogRecord {
        time_unix_nano: record.began_unix_ns,
        observed_time_unix_nano: record.began_unix_ns,
        severity_number,
        severity_text: severity_text(severity_number).to_owned(),
        body: Some(any(Any::StringValue(record.name.as_str().to_owned()))),
        attributes,
        dropped_attributes_count,
        flags: context.map_or(0, |context| u32::from(context.sampled) * SAMPLED),
        trace_id: context
            .map(|context| context.trace_id.to_vec())
            .unwrap_or_default(),
        span_id: context
            .filter(|context| context.span_id != [0; 8])
            .map(|context| context.span_id.to_vec())
            .unwrap_or_default(),
        event_name: record.event.as_ref().map_or("", Text::as_str).to_owned(),
    })
}

const fn severity_text(number: i32) -> &'static str {
    match number {
        ..=4 => "TRACE",
        5..=8 => "DEBUG",
        9..=12 => "INFO",
        13..=16 => "WARN",
        17.. => "ERROR",
    }
}

/// Those within the limits, and how many are beyond.
fn attributes(record: &Record, limits: &Batching) -> (Vec<KeyValue>, u32) {
    let kept = record.attributes.iter().take(limits.attributes_max);
    let kept: Vec<KeyValue> = kept
        .map(|(key, value)| {
            let value = match value {
                Value::Text(text) => {
                    let chars = text.as_str().chars().take(limits.value_chars_max);
                    Any::StringValue(chars.collect())
                }
                Value::Whole(number) => Any::IntValue(*number),
                Value::Number(number) => Any::DoubleValue(*number),
                Value::Switch(switch) => Any::BoolValue(*switch),
            };
            key_value(key.as_str(), value)
        })
        .collect();
    let beyond = record.attributes.len().saturating_sub(kept.len());
    (kept, u32::try_from(beyond).unwrap_or(u32::MAX))
}

pub(crate) fn key_value(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(any(value)),
        ..KeyValue::default()
    }
}

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}
