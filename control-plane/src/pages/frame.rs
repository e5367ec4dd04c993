//! The frame of every page, from a request and what is known at that moment.
//!
//! Separate so that each page says the same of generation, rollout and age. It must never take a
//! name from the request for more than a text to show.

use axum::extract::Request;
use jiff::Timestamp;
use web::{Frame, Moment, Reader, Role};

use super::readings::Snapshot;
use crate::auth::{self, Caller};
use crate::clock;
use crate::rollout::Published;
use crate::session;

/// What a handler needs of its request.
pub(super) struct Asked {
    host: String,
    pub(super) is_plain: bool,
    here: String,
    reader: Reader,
    /// Who stands behind the reader.
    pub(super) person: String,
    pub(super) request_id: String,
}

impl Asked {
    pub(super) fn of(request: &Request) -> Self {
        let target = request
            .uri()
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let host = auth::host_of(request).unwrap_or("localhost").to_owned();
        let is_plain = auth::is_plain(request.extensions(), &host);
        Self {
            is_plain,
            host,
            here: target.to_owned(),
            reader: reader(request, is_plain),
            person: auth::author(request.extensions()).person,
            request_id: super::id_of(request.extensions()).to_owned(),
        }
    }

    /// The frame of this page. `here` is its address without what a script added.
    pub(super) fn frame(&self, current: &Published, snapshot: &Snapshot, here: String) -> Frame {
        Frame {
            environment: self.host.clone(),
            origin: self.origin(),
            generation: current.about.number,
            fleet: snapshot.fleet(),
            freshness: snapshot.freshness(),
            lately_ms: snapshot.lately_ms(),
            now: Moment {
                iso: clock::utc(),
                ago_ms: 0,
            },
            reader: self.reader.clone(),
            here,
            alerts: snapshot.alerts(),
            trouble: snapshot.trouble(),
        }
    }

    /// Where this server is, as the browser asks for it.
    pub(super) fn origin(&self) -> String {
        let scheme = if self.is_plain { "http" } else { "https" };
        format!("{scheme}://{}", self.host)
    }

    /// Path and query as they came.
    pub(super) fn here(&self) -> &str {
        &self.here
    }
}

/// Who looks at this page.
fn reader(request: &Request, is_plain: bool) -> Reader {
    let caller = request.extensions().get::<Caller>();
    Reader {
        name: caller.map_or_else(String::new, |caller| caller.name.clone()),
        role: caller.map_or(Role::Viewer, |caller| caller.role),
        can_leave: caller.is_some_and(Caller::has_session),
        form_token: match caller.is_some_and(Caller::has_session) {
            true => session::form_key(request.headers(), is_plain)
                .map_or_else(String::new, session::form_token),
            false => String::new(),
        },
    }
}

/// A moment of the store, as pages show it.
pub(super) fn moment(utc: &str) -> Moment {
    let now = clock::utc().parse::<Timestamp>();
    let ago_ms = match (utc.parse::<Timestamp>(), now) {
        (Ok(then), Ok(now)) => now.as_millisecond().saturating_sub(then.as_millisecond()),
        _ => 0,
    };
    Moment {
        iso: utc.to_owned(),
        ago_ms: u64::try_from(ago_ms).unwrap_or(0),
    }
}
