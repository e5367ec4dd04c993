//! Where a record belongs in a trace, by the W3C's `traceparent`.
//!
//! Separate because callers may send anything: what is not well-formed names no trace. It must
//! never trust a caller with more than a trace's name and whether it is kept.

use crate::layer::from_hex;
use crate::record::{SpanId, TraceId};
use crate::sampler::Sampler;

/// Where a record belongs in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace_id: TraceId,
    /// The span above; `None` begins the trace.
    pub parent: Option<SpanId>,
    /// This span.
    pub span_id: SpanId,
    /// The decision of the sampler, which goes on with the trace.
    pub sampled: bool,
}

impl Context {
    /// A new span, of the caller's trace or of a new one.
    pub fn of(caller: Option<&[u8]>, sampler: Sampler, random: impl Fn() -> u64) -> Self {
        let span_id = (random() | 1).to_be_bytes();
        match caller.and_then(read) {
            Some((trace_id, parent, kept)) => {
                let sampled = sampler.keeps(trace_id, Some(kept));
                Self {
                    trace_id,
                    parent: Some(parent),
                    span_id,
                    sampled,
                }
            }
            None => {
                let (high, low) = (random(), random() | 1);
                let trace_id = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
                let sampled = sampler.keeps(trace_id, None);
                Self {
                    trace_id,
                    parent: None,
                    span_id,
                    sampled,
                }
            }
        }
    }
}

/// Trace, span and whether it is kept, of a well-formed `traceparent` of version 00.
fn read(value: &[u8]) -> Option<(TraceId, SpanId, bool)> {
    let text = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.len() == 55)?;
    if text
        .bytes()
        .any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
    {
        return None;
    }
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if version != "00" || flags.len() != 2 || parts.next().is_some() {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((from_hex(trace)?, from_hex(span)?, flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_goes_on_and_what_is_none_begins_one() {
        let of = |text: &str| Context::of(Some(text.as_bytes()), Sampler::default(), || 7);
        let known = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = of(known);
        assert_eq!(
            context.parent,
            Some(0x00f0_67aa_0ba9_02b7_u64.to_be_bytes())
        );
        assert_eq!(
            crate::trace_hex(context.trace_id),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
        assert!(context.sampled && context.span_id == 7_u64.to_be_bytes());
        assert!(!of(&known.replace("-01", "-00")).sampled);
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-0011",
        ] {
            assert_eq!(of(bad).parent, None, "{bad}");
        }
        assert!(Context::of(None, Sampler::default(), || 7).parent.is_none());
    }
}
