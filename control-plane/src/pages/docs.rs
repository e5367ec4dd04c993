//! `GET /docs/api`: the calls of the API for people, from the description that is served.
//!
//! Separate page by page. Nothing here is written a second time: what a reader sees is what a
//! generated client gets. It must never show what `openapi.json` does not say.

use std::sync::LazyLock;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::Value as Json;
use web::{ApiCall, ApiParameter, DocsPage, Template as _};

use super::frame::Asked;
use super::readings::Snapshot;
use super::{PageError, html};
use crate::api;
use crate::state::AppState;

/// What is said of every call, and the calls: they are the same for the whole process.
static CALLS: LazyLock<(String, Vec<ApiCall>)> = LazyLock::new(|| {
    let document: Json = serde_json::from_str(api::OPENAPI).unwrap_or_default();
    let about = text(document.pointer("/info/description"));
    (about, calls(&document))
});

pub(super) async fn show(State(state): State<AppState>, request: Request) -> Response {
    let asked = Asked::of(&request);
    let here = "/docs/api".to_owned();
    let current = state.policy_current().await;
    let (about, calls) = &*CALLS;
    let page = DocsPage {
        frame: asked.frame(&current, &Snapshot::take(&state), here.clone()),
        about: about.clone(),
        calls: calls.clone(),
    };
    match page.render().map_err(PageError::from) {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some(here)),
    }
}

fn text(value: Option<&Json>) -> String {
    value.and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// What a reference leads to, or the value itself.
fn followed<'a>(value: &'a Json, document: &'a Json) -> &'a Json {
    let target = value.get("$ref").and_then(Json::as_str);
    let target = target.and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

fn calls(document: &Json) -> Vec<ApiCall> {
    let mut all = Vec::new();
    let paths = document.get("paths").and_then(Json::as_object);
    for (path, item) in paths.into_iter().flatten() {
        for method in ["get", "put", "post", "patch", "delete"] {
            if let Some(entry) = item.get(method) {
                all.push(call(path, method, item, entry, document));
            }
        }
    }
    all
}

fn call(path: &str, method: &str, item: &Json, entry: &Json, document: &Json) -> ApiCall {
    let of = |value: &Json| value.get("parameters").and_then(Json::as_array).cloned();
    let parameters = of(item).into_iter().chain(of(entry)).flatten();
    let body = entry.pointer("/requestBody/content/application~1json/example");
    let body = match (entry.get("requestBody"), body) {
        (None, _) => String::new(),
        (Some(_), Some(example)) => example.to_string(),
        (Some(_), None) => "@body.json".to_owned(),
    };
    let answers = entry.get("responses").and_then(Json::as_object);
    let answer = |(status, answer): (&String, &Json)| {
        let about = followed(answer, document).get("description");
        (status.clone(), text(about))
    };
    ApiCall {
        method: method.to_uppercase(),
        path: path.to_owned(),
        id: text(entry.get("operationId")),
        summary: text(entry.get("summary")),
        details: text(entry.get("description")),
        role: text(entry.get("x-role")),
        parameters: parameters
            .map(|one| parameter(followed(&one, document)))
            .collect(),
        body,
        answers: answers.into_iter().flatten().map(answer).collect(),
    }
}

fn parameter(one: &Json) -> ApiParameter {
    let schema = one.get("schema").cloned().unwrap_or_default();
    let words = schema.get("enum").and_then(Json::as_array);
    let kind = match words {
        Some(words) => {
            let words = words.iter().filter_map(Json::as_str);
            words.collect::<Vec<_>>().join(", ")
        }
        None => match text(schema.get("type")).as_str() {
            "integer" => "a whole number".to_owned(),
            "boolean" => "true or false".to_owned(),
            _ => "text".to_owned(),
        },
    };
    ApiParameter {
        name: text(one.get("name")),
        place: text(one.get("in")),
        kind,
        is_required: one.get("required") == Some(&Json::Bool(true)),
        about: text(one.get("description")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_call_with_its_role_and_a_command() {
        let (about, calls) = &*CALLS;
        assert!(about.contains("RFC 9457"), "{about}");
        assert_eq!(calls.len(), api::table().len());
        let put = calls.iter().find(|one| one.id == "putPolicy").unwrap();
        assert_eq!(put.role, "operator");
        let curl = put.curl("http://127.0.0.1:8081");
        for part in ["-X PUT", "If-Match", "$BULKHEAD_TOKEN", "/api/v1/policy"] {
            assert!(curl.contains(part), "{part} in {curl}");
        }
        for one in calls {
            assert!(
                !one.answers.is_empty() && !one.summary.is_empty(),
                "{one:?}"
            );
            let said = one.answers.iter().all(|(_, about)| !about.is_empty());
            assert!(said, "{one:?}");
        }
    }
}
