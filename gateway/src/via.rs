//! The name of this process in `Via`, which every message that passes it carries.
//!
//! Separate because it serves two ends: the field tells others, and finding our own name in a
//! request tells us that it goes in a circle. It must never be the same for two processes, or a
//! gateway behind a gateway would be taken for a circle.

use http::Version;
use http::header::{HeaderMap, HeaderValue, VIA};

use crate::ids::{Ids, ascii};

/// One process.
#[derive(Debug)]
pub(crate) struct Via {
    name: String,
    http10: HeaderValue,
    http11: HeaderValue,
    http2: HeaderValue,
}

impl Via {
    /// A new name.
    pub(crate) fn random() -> Self {
        Self::new(Ids::random().next())
    }

    fn new(number: u64) -> Self {
        let name = format!("bulkhead-{number:016x}");
        let value = |version: &str| ascii(format!("{version} {name}").into_bytes());
        Self {
            http10: value("1.0"),
            http11: value("1.1"),
            http2: value("2.0"),
            name,
        }
    }

    /// The value for a message that was received in `version`.
    pub(crate) fn of(&self, version: Version) -> HeaderValue {
        match version {
            Version::HTTP_2 => self.http2.clone(),
            Version::HTTP_10 => self.http10.clone(),
            _ => self.http11.clone(),
        }
    }

    /// True when the message has passed this process before.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(VIA).iter().map(HeaderValue::as_bytes);
        let hops = values.flat_map(|value| value.split(|byte| *byte == b','));
        hops.into_iter().any(|hop| {
            let mut words = hop
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty());
            words
                .nth(1)
                .is_some_and(|name| name.eq_ignore_ascii_case(self.name.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own_name_and_no_other() {
        let (own, other) = (Via::new(1), Via::new(2));
        let mut headers = HeaderMap::new();
        assert!(!own.is_in(&headers));
        headers.append(
            VIA,
            HeaderValue::from_static("1.1 bulkhead, 1.0 fred (comment)"),
        );
        headers.append(VIA, other.of(Version::HTTP_11));
        assert!(!own.is_in(&headers) && other.is_in(&headers));
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            let text = format!("1.1 a,{} (x), 1.1 b", own.of(version).to_str().unwrap());
            let mut headers = HeaderMap::new();
            headers.append(VIA, HeaderValue::from_str(&text.to_uppercase()).unwrap());
            assert!(own.is_in(&headers), "{text}");
        }
    }
}
