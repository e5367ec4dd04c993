//! What calls have in common: parameters, headers, refusals, and who may call.
//!
//! Separate because each stands once in the description and is referred to. It must never name a
//! single call.

use http::StatusCode;
use serde_json::{Map, Value as Json, json};

use super::super::call::{Kind, Parameter, Place};

/// What holds of every call.
pub(super) const ABOUT: &str = "Every refusal is application/problem+json (RFC 9457). No state \
    changes by GET. `x-role` is the role that a call needs: viewer, operator, approver or admin, \
    each of which may what the one before may. Every limit counts in each gateway process; \
    figures are sums over the gateways that report.";

const KEY: &str = "`gateway`, `route/ID`, `upstream/ID`, `tenant/ID`, `route/ID/tenant/ID`, \
    `route/ID/stream`, `route/ID/fallback`; percent-encoded: `route%2Fcheckout`.";

/// How a caller shows who it is.
pub(super) fn security() -> Json {
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token, or the admin token (BULKHEAD_ADMIN_TOKEN).",
        }
    })
}

/// Parameters that several calls share.
pub(super) fn parameters() -> Json {
    let dry_run = Parameter {
        place: Place::Query,
        name: "dry_run",
        kind: Kind::Flag,
        about: "Check and lint only; store nothing.",
        is_required: false,
    };
    let key = Parameter {
        place: Place::Header,
        name: "Idempotency-Key",
        kind: Kind::Text(super::super::idempotency::NAME_BYTES_MAX),
        about: "A name for this request. Sent again within 24 hours with the same body, it does \
                nothing a second time: what took effect is answered as it was. With another body \
                it is refused (422), and while the first is under way too (409).",
        is_required: false,
    };
    let mut key = written(&key);
    if let Some(schema) = key.get_mut("schema").and_then(Json::as_object_mut) {
        schema.insert("minLength".to_owned(), json!(1));
        schema.insert("pattern".to_owned(), json!("^[!-~]+$"));
    }
    json!({ "dry_run": written(&dry_run), "idempotency_key": key })
}

/// One parameter, or a reference to one that is shared.
pub(super) fn parameter(parameter: &Parameter) -> Json {
    match parameter.name {
        "dry_run" => json!({ "$ref": "#/components/parameters/dry_run" }),
        _ => written(parameter),
    }
}

fn written(parameter: &Parameter) -> Json {
    let place = match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
        Place::Header => "header",
    };
    json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.is_required,
        "description": parameter.about,
        "schema": schema(&parameter.kind),
    })
}

/// A segment of a path of which nothing more is said.
pub(super) fn segment(name: &'static str) -> Json {
    let (kind, about) = match name {
        "key" => (Kind::Text(0), KEY),
        "number" => (Kind::From(1), "The number."),
        "id" => (Kind::Text(0), "Its name, as lists have it."),
        _ => (Kind::Text(0), ""),
    };
    written(&Parameter {
        place: Place::Path,
        name,
        kind,
        about,
        is_required: true,
    })
}

fn schema(kind: &Kind) -> Json {
    match kind {
        Kind::Text(0) => json!({ "type": "string" }),
        Kind::Text(bytes_max) => json!({ "type": "string", "maxLength": bytes_max }),
        Kind::Time => json!({ "type": "string", "examples": ["2026-01-31T12:00:00Z"] }),
        Kind::Flag => json!({ "type": "boolean", "default": false }),
        Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
        Kind::From(least) => json!({ "type": "integer", "minimum": least }),
        Kind::Within(least, most, default) => {
            json!({ "type": "integer", "minimum": least, "maximum": most, "default": default })
        }
    }
}

/// The header that names a generation.
pub(super) fn etag() -> Json {
    json!({
        "description": "The generation, as `If-Match` takes it.",
        "schema": { "type": "string", "examples": ["\"43\""] },
    })
}

/// The header of an answer that was given before.
pub(super) fn replayed() -> Json {
    json!({
        "description": "`true`: the answer to the first request of this Idempotency-Key.",
        "schema": { "type": "string", "enum": ["true"] },
    })
}

/// Every refusal that several calls have: its name, its status, what it means.
const REFUSALS: [(StatusCode, &str, &str); 14] = [
    (
        StatusCode::BAD_REQUEST,
        "Bad",
        "Not a request of this API: a parameter or a body that cannot be read",
    ),
    (
        StatusCode::UNAUTHORIZED,
        "NoToken",
        "No token, or one that is not known",
    ),
    (
        StatusCode::FORBIDDEN,
        "Forbidden",
        "Not allowed to this caller, another site's page, or another host name without a login",
    ),
    (
        StatusCode::URI_TOO_LONG,
        "TooLong",
        "Path and query have more than 8 KiB",
    ),
    (StatusCode::NOT_FOUND, "NotFound", "There is no such thing"),
    (
        StatusCode::REQUEST_TIMEOUT,
        "Slow",
        "The body did not arrive in time",
    ),
    (
        StatusCode::CONFLICT,
        "Contended",
        "Other writers always came first and nothing was stored, or the first request of this \
         Idempotency-Key is under way, was cut off, or showed a secret once",
    ),
    (
        StatusCode::PRECONDITION_FAILED,
        "MovedOn",
        "The policy moved on: `seen`, `current` and the `differences` between them; nothing was \
         stored",
    ),
    (
        StatusCode::PAYLOAD_TOO_LARGE,
        "TooLarge",
        "The body is larger than this call takes",
    ),
    (
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "NotJson",
        "The body is not application/json",
    ),
    (
        StatusCode::UNPROCESSABLE_ENTITY,
        "Invalid",
        "Rules are broken: every one in `errors`; nothing was stored or pushed",
    ),
    (
        StatusCode::PRECONDITION_REQUIRED,
        "NoVersion",
        "If-Match is missing",
    ),
    (
        StatusCode::INSUFFICIENT_STORAGE,
        "Full",
        "The store's disk is full; nothing was stored",
    ),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "Busy",
        "The store is busy or failed; see Retry-After",
    ),
];

/// All of them.
pub(super) fn refusals() -> Json {
    let one = |(status, name, about): &(StatusCode, &str, &str)| {
        let mut response = problem(about);
        if *status == StatusCode::SERVICE_UNAVAILABLE
            && let Some(fields) = response.as_object_mut()
        {
            let retry = json!({
                "Retry-After": {
                    "description": "Seconds; absent where the outcome is not known.",
                    "schema": { "type": "string" },
                }
            });
            fields.insert("headers".to_owned(), retry);
        }
        ((*name).to_owned(), response)
    };
    Json::Object(REFUSALS.iter().map(one).collect::<Map<_, _>>())
}

/// A reference to one of them.
pub(super) fn refusal(status: StatusCode) -> Json {
    let found = REFUSALS.iter().find(|(own, _, _)| *own == status);
    let name = found.map_or("Bad", |(_, name, _)| name);
    json!({ "$ref": format!("#/components/responses/{name}") })
}

/// A refusal in these words.
pub(super) fn problem(about: &str) -> Json {
    json!({
        "description": about,
        "content": {
            "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } },
        },
    })
}
