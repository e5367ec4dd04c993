//! The cookies of browsers: which session they name, and what proves that a form is ours.
//!
//! Separate from the sessions themselves because nothing here is kept. The proof in a form is made
//! of the cookie, so it is good for that browser and that session alone. It must never be looked
//! at where a header proves who calls, which no browser adds by itself.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, header};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use wire::Secret;

use crate::people::SESSION_AGE_MAX;

/// Longest cookie header that is looked at, in bytes.
const COOKIE_BYTES_MAX: usize = 4096;
/// The field of a form that proves where it comes from.
pub(crate) const FORM_FIELD: &str = "form_token";

/// The cookies of a session and of a form without one: on plain loopback, and as a browser binds
/// them to one https host. No site beside ours can plant the second kind.
const fn names(is_plain: bool) -> (&'static str, &'static str) {
    match is_plain {
        true => ("bulkhead", "bulkhead-form"),
        false => ("__Host-bulkhead", "__Host-bulkhead-form"),
    }
}

/// The cookie of a session.
pub(crate) fn cookie(headers: &HeaderMap, is_plain: bool) -> Option<&str> {
    named(headers, names(is_plain).0)
}

/// What forms are proved by: the session's cookie, or that of a form without a session.
pub(crate) fn form_key(headers: &HeaderMap, is_plain: bool) -> Option<&str> {
    let (session, form) = names(is_plain);
    named(headers, session).or_else(|| named(headers, form))
}

/// What a form holds that was made for this key.
pub(crate) fn form_token(key: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        return String::new();
    };
    mac.update(b"a form of bulkhead");
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a form, as it was sent, was made for this key.
pub(crate) fn proves(body: &[u8], key: &str) -> bool {
    let body = std::str::from_utf8(body).unwrap_or("");
    let mut fields = body.split('&').filter_map(|pair| pair.split_once('='));
    let offered = fields.find(|(name, _)| *name == FORM_FIELD);
    let own = form_token(key);
    offered.is_some_and(|(_, offered)| {
        !own.is_empty() && bool::from(offered.as_bytes().ct_eq(own.as_bytes()))
    })
}

/// The `set-cookie` that starts a session, or ends it when there is no id.
pub(crate) fn set_cookie(id: Option<&Secret>, is_plain: bool) -> String {
    let (value, age_s) = match id {
        Some(id) => (id.expose(), SESSION_AGE_MAX.as_secs()),
        None => ("", 0),
    };
    let name = names(is_plain).0;
    format!(
        "{name}={value}; Path=/; Max-Age={age_s}; {}",
        rest(is_plain)
    )
}

/// The `set-cookie` for forms of whoever has no session.
pub(crate) fn set_form_cookie(key: &Secret, is_plain: bool) -> String {
    let name = names(is_plain).1;
    format!("{name}={}; Path=/; {}", key.expose(), rest(is_plain))
}

const fn rest(is_plain: bool) -> &'static str {
    match is_plain {
        true => "HttpOnly; SameSite=Strict",
        false => "HttpOnly; SameSite=Strict; Secure",
    }
}

fn named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let fields = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    fields
        .filter(|field| field.len() <= COOKIE_BYTES_MAX)
        .find_map(|field| {
            let mut pairs = field
                .split(';')
                .filter_map(|pair| pair.trim().split_once('='));
            let own = pairs.find(|(name, value)| *name == wanted && !value.is_empty());
            own.map(|(_, value)| value)
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

    #[test]
    fn a_session_goes_before_a_form_and_each_door_has_its_name() {
        let both = headers("theme=dark; bulkhead-form=f; bulkhead=s; __Host-bulkhead=t");
        assert_eq!(cookie(&both, true), Some("s"));
        assert_eq!(
            cookie(&both, false),
            Some("t"),
            "no other site can plant it"
        );
        assert_eq!(form_key(&both, true), Some("s"));
        assert_eq!(form_key(&headers("bulkhead-form=f"), true), Some("f"));
        for none in ["", "bulkhead", "bulkhead=", "other=1"] {
            assert_eq!(form_key(&headers(none), true), None, "{none}");
        }
    }

    #[test]
    fn a_form_is_good_for_its_own_cookie_alone() {
        let body = format!("limit=3&form_token={}&x=1", form_token("one"));
        assert!(proves(body.as_bytes(), "one"));
        assert!(!proves(body.as_bytes(), "two"));
        for bad in ["", "form_token=", "form_token", "limit=3", "form_token=00"] {
            assert!(!proves(bad.as_bytes(), "one"), "{bad}");
        }
        assert_eq!(form_token("one").len(), 64);
        assert!(!form_token("one").contains("one"));
    }

    #[test]
    fn the_cookie_is_for_this_host_and_no_script() {
        let id = Secret::random().unwrap();
        let plain = set_cookie(Some(&id), true);
        assert!(plain.starts_with("bulkhead=") && plain.contains("; HttpOnly; SameSite=Strict"));
        let tls = set_cookie(Some(&id), false);
        assert!(tls.starts_with("__Host-bulkhead=") && tls.ends_with("; Secure"));
        assert!(set_cookie(None, true).starts_with("bulkhead=; Path=/; Max-Age=0;"));
        assert!(set_form_cookie(&id, false).starts_with("__Host-bulkhead-form="));
    }
}
