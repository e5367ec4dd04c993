//! Who may use pages and API.
//!
//! Separate so that one function stands before every route but the public ones, and a new route
//! is closed until somebody opens it. It must never log or repeat what a caller offered.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use wire::{Secret, SecretError};

use crate::access::{Need, Role, Table};
use crate::api::Problem;
use crate::limits::Author;
use crate::pages;
use crate::request_id::RequestId;
use crate::session::Sessions;
use crate::state::AppState;

/// Where a connection came from; set by the accept loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The connection is TLS's; set by the accept loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverTls;

/// True on plain loopback, the one place where nothing is encrypted and nothing needs to be: beyond
/// it there is TLS, here or before us, or we would not have started.
pub(crate) fn is_plain(extensions: &http::Extensions, host: &str) -> bool {
    is_loopback_name(host) && extensions.get::<OverTls>().is_none()
}

/// What a caller may beyond its role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scopes {
    /// Writes go through although the setting `approvals` asks for a second person.
    pub(crate) emergency: bool,
}

/// How a caller came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Not at all: the route is open to anybody.
    Nothing,
    /// Without a login, on loopback.
    NoLogin,
    /// By `BULKHEAD_ADMIN_TOKEN`.
    AdminToken,
    /// By a browser's session.
    Session,
}

/// Who calls, as far as we know. In every request behind the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// As the audit names it.
    pub(crate) name: String,
    /// What it may.
    pub(crate) role: Role,
    /// What it may beyond that.
    pub(crate) scopes: Scopes,
    /// How it came in.
    pub(crate) via: Via,
}

impl Caller {
    fn admin(name: &str, via: Via) -> Self {
        Self {
            name: name.to_owned(),
            role: Role::Admin,
            scopes: Scopes::default(),
            via,
        }
    }

    /// Who stands behind it: a token is the person who made it.
    fn person(&self) -> &str {
        &self.name
    }

    /// Who came to a route that is open to anybody.
    fn anybody() -> Self {
        Self {
            name: "anybody".to_owned(),
            role: Role::Viewer,
            scopes: Scopes::default(),
            via: Via::Nothing,
        }
    }

    /// Whether a browser's session let it in.
    pub(crate) fn has_session(&self) -> bool {
        self.via == Via::Session
    }

    /// Whether it may what needs this.
    fn may(&self, need: Need) -> bool {
        match need {
            Need::Public => true,
            Need::Role(role) => self.via != Via::Nothing && self.role >= role,
        }
    }
}

/// The rules of this process.
#[derive(Debug)]
pub(crate) struct Auth {
    no_login: bool,
    admin_token: Option<Secret>,
    sessions: Sessions,
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// No credential.
    #[error(
        "this needs the header `authorization: Bearer TOKEN`. The admin token is what \
         BULKHEAD_ADMIN_TOKEN (32 characters or more) held when the control plane was started; \
         with --no-login, on loopback, no token is needed"
    )]
    NoToken,
    /// A credential that is not ours.
    #[error("this token is not known here")]
    WrongToken,
    /// Another name than our own: a page of another site may have been rebound to our address.
    #[error("without a login this is served under a loopback name only")]
    Host,
    /// A change that another site's page sent.
    #[error("a change must come from this site's own pages, or carry a token")]
    Origin,
    /// Somebody who may do less.
    #[error("this needs the role {}; yours is {}", .needs.word(), .has.word())]
    Role {
        /// At least.
        needs: Role,
        /// The caller's.
        has: Role,
    },
    /// A route that nobody was given.
    #[error("this is open to nobody")]
    Shut,
}

impl Auth {
    /// Rules from the settings.
    pub(crate) fn new(no_login: bool, admin_token: Option<Secret>) -> Self {
        Self {
            no_login,
            admin_token,
            sessions: Sessions::default(),
        }
    }

    /// Whether there is a token that opens a session.
    pub(crate) fn can_sign_in(&self) -> bool {
        self.admin_token.is_some()
    }

    /// Decides about one request.
    pub(crate) fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: Option<&str>,
        now: Instant,
    ) -> Admitted {
        if self.no_login && !host.is_some_and(is_loopback_name) {
            return Err(Denied::Host);
        }
        // No browser adds a token by itself, so a token is proof of intent too.
        if let (Some(offered), Some(own)) = (bearer(headers), &self.admin_token) {
            let known = own.matches(offered);
            return known
                .then(|| Caller::admin("admin token", Via::AdminToken))
                .ok_or(Denied::WrongToken);
        }
        if self.no_login {
            same_origin(method, headers, host)?;
            return Ok(Caller::admin("operator", Via::NoLogin));
        }
        if self.sessions.holds(headers, now) {
            same_origin(method, headers, host)?;
            return Ok(Caller::admin("admin token", Via::Session));
        }
        Err(if bearer(headers).is_some() {
            Denied::WrongToken
        } else {
            Denied::NoToken
        })
    }

    /// Opens a session for whoever holds the admin token; `None` for everybody else.
    pub(crate) fn sign_in(
        &self,
        offered: &str,
        now: Instant,
    ) -> Result<Option<Secret>, SecretError> {
        let known = self
            .admin_token
            .as_ref()
            .is_some_and(|own| own.matches(offered));
        known.then(|| self.sessions.open(now)).transpose()
    }

    /// Ends the session of this browser.
    pub(crate) fn sign_out(&self, headers: &HeaderMap) {
        self.sessions.close(headers);
    }
}

/// The verdict.
pub(crate) type Admitted = Result<Caller, Denied>;

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim())
}

/// True when a change cannot come from another site's page, or nothing is changed.
pub(crate) fn same_origin(
    method: &Method,
    headers: &HeaderMap,
    host: Option<&str>,
) -> Result<(), Denied> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if !matches!(text("sec-fetch-site"), None | Some("same-origin" | "none")) {
        return Err(Denied::Origin);
    }
    let Some(origin) = text("origin") else {
        return Ok(());
    };
    let own = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    if own.is_some() && own == host {
        Ok(())
    } else {
        Err(Denied::Origin)
    }
}

/// A name that no other site's page can have: the browser resolves none of them.
pub(crate) fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The name that the caller used for us.
pub(crate) fn host_of(request: &Request) -> Option<&str> {
    // HTTP/2 has it in the target.
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    authority.or_else(|| request.headers().get(header::HOST)?.to_str().ok())
}

/// What the guard looks at.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    state: AppState,
    table: Arc<Table>,
}

impl Guard {
    pub(crate) fn new(state: AppState, table: Table) -> Self {
        Self {
            state,
            table: Arc::new(table),
        }
    }
}

/// Stands before every route.
pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let (method, headers) = (request.method(), request.headers());
    let path = request.extensions().get::<MatchedPath>();
    let need = guard.table.need(path.map(MatchedPath::as_str), method);
    let admitted = guard
        .state
        .auth
        .admit(method, headers, host_of(&request), crate::clock::now());
    let caller = match admitted {
        Ok(caller) => caller,
        Err(Denied::NoToken | Denied::WrongToken) if need == Some(Need::Public) => {
            Caller::anybody()
        }
        Err(Denied::NoToken) if !is_api && method.is_safe() => {
            return pages::redirect_to_sign_in(&request);
        }
        Err(denied) => return refuse(&denied, &request, is_api),
    };
    match need {
        Some(need) if caller.may(need) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Some(Need::Role(needs)) => {
            let has = caller.role;
            refuse(&Denied::Role { needs, has }, &request, is_api)
        }
        Some(Need::Public) | None => refuse(&Denied::Shut, &request, is_api),
    }
}

fn refuse(denied: &Denied, request: &Request, is_api: bool) -> Response {
    let status = match denied {
        Denied::NoToken | Denied::WrongToken => StatusCode::UNAUTHORIZED,
        Denied::Host | Denied::Origin | Denied::Role { .. } | Denied::Shut => StatusCode::FORBIDDEN,
    };
    let mut response = if is_api {
        let problem = Problem::new(status, "not-allowed", denied.to_string());
        let problem = match denied {
            Denied::Role { needs, .. } => problem.with("role", needs.word().into()),
            Denied::NoToken | Denied::WrongToken | Denied::Host | Denied::Origin | Denied::Shut => {
                problem
            }
        };
        problem.into_response()
    } else {
        let what = denied.to_string();
        pages::PageError::Refused { status, what }.answer(pages::id_of(request.extensions()), None)
    };
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Who the audit names for a request behind the guard.
pub(crate) fn author(extensions: &http::Extensions) -> Author {
    let caller = extensions.get::<Caller>();
    let name = caller.map_or_else(|| "unknown".to_owned(), |caller| caller.name.clone());
    let peer = extensions
        .get::<Peer>()
        .map(|Peer(address)| address.ip().to_string());
    let request_id = extensions
        .get::<RequestId>()
        .map(|RequestId(id)| id.clone());
    Author {
        person: caller.map_or_else(|| name.clone(), |caller| caller.person().to_owned()),
        name,
        origin: peer.unwrap_or_default(),
        request_id: request_id.unwrap_or_default(),
        emergency: caller.is_some_and(|caller| caller.scopes.emergency),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const HERE: &str = "127.0.0.1:8081";

    fn admit(auth: &Auth, method: Method, fields: &[(&'static str, &str)]) -> Admitted {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, value.parse().unwrap());
        }
        let host = headers
            .get("host")
            .map(|value| value.to_str().unwrap().to_owned());
        let host = host.as_deref().unwrap_or(HERE);
        auth.admit(&method, &headers, Some(host), crate::clock::now())
    }

    fn closed() -> Auth {
        Auth::new(false, Some(Secret::new(TOKEN).unwrap()))
    }

    /// The cookie of a session that holds.
    fn signed_in(auth: &Auth) -> String {
        let id = auth.sign_in(TOKEN, crate::clock::now()).unwrap().unwrap();
        let cookie = crate::session::set_cookie(Some(&id), true);
        cookie.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_token_opens_and_nothing_else_does() {
        let bearer = |token: &str| admit(&closed(), Method::GET, &[("authorization", token)]);
        assert!(bearer(&format!("Bearer {TOKEN}")).is_ok());
        assert!(bearer(&format!("bearer {TOKEN}")).is_ok());
        for wrong in [&format!("Bearer {TOKEN}x"), "Bearer x"] {
            assert_eq!(bearer(wrong), Err(Denied::WrongToken), "{wrong}");
        }
        assert_eq!(bearer(TOKEN), Err(Denied::NoToken));
        assert_eq!(admit(&closed(), Method::GET, &[]), Err(Denied::NoToken));
    }

    #[test]
    fn nothing_is_open_without_a_token_of_our_own() {
        let auth = Auth::new(false, None);
        assert_eq!(admit(&auth, Method::GET, &[]), Err(Denied::NoToken));
        let offered = format!("Bearer {TOKEN}");
        let verdict = admit(&auth, Method::GET, &[("authorization", &offered)]);
        assert_eq!(verdict, Err(Denied::WrongToken));
    }

    #[test]
    fn without_a_login_another_name_is_refused() {
        let auth = Auth::new(true, None);
        for (host, fine) in [
            ("127.0.0.1:8081", true),
            ("localhost:9", true),
            ("LOCALHOST", true),
            ("[::1]:8081", true),
            ("127.9.9.9", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:80", false),
            ("192.168.0.1:8081", false),
            ("[::2]:80", false),
            ("", false),
        ] {
            let verdict = admit(&auth, Method::GET, &[("host", host)]);
            assert_eq!(verdict.is_ok(), fine, "{host}");
        }
    }

    #[test]
    fn a_change_from_another_site_is_refused() {
        let auth = Auth::new(true, None);
        let own = format!("http://{HERE}");
        for (fields, fine) in [
            (vec![], true),
            (vec![("origin", own.as_str())], true),
            (
                vec![("origin", own.as_str()), ("sec-fetch-site", "same-origin")],
                true,
            ),
            (vec![("origin", "http://evil.example")], false),
            (vec![("origin", "http://127.0.0.1:9")], false),
            (vec![("origin", "null")], false),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "same-site")], false),
        ] {
            let verdict = admit(&auth, Method::POST, &fields);
            assert_eq!(verdict.is_ok(), fine, "{fields:?}");
            assert!(
                admit(&auth, Method::GET, &fields).is_ok(),
                "reading changes nothing"
            );
        }
    }

    #[test]
    fn a_session_is_no_excuse_for_another_site() {
        let auth = closed();
        assert!(
            auth.sign_in("wrong", crate::clock::now())
                .unwrap()
                .is_none()
        );
        let cookie = signed_in(&auth);
        let own = [
            ("cookie", cookie.as_str()),
            ("origin", "http://127.0.0.1:8081"),
        ];
        assert_eq!(
            admit(&auth, Method::POST, &own).map(|caller| caller.has_session()),
            Ok(true)
        );
        let other = [
            ("cookie", cookie.as_str()),
            ("origin", "http://evil.example"),
        ];
        assert_eq!(admit(&auth, Method::POST, &other), Err(Denied::Origin));
        let bearer = format!("Bearer {TOKEN}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("origin", "http://evil.example"),
        ];
        assert!(
            admit(&auth, Method::POST, &fields).is_ok(),
            "no browser adds this by itself"
        );
        let headers = [(header::COOKIE, cookie.parse().unwrap())]
            .into_iter()
            .collect();
        auth.sign_out(&headers);
        assert_eq!(admit(&auth, Method::GET, &own), Err(Denied::NoToken));
    }
}
