//! Which endpoints of an upstream one request has tried.
//!
//! Separate because it is a set in one word: a request carries it. It must never hold an endpoint
//! that was not tried.

/// Some of the endpoints of one upstream, which has at most 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried(u64);

impl Tried {
    pub(crate) const fn has(self, index: usize) -> bool {
        index < 64 && self.0 & (1 << index) != 0
    }

    #[must_use]
    pub(crate) const fn with(self, index: usize) -> Self {
        match index < 64 {
            true => Self(self.0 | (1 << index)),
            false => self,
        }
    }

    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The first `count` of them.
    pub(crate) const fn first(count: usize) -> Self {
        match count < 64 {
            true => Self((1 << count) - 1),
            false => Self(u64::MAX),
        }
    }

    /// Two different members by chance; one twice where there is only one.
    pub(crate) fn two(self, random: u64) -> Option<(usize, usize)> {
        let count = u64::from(self.count());
        let first = random.checked_rem(count)?;
        let second = (random >> 32).checked_rem(count - 1).unwrap_or(0);
        let second = second + u64::from(count > 1 && second >= first);
        Some((self.member(first)?, self.member(second)?))
    }

    fn member(self, number: u64) -> Option<usize> {
        let mut left = self.0;
        for _ in 0..number {
            left &= left.wrapping_sub(1);
        }
        (left != 0).then(|| usize::try_from(left.trailing_zeros()).unwrap_or(0))
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_in_and_nothing_else() {
        let tried = Tried::default().with(0).with(63).with(64).with(63);
        assert_eq!(tried.count(), 2);
        let held: Vec<usize> = (0..200).filter(|&index| tried.has(index)).collect();
        assert_eq!(held, [0, 63]);
        assert_eq!(
            (Tried::first(3).0, Tried::first(64).0, Tried::first(0).0),
            (7, u64::MAX, 0)
        );
    }

    #[test]
    fn two_are_two_and_both_are_members() {
        let some = Tried::default().with(3).with(17).with(63);
        let mut seen = std::collections::BTreeSet::new();
        for first in 0..9_u64 {
            for second in 0..9_u64 {
                let (one, other) = some.two(first | second << 32).unwrap();
                assert!(one != other && some.has(one) && some.has(other));
                seen.insert((one, other));
            }
        }
        assert_eq!(seen.len(), 6);
        assert_eq!(Tried::default().with(5).two(77), Some((5, 5)));
        assert_eq!(Tried::default().two(77), None);
    }
}
