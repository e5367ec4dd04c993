//! Durations by size: how long permits were held, how long requests waited.
//!
//! Separate because gateways make them, the stream carries them and the history adds them up:
//! one set of buckets for all, so that adding is exact. It must never use a floating-point
//! number, nor trust bytes of another process.

/// The first edge in microseconds; what is shorter falls into bucket 0.
const FIRST_EDGE_US: u64 = 64;
const STEPS_PER_OCTAVE: usize = 4;
const OCTAVES: usize = 20;
/// Buckets of a histogram: one below the first edge, four an octave up to the last, one above.
pub const BUCKETS: usize = OCTAVES * STEPS_PER_OCTAVE + 2;
/// The last edge, about 67 s; what is longer falls into the last bucket.
const LAST_EDGE_US: u64 = FIRST_EDGE_US << OCTAVES;
const VARINT_BYTES_MAX: usize = 10;
/// Longest encoded form: the sum, then a gap and a count for each bucket.
pub const HISTOGRAM_BYTES_MAX: usize = VARINT_BYTES_MAX + BUCKETS * (1 + VARINT_BYTES_MAX);

const _: () = assert!(BUCKETS < 128, "a gap is one byte as a varint");

/// The bucket of a duration.
pub(crate) const fn bucket_of(us: u64) -> usize {
    if us < FIRST_EDGE_US {
        return 0;
    }
    if us >= LAST_EDGE_US {
        return BUCKETS - 1;
    }
    let octave = us.ilog2() - FIRST_EDGE_US.ilog2();
    // The two bits below the highest one: which quarter of the octave.
    let quarter = (us >> (us.ilog2() - 2)) & 3;
    1 + octave as usize * STEPS_PER_OCTAVE + quarter as usize
}

/// The edge that all of a bucket lies below; `None` for the last one.
const fn upper_edge_us(bucket: usize) -> Option<u64> {
    if bucket + 1 >= BUCKETS {
        return None;
    }
    let octave = FIRST_EDGE_US << (bucket / STEPS_PER_OCTAVE);
    Some(octave + (octave >> 2) * (bucket % STEPS_PER_OCTAVE) as u64)
}

/// A histogram of durations in microseconds: four steps an octave from 64 us to 67 s.
///
/// Every sum of it saturates. An empty one holds no memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// By bucket, without the empty ones at the end, so that equal histograms compare equal.
    counts: Vec<u64>,
    sum_us: u64,
}

/// Why bytes are not a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// More than any histogram takes.
    #[error("a histogram has at most {HISTOGRAM_BYTES_MAX} bytes")]
    TooLong,
    /// The bytes end inside a number, or a number has more than 64 bits.
    #[error("a histogram is made of whole variable-length numbers of at most 64 bits")]
    Number,
    /// A bucket beyond the last.
    #[error("a histogram has {BUCKETS} buckets")]
    Bucket,
    /// A bucket with nothing in it, or a sum without counts.
    #[error("a histogram names only buckets that hold something")]
    Empty,
}

impl Histogram {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            counts: Vec::new(),
            sum_us: 0,
        }
    }

    /// One from counts by bucket; what is beyond the buckets is left out.
    pub(crate) fn from_counts(counts: impl Iterator<Item = u64>, sum_us: u64) -> Self {
        let mut made = Self {
            counts: counts.take(BUCKETS).collect(),
            sum_us,
        };
        made.trim();
        made
    }

    /// Adds one duration.
    pub fn record(&mut self, us: u64) {
        self.record_n(us, 1);
    }

    /// Adds `n` durations of `us` each.
    pub fn record_n(&mut self, us: u64, n: u64) {
        self.add(bucket_of(us), n);
        self.sum_us = self.sum_us.saturating_add(us.saturating_mul(n));
    }

    fn add(&mut self, bucket: usize, n: u64) {
        if n == 0 {
            return;
        }
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(n);
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, n) in other.counts.iter().enumerate() {
            self.add(bucket, *n);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// What came after `earlier`, a former state of this one. Where `earlier` has more, nothing.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before);
        let counts = counts.map(|(now, before)| now.saturating_sub(before));
        Self::from_counts(counts, self.sum_us.saturating_sub(earlier.sum_us))
    }

    fn trim(&mut self) {
        while self.counts.last() == Some(&0) {
            self.counts.pop();
        }
        if self.counts.is_empty() {
            self.sum_us = 0;
        }
    }

    /// How many durations.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum: u64, n| sum.saturating_add(*n))
    }

    /// All durations together.
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The mean; `None` of an empty one.
    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.count())
    }

    /// A duration that this many thousandths do not exceed: the upper edge of their bucket, or
    /// the last edge when they reach above it. `None` of an empty one.
    pub fn quantile_us(&self, permille: u32) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = u128::from(count) * u128::from(permille.min(1000));
        let wanted = wanted.div_ceil(1000).max(1);
        let mut seen = 0_u128;
        let reached = self.counts.iter().position(|n| {
            seen += u128::from(*n);
            seen >= wanted
        });
        Some(reached.and_then(upper_edge_us).unwrap_or(LAST_EDGE_US))
    }

    /// Every bucket in order: its upper edge (`None`: above all) and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let counts = self.counts.iter().copied().chain(std::iter::repeat(0));
        (0..BUCKETS).map(upper_edge_us).zip(counts)
    }

    /// The encoded form: nothing for an empty one, else the sum and, for each bucket that holds
    /// something, how many were passed over and its count, all of variable length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.counts.is_empty() {
            return bytes;
        }
        put(&mut bytes, self.sum_us);
        let mut gap = 0;
        for n in &self.counts {
            if *n == 0 {
                gap += 1;
                continue;
            }
            put(&mut bytes, gap);
            put(&mut bytes, *n);
            gap = 0;
        }
        bytes
    }

    /// The histogram of an encoded form.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, HistogramError> {
        if bytes.len() > HISTOGRAM_BYTES_MAX {
            return Err(HistogramError::TooLong);
        }
        let mut made = Self::new();
        if bytes.is_empty() {
            return Ok(made);
        }
        made.sum_us = take(&mut bytes)?;
        let mut next = 0_usize;
        while !bytes.is_empty() {
            let gap = usize::try_from(take(&mut bytes)?).map_err(|_| HistogramError::Bucket)?;
            let bucket = next.checked_add(gap).filter(|bucket| *bucket < BUCKETS);
            let bucket = bucket.ok_or(HistogramError::Bucket)?;
            match take(&mut bytes)? {
                0 => return Err(HistogramError::Empty),
                n => made.add(bucket, n),
            }
            next = bucket + 1;
        }
        if made.counts.is_empty() {
            return Err(HistogramError::Empty);
        }
        Ok(made)
    }
}

/// Seven bits a byte, the lowest first, the highest bit set while more follow.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low_byte(number));
}

const fn low_byte(number: u64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low
}

fn take(bytes: &mut &[u8]) -> Result<u64, HistogramError> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(HistogramError::Number)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        let placed = part << shift;
        if placed >> shift != part {
            return Err(HistogramError::Number);
        }
        number |= placed;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(HistogramError::Number)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edges_rise_by_quarters_of_an_octave() {
        let edges: Vec<u64> = (0..BUCKETS).filter_map(upper_edge_us).collect();
        assert_eq!(edges.len(), BUCKETS - 1);
        assert_eq!(edges[..6], [64, 80, 96, 112, 128, 160]);
        assert_eq!(edges.last(), Some(&67_108_864));
        for (bucket, edge) in edges.iter().enumerate() {
            assert_eq!(bucket_of(edge - 1), bucket, "below {edge}");
            assert_eq!(bucket_of(*edge), bucket + 1, "at {edge}");
        }
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_upper_edges() {
        let mut one = Histogram::new();
        assert_eq!((one.quantile_us(990), one.mean_us()), (None, None));
        one.record_n(70, 99);
        one.record(1_000_000);
        assert_eq!((one.count(), one.sum_us()), (100, 1_006_930));
        assert_eq!(one.mean_us(), Some(10_069));
        assert_eq!(one.quantile_us(0), Some(80));
        assert_eq!(one.quantile_us(990), Some(80));
        assert_eq!(one.quantile_us(991), Some(1 << 20));
        one.record_n(u64::MAX, u64::MAX);
        assert_eq!(one.quantile_us(1000), Some(LAST_EDGE_US));
        assert_eq!((one.count(), one.sum_us()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let too_long = vec![0; HISTOGRAM_BYTES_MAX + 1];
        for (bytes, why) in [
            (&too_long[..], HistogramError::TooLong),
            (&[5], HistogramError::Empty),
            (&[5, 0, 0], HistogramError::Empty),
            (&[5, 82, 1], HistogramError::Bucket),
            (&[5, 81, 1, 0, 1], HistogramError::Bucket),
            (&[5, 0x80], HistogramError::Number),
            (&[5, 0], HistogramError::Number),
            (
                &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2, 0, 1],
                HistogramError::Number,
            ),
        ] {
            assert_eq!(Histogram::from_bytes(bytes), Err(why), "{bytes:?}");
        }
    }

    fn any_histogram() -> impl Strategy<Value = Histogram> {
        let one = (0..(1_u64 << 30), 1..1000_u64);
        proptest::collection::vec(one, 0..40).prop_map(|all| {
            let mut made = Histogram::new();
            all.into_iter().for_each(|(us, n)| made.record_n(us, n));
            made
        })
    }

    proptest! {
        #[test]
        fn bytes_carry_all_of_it(one in any_histogram()) {
            let bytes = one.to_bytes();
            prop_assert!(bytes.len() <= HISTOGRAM_BYTES_MAX);
            prop_assert_eq!(Histogram::from_bytes(&bytes), Ok(one));
        }

        #[test]
        fn any_bytes_are_a_histogram_or_a_refusal(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(made) = Histogram::from_bytes(&bytes) {
                prop_assert_eq!(Histogram::from_bytes(&made.to_bytes()), Ok(made));
            }
        }

        #[test]
        fn what_was_added_is_what_came_since(one in any_histogram(), other in any_histogram()) {
            let mut both = one.clone();
            both.merge(&other);
            prop_assert_eq!(both.count(), one.count() + other.count());
            prop_assert_eq!(both.since(&one), other.clone());
            prop_assert_eq!(one.since(&both), Histogram::new());
            let counted: u64 = both.buckets().map(|(_, n)| n).sum();
            prop_assert_eq!(counted, both.count());
        }
    }
}
