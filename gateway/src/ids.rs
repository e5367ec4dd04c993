//! Ids of requests and spans, and the other random numbers of one thread.
//!
//! Separate so that a request costs no system call for randomness. It must never be used for
//! secrets: the numbers are unlike each other, not unguessable.

use std::cell::Cell;

use bytes::Bytes;
use http::HeaderValue;
use telemetry::{Context, Sampler};

/// Longest request id of a trusted proxy that is taken over.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The id of one request, in the text that headers and documents carry.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// An id that a trusted proxy gave the request, if it is plain enough to be passed on.
    pub(crate) fn of_proxy(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len());
        (fits && bytes.iter().all(plain)).then(|| Self(value.clone()))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        self.0.to_str().ok()
    }

    pub(crate) fn into_text(self) -> telemetry::Text {
        telemetry::bounded(self.as_text().unwrap_or_default())
    }
}

/// The source of one thread.
#[derive(Debug)]
pub(crate) struct Ids {
    state: Cell<u64>,
}

impl Ids {
    /// Threads differ by their seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            state: Cell::new(seed),
        }
    }

    /// Seeded by the operating system.
    pub(crate) fn random() -> Self {
        // Without randomness ids could repeat between processes; nothing else rests on them.
        Self::new(getrandom::u64().unwrap_or_else(|_| crate::clock::unix_ms()))
    }

    /// The next number (splitmix64: every value comes once before any comes twice).
    pub(crate) fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A UUID of version 7: ids sort by time.
    pub(crate) fn request_id(&self, unix_ms: u64) -> RequestId {
        let (high, low) = (self.next().to_be_bytes(), self.next().to_be_bytes());
        let [a, b, c, d, e, f, g, h] = low;
        let [i, j, ..] = high;
        let random = [a, b, c, d, e, f, g, h, i, j];
        let id = uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid();
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = id.as_hyphenated().encode_lower(&mut text);
        RequestId(ascii(text.as_bytes().to_vec()))
    }

    /// The `traceparent` to send: the caller's trace goes on under a span of ours; a caller
    /// without one (or with one that nobody could read) begins a new trace.
    pub(crate) fn traceparent(&self, caller: Option<&HeaderValue>) -> (HeaderValue, Continued) {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        let (known, continued) = match caller.and_then(|value| trace_of(value.as_bytes())) {
            Some(known) => (known, Continued::Yes),
            None => {
                let mut fresh = [b'0'; 34];
                let (high, low) = (self.next(), self.next() | 1);
                write_hex(fresh.get_mut(..16), high);
                write_hex(fresh.get_mut(16..32), low);
                (fresh, Continued::No)
            }
        };
        let (trace, flags) = known.split_at(32);
        if let Some(place) = text.get_mut(3..35) {
            place.copy_from_slice(trace);
        }
        write_hex(text.get_mut(36..52), self.next() | 1);
        if let Some(place) = text.get_mut(53..55) {
            place.copy_from_slice(flags);
        }
        (ascii(text.to_vec()), continued)
    }

    /// Where a request belongs in a trace, and whether the trace is kept. Whoever calls may name
    /// the trace, as everybody may who follows the standard.
    pub(crate) fn context(&self, caller: Option<&HeaderValue>, sampler: Sampler) -> Context {
        Context::of(caller.map(HeaderValue::as_bytes), sampler, || self.next())
    }
}

/// The `traceparent` of a context.
pub(crate) fn traceparent_of(context: Context) -> HeaderValue {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    let trace = u128::from_be_bytes(context.trace_id);
    let (high, low) = (trace >> 64, trace & u128::from(u64::MAX));
    write_hex(text.get_mut(3..19), u64::try_from(high).unwrap_or_default());
    write_hex(text.get_mut(19..35), u64::try_from(low).unwrap_or_default());
    write_hex(text.get_mut(36..52), u64::from_be_bytes(context.span_id));
    if let Some(flag) = text.last_mut().filter(|_| context.sampled) {
        *flag = b'1';
    }
    ascii(text.to_vec())
}

/// The trace id of a well-formed `traceparent`, as text.
pub(crate) fn trace_id(caller: &HeaderValue) -> Option<&str> {
    trace_of(caller.as_bytes())?;
    caller.to_str().ok()?.get(3..35)
}

/// Whether a caller's trace goes on; if not, its `tracestate` says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continued {
    Yes,
    No,
}

/// Trace id and flags, as text, of a well-formed `traceparent` of version 00.
fn trace_of(value: &[u8]) -> Option<[u8; 34]> {
    let parts = [value.get(..3)?, value.get(35..36)?, value.get(52..53)?];
    let (trace, span, flags) = (value.get(3..35)?, value.get(36..52)?, value.get(53..)?);
    let lower_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let zero = |part: &[u8]| part.iter().all(|&b| b == b'0');
    let shaped = parts == [b"00-".as_slice(), b"-", b"-"] && flags.len() == 2;
    let hex = lower_hex(trace) && lower_hex(span) && lower_hex(flags);
    if !shaped || !hex || zero(trace) || zero(span) {
        return None;
    }
    let mut known = [0; 34];
    known.get_mut(..32)?.copy_from_slice(trace);
    known.get_mut(32..)?.copy_from_slice(flags);
    Some(known)
}

fn write_hex(place: Option<&mut [u8]>, number: u64) {
    for (shift, digit) in (0..16_u32).rev().zip(place.into_iter().flatten()) {
        let nibble = (number >> (shift * 4)) & 15;
        *digit = b"0123456789abcdef"
            .get(usize::try_from(nibble).unwrap_or(0))
            .copied()
            .unwrap_or(0);
    }
}

/// A field value of our own making: always visible ASCII.
pub(crate) fn ascii(text: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &HeaderValue) -> String {
        value.to_str().unwrap().to_owned()
    }

    #[test]
    fn request_ids_are_uuids_that_differ() {
        let ids = Ids::new(1);
        let (one, two) = (
            ids.request_id(1_700_000_000_000),
            ids.request_id(1_700_000_000_000),
        );
        assert_ne!(one.as_bytes(), two.as_bytes());
        let id = uuid::Uuid::try_parse_ascii(one.as_bytes()).unwrap();
        assert_eq!(id.get_version_num(), 7);
    }

    #[test]
    fn a_trace_goes_on_under_a_new_span() {
        let ids = Ids::new(1);
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let caller = format!("00-{trace}-00f067aa0ba902b7-01");
        let (sent, continued) = ids.traceparent(Some(&caller.parse().unwrap()));
        let sent = text(&sent);
        assert_eq!(continued, Continued::Yes);
        assert!(
            sent.starts_with(&format!("00-{trace}-")) && sent.ends_with("-01"),
            "{sent}"
        );
        assert!(
            !sent.contains("00f067aa0ba902b7") && sent.len() == 55,
            "{sent}"
        );
    }

    #[test]
    fn a_context_says_what_its_field_says() {
        let ids = Ids::new(1);
        let caller: HeaderValue = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            .parse()
            .unwrap();
        let context = ids.context(Some(&caller), Sampler::default());
        assert_eq!(
            context.parent,
            Some(0x00f0_67aa_0ba9_02b7_u64.to_be_bytes())
        );
        assert!(context.sampled);
        let sent = text(&traceparent_of(context));
        let span = telemetry::span_hex(context.span_id);
        assert_eq!(
            sent,
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{span}-01")
        );
        let dropped = caller
            .to_str()
            .unwrap()
            .replace("-01", "-00")
            .parse()
            .unwrap();
        assert!(!ids.context(Some(&dropped), Sampler::default()).sampled);
        let fresh = ids.context(None, Sampler::default());
        assert!(fresh.sampled && fresh.parent.is_none());
        assert!(trace_of(traceparent_of(fresh).as_bytes()).is_some());
    }

    #[test]
    fn what_is_no_trace_begins_a_new_one() {
        let ids = Ids::new(1);
        let zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let long = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x";
        let upper = "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01";
        for bad in ["", "x", zero, long, upper] {
            let (sent, continued) = ids.traceparent(Some(&bad.parse().unwrap()));
            assert_eq!(continued, Continued::No, "{bad}");
            assert!(trace_of(sent.as_bytes()).is_some(), "{}", text(&sent));
        }
        assert_ne!(ids.traceparent(None).0, ids.traceparent(None).0);
    }

    #[test]
    fn ids_of_proxies_are_plain_text() {
        let taken = |text: &str| RequestId::of_proxy(&text.parse().unwrap()).is_some();
        assert!(taken("abc-DEF_1.2:3"));
        for bad in ["", "a b", "a\"b", "a,b", &"x".repeat(129)] {
            assert!(!taken(bad), "{bad}");
        }
    }
}
