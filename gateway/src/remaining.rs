//! How much of its time a request has left, as its upstream is told.
//!
//! Separate because it is told anew with each attempt: what the caller gave was counted from its
//! own moment, and time has passed in line, in attempts and in pauses. It must never tell more
//! than is left.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::head::{GRPC_TIMEOUT, grpc_timeout_us};

/// The most that eight digits of milliseconds say.
const GRPC_MS_MAX: u64 = 99_999_999;

/// Puts what is left of an exchange that ends at `until_us` into the route's own field and, where
/// the caller set it, into `grpc-timeout`. `u64::MAX`: it has no end.
pub(crate) fn tell(
    headers: &mut HeaderMap,
    field: Option<&HeaderName>,
    until_us: u64,
    now_us: u64,
) {
    if until_us == u64::MAX {
        return;
    }
    let left_ms = (until_us.saturating_sub(now_us) / 1_000).max(1);
    if let Some(field) = field {
        headers.insert(field.clone(), HeaderValue::from(left_ms));
    }
    if let Some(given) = headers.get_mut(GRPC_TIMEOUT) {
        // One that cannot be read is no deadline here; what the upstream makes of it is its affair.
        let is_read = given.to_str().ok().and_then(grpc_timeout_us).is_some();
        let text = format!("{}m", left_ms.min(GRPC_MS_MAX));
        if let (true, Ok(left)) = (is_read, HeaderValue::try_from(text)) {
            *given = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &[(&'static str, &'static str)], until_us: u64) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let own = HeaderName::from_static("x-deadline-ms");
        tell(&mut headers, Some(&own), until_us, 1_000_000);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let all = headers.iter();
        all.map(|(name, value)| (name.to_string(), text(value)))
            .collect()
    }

    #[test]
    fn what_is_left_is_told_and_never_more() {
        let own = |ms: &str| ("x-deadline-ms".to_owned(), ms.to_owned());
        let grpc = |time: &str| ("grpc-timeout".to_owned(), time.to_owned());
        assert_eq!(told(&[("x-deadline-ms", "900")], 1_499_999), [own("499")]);
        assert_eq!(told(&[], 1_250_000), [own("250")]);
        assert_eq!(
            told(&[("grpc-timeout", "1S")], 1_700_000),
            [grpc("700m"), own("700")]
        );
        let hours = 1_000_000 + 30 * 3_600_000_000;
        assert_eq!(
            told(&[("grpc-timeout", "40H")], hours)[0],
            grpc("99999999m")
        );
        assert_eq!(
            told(&[("grpc-timeout", "soon")], 1_500_000)[0],
            grpc("soon")
        );
        assert_eq!(
            told(&[("x-deadline-ms", "5")], 1_000_000),
            [own("1")],
            "the instant it ends"
        );
        // A stream without an end says nothing of one.
        assert_eq!(told(&[], u64::MAX), []);
    }
}
