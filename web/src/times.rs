//! How long permits were held and how long requests waited, over all gateways.
//!
//! Separate from the sums because only the page of one compartment shows them: histograms of every
//! compartment would be too much for a list. It must never mix calls with streams, which live for
//! hours: those have a compartment of their own.

use compartment::{Figures, Histogram};

use crate::text;

/// The two histograms of one compartment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// From grant to release.
    pub hold: Histogram,
    /// In the queue, whatever came of it.
    pub wait: Histogram,
}

impl Times {
    /// Of all these figures together.
    pub fn of<'a>(figures: impl IntoIterator<Item = &'a Figures>) -> Self {
        let mut times = Self::default();
        for one in figures {
            times.hold.merge(&one.hold);
            times.wait.merge(&one.wait);
        }
        times
    }

    /// Median and 99th percentile of the hold times; nothing while none was measured.
    pub fn hold_text(&self) -> Option<(String, String)> {
        quantiles(&self.hold)
    }

    /// The same of the waits.
    pub fn wait_text(&self) -> Option<(String, String)> {
        quantiles(&self.wait)
    }
}

fn quantiles(times: &Histogram) -> Option<(String, String)> {
    // The upper edge of a bucket: what is said is never below the truth.
    let at = |permille| times.quantile_us(permille).map(text::micros);
    at(500).zip(at(990))
}

#[cfg(test)]
mod tests {
    use compartment::Level;

    use super::*;
    use crate::samples::figures;

    #[test]
    fn histograms_of_gateways_add_up() {
        let mut one = figures("route/a", Level::Route, 1, 1, 10);
        let two = one.clone();
        assert_eq!(Times::of([&one, &two]).hold_text(), None);
        one.hold.record_n(10_000, 99);
        one.hold.record(900_000);
        one.wait.record(50);
        let times = Times::of([&one, &two]);
        assert_eq!(times.hold.count(), 100);
        let plain = |text: Option<(String, String)>| {
            text.map(|(half, most)| format!("{half} {most}").replace('\u{a0}', " "))
        };
        assert_eq!(plain(times.hold_text()).unwrap(), "10 ms 10 ms");
        assert_eq!(plain(times.wait_text()).unwrap(), "64 µs 64 µs");
    }
}
