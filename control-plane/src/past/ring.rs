//! A bounded number of slots by time.
//!
//! Separate because minutes and hours are kept the same way. It must never answer for one time
//! with what lies there of another.

/// A ring of slots that know which time they are of, so that no clock breaks it.
#[derive(Clone, Debug)]
pub(super) struct Ring<T, const N: usize>(Vec<(i64, T)>);

impl<T: Default + Clone, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Self(vec![(i64::MIN, T::default()); N])
    }
}

impl<T: Default, const N: usize> Ring<T, N> {
    fn place(at: i64) -> usize {
        let length = i64::try_from(N).unwrap_or(i64::MAX);
        usize::try_from(at.rem_euclid(length)).unwrap_or(0)
    }

    /// The slot of this time, emptied when it held another.
    pub(super) fn slot(&mut self, at: i64) -> Option<&mut T> {
        let (own, value) = self.0.get_mut(Self::place(at))?;
        // What is too long ago has no slot: a newer time lies in it.
        if *own > at && own.saturating_sub(at) <= i64::try_from(N).unwrap_or(0) {
            return None;
        }
        if *own != at {
            (*own, *value) = (at, T::default());
        }
        Some(value)
    }

    pub(super) fn get(&self, at: i64) -> Option<&T> {
        let (own, value) = self.0.get(Self::place(at))?;
        (*own == at).then_some(value)
    }

    /// The slots of the time up to `last`, in no order, and how long ago each is.
    pub(super) fn within(&self, last: i64) -> impl Iterator<Item = (i64, &T)> {
        let length = i64::try_from(N).unwrap_or(i64::MAX);
        let all = self.0.iter();
        all.map(move |(at, value)| (last.saturating_sub(*at), value))
            .filter(move |(ago, _)| (0..length).contains(ago))
    }
}
