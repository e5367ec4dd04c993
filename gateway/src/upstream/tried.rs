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
    }
}
