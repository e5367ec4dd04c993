//! Which answers may be stored, and to whom a stored one may be given: RFC 9111, strictly.
//!
//! Separate because one forgotten rule shows one caller what was meant for another: the rules
//! stand together and know no store. Where the standard leaves a choice the stricter one is made.

use http::header::{
    AGE, AUTHORIZATION, COOKIE, DATE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE, VARY,
};
use http::{Method, StatusCode};

use super::directives::{self, Directives, members, seconds};

/// Fields that one answer may depend on.
const VARY_FIELDS_MAX: usize = 16;
/// What one request says in them.
const VARY_BYTES_MAX: usize = 4 * 1024;

const SECOND_US: u64 = 1_000_000;

/// What a request allows, read from the fields that its client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allows {
    /// It says who is asking, in a way that the answer may depend on.
    is_personal: bool,
    /// Its answer may be stored.
    store: bool,
    /// It may be given a stored answer.
    give: bool,
    /// One not older than this.
    age_s_max: u64,
}

impl Allows {
    /// A request whose answer may be stored and that may be given a stored one.
    pub(crate) fn of(method: &Method, headers: &HeaderMap, has_body: bool) -> Self {
        let said = directives::read(headers);
        let readable = !said.no_store && !said.doubtful && !has_body;
        Self {
            is_personal: headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE),
            store: readable && *method == Method::GET,
            give: readable
                && !said.no_cache
                && !said.min_fresh
                && matches!(*method, Method::GET | Method::HEAD),
            age_s_max: said.max_age_s.unwrap_or(u64::MAX),
        }
    }

    /// Whether it may be given an answer of this age, which is public or not.
    pub(crate) const fn takes(self, is_public: bool, age_us: u64) -> bool {
        self.give && (is_public || !self.is_personal) && age_us / SECOND_US <= self.age_s_max
    }
}

/// When the answer came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    /// Monotonic.
    pub(crate) head_us: u64,
    /// From when the request was sent.
    pub(crate) took_us: u64,
    /// Wall clock, to compare with `Date`.
    pub(crate) unix_us: u64,
}

/// What holds for an answer that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Storable {
    pub(crate) is_public: bool,
    /// How old it was when its head came.
    pub(crate) age_us: u64,
    /// How long the upstream calls it fresh; 0: it does not say.
    pub(crate) fresh_us: u64,
    /// It must not be given once it is older than that.
    pub(crate) fresh_only: bool,
    /// Sorted, each once.
    pub(crate) vary: Vec<HeaderName>,
    pub(crate) has_date: bool,
}

/// Judges the head of an answer as the upstream sent it; `None`: it is not to be stored.
pub(crate) fn storable(
    allows: Allows,
    status: StatusCode,
    headers: &HeaderMap,
    came: Came,
) -> Option<Storable> {
    // What costs nothing to ask comes first: most answers are none to be stored.
    if !allows.store || !is_kept(status) || headers.contains_key(SET_COOKIE) {
        return None;
    }
    let said = directives::read(headers);
    if forbids(said) || (allows.is_personal && !said.public) {
        return None;
    }
    let apparent_us = match headers.get(DATE) {
        None => 0,
        Some(date) => {
            let date_s = unix_seconds(date)?;
            let apparent_s = (came.unix_us / SECOND_US).saturating_sub(date_s);
            apparent_s.saturating_mul(SECOND_US)
        }
    };
    let told_us = age_of(headers)?.saturating_mul(SECOND_US);
    let fresh_s = said.shared_max_age_s.or(said.max_age_s).unwrap_or(0);
    Some(Storable {
        is_public: said.public,
        age_us: apparent_us.max(told_us.saturating_add(came.took_us)),
        fresh_us: fresh_s.saturating_mul(SECOND_US),
        // It carries what `proxy-revalidate` says.
        fresh_only: said.shared_max_age_s.is_some(),
        vary: vary(headers)?,
        has_date: headers.contains_key(DATE),
    })
}

/// Good answers whose meaning does not end with the request.
fn is_kept(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 301 | 404 | 410)
}

const fn forbids(said: Directives) -> bool {
    said.no_store || said.no_cache || said.private || said.must_revalidate || said.doubtful
}

/// Seconds since 1970; `None` for what is no date.
fn unix_seconds(date: &HeaderValue) -> Option<u64> {
    let at = httpdate::parse_http_date(date.to_str().ok()?).ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// What caches before us say; `None` when that cannot be read.
fn age_of(headers: &HeaderMap) -> Option<u64> {
    let Some(age) = headers.get(AGE) else {
        return Some(0);
    };
    let first = age.to_str().ok()?.split(',').next()?.trim();
    seconds(first)
}

/// The fields that the answer depends on; `None` when it depends on what nobody can compare.
fn vary(headers: &HeaderMap) -> Option<Vec<HeaderName>> {
    let named = members(headers.get_all(VARY))?;
    let names = named
        .iter()
        .map(|name| HeaderName::from_bytes(name.as_bytes()));
    // `*` is no name of a field, and fails here like everything that is none.
    let mut names: Vec<HeaderName> = match named.iter().any(|name| name == "*") {
        true => return None,
        false => names.collect::<Result<_, _>>().ok()?,
    };
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    (names.len() <= VARY_FIELDS_MAX).then_some(names)
}

/// What a request says in these fields, in one form that is equal only for equal requests;
/// `None` beyond the bound.
pub(crate) fn variant(names: &[HeaderName], headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for name in names {
        // A name ends with a byte that none has; a value is as long as it says.
        out.extend_from_slice(name.as_str().as_bytes());
        out.push(b'\n');
        for value in headers.get_all(name) {
            let length = u32::try_from(value.len()).ok()?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(&u32::MAX.to_be_bytes());
    }
    (out.len() <= VARY_BYTES_MAX).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn came() -> Came {
        Came {
            head_us: 5_000_000,
            took_us: 250_000,
            unix_us: 1_000_000_000 * SECOND_US,
        }
    }

    fn judge(request: &[(&str, &str)], status: u16, answer: &[(&str, &str)]) -> Option<Storable> {
        let allows = Allows::of(&Method::GET, &map(request), false);
        let status = StatusCode::from_u16(status).unwrap();
        storable(allows, status, &map(answer), came())
    }

    #[test]
    fn what_must_not_be_stored_is_not() {
        for status in [200, 203, 301, 404, 410] {
            assert!(judge(&[], status, &[]).is_some(), "{status}");
        }
        for status in [
            201, 204, 206, 302, 304, 307, 308, 400, 405, 414, 500, 501, 503,
        ] {
            assert!(judge(&[], status, &[]).is_none(), "{status}");
        }
        for field in [
            ("set-cookie", "s=1"),
            ("cache-control", "private"),
            ("cache-control", "private=\"x\", public"),
            ("cache-control", "max-age=60, no-store"),
            ("cache-control", "no-cache"),
            ("cache-control", "public, must-revalidate"),
            ("cache-control", "proxy-revalidate"),
            ("vary", "*"),
            ("vary", "accept, *"),
            ("vary", "accept encoding"),
            ("age", "soon"),
            ("date", "yesterday"),
        ] {
            assert!(judge(&[], 200, &[field]).is_none(), "{field:?}");
        }
        for request in [("authorization", "Bearer x"), ("cookie", "s=1")] {
            assert!(judge(&[request], 200, &[]).is_none(), "{request:?}");
            let public = [("cache-control", "public")];
            assert!(judge(&[request], 200, &public).is_some(), "{request:?}");
        }
        assert!(judge(&[("cache-control", "no-store")], 200, &[]).is_none());
        for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
            let allows = Allows::of(&method, &HeaderMap::new(), false);
            assert!(storable(allows, StatusCode::OK, &HeaderMap::new(), came()).is_none());
        }
        let with_body = Allows::of(&Method::GET, &HeaderMap::new(), true);
        assert!(storable(with_body, StatusCode::OK, &HeaderMap::new(), came()).is_none());
        assert!(!with_body.takes(true, 0));
    }

    #[test]
    fn to_whom_a_stored_answer_is_given() {
        let of = |method: &Method, fields: &[(&str, &str)]| Allows::of(method, &map(fields), false);
        let plain = of(&Method::GET, &[]);
        assert!(plain.takes(false, 0) && of(&Method::HEAD, &[]).takes(false, u64::MAX));
        assert!(!of(&Method::POST, &[]).takes(true, 0));
        for personal in [("authorization", "x"), ("cookie", "x")] {
            let personal = of(&Method::GET, &[personal]);
            assert!(!personal.takes(false, 0) && personal.takes(true, 0));
        }
        for refused in ["no-store", "no-cache", "min-fresh=1"] {
            let request = of(&Method::GET, &[("cache-control", refused)]);
            assert!(!request.takes(true, 0), "{refused}");
        }
        let young = of(&Method::GET, &[("cache-control", "max-age=5")]);
        assert!(young.takes(true, 5 * SECOND_US) && !young.takes(true, 6 * SECOND_US));
    }

    #[test]
    fn the_age_is_the_larger_of_what_is_told_and_what_is_seen() {
        let age_us = |fields: &[(&str, &str)]| judge(&[], 200, fields).unwrap().age_us;
        assert_eq!(age_us(&[]), 250_000);
        assert_eq!(age_us(&[("age", "7")]), 7_250_000);
        assert_eq!(age_us(&[("age", "7, 900")]), 7_250_000);
        // 2001-09-09 01:46:40 is the moment of the test.
        let date = ("date", "Sun, 09 Sep 2001 01:46:30 GMT");
        assert_eq!(age_us(&[date]), 10_000_000);
        assert_eq!(age_us(&[date, ("age", "60")]), 60_250_000);
        let ahead = ("date", "Sun, 09 Sep 2001 02:46:40 GMT");
        assert_eq!(age_us(&[ahead]), 250_000);
        assert_eq!(age_us(&[("age", "99999999999999999999")]), u64::MAX);
    }

    #[test]
    fn what_only_a_fresh_answer_may_do_is_remembered() {
        let of = |text: &str| judge(&[], 200, &[("cache-control", text)]).unwrap();
        let plain = of("max-age=60");
        assert_eq!((plain.fresh_us, plain.fresh_only), (60 * SECOND_US, false));
        let shared = of("max-age=60, s-maxage=5");
        assert_eq!((shared.fresh_us, shared.fresh_only), (5 * SECOND_US, true));
    }

    #[test]
    fn variants_are_equal_only_for_equal_fields() {
        let names = vary(&map(&[
            ("vary", "Accept-Language, accept"),
            ("vary", "ACCEPT"),
        ]))
        .unwrap();
        assert_eq!(names, ["accept", "accept-language"]);
        let of = |fields: &[(&str, &str)]| variant(&names, &map(fields)).unwrap();
        let all = [
            of(&[]),
            of(&[("accept", "")]),
            of(&[("accept", "a")]),
            of(&[("accept-language", "a")]),
            of(&[("accept", "a"), ("accept", "b")]),
            of(&[("accept", "ab")]),
            of(&[("accept", "a, b")]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
        assert_eq!(of(&[("accept", "a"), ("x", "1")]), of(&[("accept", "a")]));
        let long = "x".repeat(VARY_BYTES_MAX);
        assert!(variant(&names, &map(&[("accept", &long)])).is_none());
    }
}
