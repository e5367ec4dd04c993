//! One compartment as lists and single answers show it.
//!
//! Separate because its schema is worked out from the figures' own: what nobody reports is shown
//! without them. It must never show a zero for what is not known.

use std::borrow::Cow;
use std::sync::Arc;

use compartment::{Balance, EndpointsFigures, Figures, Histogram, Level, Limit};
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Ref, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::fleet::FleetCompartment;
use crate::limits::COMMENT_BYTES_MAX;

/// How long permits were held, or requests waited.
#[derive(Serialize, ToSchema)]
pub(super) struct Times {
    count: u64,
    /// Half took no longer: the upper edge of a bucket.
    #[schema(required)]
    p50_us: Option<u64>,
    /// Of a hundred, 99 took no longer.
    #[schema(required)]
    p99_us: Option<u64>,
}

/// A histogram in three numbers; the quantiles are upper edges of its buckets.
fn times(histogram: &Histogram) -> Times {
    Times {
        count: histogram.count(),
        p50_us: histogram.quantile_us(500),
        p99_us: histogram.quantile_us(990),
    }
}

/// Figures with what `serde` does not write by itself.
#[derive(Serialize)]
pub(super) struct Live {
    #[serde(flatten)]
    figures: Figures,
    hold: Times,
    wait: Times,
}

impl From<Figures> for Live {
    fn from(figures: Figures) -> Self {
        Self {
            hold: times(&figures.hold),
            wait: times(&figures.wait),
            figures,
        }
    }
}

/// A compartment as the policy has it, without figures.
#[derive(Serialize)]
pub(super) struct Configured {
    pub(super) key: String,
    pub(super) level: Level,
    pub(super) limit: Limit,
    pub(super) reserved: u32,
}

/// What is known of it.
#[derive(Serialize)]
#[serde(untagged)]
enum Known {
    Live(Box<Live>),
    Configured(Configured),
}

/// The figures of one gateway.
#[derive(Serialize, ToSchema)]
#[schema(as = GatewayFigures)]
struct Own {
    /// The gateway.
    #[schema(value_type = String)]
    id: Arc<str>,
    #[serde(flatten)]
    #[schema(value_type = Shown)]
    figures: Live,
}

/// A compartment: sums over the gateways that report it, and what each says.
#[derive(Serialize, ToSchema)]
pub(super) struct Compartment {
    #[serde(flatten)]
    #[schema(value_type = Shown)]
    known: Known,
    /// Each gateway's own figures.
    gateways: Vec<Own>,
}

impl Compartment {
    /// As a list has it: of endpoints the numbers, without each of them.
    pub(super) fn short(mut self) -> Self {
        let cut = |figures: &mut Figures| {
            if let Some(endpoints) = &mut figures.endpoints {
                endpoints.list.clear();
            }
        };
        if let Known::Live(live) = &mut self.known {
            cut(&mut live.figures);
        }
        let own = self.gateways.iter_mut();
        own.for_each(|own| cut(&mut own.figures.figures));
        self
    }
}

impl From<FleetCompartment> for Compartment {
    fn from(compartment: FleetCompartment) -> Self {
        let own = |(id, figures): (Arc<str>, Figures)| Own {
            id,
            figures: figures.into(),
        };
        Self {
            known: Known::Live(Box::new(compartment.total.into())),
            gateways: compartment.gateways.into_iter().map(own).collect(),
        }
    }
}

impl From<Configured> for Compartment {
    fn from(configured: Configured) -> Self {
        Self {
            known: Known::Configured(configured),
            gateways: Vec::new(),
        }
    }
}

/// The schema of figures that are absent while no gateway reports the compartment.
enum Shown {}

/// What is there without a report.
const ALWAYS: [&str; 4] = ["key", "level", "limit", "reserved"];

impl PartialSchema for Shown {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = Figures::schema() else {
            return Figures::schema();
        };
        let about = "The figures of one compartment. Counters start with the process and never go \
                     down. Absent while no gateway reports it.";
        object.description = Some(about.to_owned());
        object.required = ALWAYS.map(str::to_owned).to_vec();
        // Beside what is read back from a stream, which is all that the derived schema knows.
        for (name, schema) in [
            ("hold", "Times"),
            ("wait", "Times"),
            ("credit", "Credit"),
            ("endpoints", "EndpointsFigures"),
        ] {
            let reference = Ref::from_schema_name(schema);
            object.properties.insert(name.to_owned(), reference.into());
        }
        RefOr::T(Schema::Object(object))
    }
}

impl ToSchema for Shown {
    fn name() -> Cow<'static, str> {
        "Figures".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Times::name().into_owned(), Times::schema()));
        schemas.push((Balance::name().into_owned(), Balance::schema()));
        let endpoints = EndpointsFigures::schema();
        schemas.push((EndpointsFigures::name().into_owned(), endpoints));
        EndpointsFigures::schemas(schemas);
        Figures::schemas(schemas);
    }
}

/// The schema of a change: any field of the compartment in the policy, and why.
pub(super) enum Change {}

impl PartialSchema for Change {
    fn schema() -> RefOr<Schema> {
        let comment = ObjectBuilder::new()
            .schema_type(Type::String)
            .max_length(Some(COMMENT_BYTES_MAX))
            .description(Some("Why, for the history."));
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("limit", Ref::from_schema_name("Limit"))
            .property("comment", comment)
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
            .description(Some(
                "Fields of one compartment, as in the policy, and why.",
            ))
            .into()
    }
}

impl ToSchema for Change {
    fn name() -> Cow<'static, str> {
        "Change".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Limit::name().into_owned(), Limit::schema()));
    }
}
