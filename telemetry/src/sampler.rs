//! Which traces are kept, by the standard samplers.
//!
//! Separate because the decision is asked for every request while traces are on, on a serving
//! thread: it must never do more than compare numbers.

use crate::record::TraceId;

/// A standard sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// The caller's own decision counts, where there is one.
    pub(crate) parent_based: bool,
    /// Traces whose number is below this are kept; `u64::MAX` keeps all.
    pub(crate) below: u64,
}

impl Default for Sampler {
    /// `parentbased_always_on`.
    fn default() -> Self {
        Self {
            parent_based: true,
            below: u64::MAX,
        }
    }
}

impl Sampler {
    /// By its name in `OTEL_TRACES_SAMPLER`; `None` for one that this build does not have.
    pub(crate) fn named(name: &str, ratio: f64) -> Option<Self> {
        let (parent_based, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, name),
        };
        let below = match root {
            "always_on" => u64::MAX,
            "always_off" => 0,
            "traceidratio" => threshold(ratio),
            _ => return None,
        };
        Some(Self {
            parent_based,
            below,
        })
    }

    /// Whether a trace is kept. `parent`: what the caller decided, where there is a caller.
    pub fn keeps(self, trace_id: TraceId, parent: Option<bool>) -> bool {
        match parent {
            Some(decided) if self.parent_based => decided,
            Some(_) | None => self.below == u64::MAX || number_of(trace_id) < self.below,
        }
    }
}

/// The same 63 bits of the id that other SDKs compare, so that all keep the same traces.
fn number_of(trace_id: TraceId) -> u64 {
    u64::try_from((u128::from_be_bytes(trace_id) & u128::from(u64::MAX)) >> 1).unwrap_or(0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 1, checked before, of 2 to the power of 63"
)]
fn threshold(ratio: f64) -> u64 {
    if ratio >= 1.0 {
        u64::MAX
    } else {
        (ratio.max(0.0) * 9_223_372_036_854_775_808.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(sampler: Sampler, parent: Option<bool>) -> usize {
        let ids = (0..10_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let ids = ids.map(|low| u128::from(low).to_be_bytes());
        ids.filter(|&id| sampler.keeps(id, parent)).count()
    }

    #[test]
    fn samplers_do_what_their_names_say() {
        let of = |name, ratio| Sampler::named(name, ratio).unwrap();
        assert_eq!(kept(of("always_on", 0.0), Some(false)), 10_000);
        assert_eq!(kept(of("always_off", 1.0), Some(true)), 0);
        assert_eq!(kept(of("parentbased_always_off", 1.0), Some(true)), 10_000);
        assert_eq!(kept(of("parentbased_always_on", 1.0), Some(false)), 0);
        assert_eq!(kept(of("parentbased_always_on", 0.0), None), 10_000);
        let tenth = kept(of("traceidratio", 0.1), Some(true));
        assert!((900..1_100).contains(&tenth), "{tenth}");
        assert_eq!(kept(of("traceidratio", 0.0), None), 0);
        assert_eq!(kept(of("traceidratio", 1.0), None), 10_000);
        assert_eq!(Sampler::named("jaeger_remote", 1.0), None);
        assert_eq!(of("parentbased_always_on", 1.0), Sampler::default());
    }

    #[test]
    fn the_same_traces_are_kept_as_elsewhere() {
        // Of the SDKs' shared test vectors: the low eight bytes, shifted by one, are compared.
        let half = Sampler::named("traceidratio", 0.5).unwrap();
        let id = |low: u64| u128::from(low).to_be_bytes();
        assert!(half.keeps(id(u64::MAX / 2), None));
        assert!(!half.keeps(id(u64::MAX / 2 + 2), None));
    }
}
