//! A client of the control plane's API: server, token, and answers that are no success.
//!
//! Separate so that every tool reports a refusal in the same words. It must never print its token.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control_plane::document::{self, Syntax};
use control_plane::policy::Value as Document;
use http::{Method, StatusCode, header};
use serde_json::Value;

use crate::args_tools::ClientArgs;
use crate::error::Failure;
use crate::output::printable;
use crate::remote::http::{Answer, Ask, ask};
use crate::settings;

const SERVER_DEFAULT: &str = "http://127.0.0.1:8081";
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Longest file of a token that is read.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;
/// Faults of a refusal that are printed.
const FAULTS_SHOWN_MAX: usize = 100;

/// What to do where the control plane asks for a token and none was given.
const NO_TOKEN: &str = "no token was given, and this control plane asks for one: name a file that \
    holds it with --token-file, or set BULKHEAD_TOKEN; one is made on the page Settings or with \
    `bulkhead token create`";

/// One control plane.
pub(super) struct Client {
    base: String,
    token: Option<String>,
    ca: Option<PathBuf>,
}

/// What the store holds.
pub(super) struct Stored {
    pub(super) generation: String,
    pub(super) etag: String,
    pub(super) document: Document,
}

impl Client {
    pub(super) fn new(args: &ClientArgs) -> Result<Self, Failure> {
        let (server, token) = settings::client(&settings::of_this_process());
        let base = args
            .server
            .clone()
            .or(server)
            .unwrap_or_else(|| SERVER_DEFAULT.to_owned());
        let named = args.token_file.as_deref().map(token_of).transpose()?;
        let token = args.token.clone().or(named).or(token);
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            token,
            ca: args.ca.clone().or_else(settings::server_ca),
        })
    }

    /// The address of the control plane.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// One call; the path begins behind `/api/v1`.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        mut headers: Vec<(http::HeaderName, String)>,
        body: Option<String>,
    ) -> Result<Answer, Failure> {
        if let Some(token) = &self.token {
            headers.push((header::AUTHORIZATION, format!("Bearer {token}")));
        }
        if body.is_some() {
            headers.push((header::CONTENT_TYPE, "application/json".to_owned()));
        }
        let url = format!("{}/api/v1{path}", self.base);
        let answer = ask(Ask {
            method,
            url: &url,
            ca: self.ca.as_deref(),
            headers,
            body,
            longest: ANSWER_MAX,
        })
        .map_err(Failure::of_control_plane)?;
        match (answer.status, &self.token) {
            (StatusCode::UNAUTHORIZED, None) => Err(Failure::Answer(NO_TOKEN.to_owned())),
            _ => Ok(answer),
        }
    }

    /// A call that must succeed, read as JSON.
    pub(super) fn json(&self, method: Method, path: &str) -> Result<Value, Failure> {
        let answer = self.call(method, path, Vec::new(), None)?;
        if !answer.status.is_success() {
            return Err(refusal(&answer));
        }
        self.parsed(&answer)
    }

    /// The body of an answer as JSON.
    pub(super) fn parsed(&self, answer: &Answer) -> Result<Value, Failure> {
        serde_json::from_slice(&answer.body).map_err(|_| {
            Failure::Answer(format!(
                "{} answered with something else than JSON",
                self.base
            ))
        })
    }

    /// The newest policy.
    pub(super) fn policy(&self) -> Result<Stored, Failure> {
        let answer = self.call(Method::GET, "/policy", Vec::new(), None)?;
        if !answer.status.is_success() {
            return Err(refusal(&answer));
        }
        let strange = || {
            Failure::Answer(format!(
                "{} answered with something else than a policy",
                self.base
            ))
        };
        let etag = answer
            .headers
            .get(header::ETAG)
            .and_then(|value| value.to_str().ok());
        let etag = etag.ok_or_else(strange)?.to_owned();
        let text = std::str::from_utf8(&answer.body).map_err(|_| strange())?;
        let document = document::value_of(text, Syntax::Json).map_err(|_| strange())?;
        let generation = etag.trim_start_matches("W/").trim_matches('"').to_owned();
        Ok(Stored {
            generation,
            etag,
            document,
        })
    }
}

/// The token in a file: its one line.
fn token_of(path: &Path) -> Result<String, Failure> {
    let unreadable = |source| Failure::unreadable(path, source);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut file = file.take(TOKEN_FILE_BYTES_MAX);
    file.read_to_string(&mut text).map_err(unreadable)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let rule = "must hold one token and nothing else";
        return Err(Failure::Setting(format!(
            "--token-file {}: {rule}",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

/// What an answer that is no success says, with every fault on a line of its own.
pub(super) fn refusal(answer: &Answer) -> Failure {
    let status = answer.status;
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    let text = |name: &str| problem.get(name).and_then(Value::as_str).map(printable);
    let said = text("detail").or_else(|| text("title"));
    let mut out = match (said, status) {
        (_, StatusCode::UNAUTHORIZED) => {
            "the control plane does not know this token; set BULKHEAD_TOKEN or --token".to_owned()
        }
        (Some(said), StatusCode::FORBIDDEN) => {
            format!("{said} (403); a token of a role that may do this goes into BULKHEAD_TOKEN")
        }
        (Some(said), StatusCode::PRECONDITION_FAILED) => {
            format!("{said} (412); look at `bulkhead diff`, then try again")
        }
        (Some(said), StatusCode::SERVICE_UNAVAILABLE) => match text("operation") {
            // Nothing is tried again that may be done already.
            Some(operation) => format!(
                "{said} (503); ask GET /api/v1/operations/{operation} before doing it again"
            ),
            None => format!("{said} (503); try again in a moment"),
        },
        (Some(said), _) => format!("{said} ({})", status.as_u16()),
        (None, _) => format!("the control plane answered {status}"),
    };
    let faults = problem.get("errors").and_then(Value::as_array);
    for fault in faults.into_iter().flatten().take(FAULTS_SHOWN_MAX) {
        let part = |name: &str| fault.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut path = path_of(part("pointer"));
        if let Some(name) = ["parameter", "header"]
            .map(part)
            .iter()
            .find(|name| !name.is_empty())
        {
            path = (*name).to_owned();
        }
        // The one line above says it already.
        if path.is_empty() {
            continue;
        }
        out.push_str(&format!(
            "\n{}: {}",
            printable(&path),
            printable(part("detail"))
        ));
    }
    Failure::Answer(out)
}

/// `/routes/0/compartment/limit` as people write it: `routes[0].compartment.limit`.
pub(super) fn path_of(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{step}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&step);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: http::HeaderMap::new(),
            body: body.to_owned().into(),
        }
    }

    #[test]
    fn faults_are_paths_again() {
        let body = r#"{"title":"policy refused","errors":[
            {"pointer":"/routes/0/compartment/limit","detail":"-1: must be…"},
            {"pointer":"/tenants/a~1b/limit","detail":"\u001b[31m"}]}"#;
        assert_eq!(
            refusal(&answer(422, body)).to_string(),
            "policy refused (422)\nroutes[0].compartment.limit: -1: must be…\n\
             tenants.a/b.limit: \\u{1b}[31m"
        );
    }

    #[test]
    fn answers_that_are_no_problem_document_have_their_status() {
        assert!(refusal(&answer(502, "<html>")).to_string().contains("502"));
        assert!(
            refusal(&answer(401, ""))
                .to_string()
                .contains("BULKHEAD_TOKEN")
        );
    }
}
