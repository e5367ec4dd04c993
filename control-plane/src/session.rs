//! Sessions of browsers that proved to hold the admin token.
//!
//! Separate from the token itself because a browser must not keep that: it gets a random id, of
//! which only the digest stays here, in memory. It must never outlive the process or its bound.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};
use wire::{Secret, SecretError};

/// Most sessions at once; a newer one takes the place of the oldest.
pub(crate) const SESSIONS_MAX: usize = 64;
/// How long a session lasts, whatever happens in it.
pub(crate) const SESSION_AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Longest cookie header that is looked at, in bytes.
const COOKIE_BYTES_MAX: usize = 4096;

/// The cookie on plain loopback, and the one that a browser binds to one https host.
const NAMES: [&str; 2] = ["bulkhead", "__Host-bulkhead"];

#[derive(Debug)]
struct Session {
    digest: [u8; 32],
    ends: Instant,
}

/// Every session of this process.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Vec<Session>>);

impl Sessions {
    /// Opens one; the answer is its id, which is shown to nobody but the browser.
    pub(crate) fn open(&self, now: Instant) -> Result<Secret, SecretError> {
        let id = Secret::random()?;
        let session = Session {
            digest: digest(id.expose()),
            ends: now + SESSION_AGE_MAX,
        };
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.ends > now);
        if sessions.len() >= SESSIONS_MAX {
            // They are kept in the order they were opened.
            sessions.remove(0);
        }
        sessions.push(session);
        Ok(id)
    }

    /// True while the session of this cookie lasts.
    pub(crate) fn holds(&self, headers: &HeaderMap, now: Instant) -> bool {
        let Some(id) = cookie(headers) else {
            return false;
        };
        // Digests of random ids may be compared in any time: nobody can aim at one.
        let digest = digest(id);
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions
            .iter()
            .any(|session| session.ends > now && session.digest == digest)
    }

    /// Ends the session of this cookie.
    pub(crate) fn close(&self, headers: &HeaderMap) {
        let Some(id) = cookie(headers) else { return };
        let digest = digest(id);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.digest != digest);
    }
}

/// The `set-cookie` that starts a session, or ends it when there is no id.
pub(crate) fn set_cookie(id: Option<&Secret>, is_loopback: bool) -> String {
    let (name, secure) = if is_loopback {
        ("bulkhead", "")
    } else {
        ("__Host-bulkhead", "; Secure")
    };
    let (value, age_s) = match id {
        Some(id) => (id.expose(), SESSION_AGE_MAX.as_secs()),
        None => ("", 0),
    };
    format!("{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
}

fn digest(id: &str) -> [u8; 32] {
    Sha256::digest(id.as_bytes()).into()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let fields = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    fields
        .filter(|field| field.len() <= COOKIE_BYTES_MAX)
        .find_map(|field| {
            let pairs = field
                .split(';')
                .filter_map(|pair| pair.trim().split_once('='));
            let mut own = pairs.filter(|(name, _)| NAMES.contains(name));
            own.next().map(|(_, value)| value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        [(header::COOKIE, cookie.parse().unwrap())]
            .into_iter()
            .collect()
    }

    fn cookie_of(id: &Secret) -> HeaderMap {
        let set = set_cookie(Some(id), true);
        headers(&format!("theme=dark; {}", set.split(';').next().unwrap()))
    }

    #[test]
    fn a_session_lasts_until_it_ends() {
        let (sessions, now) = (Sessions::default(), crate::clock::now());
        let own = cookie_of(&sessions.open(now).unwrap());
        let other = cookie_of(&sessions.open(now).unwrap());
        assert!(sessions.holds(&own, now) && sessions.holds(&other, now));
        assert!(!sessions.holds(&own, now + SESSION_AGE_MAX));
        sessions.close(&own);
        assert!(!sessions.holds(&own, now) && sessions.holds(&other, now));
        for wrong in ["", "bulkhead", "bulkhead=", "other=1", "bulkhead=abc"] {
            assert!(!sessions.holds(&headers(wrong), now), "{wrong}");
        }
    }

    #[test]
    fn the_oldest_makes_room() {
        let (sessions, now) = (Sessions::default(), crate::clock::now());
        let first = cookie_of(&sessions.open(now).unwrap());
        let second = cookie_of(&sessions.open(now).unwrap());
        for _ in 1..SESSIONS_MAX {
            sessions.open(now).unwrap();
        }
        assert!(!sessions.holds(&first, now) && sessions.holds(&second, now));
    }

    #[test]
    fn the_cookie_is_for_this_host_and_no_script() {
        let id = Secret::random().unwrap();
        let plain = set_cookie(Some(&id), true);
        assert!(plain.starts_with("bulkhead=") && plain.contains("; HttpOnly; SameSite=Strict"));
        let tls = set_cookie(Some(&id), false);
        assert!(tls.starts_with("__Host-bulkhead=") && tls.ends_with("; Secure"));
        assert!(set_cookie(None, true).starts_with("bulkhead=; Path=/; Max-Age=0;"));
    }
}
