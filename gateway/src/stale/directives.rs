//! What `Cache-Control` says, of a request or of an answer.
//!
//! Separate because both sides speak the same grammar. What cannot be read is taken in its
//! strictest sense; it must never make more of an answer than was said.

use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};

/// What was said, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub(crate) private: bool,
    pub(crate) public: bool,
    /// `must-revalidate` or `proxy-revalidate`: for one that serves many they are the same.
    pub(crate) must_revalidate: bool,
    pub(crate) max_age_s: Option<u64>,
    pub(crate) shared_max_age_s: Option<u64>,
    pub(crate) min_fresh: bool,
    /// A line that is no text.
    pub(crate) doubtful: bool,
}

/// Reads every line of the field.
pub(crate) fn read(headers: &HeaderMap) -> Directives {
    let mut said = Directives::default();
    for line in headers.get_all(CACHE_CONTROL) {
        match line.to_str() {
            Ok(line) => each(line, |name, value| said.take(name, value)),
            Err(_) => said.doubtful = true,
        }
    }
    said
}

impl Directives {
    fn take(&mut self, name: &str, value: Option<&str>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        // `private="x"` and `no-cache="x"` speak of one field; taken for the whole answer.
        if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") {
            self.no_cache = true;
        } else if is("private") {
            self.private = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") || is("proxy-revalidate") {
            self.must_revalidate = true;
        } else if is("max-age") {
            self.max_age_s = Some(shorter(self.max_age_s, value));
        } else if is("s-maxage") {
            self.shared_max_age_s = Some(shorter(self.shared_max_age_s, value));
        } else if is("min-fresh") {
            self.min_fresh = true;
        }
    }
}

/// Said twice, the shorter time holds; what is no number is none at all.
fn shorter(known: Option<u64>, value: Option<&str>) -> u64 {
    let seconds = value.map_or(0, |text| seconds(text).unwrap_or(0));
    known.map_or(seconds, |known| known.min(seconds))
}

/// Whole seconds in digits alone; more than any clock reaches counts as that.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Each directive of one line, with its value without quotes.
fn each(line: &str, mut found: impl FnMut(&str, Option<&str>)) {
    let (mut quoted, mut escaped, mut from) = (false, false, 0);
    let mut take = |part: Option<&str>| {
        let part = part.unwrap_or_default().trim();
        match part.split_once('=') {
            Some((name, value)) => found(name.trim(), Some(value.trim().trim_matches('"'))),
            None => found(part, None),
        }
    };
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                take(line.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    take(line.get(from..));
}

/// The members of every line of a list field, in lower case; `None` when one is no text.
pub(crate) fn members<'a>(lines: impl IntoIterator<Item = &'a HeaderValue>) -> Option<Vec<String>> {
    let mut members = Vec::new();
    for line in lines {
        let named = line.to_str().ok()?.split(',').map(str::trim);
        let named = named.filter(|member| !member.is_empty());
        members.extend(named.map(str::to_ascii_lowercase));
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Directives {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CACHE_CONTROL, HeaderValue::from_str(line).unwrap());
        }
        read(&headers)
    }

    #[test]
    fn directives_are_read_in_any_form_and_never_softened() {
        assert_eq!(of(&[]), Directives::default());
        assert!(of(&["No-Store"]).no_store);
        assert!(of(&["max-age=5", "PRIVATE"]).private);
        assert!(of(&["private=\"set-cookie, x\""]).private);
        assert!(of(&["max-age=5 ,proxy-revalidate"]).must_revalidate);
        assert_eq!(of(&["max-age=60, max-age=5"]).max_age_s, Some(5));
        assert_eq!(of(&["max-age=\"7\""]).max_age_s, Some(7));
        for broken in [
            "max-age",
            "max-age=",
            "max-age=-1",
            "max-age=1.5",
            "max-age=x",
        ] {
            assert_eq!(of(&[broken]).max_age_s, Some(0), "{broken}");
        }
        assert_eq!(
            of(&["s-maxage=99999999999999999999999"]).shared_max_age_s,
            Some(u64::MAX)
        );
        // Within quotes nothing is a directive, and an escaped quote ends nothing.
        assert!(!of(&["ext=\"a, no-store, b\""]).no_store);
        assert!(!of(&["ext=\"a\\\", no-store\""]).no_store);
        assert!(of(&["ext=\"a\", no-store"]).no_store);
        let mut headers = HeaderMap::new();
        headers.append(
            CACHE_CONTROL,
            HeaderValue::from_bytes(b"max-age=5\xff").unwrap(),
        );
        assert!(read(&headers).doubtful);
    }
}
