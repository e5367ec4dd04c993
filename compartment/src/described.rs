//! Schemas of values that are written in another form than they are kept in.
//!
//! Separate because only a description of an API needs them, and no gateway. It must never say
//! another form than `serde` writes.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::{Balance, LIMIT_MAX, Limit};

impl PartialSchema for Limit {
    fn schema() -> RefOr<Schema> {
        let slots = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(LIMIT_MAX));
        let word = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["unlimited"]));
        let about = "0 (closed) to 1,000,000 requests in flight, or unlimited, which is spelt out.";
        OneOfBuilder::new()
            .item(slots)
            .item(word)
            .description(Some(about))
            .into()
    }
}

impl ToSchema for Limit {
    fn name() -> Cow<'static, str> {
        "Limit".into()
    }
}

impl PartialSchema for Balance {
    fn schema() -> RefOr<Schema> {
        let number = |about: &str| {
            ObjectBuilder::new()
                .schema_type(Type::Number)
                .description(Some(about.to_owned()))
        };
        let about = "What a route's borrowing is paid from, over the gateways. A borrowed slot \
                     costs one slot-second a second; at 0 a gateway lends no more until the route \
                     has earned some.";
        ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::Object))
            .description(Some(about))
            .property(
                "slot_seconds",
                number("What is left; below 0 what is owed."),
            )
            .required("slot_seconds")
            .property("max", number("What a full one holds."))
            .required("max")
            .into()
    }
}

impl ToSchema for Balance {
    fn name() -> Cow<'static, str> {
        "Credit".into()
    }
}
