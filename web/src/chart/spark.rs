//! A small drawing beside a row: in flight over the last hour, with a line where it was full.
//!
//! Separate from the charts because it has no axis of its own: the figures stand beside it. It
//! must never join two points over a gap.

use super::path::{HEIGHT, Scale};
use crate::text;

/// One compartment over time, small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spark {
    /// Mean in flight of each step, in thousandths; `None`: nobody reported.
    pub mean_milli: Vec<Option<u64>>,
    /// Steps in which it was saturated.
    pub full: Vec<bool>,
}

impl Spark {
    fn scale(&self) -> Scale {
        Scale {
            points: self.mean_milli.len(),
            top: self.top_milli(),
        }
    }

    fn top_milli(&self) -> u64 {
        let top = self.mean_milli.iter().flatten().max();
        top.copied().unwrap_or(0).max(1_000)
    }

    /// True when there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.mean_milli.iter().all(Option::is_none)
    }

    /// The mean in flight, filled.
    pub fn area(&self) -> String {
        self.scale().area(&self.mean_milli)
    }

    /// A bar at the ground under each step that was full.
    pub fn full_at(&self) -> String {
        let scale = self.scale();
        let mut path = String::new();
        for (at, _) in self.full.iter().enumerate().filter(|(_, full)| **full) {
            path.push_str(&format!("M{} {HEIGHT}H{}", scale.x(at), scale.x(at + 1)));
        }
        path
    }

    /// In a sentence.
    pub fn words(&self) -> String {
        let full = self.full.iter().filter(|full| **full).count();
        let top = self.mean_milli.iter().flatten().max().copied().unwrap_or(0);
        format!(
            "last hour: at most {}.{} in flight on average of a minute; full in {}",
            text::count(top / 1_000),
            top % 1_000 / 100,
            text::plural(full, "minute", "minutes"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_gap_and_full_steps_are_marked() {
        let spark = Spark {
            mean_milli: vec![Some(500), Some(2_000), None, Some(0)],
            full: vec![false, true, false, false],
        };
        assert_eq!(
            spark.area(),
            "M0 200V150H250V0H500V200ZM750 200V200H1000V200Z"
        );
        assert_eq!(spark.full_at(), "M250 200H500");
        let words = spark.words().replace('\u{a0}', " ");
        assert!(words.contains("at most 2.0 in flight") && words.ends_with("full in 1 minute"));
        assert!(Spark::default().is_empty() && Spark::default().area().is_empty());
    }
}
