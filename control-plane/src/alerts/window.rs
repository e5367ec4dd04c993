//! What happened lately, in slices of time.
//!
//! Separate because every rule sums over some span of it. Time is a number of milliseconds that
//! only rises; a step of the wall clock does not show here. It must never grow with time.

use std::collections::VecDeque;

/// What is counted in a slice. Of a gateway: for how long it was heard.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
#[schema(as = AlertCounts)]
pub struct Counts {
    /// Milliseconds at the limit.
    pub time_ms: u64,
    /// Requests decided.
    pub arrived: u64,
    /// Of these, refused.
    pub refused: u64,
}

impl Counts {
    /// True when nothing was counted.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.time_ms = self.time_ms.saturating_add(more.time_ms);
        self.arrived = self.arrived.saturating_add(more.arrived);
        self.refused = self.refused.saturating_add(more.refused);
    }

    /// What is left without `part`.
    pub(super) fn without(&self, part: &Self) -> Self {
        Self {
            time_ms: self.time_ms.saturating_sub(part.time_ms),
            arrived: self.arrived.saturating_sub(part.arrived),
            refused: self.refused.saturating_sub(part.refused),
        }
    }
}

/// One slice, small: there are hundreds for each compartment.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    time_ms: u32,
    arrived: u32,
    refused: u32,
}

impl Slice {
    fn counts(self) -> Counts {
        Counts {
            time_ms: self.time_ms.into(),
            arrived: self.arrived.into(),
            refused: self.refused.into(),
        }
    }

    fn add(&mut self, more: &Counts) {
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        self.time_ms = self.time_ms.saturating_add(small(more.time_ms));
        self.arrived = self.arrived.saturating_add(small(more.arrived));
        self.refused = self.refused.saturating_add(small(more.refused));
    }
}

/// The newest slices of one width; older ones are forgotten.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    width_ms: u64,
    kept: usize,
    /// The number of the slice at the back.
    newest: u64,
    slices: VecDeque<Slice>,
}

impl Ring {
    /// Slices of `width_ms` that cover `span_ms`, wherever in a slice it begins.
    pub(super) fn new(width_ms: u64, span_ms: u64) -> Self {
        let width_ms = width_ms.max(1);
        let kept = usize::try_from(span_ms.div_ceil(width_ms)).unwrap_or(usize::MAX);
        Self {
            width_ms,
            kept: kept.saturating_add(1),
            newest: 0,
            slices: VecDeque::new(),
        }
    }

    /// Spreads `counts` evenly over `from_ms..to_ms`, to the last one of them.
    pub(super) fn spread(&mut self, from_ms: u64, to_ms: u64, counts: &Counts) {
        let span = to_ms.saturating_sub(from_ms).max(1);
        let last = to_ms.saturating_sub(1).max(from_ms) / self.width_ms;
        // What lies before the oldest slice that is kept would be forgotten at once.
        let kept = u64::try_from(self.kept).unwrap_or(u64::MAX);
        let first = (from_ms / self.width_ms).max(last.saturating_sub(kept));
        let until = |number: u64, all: u64| {
            let end = number.saturating_add(1).saturating_mul(self.width_ms);
            let passed = end.min(to_ms).saturating_sub(from_ms).min(span);
            let part = u128::from(all) * u128::from(passed) / u128::from(span);
            if number == last {
                all
            } else {
                u64::try_from(part).unwrap_or(all)
            }
        };
        let upto = |number: u64| Counts {
            time_ms: until(number, counts.time_ms),
            arrived: until(number, counts.arrived),
            refused: until(number, counts.refused),
        };
        let mut before = match first.checked_sub(1) {
            Some(number) if first > from_ms / self.width_ms => upto(number),
            _ => Counts::default(),
        };
        let parts: Vec<_> = (first..=last)
            .map(|number| {
                let sum = upto(number);
                let part = sum.without(&before);
                before = sum;
                (number, part)
            })
            .collect();
        for (number, part) in parts {
            self.put(number, &part);
        }
    }

    fn put(&mut self, number: u64, counts: &Counts) {
        if self.slices.is_empty() {
            self.newest = number;
            self.slices.push_back(Slice::default());
        }
        let kept = u64::try_from(self.kept).unwrap_or(u64::MAX);
        if number > self.newest.saturating_add(kept) {
            self.slices.clear();
            self.slices.push_back(Slice::default());
            self.newest = number;
        }
        while self.newest < number {
            self.slices.push_back(Slice::default());
            self.newest += 1;
        }
        while self.slices.len() > self.kept {
            self.slices.pop_front();
        }
        // A late one may be older than all that is there, and still within what is kept.
        let oldest = self.oldest();
        let room = u64::try_from(self.kept.saturating_sub(self.slices.len())).unwrap_or(0);
        if oldest.saturating_sub(number) <= room {
            for _ in number..oldest {
                self.slices.push_front(Slice::default());
            }
        }
        if let Some(slice) = self.place(number) {
            slice.add(counts);
        }
    }

    fn oldest(&self) -> u64 {
        let count = u64::try_from(self.slices.len()).unwrap_or(u64::MAX);
        self.newest.saturating_add(1).saturating_sub(count)
    }

    fn place(&mut self, number: u64) -> Option<&mut Slice> {
        let back = usize::try_from(self.newest.checked_sub(number)?).ok()?;
        let at = self.slices.len().checked_sub(1)?.checked_sub(back)?;
        self.slices.get_mut(at)
    }

    /// The slices of the last `span_ms` before `now_ms`, oldest first. The last slice is the one
    /// that ends at `now_ms` or holds it; the oldest may begin up to one width earlier.
    fn last(&self, now_ms: u64, span_ms: u64) -> impl DoubleEndedIterator<Item = (u64, Counts)> {
        let first = now_ms.saturating_sub(span_ms) / self.width_ms;
        let last = now_ms.saturating_sub(1) / self.width_ms;
        let oldest = self.oldest();
        let numbered = self.slices.iter().enumerate().map(move |(at, slice)| {
            let at = u64::try_from(at).unwrap_or(u64::MAX);
            (oldest.saturating_add(at), slice.counts())
        });
        let skip = usize::try_from(first.saturating_sub(oldest)).unwrap_or(usize::MAX);
        numbered
            .skip(skip)
            .filter(move |(number, _)| *number <= last)
    }

    /// Everything of the last `span_ms`.
    pub(super) fn sum(&self, now_ms: u64, span_ms: u64) -> Counts {
        let mut sum = Counts::default();
        for (_, counts) in self.last(now_ms, span_ms) {
            sum.add(&counts);
        }
        sum
    }

    /// The stretch of `burst_ms`, wherever it begins, with the most refusals in `span_ms`.
    pub(super) fn worst(&self, now_ms: u64, span_ms: u64, burst_ms: u64) -> Counts {
        // A burst that begins within one slice and ends within another touches one more, and the
        // reports that tell of it begin and end when they will.
        let wide = usize::try_from(burst_ms.div_ceil(self.width_ms)).unwrap_or(usize::MAX);
        let wide = wide.saturating_add(2);
        let (mut here, mut worst) = (Counts::default(), Counts::default());
        let mut inside: VecDeque<Counts> = VecDeque::new();
        for (_, counts) in self.last(now_ms, span_ms) {
            here.add(&counts);
            inside.push_back(counts);
            if inside.len() > wide
                && let Some(left) = inside.pop_front()
            {
                here = here.without(&left);
            }
            if here.refused > worst.refused {
                worst = here;
            }
        }
        worst
    }

    /// When the trouble began that lasts until now: before it there was none for `hole_ms`.
    pub(super) fn since(&self, now_ms: u64, span_ms: u64, hole_ms: u64) -> u64 {
        let mut since = now_ms;
        for (number, counts) in self.last(now_ms, span_ms).rev() {
            let begins = number.saturating_mul(self.width_ms);
            let ends = begins.saturating_add(self.width_ms);
            if since.saturating_sub(ends) > hole_ms {
                break;
            }
            if counts.refused > 0 || counts.time_ms.saturating_mul(2) > self.width_ms {
                since = begins;
            }
        }
        since
    }

    /// Adds the slices of another ring of the same width.
    pub(super) fn merge(&mut self, other: &Self) {
        let theirs: Vec<_> = other.last(u64::MAX, u64::MAX).collect();
        for (number, counts) in theirs {
            self.put(number, &counts);
        }
    }

    /// What a restart needs to know: the age of each slice that is not empty, and its counts.
    pub(super) fn saved(&self, now_ms: u64) -> Vec<(u64, Counts)> {
        let all = self.last(now_ms, u64::MAX);
        let kept = all.filter(|(_, counts)| !counts.is_nothing());
        let age = |number: u64| now_ms.saturating_sub(number.saturating_mul(self.width_ms));
        kept.map(|(number, counts)| (age(number), counts)).collect()
    }

    /// Takes in what was saved. `now_ms` is now, `older_ms` how much older everything is by now.
    pub(super) fn restore(&mut self, now_ms: u64, older_ms: u64, saved: &[(u64, Counts)]) {
        for (age_ms, counts) in saved {
            let Some(begins) = now_ms.checked_sub(age_ms.saturating_add(older_ms)) else {
                continue;
            };
            self.put(begins / self.width_ms, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(refused: u64, arrived: u64) -> Counts {
        Counts {
            time_ms: 0,
            arrived,
            refused,
        }
    }

    #[test]
    fn sums_are_exact_however_an_interval_lies() {
        for (from, to) in [
            (0, 1_000),
            (1_500, 2_500),
            (1_999, 2_001),
            (0, 60_000),
            (7, 7),
        ] {
            let mut ring = Ring::new(2_000, 120_000);
            ring.spread(100_000 + from, 100_000 + to, &counts(7, 1_000));
            let sum = ring.sum(100_000 + to.max(from + 1), 120_000);
            assert_eq!(sum, counts(7, 1_000), "{from}..{to}");
        }
    }

    #[test]
    fn what_is_older_than_the_ring_is_forgotten() {
        let mut ring = Ring::new(1_000, 10_000);
        for second in 100..200 {
            ring.spread(second * 1_000, second * 1_000 + 1_000, &counts(1, 10));
        }
        assert_eq!(ring.sum(200_000, 10_000), counts(10, 100));
        assert_eq!(
            ring.sum(200_000, 1_000_000),
            counts(11, 110),
            "no more is kept"
        );
        assert_eq!(ring.sum(205_000, 10_000), counts(5, 50));
        assert_eq!(ring.sum(900_000, 10_000), Counts::default());
        ring.spread(900_000, 901_000, &counts(3, 3));
        assert_eq!(ring.sum(901_000, 10_000), counts(3, 3), "nothing of before");
        let mut long = Ring::new(1_000, 10_000);
        long.spread(1_000, 101_000, &counts(100, 1_000));
        assert_eq!(
            long.sum(101_000, 10_000),
            counts(10, 100),
            "its last part alone"
        );
    }

    #[test]
    fn a_late_interval_finds_its_slice_or_nothing() {
        let mut ring = Ring::new(1_000, 10_000);
        ring.spread(100_000, 101_000, &counts(1, 1));
        ring.spread(96_000, 97_000, &counts(2, 2));
        ring.spread(50_000, 51_000, &counts(4, 4));
        assert_eq!(ring.sum(101_000, 10_000).refused, 3, "late, and kept");
        ring.spread(101_000, 102_000, &counts(8, 8));
        ring.spread(100_500, 100_900, &counts(16, 16));
        assert_eq!(ring.sum(102_000, 10_000).refused, 27);
    }

    #[test]
    fn the_worst_minute_is_found_wherever_it_begins() {
        for begins in (0..4_000).step_by(100) {
            let mut ring = Ring::new(2_000, 300_000);
            for second in 0..300_u64 {
                let at = second * 1_000;
                let burst = (100_000 + begins..160_000 + begins).contains(&at);
                ring.spread(at, at + 1_000, &counts(if burst { 50 } else { 0 }, 100));
            }
            let worst = ring.worst(300_000, 300_000, 60_000);
            assert_eq!(worst.refused, 3_000, "{begins}");
            assert_eq!(ring.sum(300_000, 300_000).without(&worst).refused, 0);
        }
    }

    #[test]
    fn trouble_began_after_the_last_hole() {
        let mut ring = Ring::new(2_000, 300_000);
        for second in 0..300_u64 {
            let refused = u64::from(second < 20 || (100..=298).contains(&second));
            ring.spread(second * 1_000, second * 1_000 + 1_000, &counts(refused, 1));
        }
        assert_eq!(ring.since(300_000, 300_000, 30_000), 100_000);
        assert_eq!(ring.since(300_000, 300_000, 90_000), 0);
    }

    #[test]
    fn what_was_saved_comes_back_at_its_age() {
        let mut ring = Ring::new(2_000, 120_000);
        for second in 0..100_u64 {
            ring.spread(
                second * 1_000,
                second * 1_000 + 1_000,
                &counts(second % 2, 1),
            );
        }
        let saved = ring.saved(100_000);
        let mut again = Ring::new(2_000, 120_000);
        again.restore(1_000_000, 10_000, &saved);
        assert_eq!(again.sum(990_000, 120_000), ring.sum(100_000, 120_000));
        assert_eq!(
            again.sum(1_000_000, 60_000).arrived,
            50,
            "ten seconds older"
        );
        let mut late = Ring::new(2_000, 120_000);
        late.restore(5_000, 3_600_000, &saved);
        assert_eq!(late.sum(5_000, 120_000), Counts::default());
    }
}
