//! The description of the API, made from its table.
//!
//! Separate because it is written once for all calls: what every call of a kind may answer stands
//! here, and no entry of the table repeats it. It must never describe what no entry has.

mod parts;
mod shape;

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Map, Value as Json, json};

use super::call::{Call, Parameter, Place};
use crate::access::Need;
pub(super) use shape::Shape;

/// Named schemas that were met.
pub(super) type Schemas = BTreeMap<String, Json>;

/// OpenAPI 3.1 of these calls, as it is checked in.
pub(super) fn document(calls: &[Call]) -> Json {
    let mut schemas = Schemas::new();
    Shape::of::<super::problem::ProblemDocument>().name(&mut schemas);
    let mut paths: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
    for call in calls {
        let item = paths.entry(call.path).or_default();
        let method = call.method.as_str().to_ascii_lowercase();
        item.insert(method, operation(call, &mut schemas));
        for shape in &call.about.mentioned {
            shape.name(&mut schemas);
        }
        let segments = segments(call);
        if !segments.is_empty() {
            item.insert("parameters".to_owned(), segments.into());
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bulkhead control plane",
            "version": "1",
            "summary": "Limits of a fleet of gateways: stored, versioned, pushed, watched.",
            "description": parts::ABOUT,
        },
        "servers": [{ "url": "/api/v1" }],
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": parts::security(),
            "parameters": parts::parameters(),
            "responses": parts::refusals(),
            "schemas": schemas,
        },
    })
}

fn operation(call: &Call, schemas: &mut Schemas) -> Json {
    let about = &call.about;
    let mut fields = Map::new();
    let mut set = |name: &str, value: Json| fields.insert(name.to_owned(), value);
    set("operationId", json!(about.id));
    set("summary", json!(about.summary));
    if !about.details.is_empty() {
        set("description", json!(about.details));
    }
    match call.need {
        Need::Public => set("security", json!([])),
        Need::Role(role) => set("x-role", json!(role.word())),
    };
    let beside = |parameter: &&Parameter| parameter.place != Place::Path;
    let own = about.parameters.iter().filter(beside);
    let mut asked: Vec<Json> = own.map(parts::parameter).collect();
    if call.method == Method::POST {
        asked.push(json!({ "$ref": "#/components/parameters/idempotency_key" }));
    }
    if !asked.is_empty() {
        set("parameters", asked.into());
    }
    if let Some(body) = &about.body {
        let mut content = json!({ "schema": body.shape.name(schemas) });
        let example: Option<Json> = body
            .example
            .and_then(|text| serde_json::from_str(text).ok());
        if let (Some(example), Some(content)) = (example, content.as_object_mut()) {
            content.insert("example".to_owned(), example);
        }
        let body = json!({ "required": true, "content": { "application/json": content } });
        set("requestBody", body);
    }
    set("responses", responses(call, schemas));
    Json::Object(fields)
}

/// The segments of the path in braces, in its order.
fn segments(call: &Call) -> Vec<Json> {
    let names = call.path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        let own = call.about.parameters.iter();
        let own = own
            .filter(|one| one.place == Place::Path)
            .find(|one| one.name == name);
        Some(own.map_or_else(|| parts::segment(name), parts::parameter))
    });
    names.collect()
}

fn responses(call: &Call, schemas: &mut Schemas) -> Json {
    let mut all: BTreeMap<String, Json> = BTreeMap::new();
    for status in usual(call) {
        all.insert(status.as_str().to_owned(), parts::refusal(status));
    }
    for (status, about) in &call.about.refusals {
        all.insert(status.as_str().to_owned(), parts::problem(about));
    }
    for answer in &call.about.answers {
        let status = answer.status.as_str();
        // One answer in several forms: the words of the first, and what each form holds.
        let is_good = answer.status.is_success();
        let forms = all.get_mut(status).filter(|_| is_good);
        let forms = forms.and_then(|one| one.get_mut("content")?.as_object_mut());
        if let (Some(forms), Some((kind, shape))) = (forms, &answer.content) {
            forms.insert((*kind).to_owned(), json!({ "schema": shape.name(schemas) }));
            continue;
        }
        let mut fields = json!({ "description": answer.about });
        let Some(object) = fields.as_object_mut() else {
            continue;
        };
        if let Some((kind, shape)) = &answer.content {
            let content = json!({ *kind: { "schema": shape.name(schemas) } });
            object.insert("content".to_owned(), content);
        }
        let mut headers = Map::new();
        if call.about.has_etag && answer.status.is_success() {
            headers.insert("ETag".to_owned(), parts::etag());
        }
        if call.method == Method::POST && call.about.once.is_none() {
            headers.insert("Idempotency-Replayed".to_owned(), parts::replayed());
        }
        if !headers.is_empty() {
            object.insert("headers".to_owned(), headers.into());
        }
        all.insert(status.to_owned(), fields);
    }
    json!(all)
}

/// What every call of this kind may be refused with.
fn usual(call: &Call) -> Vec<StatusCode> {
    let mut all = vec![StatusCode::BAD_REQUEST, StatusCode::URI_TOO_LONG];
    if !call.is_public() {
        all.extend([
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::SERVICE_UNAVAILABLE,
        ]);
    }
    if call.path.contains('{') {
        all.push(StatusCode::NOT_FOUND);
    }
    if call.about.body.is_some() {
        all.extend([StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE]);
    }
    if !call.is_safe() {
        all.extend([
            StatusCode::CONFLICT,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::INSUFFICIENT_STORAGE,
        ]);
    }
    if call.method == Method::POST {
        all.extend([StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE]);
    }
    if call.about.has_etag && !call.is_safe() {
        all.push(StatusCode::PRECONDITION_FAILED);
    }
    all
}
