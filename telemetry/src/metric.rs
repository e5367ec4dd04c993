//! Figures on their way out: families of points, the same for the page and for OTLP.
//!
//! Separate so that both show equal numbers by construction. It must never be built on a serving
//! thread.

use crate::names::{Instrument, Label};
use crate::record::Text;

/// Upper edges of the buckets of every duration, in microseconds: 256 µs and its doublings to
/// 67 s. One more bucket is above them all. Fixed: figures of all times and processes add up.
pub const DURATION_EDGES_US: [u64; 19] = edges();

const fn edges() -> [u64; 19] {
    let mut edges = [0; 19];
    let mut at = 0;
    while at < edges.len() {
        // In bounds by the condition of the loop.
        #[expect(
            clippy::indexing_slicing,
            reason = "in bounds by the condition of the loop"
        )]
        {
            edges[at] = 256 << at;
        }
        at += 1;
    }
    edges
}

/// The bucket of a duration; the last one is above every edge.
pub fn bucket_of(us: u64) -> usize {
    // The first edge is 2 to the power of 8; a duration on an edge belongs below it.
    let above = 64 - us.saturating_sub(1).leading_zeros();
    let bucket = usize::try_from(above.saturating_sub(8)).unwrap_or(usize::MAX);
    bucket.min(DURATION_EDGES_US.len())
}

/// Durations by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// By bucket, not summed up; one more than there are edges.
    pub counts: [u64; DURATION_EDGES_US.len() + 1],
    /// All durations together, in microseconds.
    pub sum_us: u64,
    /// A request that was measured here, and its trace.
    pub example: Option<Example>,
}

/// One measured request whose trace was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// What was measured.
    pub us: u64,
    /// When, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Its trace.
    pub trace_id: crate::TraceId,
    /// Its span.
    pub span_id: crate::SpanId,
}

impl Distribution {
    /// Counts `times` durations that belong below the edge `below_us` (`None`: above all edges).
    pub fn add(&mut self, below_us: Option<u64>, times: u64) {
        let bucket = below_us.map_or(DURATION_EDGES_US.len(), bucket_of);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(times);
        }
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// What one point says.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Number(f64),
    /// Durations by size.
    Durations(Box<Distribution>),
}

/// One series at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What tells it from the others of its family.
    pub labels: Vec<(Label, Text)>,
    /// Its value.
    pub figure: Figure,
}

/// All series of one instrument at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Which.
    pub instrument: Instrument,
    /// Its series.
    pub points: Vec<Point>,
}

impl Family {
    /// Without points so far.
    pub const fn new(instrument: Instrument) -> Self {
        Self {
            instrument,
            points: Vec::new(),
        }
    }

    /// One more series.
    pub fn push(&mut self, labels: Vec<(Label, Text)>, figure: Figure) {
        self.points.push(Point { labels, figure });
    }

    /// A family of one series without labels.
    pub fn of(instrument: Instrument, figure: Figure) -> Self {
        let mut family = Self::new(instrument);
        family.push(Vec::new(), figure);
        family
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_edge_it_does_not_pass() {
        for us in (0..4_096).chain((1..40).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1])) {
            let found = DURATION_EDGES_US.iter().position(|&edge| us <= edge);
            assert_eq!(bucket_of(us), found.unwrap_or(19), "{us}");
        }
        assert_eq!(bucket_of(u64::MAX), 19);
        assert_eq!(DURATION_EDGES_US[18], 67_108_864);
    }
}
