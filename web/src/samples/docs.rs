//! Samples of the page of the API.
//!
//! Separate because each page has its own states. They must never be reachable from a server.

use super::{HOSTILE, frame};
use crate::{ApiCall, ApiParameter, DocsPage, Frame};

fn page(calls: Vec<ApiCall>) -> DocsPage {
    DocsPage {
        frame: Frame {
            here: "/docs/api".to_owned(),
            ..frame()
        },
        about: "Every refusal is application/problem+json.".to_owned(),
        calls,
    }
}

fn call(word: &str) -> ApiCall {
    let parameter = |name: &str, place: &str, is_required| ApiParameter {
        name: name.to_owned(),
        place: place.to_owned(),
        kind: "text".to_owned(),
        is_required,
        about: word.to_owned(),
    };
    ApiCall {
        method: "PATCH".to_owned(),
        path: "/compartments/{key}".to_owned(),
        id: "patchCompartment".to_owned(),
        summary: word.to_owned(),
        details: "Fields as in the policy.".to_owned(),
        role: "operator".to_owned(),
        parameters: vec![
            parameter("key", "path", true),
            parameter("If-Match", "header", true),
        ],
        body: format!("{{\"comment\": \"it's {word}\"}}"),
        answers: vec![("200".to_owned(), "Stored".to_owned())],
    }
}

impl DocsPage {
    /// The states that the page can be in.
    pub fn samples() -> Vec<(&'static str, Self)> {
        let public = ApiCall {
            method: "GET".to_owned(),
            path: "/openapi.json".to_owned(),
            id: "describe".to_owned(),
            summary: "This document".to_owned(),
            ..ApiCall::default()
        };
        vec![
            ("calls", page(vec![public, call("Change a limit")])),
            ("hostile_names", page(vec![call(HOSTILE)])),
        ]
    }
}
