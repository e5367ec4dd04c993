//! Figures as OTLP messages.
//!
//! Separate because a process with thousands of compartments must be told in several messages,
//! each of a size that a collector takes. It must never change a figure.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as ExemplarValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::encode::{key_value, scope};
use crate::metric::{DURATION_EDGES_US, Distribution, Family, Figure, Point};
use crate::names::{InstrumentKind, Label};
use crate::prometheus::seconds;
use crate::record::Text;

/// Most points in one message: about a megabyte, a quarter of what collectors take by default.
const POINTS_PER_MESSAGE_MAX: usize = 3_000;

/// Between which moments the figures were gathered, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) began_unix_ns: u64,
    pub(crate) now_unix_ns: u64,
}

/// The messages, each with the number of its points.
pub(crate) fn messages(
    families: &[Family],
    resource: &Resource,
    span: Span,
    scope: &str,
) -> Vec<(ExportMetricsServiceRequest, u64)> {
    let mut messages = Vec::new();
    let mut metrics = Vec::new();
    let mut points = 0;
    for family in families {
        for part in family.points.chunks(POINTS_PER_MESSAGE_MAX) {
            if points > 0 && points + part.len() > POINTS_PER_MESSAGE_MAX {
                messages.push(message(
                    std::mem::take(&mut metrics),
                    points,
                    resource,
                    scope,
                ));
                points = 0;
            }
            points += part.len();
            metrics.push(metric(family, part, span));
        }
    }
    if points > 0 {
        messages.push(message(metrics, points, resource, scope));
    }
    messages
}

fn message(
    metrics: Vec<Metric>,
    points: usize,
    resource: &Resource,
    name: &str,
) -> (ExportMetricsServiceRequest, u64) {
    let scope_metrics = ScopeMetrics {
        scope: scope(name),
        metrics,
        ..ScopeMetrics::default()
    };
    let of_resource = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![of_resource],
    };
    (request, u64::try_from(points).unwrap_or(u64::MAX))
}

fn metric(family: &Family, points: &[Point], span: Span) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let numbers = || {
        points
            .iter()
            .filter_map(|point| number(point, span))
            .collect()
    };
    let data = match family.instrument.kind() {
        InstrumentKind::Gauge => Data::Gauge(Gauge {
            data_points: numbers(),
        }),
        InstrumentKind::Counter => Data::Sum(Sum {
            data_points: numbers(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        InstrumentKind::Histogram => Data::Histogram(Histogram {
            data_points: points
                .iter()
                .filter_map(|point| durations(point, span))
                .collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: family.instrument.name().to_owned(),
        description: family.instrument.help().to_owned(),
        unit: family.instrument.unit().to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn number(point: &Point, span: Span) -> Option<NumberDataPoint> {
    let value = match &point.figure {
        Figure::Whole(value) => Number::AsInt(i64::try_from(*value).unwrap_or(i64::MAX)),
        Figure::Number(value) => Number::AsDouble(*value),
        Figure::Durations(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(&point.labels),
        start_time_unix_nano: span.began_unix_ns,
        time_unix_nano: span.now_unix_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn durations(point: &Point, span: Span) -> Option<HistogramDataPoint> {
    let durations: &Distribution = match &point.figure {
        Figure::Durations(durations) => durations,
        Figure::Whole(_) | Figure::Number(_) => return None,
    };
    let exemplar = durations.example.map(|example| Exemplar {
        time_unix_nano: example.at_unix_ns,
        span_id: example.span_id.to_vec(),
        trace_id: example.trace_id.to_vec(),
        value: Some(ExemplarValue::AsDouble(seconds(example.us))),
        ..Exemplar::default()
    });
    Some(HistogramDataPoint {
        attributes: attributes(&point.labels),
        start_time_unix_nano: span.began_unix_ns,
        time_unix_nano: span.now_unix_ns,
        count: durations.count(),
        sum: Some(seconds(durations.sum_us)),
        bucket_counts: durations.counts.to_vec(),
        explicit_bounds: DURATION_EDGES_US
            .iter()
            .map(|&edge| seconds(edge))
            .collect(),
        exemplars: exemplar.into_iter().collect(),
        ..HistogramDataPoint::default()
    })
}

fn attributes(labels: &[(Label, Text)]) -> Vec<KeyValue> {
    let value = |label: Label, text: &str| match label {
        // Numbers by the semantic conventions; the page has no numbers in labels.
        Label::Status | Label::ServerPort => match text.parse() {
            Ok(number) => Any::IntValue(number),
            Err(_) => Any::StringValue(text.to_owned()),
        },
        Label::Compartment
        | Label::Level
        | Label::Kind
        | Label::State
        | Label::Outcome
        | Label::Reason
        | Label::Alert
        | Label::Severity
        | Label::Signal
        | Label::Method
        | Label::Route
        | Label::ErrorType
        | Label::Scheme
        | Label::ServerAddress => Any::StringValue(text.to_owned()),
    };
    let all = labels.iter();
    all.map(|(label, text)| key_value(label.name(), value(*label, text.as_str())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Instrument;

    #[test]
    fn a_large_process_is_told_in_several_messages() {
        let mut family = Family::new(Instrument::InFlight);
        for n in 0..7_500_u64 {
            let key = Text::from(format!("route/r{n}"));
            family.push(vec![(Label::Compartment, key)], Figure::Whole(n));
        }
        let few = Family::of(Instrument::Generation, Figure::Whole(7));
        let span = Span {
            began_unix_ns: 1,
            now_unix_ns: 2,
        };
        let messages = messages(&[family, few], &Resource::default(), span, "x");
        let points: Vec<u64> = messages.iter().map(|(_, points)| *points).collect();
        assert_eq!(points, [3_000, 3_000, 1_501]);
    }
}
