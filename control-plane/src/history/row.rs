//! One row of the history: what happened at a compartment within one step of time.
//!
//! Separate because memory, file and answers hold the same thing and add it up in the same two
//! ways: over time, and over gateways. It must never hold a rate or a mean: those cannot be added.

use compartment::{Histogram, Limit, Rejection};

use crate::readings::Reading;

/// The form that is written; another number is another form.
const FORM: u64 = 1;
/// How "unlimited" and "no limit seen" are written.
const UNLIMITED: u64 = 0;
const UNSEEN: u64 = 1;
/// A limit of 0 is written as this, and so on.
const FIRST_LIMIT: u64 = 2;

/// Counts by reason; reasons that did not happen are absent.
pub type Reasons = Vec<(Rejection, u64)>;

/// What happened within one step of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The limit in force at the end, of each gateway; `None` when none was told.
    pub limit: Option<Limit>,
    /// Requests whose decision was made here.
    pub arrived: u64,
    /// Permits given.
    pub admitted: u64,
    /// Permits given back.
    pub completed: u64,
    /// Requests that left while they waited.
    pub left_queue: u64,
    /// Refusals by reason.
    pub rejected: Reasons,
    /// Refusals that a shadow limit would have made.
    pub shadow_rejected: Reasons,
    /// Refusals that a candidate limit would have made.
    pub candidate_rejected: u64,
    /// Integral of the permits out over time, over all gateways.
    pub in_flight_us: u64,
    /// The most permits out at once; over several gateways, the sum of each one's.
    pub peak: u64,
    /// Time with permits out and a slot free.
    pub busy_us: u64,
    /// Time at the limit.
    pub saturated_us: u64,
    /// How long permits were held.
    pub hold: Histogram,
    /// How long those who waited did.
    pub wait: Histogram,
}

/// Why bytes are no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a row of figures that this build can read")]
pub struct RowError;

impl Row {
    /// What one reading says.
    pub fn of(reading: &Reading) -> Self {
        Self {
            limit: Some(reading.limit),
            arrived: reading.arrived,
            admitted: reading.admitted,
            completed: reading.completed,
            left_queue: reading.left_queue,
            rejected: reading.rejected.clone(),
            shadow_rejected: reading.shadow_rejected.clone(),
            candidate_rejected: reading.candidate_rejected,
            in_flight_us: reading.in_flight_us,
            peak: u64::from(reading.peak),
            busy_us: reading.busy_us,
            saturated_us: reading.saturated_us,
            hold: reading.hold.clone(),
            wait: reading.wait.clone(),
        }
    }

    /// All refusals.
    pub fn refused(&self) -> u64 {
        let counts = self.rejected.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// Adds what happened later at the same place.
    pub fn then(&mut self, later: &Self) {
        self.peak = self.peak.max(later.peak);
        self.limit = later.limit.or(self.limit);
        self.add(later);
    }

    /// Adds what happened at the same time elsewhere.
    pub fn beside(&mut self, other: &Self) {
        self.peak = self.peak.saturating_add(other.peak);
        self.limit = higher(self.limit, other.limit);
        self.add(other);
    }

    fn add(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.arrived, more.arrived),
            (&mut self.admitted, more.admitted),
            (&mut self.completed, more.completed),
            (&mut self.left_queue, more.left_queue),
            (&mut self.candidate_rejected, more.candidate_rejected),
            (&mut self.in_flight_us, more.in_flight_us),
            (&mut self.busy_us, more.busy_us),
            (&mut self.saturated_us, more.saturated_us),
        ] {
            *sum = sum.saturating_add(more);
        }
        add_reasons(&mut self.rejected, &more.rejected);
        add_reasons(&mut self.shadow_rejected, &more.shadow_rejected);
        self.hold.merge(&more.hold);
        self.wait.merge(&more.wait);
    }

    /// The written form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let limit = match self.limit {
            None => UNSEEN,
            Some(limit) => limit.slots().map_or(UNLIMITED, |slots| {
                FIRST_LIMIT.saturating_add(u64::from(slots))
            }),
        };
        for number in [
            FORM,
            limit,
            self.arrived,
            self.admitted,
            self.completed,
            self.left_queue,
            self.candidate_rejected,
            self.in_flight_us,
            self.peak,
            self.busy_us,
            self.saturated_us,
        ] {
            put(&mut bytes, number);
        }
        put_reasons(&mut bytes, &self.rejected);
        put_reasons(&mut bytes, &self.shadow_rejected);
        for histogram in [&self.hold, &self.wait] {
            let own = histogram.to_bytes();
            put(&mut bytes, u64::try_from(own.len()).unwrap_or(u64::MAX));
            bytes.extend_from_slice(&own);
        }
        bytes
    }

    /// The row of a written form; what a newer build adds behind it is passed over.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, RowError> {
        let bytes = &mut bytes;
        if take(bytes)? != FORM {
            return Err(RowError);
        }
        let limit = match take(bytes)? {
            UNLIMITED => Some(Limit::UNLIMITED),
            UNSEEN => None,
            written => {
                let slots = u32::try_from(written.saturating_sub(FIRST_LIMIT));
                let slots = slots.map_err(|_| RowError)?;
                Some(Limit::new(slots).map_err(|_| RowError)?)
            }
        };
        // Written in this order; a struct's fields are evaluated as they stand.
        Ok(Self {
            limit,
            arrived: take(bytes)?,
            admitted: take(bytes)?,
            completed: take(bytes)?,
            left_queue: take(bytes)?,
            candidate_rejected: take(bytes)?,
            in_flight_us: take(bytes)?,
            peak: take(bytes)?,
            busy_us: take(bytes)?,
            saturated_us: take(bytes)?,
            rejected: take_reasons(bytes)?,
            shadow_rejected: take_reasons(bytes)?,
            hold: take_histogram(bytes)?,
            wait: take_histogram(bytes)?,
        })
    }
}

/// The higher of two limits; one that was told before one that was not.
fn higher(one: Option<Limit>, other: Option<Limit>) -> Option<Limit> {
    let (Some(a), Some(b)) = (one, other) else {
        return one.or(other);
    };
    let slots = |limit: Limit| limit.slots().unwrap_or(u32::MAX);
    Some(if slots(a) >= slots(b) { a } else { b })
}

fn add_reasons(sums: &mut Reasons, more: &Reasons) {
    for (reason, count) in more {
        match sums.iter_mut().find(|(known, _)| known == reason) {
            Some((_, sum)) => *sum = sum.saturating_add(*count),
            None => sums.push((*reason, *count)),
        }
    }
    sums.sort_by_key(|(reason, _)| *reason);
}

/// The number under which a reason is written; it outlives the order of the list.
const fn code(reason: Rejection) -> u64 {
    match reason {
        Rejection::TenantFull => 1,
        Rejection::TenantRouteFull => 2,
        Rejection::TenantShare => 3,
        Rejection::RouteFull => 4,
        Rejection::ClassReserve => 5,
        Rejection::UpstreamFull => 6,
        Rejection::GatewayFull => 7,
        Rejection::SpareExhausted => 8,
        Rejection::QueueFull => 9,
        Rejection::QueueTimeout => 10,
        Rejection::DeadlineTooShort => 11,
        Rejection::Closed => 12,
        Rejection::StreamFull => 13,
        Rejection::BreakerOpen => 14,
    }
}

fn put_reasons(bytes: &mut Vec<u8>, reasons: &Reasons) {
    put(bytes, u64::try_from(reasons.len()).unwrap_or(0));
    for (reason, count) in reasons {
        put(bytes, code(*reason));
        put(bytes, *count);
    }
}

/// A reason that this build does not know is passed over, its count with it.
fn take_reasons(bytes: &mut &[u8]) -> Result<Reasons, RowError> {
    let mut reasons = Reasons::new();
    for _ in 0..take(bytes)? {
        let (written, count) = (take(bytes)?, take(bytes)?);
        let known = Rejection::ALL.into_iter().find(|r| code(*r) == written);
        reasons.extend(known.map(|reason| (reason, count)));
    }
    reasons.sort_by_key(|(reason, _)| *reason);
    Ok(reasons)
}

fn take_histogram(bytes: &mut &[u8]) -> Result<Histogram, RowError> {
    let length = usize::try_from(take(bytes)?).map_err(|_| RowError)?;
    let (own, rest) = bytes.split_at_checked(length).ok_or(RowError)?;
    *bytes = rest;
    Histogram::from_bytes(own).map_err(|_| RowError)
}

/// Seven bits a byte, the lowest first, the highest bit set while more follow.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        let [low, ..] = number.to_le_bytes();
        bytes.push(low | 0x80);
        number >>= 7;
    }
    let [low, ..] = number.to_le_bytes();
    bytes.push(low);
}

fn take(bytes: &mut &[u8]) -> Result<u64, RowError> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(RowError)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        let placed = part << shift;
        if placed >> shift != part {
            return Err(RowError);
        }
        number |= placed;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(RowError)
}

#[cfg(test)]
mod tests;
