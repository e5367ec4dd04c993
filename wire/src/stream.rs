//! The stream between a gateway and its control plane: generated messages, their bounds, and the
//! conversions between them and the domain.
//!
//! Separate so that message structs live at the boundary alone: both ends convert on entry, and
//! what arrives is checked here once. It must never open a connection.

use std::collections::BTreeMap;

use compartment::{Figures, Histogram, HistogramError, LIMIT_MAX, Limit, Mode, Rejection};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

use crate::{Secret, endpoints};

mod figures;

use figures::{
    breaker_message, breaker_of, credit_of, level_of, reasons, retry_message, retry_of,
    step_message, steps_of,
};

#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated from control.proto and committed, so that a build needs no protoc"
)]
pub mod proto {
    //! Made from `wire/proto/control.proto`; do not edit.
    include!("generated/bulkhead.control.v1.rs");
}

/// A report as bytes, to be handed on.
pub fn report_bytes(report: &proto::Report) -> Vec<u8> {
    prost::Message::encode_to_vec(report)
}

/// A report that was handed on; `None`: these bytes are none.
pub fn report_of(bytes: &[u8]) -> Option<proto::Report> {
    prost::Message::decode(bytes).ok()
}

/// Largest message either way: a policy document of 32 MiB and its frame.
pub const MESSAGE_BYTES_MAX: usize = 40 << 20;
/// Most compartments in one report.
pub const REPORT_COMPARTMENTS_MAX: usize = 250_000;
/// Most steps of one fallback.
pub const FALLBACK_STEPS_MAX: usize = 8;
/// Most reasons why one step did not answer.
pub const FAILURES_MAX: usize = 32;
/// The longest of those reasons.
pub const FAILURE_BYTES_MAX: usize = 64;
/// Most rejections that one report tells by themselves.
pub const REPORT_REJECTED_MAX: usize = 500;
/// Longest key of a compartment: two names of 128 bytes and the words around them.
pub const KEY_BYTES_MAX: usize = 320;
/// Most faults in one refusal; the checker stops there too.
pub const FAULTS_MAX: usize = 128;
/// Longest text of a fault that is kept.
pub const FAULT_TEXT_BYTES_MAX: usize = 1024;

/// Why a message of the other side is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not a key of a compartment.
    #[error("a compartment's key has 1 to {KEY_BYTES_MAX} of A-Z a-z 0-9 . _ - /")]
    Key,
    /// Not one of the levels.
    #[error("unknown level of compartment {key}")]
    Level {
        /// Whose.
        key: String,
    },
    /// Not one of the modes.
    #[error("unknown mode of compartment {key}")]
    Mode {
        /// Whose.
        key: String,
    },
    /// Durations that cannot be read.
    #[error("a histogram of compartment {key} is broken")]
    Histogram {
        /// Whose.
        key: String,
        /// How.
        source: HistogramError,
    },
    /// Out of range.
    #[error("limit of compartment {key} is out of range")]
    Limit {
        /// Whose.
        key: String,
    },
    /// More than a report holds.
    #[error("a report has at most {REPORT_COMPARTMENTS_MAX} compartments")]
    TooMany,
}

/// The value of `authorization` with which a gateway opens its stream.
pub fn authorization(token: &Secret) -> Option<MetadataValue<Ascii>> {
    let mut value = MetadataValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// True when a stream was opened with this token.
pub fn authorized(metadata: &MetadataMap, token: &Secret) -> bool {
    metadata
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|offered| token.matches(offered))
}

impl From<&Figures> for proto::Compartment {
    fn from(figures: &Figures) -> Self {
        let by_name = |counts: &BTreeMap<Rejection, u64>| {
            let named = |(reason, count): (&Rejection, &u64)| (reason.as_str().to_owned(), *count);
            counts.iter().map(named).collect()
        };
        Self {
            key: figures.key.clone(),
            level: figures.level.as_str().to_owned(),
            limit: figures.limit.slots(),
            reserved: figures.reserved,
            in_flight: figures.in_flight,
            queued: figures.queued,
            left_queue: figures.left_queue,
            borrowed: figures.borrowed,
            peak: figures.peak,
            admitted: figures.admitted,
            completed: figures.completed,
            rejected: by_name(&figures.rejected),
            leaked: figures.leaked,
            oldest_permit_ms: figures.oldest_permit_ms,
            mode: figures.mode.as_str().to_owned(),
            candidate: figures.candidate,
            peak_recent: figures.peak_recent,
            shadow_rejected: by_name(&figures.shadow_rejected),
            candidate_rejected: figures.candidate_rejected,
            leak_suspected: figures.leak_suspected,
            idle_us: figures.idle_us,
            busy_us: figures.busy_us,
            saturated_us: figures.saturated_us,
            in_flight_us: figures.in_flight_us,
            hold: figures.hold.to_bytes(),
            wait: figures.wait.to_bytes(),
            nominal: figures.nominal,
            credit_slot_ms: figures.credit.map(|credit| credit.slot_ms),
            credit_max_slot_ms: figures.credit.map(|credit| credit.full_slot_ms),
            fallbacks: figures.fallbacks.iter().map(step_message).collect(),
            breaker: figures.breaker.as_deref().map(breaker_message),
            retry: figures.retry.as_deref().map(retry_message),
            endpoints: figures.endpoints.as_deref().map(endpoints::message),
        }
    }
}

impl TryFrom<proto::Compartment> for Figures {
    type Error = MessageError;

    fn try_from(message: proto::Compartment) -> Result<Self, MessageError> {
        let key = message.key;
        if !is_key(&key) {
            return Err(MessageError::Key);
        }
        let Some(level) = level_of(&message.level) else {
            return Err(MessageError::Level { key });
        };
        let Ok(limit) = message.limit.map_or(Ok(Limit::UNLIMITED), Limit::new) else {
            return Err(MessageError::Limit { key });
        };
        let mode = match message.mode.as_str() {
            "" => Mode::Enforce,
            name => match Mode::from_name(name) {
                Some(mode) => mode,
                None => return Err(MessageError::Mode { key }),
            },
        };
        if message.candidate.is_some_and(|slots| slots > LIMIT_MAX) {
            return Err(MessageError::Limit { key });
        }
        let durations = |bytes: &[u8]| {
            Histogram::from_bytes(bytes).map_err(|source| MessageError::Histogram {
                key: key.clone(),
                source,
            })
        };
        let (hold, wait) = (durations(&message.hold)?, durations(&message.wait)?);
        let rejected = reasons(&message.rejected);
        let refused = rejected
            .values()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        let arrived = [refused, u64::from(message.queued), message.left_queue]
            .into_iter()
            .fold(message.admitted, u64::saturating_add);
        Ok(Self {
            mode,
            candidate: message.candidate,
            reserved: message.reserved,
            in_flight: message.in_flight,
            queued: message.queued,
            left_queue: message.left_queue,
            borrowed: message.borrowed,
            peak: message.peak,
            peak_recent: message.peak_recent,
            saturation: saturation(limit, message.in_flight),
            arrived,
            admitted: message.admitted,
            completed: message.completed,
            rejected,
            nominal: message.nominal,
            credit: credit_of(message.credit_slot_ms, message.credit_max_slot_ms),
            breaker: message.breaker.and_then(breaker_of).map(Box::new),
            retry: message.retry.map(retry_of).map(Box::new),
            endpoints: message.endpoints.map(endpoints::of).map(Box::new),
            shadow_rejected: reasons(&message.shadow_rejected),
            candidate_rejected: message.candidate_rejected,
            leaked: message.leaked,
            leak_suspected: message.leak_suspected,
            oldest_permit_ms: message.oldest_permit_ms,
            idle_us: message.idle_us,
            busy_us: message.busy_us,
            saturated_us: message.saturated_us,
            in_flight_us: message.in_flight_us,
            fallbacks: steps_of(message.fallbacks),
            hold,
            wait,
            ..Self::new(key, level, limit)
        })
    }
}

/// The figures of a report, all of them or none.
pub fn figures_of(report: proto::Report) -> Result<Vec<Figures>, MessageError> {
    if report.compartments.len() > REPORT_COMPARTMENTS_MAX {
        return Err(MessageError::TooMany);
    }
    report
        .compartments
        .into_iter()
        .map(Figures::try_from)
        .collect()
}

/// The faults of a refusal, bounded in number and length: a peer's text is kept in memory.
pub fn faults_of(refused: proto::Refused) -> Vec<proto::Fault> {
    let bounded = |text: String| bounded_text(&text, FAULT_TEXT_BYTES_MAX);
    let fault = |fault: proto::Fault| proto::Fault {
        pointer: bounded(fault.pointer),
        value: bounded(fault.value),
        rule: bounded(fault.rule),
    };
    refused
        .faults
        .into_iter()
        .take(FAULTS_MAX)
        .map(fault)
        .collect()
}

/// `in_flight / limit`; 0 when unlimited, 1 when closed.
pub fn saturation(limit: Limit, in_flight: u32) -> f64 {
    match limit.slots() {
        None => 0.0,
        Some(0) => 1.0,
        Some(slots) => f64::from(in_flight) / f64::from(slots),
    }
}

/// Control bytes replaced, cut at a character's border: text of a peer goes to logs and pages.
pub fn bounded_text(text: &str, bytes_max: usize) -> String {
    let mut kept = String::new();
    for character in text.chars() {
        if kept.len() + character.len_utf8() > bytes_max {
            break;
        }
        kept.push(if character.is_control() {
            '\u{fffd}'
        } else {
            character
        });
    }
    kept
}

/// True for text that can be the key of a compartment.
pub fn is_key(key: &str) -> bool {
    let fits = (1..=KEY_BYTES_MAX).contains(&key.len());
    fits && key
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
}

#[cfg(test)]
mod tests {
    use compartment::breaker::{BreakerFigures, BreakerState};
    use compartment::{Balance, Level, RetryFigures, RetryRefusal, StepFigures};

    use super::*;

    fn durations(all_us: &[u64]) -> Histogram {
        let mut made = Histogram::new();
        all_us.iter().for_each(|us| made.record(*us));
        made
    }

    fn figures() -> Figures {
        Figures {
            key: "route/a/tenant/_idle".to_owned(),
            level: Level::TenantRoute,
            mode: Mode::Shadow,
            limit: Limit::new(8).unwrap(),
            candidate: Some(6),
            reserved: 2,
            in_flight: 4,
            queued: 3,
            left_queue: 1,
            borrowed: 2,
            credit: Some(Balance {
                slot_ms: -1_500,
                full_slot_ms: 40_000,
            }),
            peak: 7,
            peak_recent: 6,
            saturation: 0.5,
            arrived: 25,
            admitted: 20,
            completed: 16,
            rejected: BTreeMap::from([(Rejection::TenantRouteFull, 1)]),
            nominal: 6,
            shadow_rejected: BTreeMap::from([(Rejection::TenantShare, 4)]),
            candidate_rejected: 5,
            leaked: 2,
            leak_suspected: true,
            oldest_permit_ms: 9,
            idle_us: 1_000,
            busy_us: 2_000,
            saturated_us: 3_000,
            in_flight_us: 9_000,
            fallbacks: vec![StepFigures {
                kind: "upstream".to_owned(),
                answers: 4,
                failed: 3,
                failures: BTreeMap::from([("full".to_owned(), 2), ("timeout".to_owned(), 1)]),
                last_answer_ms: Some(12),
                took_us: 70,
                slowest_us: 30,
            }],
            breaker: Some(Box::new(BreakerFigures {
                state: BreakerState::HalfOpen,
                since_ms: 7,
                opened: 3,
                half_opened: 2,
                closed: 1,
                failure_rate: 0.25,
                calls: 20,
            })),
            retry: Some(Box::new(RetryFigures {
                budget_left: 3,
                retries: 5,
                refused: BTreeMap::from([(RetryRefusal::Budget, 2)]),
            })),
            endpoints: Some(Box::new(endpoints::tests::figures())),
            hold: durations(&[70, 1_000_000]),
            wait: durations(&[5]),
        }
    }

    #[test]
    fn figures_survive_the_way_over_the_wire() {
        for limit in [Limit::new(8).unwrap(), Limit::UNLIMITED, Limit::CLOSED] {
            let figures = Figures {
                limit,
                saturation: saturation(limit, 4),
                ..figures()
            };
            let message = proto::Compartment::from(&figures);
            assert_eq!(Figures::try_from(message), Ok(figures));
        }
    }

    #[test]
    fn figures_of_a_broken_peer_are_refused() {
        let good = proto::Compartment::from(&figures());
        let bad = |change: &dyn Fn(&mut proto::Compartment)| {
            let mut message = good.clone();
            change(&mut message);
            Figures::try_from(message).unwrap_err()
        };
        assert_eq!(bad(&|m| m.key = "<script>".to_owned()), MessageError::Key);
        assert_eq!(
            bad(&|m| m.key = "a".repeat(KEY_BYTES_MAX + 1)),
            MessageError::Key
        );
        assert!(matches!(
            bad(&|m| m.level.clear()),
            MessageError::Level { .. }
        ));
        assert!(matches!(
            bad(&|m| m.limit = Some(u32::MAX)),
            MessageError::Limit { .. }
        ));
        assert!(matches!(
            bad(&|m| m.candidate = Some(u32::MAX)),
            MessageError::Limit { .. }
        ));
        assert!(matches!(
            bad(&|m| m.mode = "stern".to_owned()),
            MessageError::Mode { .. }
        ));
        for broken in [
            |m: &mut proto::Compartment| m.hold = vec![1],
            |m: &mut proto::Compartment| m.wait = vec![1],
        ] {
            assert!(matches!(
                bad(&broken),
                MessageError::Histogram {
                    source: HistogramError::Empty,
                    ..
                }
            ));
        }
    }

    #[test]
    fn steps_of_a_lying_peer_are_bounded() {
        let mut message = proto::Compartment::from(&figures());
        let step = proto::FallbackStep {
            kind: "static".to_owned(),
            failures: (0..100).map(|n| (format!("why_{n}"), u64::MAX)).collect(),
            ..proto::FallbackStep::default()
        };
        let mut odd = step.clone();
        odd.kind = "<b>".to_owned();
        let mut words = step.clone();
        words.failures = [("<b>".to_owned(), 1), ("full".to_owned(), 2)].into();
        message.fallbacks = vec![odd, words, step.clone()];
        message.fallbacks.extend(vec![step; 100]);
        let taken = Figures::try_from(message).unwrap().fallbacks;
        assert_eq!(taken.len(), FALLBACK_STEPS_MAX);
        assert_eq!((taken[0].failed, taken[0].failures.len()), (2, 1));
        assert_eq!(
            (taken[1].failed, taken[1].failures.len()),
            (u64::MAX, FAILURES_MAX)
        );
    }

    #[test]
    fn sums_of_a_lying_peer_do_not_overflow() {
        let mut message = proto::Compartment::from(&figures());
        message.admitted = u64::MAX;
        message.left_queue = u64::MAX;
        assert_eq!(Figures::try_from(message).map(|f| f.arrived), Ok(u64::MAX));
    }

    #[test]
    fn faults_of_a_peer_are_bounded() {
        let fault = proto::Fault {
            pointer: "/a\n\u{1b}[31m".to_owned(),
            value: "\u{e9}".repeat(FAULT_TEXT_BYTES_MAX),
            rule: String::new(),
        };
        let kept = faults_of(proto::Refused {
            faults: vec![fault; FAULTS_MAX + 5],
        });
        assert_eq!(kept.len(), FAULTS_MAX);
        assert!(kept.iter().all(|f| !f.pointer.contains(char::is_control)));
        assert!(kept.iter().all(|f| f.value.len() <= FAULT_TEXT_BYTES_MAX));
    }

    #[test]
    fn a_stream_is_opened_by_its_token_alone() {
        let (own, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        let mut metadata = MetadataMap::new();
        assert!(!authorized(&metadata, &own));
        metadata.insert("authorization", authorization(&own).unwrap());
        assert!(authorized(&metadata, &own));
        assert!(!authorized(&metadata, &other));
    }
}
