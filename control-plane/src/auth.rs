//! Who may use pages and API.
//!
//! Separate so that one function stands before every route but the public ones, and a new route
//! is closed until somebody opens it. It must never log or repeat what a caller offered.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use wire::Secret;

use crate::api::Problem;
use crate::limits::Author;
use crate::request_id::RequestId;
use crate::state::AppState;

/// Paths that anybody may read.
const PUBLIC: [&str; 1] = ["/api/v1/openapi.json"];

/// Where a connection came from; set by the accept loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Who calls, as far as we know. In every request behind the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// As the audit names it.
    pub(crate) name: &'static str,
}

/// The rules of this process.
#[derive(Debug)]
pub(crate) struct Auth {
    no_login: bool,
    admin_token: Option<Secret>,
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
}

impl Auth {
    /// Rules from the settings.
    pub(crate) fn new(no_login: bool, admin_token: Option<Secret>) -> Self {
        Self {
            no_login,
            admin_token,
        }
    }

    /// Decides about one request.
    pub(crate) fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: Option<&str>,
    ) -> Admitted {
        if self.no_login && !host.is_some_and(is_loopback_name) {
            return Err(Denied::Host);
        }
        match (credential(headers), &self.admin_token) {
            (Some(Credential::Bearer(offered)), Some(own)) if own.matches(&offered) => Ok(Caller {
                name: "admin token",
            }),
            // A browser sends these by itself, whoever wrote the page.
            (Some(Credential::Basic(offered)), Some(own)) if own.matches(&offered) => {
                same_origin(method, headers, host).map(|()| Caller {
                    name: "admin token",
                })
            }
            (Some(_), Some(_)) => Err(Denied::WrongToken),
            (_, _) if self.no_login => {
                same_origin(method, headers, host).map(|()| Caller { name: "operator" })
            }
            (Some(_), None) => Err(Denied::WrongToken),
            (None, _) => Err(Denied::NoToken),
        }
    }
}

/// The verdict.
pub(crate) type Admitted = Result<Caller, Denied>;

enum Credential {
    Bearer(String),
    Basic(String),
}

fn credential(headers: &HeaderMap) -> Option<Credential> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credential::Bearer(rest.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(rest.trim())
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':')
        .map(|(_, password)| Credential::Basic(password.to_owned()))
}

/// True when a change cannot come from another site's page, or nothing is changed.
fn same_origin(method: &Method, headers: &HeaderMap, host: Option<&str>) -> Result<(), Denied> {
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
fn is_loopback_name(host: &str) -> bool {
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

/// Stands before every route.
pub(crate) async fn guard(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let verdict = state
        .auth
        .admit(request.method(), request.headers(), host_of(&request));
    let is_public = PUBLIC.contains(&path) && request.method().is_safe();
    let caller = match verdict {
        Ok(caller) => caller,
        Err(Denied::NoToken | Denied::WrongToken) if is_public => Caller { name: "anybody" },
        Err(denied) => return refuse(denied, path.starts_with("/api/")),
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

fn refuse(denied: Denied, is_api: bool) -> Response {
    let status = match denied {
        Denied::NoToken | Denied::WrongToken => StatusCode::UNAUTHORIZED,
        Denied::Host | Denied::Origin => StatusCode::FORBIDDEN,
    };
    let mut response = if is_api {
        Problem::new(status, "not-allowed", denied.to_string()).into_response()
    } else {
        (status, format!("{denied}\n")).into_response()
    };
    if status == StatusCode::UNAUTHORIZED {
        // Pages are read by browsers, which can ask for a password: the admin token is one.
        let scheme = if is_api {
            "Bearer"
        } else {
            "Basic realm=\"bulkhead\", charset=\"UTF-8\""
        };
        let scheme = HeaderValue::from_static(scheme);
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Who the audit names for a request behind the guard.
pub(crate) fn author(extensions: &http::Extensions) -> Author {
    let caller = extensions
        .get::<Caller>()
        .map_or("unknown", |caller| caller.name);
    let peer = extensions
        .get::<Peer>()
        .map(|Peer(address)| address.ip().to_string());
    let request_id = extensions
        .get::<RequestId>()
        .map(|RequestId(id)| id.clone());
    Author {
        name: caller.to_owned(),
        origin: peer.unwrap_or_default(),
        request_id: request_id.unwrap_or_default(),
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
        auth.admit(&method, &headers, Some(host.as_deref().unwrap_or(HERE)))
    }

    fn closed() -> Auth {
        Auth::new(false, Some(Secret::new(TOKEN).unwrap()))
    }

    fn basic(password: &str) -> String {
        let text = format!("admin:{password}");
        format!(
            "Basic {}",
            base64::engine::general_purpose::STANDARD.encode(text)
        )
    }

    #[test]
    fn a_token_opens_and_nothing_else_does() {
        let bearer = |token: &str| admit(&closed(), Method::GET, &[("authorization", token)]);
        assert!(bearer(&format!("Bearer {TOKEN}")).is_ok());
        assert!(bearer(&format!("bearer {TOKEN}")).is_ok());
        assert!(bearer(&basic(TOKEN)).is_ok());
        for wrong in [
            &format!("Bearer {TOKEN}x"),
            "Bearer ",
            &basic("x"),
            &basic(""),
        ] {
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
    fn a_password_the_browser_keeps_is_no_excuse_for_another_site() {
        let credential = basic(TOKEN);
        let fields = [
            ("authorization", credential.as_str()),
            ("origin", "http://evil.example"),
        ];
        assert_eq!(admit(&closed(), Method::POST, &fields), Err(Denied::Origin));
        let bearer = format!("Bearer {TOKEN}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("origin", "http://evil.example"),
        ];
        assert!(
            admit(&closed(), Method::POST, &fields).is_ok(),
            "no browser adds this by itself"
        );
    }
}
