//! `[[routes.fallback]]`: what answers in place of a rejection or a timeout, step by step.
//!
//! Separate because the steps of one route have rules among each other. A step that can never
//! answer must never be accepted, nor one that asks the dependency it stands in for.

use std::time::Duration;

use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::fields::set;
use super::named::Names;
use super::scalar::{duration, text, whole, word};
use super::text::media_type;
use super::types::{Route, Timeouts};
use crate::{LIMIT_MAX, Limit};

/// The most steps of a fallback: each kind once, in any order that ends with the fixed answer.
const STEPS_MAX: usize = 3;

/// The largest body of a static answer.
const STATIC_BODY_BYTES_MAX: usize = 64 * 1024;

/// The most fields of a static answer beside its type.
const STATIC_FIELDS_MAX: usize = 16;

/// What it has by itself: its type has a key of its own, and it is never stored.
const OWN_FIELDS: [&str; 2] = ["content-type", "cache-control"];

const STALE_KEYS: Keys = Keys {
    known: &["kind", "max_age"],
    unenforced: &[],
};
const UPSTREAM_KEYS: Keys = Keys {
    known: &["kind", "upstream", "limit", "timeout"],
    unenforced: &[],
};
const STATIC_KEYS: Keys = Keys {
    known: &["kind", "status", "content_type", "headers", "body"],
    unenforced: &[],
};

/// One step of the ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A stored answer of the same tenant.
    Stale {
        /// How old it may be, however it is asked for.
        age_max: Duration,
    },
    /// Another dependency.
    Upstream {
        /// Index into `Policy::upstreams`; never the route's own.
        upstream: usize,
        /// The limit of `route/ID/fallback`; at least 1.
        limit: Limit,
        /// To its response head; at most the route's total.
        timeout: Duration,
    },
    /// A fixed answer, which always answers.
    Static {
        /// Status 200 to 599.
        status: u16,
        /// Media type.
        content_type: String,
        /// Further fields, names in lower case.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
}

impl Fallback {
    /// The kind, as the document and every count spell it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Stale { .. } => "stale",
            Self::Upstream { .. } => "upstream",
            Self::Static { .. } => "static",
        }
    }
}

impl Route {
    /// The dependency that a step of its fallback asks: index into `Policy::upstreams`.
    pub fn fallback_upstream(&self) -> Option<usize> {
        self.fallback.iter().find_map(|step| match step {
            Fallback::Upstream { upstream, .. } => Some(*upstream),
            Fallback::Stale { .. } | Fallback::Static { .. } => None,
        })
    }

    /// The limit of `route/ID/fallback`: of the step that asks another dependency.
    pub fn fallback_limit(&self) -> Option<Limit> {
        self.fallback.iter().find_map(|step| match step {
            Fallback::Upstream { limit, .. } => Some(*limit),
            Fallback::Stale { .. } | Fallback::Static { .. } => None,
        })
    }
}

/// What of its route a step is measured by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) upstreams: &'a Names<'a>,
    /// The route's own; `None` when it could not be read.
    pub(super) upstream: Option<usize>,
    pub(super) methods: Option<&'a [String]>,
    pub(super) timeout: Option<&'a Timeouts>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stale,
    Upstream,
    Static,
}

const KINDS: [(&str, Kind); 3] = [
    ("stale", Kind::Stale),
    ("upstream", Kind::Upstream),
    ("static", Kind::Static),
];

/// `[[routes.fallback]]`.
pub(super) fn fallbacks(
    node: Node<'_>,
    around: Around<'_>,
    faults: &mut Faults,
) -> Option<Vec<Fallback>> {
    let steps = node.each(STEPS_MAX, faults, |node, faults| step(node, around, faults));
    // Read from the document, so that a step that is broken otherwise has its place all the same.
    order(node, faults)?;
    steps
}

/// Each kind once, and nothing after the step that always answers.
fn order(node: Node<'_>, faults: &mut Faults) -> Option<()> {
    let kinds: Vec<&str> = node
        // What is no list, or too long a one, has been told.
        .items(STEPS_MAX, &mut Faults::default())?
        .iter()
        .map(|step| step.get("kind").and_then(text_of).unwrap_or_default())
        .collect();
    for (at, kind) in kinds.iter().enumerate() {
        let (before, place) = (kinds.get(..at)?, Place::Index(&node.place, at));
        if before.contains(&"static") {
            let rule = "is never reached: a static step always answers";
            return faults.add(&place, String::new(), rule);
        }
        if !before.contains(kind) {
            continue;
        }
        match *kind {
            "stale" => {
                let rule = "is the second stale step: one bound on the age holds for a route";
                return faults.add(&place, String::new(), rule);
            }
            "upstream" => {
                let rule = "is the second upstream step: both would be route/ID/fallback";
                return faults.add(&place, String::new(), rule);
            }
            _ => {}
        }
    }
    Some(())
}

fn text_of(value: &super::Value) -> Option<&str> {
    let super::Value::String(text) = value else {
        return None;
    };
    Some(text)
}

fn step(node: Node<'_>, around: Around<'_>, faults: &mut Faults) -> Option<Fallback> {
    // The kind decides which keys there are, so it is read before they are compared.
    let place = Place::Key(&node.place, "kind");
    let kind = match node.value.get("kind") {
        Some(value) => word(Node { value, place }, &KINDS, faults)?,
        None => {
            let table = Table::open(node, STATIC_KEYS, faults)?;
            return table.missing("kind", "is required", faults);
        }
    };
    match kind {
        Kind::Stale => stale(&Table::open(node, STALE_KEYS, faults)?, around, faults),
        Kind::Upstream => upstream(&Table::open(node, UPSTREAM_KEYS, faults)?, around, faults),
        Kind::Static => fixed(&Table::open(node, STATIC_KEYS, faults)?, faults),
    }
}

fn stale(table: &Table<'_>, around: Around<'_>, faults: &mut Faults) -> Option<Fallback> {
    let age_max = table.required("max_age", faults, duration);
    if let Some(methods) = around.methods
        && !methods.iter().any(|method| method == "GET")
    {
        let rule = "never answers: answers to GET alone are stored, and the route takes none";
        let place = Place::Key(&table.place, "kind");
        return faults.add(&place, "\"stale\"".to_owned(), rule);
    }
    Some(Fallback::Stale { age_max: age_max? })
}

fn upstream(table: &Table<'_>, around: Around<'_>, faults: &mut Faults) -> Option<Fallback> {
    let upstream = table.required("upstream", faults, |node, faults| {
        let found = around.upstreams.find(node, faults)?;
        if around.upstream == Some(found) {
            return faults.broken(
                node,
                "must be another upstream than the route's own, which is what did not answer",
            );
        }
        Some(found)
    });
    let limit = table.required("limit", faults, |node, faults| {
        Limit::new(whole(node, 1, LIMIT_MAX, faults)?).ok()
    });
    let timeout = table.optional("timeout", faults, |node, faults| {
        let timeout = duration(node, faults)?;
        let total = around.timeout.map(|timeout| timeout.total);
        if total.is_some_and(|total| timeout > total) {
            let total_ms = total.unwrap_or_default().as_millis();
            let rule = format!("must be at most the route's total of {total_ms} ms");
            return faults.broken(node, rule);
        }
        Some(timeout)
    });
    let own = around.timeout?;
    Some(Fallback::Upstream {
        upstream: upstream?,
        limit: limit?,
        timeout: timeout?.unwrap_or(own.attempt.min(own.total)),
    })
}

fn fixed(table: &Table<'_>, faults: &mut Faults) -> Option<Fallback> {
    let status = table.or("status", 200, faults, status);
    let body = table.or("body", String::new(), faults, body);
    let headers = table.or("headers", Vec::new(), faults, headers);
    let content_type = table.or(
        "content_type",
        "text/plain; charset=utf-8".to_owned(),
        faults,
        media_type,
    );
    let (status, body) = (status?, body?);
    if matches!(status, 204 | 205 | 304) && !body.is_empty() {
        let node = table.get("body")?;
        return faults.broken(node, format!("must be empty: status {status} has no body"));
    }
    Some(Fallback::Static {
        status,
        content_type: content_type?,
        headers: headers?,
        body,
    })
}

/// By the rules for the fields that a route sets, and none that every such answer has.
fn headers(node: Node<'_>, faults: &mut Faults) -> Option<Vec<(String, String)>> {
    let fields = set(node, STATIC_FIELDS_MAX, faults)?;
    let own = |name: &str| OWN_FIELDS.contains(&name);
    let entries = node.entries(STATIC_FIELDS_MAX, faults)?.iter();
    let mut keys = entries.map(|(key, _)| key);
    if let Some(key) = keys.find(|key| own(&key.to_ascii_lowercase())) {
        let rule = "must not be a field that every such answer has by itself";
        return faults.add(&Place::Key(&node.place, key), String::new(), rule);
    }
    Some(fields)
}

fn status(node: Node<'_>, faults: &mut Faults) -> Option<u16> {
    whole(node, 200, 599, faults).and_then(|status| u16::try_from(status).ok())
}

fn body(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    let body = text(node, faults)?;
    if body.len() > STATIC_BODY_BYTES_MAX {
        let rule = format!("must have at most {STATIC_BODY_BYTES_MAX} bytes");
        return faults.broken(node, rule);
    }
    Some(body.to_owned())
}
