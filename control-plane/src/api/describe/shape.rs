//! The schema of what is taken or answered, by its type.
//!
//! Separate because it is the one place that knows how a type becomes a name in the description.
//! It must never give two different types one name.

use std::borrow::Cow;

use serde_json::{Value as Json, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::Schemas;

/// A type with a schema, and whether a list of it is meant.
pub(in crate::api) struct Shape {
    name: fn() -> Cow<'static, str>,
    schema: fn() -> RefOr<Schema>,
    beside: fn(&mut Vec<(String, RefOr<Schema>)>),
    is_list: bool,
}

impl Shape {
    /// One.
    pub(in crate::api) fn of<T: ToSchema>() -> Self {
        Self {
            name: T::name,
            schema: T::schema,
            beside: T::schemas,
            is_list: false,
        }
    }

    /// A list of them.
    pub(in crate::api) fn list_of<T: ToSchema>() -> Self {
        Self {
            is_list: true,
            ..Self::of::<T>()
        }
    }

    /// A reference to it, after it and all that it is made of were added to `schemas`.
    pub(super) fn name(&self, schemas: &mut Schemas) -> Json {
        let mut met = Vec::new();
        (self.beside)(&mut met);
        let name = (self.name)().into_owned();
        met.push((name.clone(), (self.schema)()));
        for (name, schema) in met {
            let mut schema = serde_json::to_value(schema).unwrap_or_default();
            tidy(&mut schema);
            let known = schemas
                .entry(name.clone())
                .or_insert_with(|| schema.clone());
            // Found by the test that reads the description, which names it.
            if *known != schema {
                schemas.insert(format!("{name} (two types of one name)"), schema);
            }
        }
        let one = json!({ "$ref": format!("#/components/schemas/{name}") });
        match self.is_list {
            true => json!({ "type": "array", "items": one }),
            false => one,
        }
    }
}

/// Texts on one line, and in the words of JSON.
fn tidy(schema: &mut Json) {
    match schema {
        Json::Object(fields) => {
            if let Some(Json::String(text)) = fields.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                *text = text.replace("`None`", "null");
            }
            fields.values_mut().for_each(tidy);
        }
        Json::Array(items) => items.iter_mut().for_each(tidy),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
