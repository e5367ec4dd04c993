//! Who may use pages and API.
//!
//! Separate from the guard so that who somebody is is decided in one place, for requests and for
//! streams that go on. It must never log or repeat what a caller offered.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use http::{HeaderMap, Method, header};
use wire::Secret;

use crate::access::{Need, Role};
use crate::config::Config;
use crate::limits::Author;
use crate::people::{Owner, People, PeopleError, Session, Source, token_owner};
use crate::request_id::RequestId;
use crate::session;

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
    /// By a token of the API.
    Token {
        /// Whose it is.
        person: String,
        /// That is a user, and not the process itself.
        is_user: bool,
    },
    /// By a browser's session, of this id.
    Session {
        /// Names it.
        id: String,
        /// Whose it is.
        owner: Owner,
    },
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

    /// Who stands behind it: a token is the person whose it is.
    fn person(&self) -> &str {
        if let Via::Token { person, .. } = &self.via {
            return person;
        }
        &self.name
    }

    /// Who came to a route that is open to anybody.
    pub(crate) fn anybody() -> Self {
        Self {
            name: "anybody".to_owned(),
            role: Role::Viewer,
            scopes: Scopes::default(),
            via: Via::Nothing,
        }
    }

    /// Whether a browser's session let it in.
    pub(crate) fn has_session(&self) -> bool {
        matches!(self.via, Via::Session { .. })
    }

    /// Whether it may what needs this.
    pub(crate) fn may(&self, need: Need) -> bool {
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
    behind_proxy: bool,
    admin_token: Option<Secret>,
    people: People,
}

/// What a request says of who sends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) host: Option<&'a str>,
    pub(crate) is_plain: bool,
    pub(crate) now_ms: i64,
}

/// Where a request comes from; set by the guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whence(pub(crate) Option<IpAddr>);

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// No credential.
    #[error(
        "this needs the header `authorization: Bearer TOKEN`, with a token of the API or what \
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
    /// A form that no page of ours made for this browser.
    #[error("this form is not one that our pages made for this session; load the page again")]
    Form,
    /// A route that nobody was given.
    #[error("this is open to nobody")]
    Shut,
}

impl Auth {
    /// Rules from the settings.
    pub(crate) fn new(config: &Config, people: People) -> Self {
        Self {
            no_login: config.no_login,
            behind_proxy: config.behind_tls_proxy,
            admin_token: config.admin_token.clone(),
            people,
        }
    }

    /// Whether there is an admin token.
    pub(crate) fn has_admin_token(&self) -> bool {
        self.admin_token.is_some()
    }

    /// Decides about one request.
    pub(crate) async fn admit(&self, asking: Asking<'_>) -> Admitted {
        let Asking {
            method,
            headers,
            host,
            is_plain,
            now_ms,
        } = asking;
        if self.no_login && !host.is_some_and(is_loopback_name) {
            return Err(Denied::Host);
        }
        // No browser adds a token by itself, so a token is proof of intent too.
        if let Some(offered) = bearer(headers) {
            let own = self.admin_token.as_ref();
            if own.is_some_and(|own| own.matches(offered)) {
                return Ok(Caller::admin("admin token", Via::AdminToken));
            }
            if let Some(token) = self.people.token(offered, now_ms) {
                self.people.used_token(&token.id, now_ms);
                return Ok(Caller {
                    name: format!("token {}", token.name),
                    role: token.role(),
                    scopes: token.scopes(),
                    via: Via::Token {
                        person: token.person().to_owned(),
                        is_user: token.user().is_some(),
                    },
                });
            }
            if own.is_some() {
                return Err(Denied::WrongToken);
            }
        }
        if self.no_login {
            same_origin(method, headers, host)?;
            return Ok(Caller::admin("operator", Via::NoLogin));
        }
        if let Some(cookie) = session::cookie(headers, is_plain)
            && let Some(session) = self.people.session(cookie, now_ms).await
            && let Some(caller) = self.of_session(session)
        {
            same_origin(method, headers, host)?;
            return Ok(caller);
        }
        Err(if bearer(headers).is_some() {
            Denied::WrongToken
        } else {
            Denied::NoToken
        })
    }

    /// Whose a session is and what they may, now.
    fn of_session(&self, session: Session) -> Option<Caller> {
        let via = Via::Session {
            id: session.id,
            owner: session.owner.clone(),
        };
        match session.owner {
            Owner::User(name) => {
                let user = self.people.user(&name).filter(|user| !user.disabled)?;
                Some(Caller {
                    role: user.role(),
                    name,
                    scopes: Scopes::default(),
                    via,
                })
            }
            owner @ Owner::AdminToken(_) => {
                let own = self.admin_token.as_ref().map(token_owner);
                (own == Some(owner)).then(|| Caller::admin("admin token", via))
            }
        }
    }

    /// Opens a session for whoever holds the admin token; `None` for everybody else. The right one
    /// is never made to wait: it cannot be guessed.
    pub(crate) async fn sign_in(
        &self,
        offered: &str,
        author: &Author,
        now_ms: i64,
    ) -> Result<Option<Secret>, PeopleError> {
        let own = self.admin_token.as_ref();
        let Some(own) = own.filter(|own| own.matches(offered)) else {
            return Ok(None);
        };
        let author = Author {
            name: "admin token".to_owned(),
            ..author.clone()
        };
        self.people
            .open_for_token(own, &author, now_ms)
            .await
            .map(Some)
    }

    /// Where a request comes from. Behind a proxy it is what that one added last; without that it
    /// is not known, and tries are not counted by it: they would be everybody's.
    pub(crate) fn whence(&self, request: &Request) -> Option<IpAddr> {
        if !self.behind_proxy {
            let peer = request.extensions().get::<Peer>();
            return peer.map(|Peer(address)| address.ip());
        }
        let last = request
            .headers()
            .get_all("x-forwarded-for")
            .iter()
            .next_back()?;
        let last = last.to_str().ok()?.rsplit(',').next()?;
        last.trim().parse().ok()
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

/// Who the audit names for a request behind the guard.
pub(crate) fn author(extensions: &http::Extensions) -> Author {
    let caller = extensions.get::<Caller>();
    let name = caller.map_or_else(|| "unknown".to_owned(), |caller| caller.name.clone());
    let whence = extensions.get::<Whence>().and_then(|Whence(from)| *from);
    let peer = extensions.get::<Peer>().map(|Peer(address)| address.ip());
    let peer = whence.or(peer).map(|address| address.to_string());
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

/// By whom tries of this request are counted.
pub(crate) fn source(extensions: &http::Extensions) -> Option<Source> {
    Source::of(extensions.get::<Whence>().and_then(|Whence(from)| *from))
}

#[cfg(test)]
mod tests;
