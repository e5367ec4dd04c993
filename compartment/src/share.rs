//! One tenant's part of a route that moves with the free slots.
//!
//! Separate because the arithmetic is pure and exact: whole numbers only. It must never use a
//! floating-point number: 0.7 of 10 is 7.

use crate::policy::Millionths;
use crate::word::Picture;

const MILLION: u64 = 1_000_000;

/// The most one tenant may hold where `free` slots were free before it asked:
/// `max(1, floor(share x free))`.
pub fn share_most(share: Millionths, free: u32) -> u32 {
    let part = u64::from(share.0) * u64::from(free) / MILLION;
    u32::try_from(part).unwrap_or(u32::MAX).max(1)
}

/// The same for a route as it was before; `None` on an unlimited one, where a part of the free
/// slots means nothing, and where the limit is not enforced.
pub(crate) fn most_of(share: Millionths, route: Picture) -> Option<u32> {
    let limit = route.limit().slots().filter(|_| !route.is_lax());
    limit.map(|_| share_most(share, route.free()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many slots of `limit` a lone tenant gets one after another.
    fn alone(share: u32, limit: u32) -> usize {
        (0..limit)
            .take_while(|held| *held < share_most(Millionths(share), limit - held))
            .count()
    }

    #[test]
    fn a_lone_tenant_gets_its_part_exactly() {
        assert_eq!(alone(1_000_000, 10), 5);
        assert_eq!(alone(500_000, 10), 3);
        assert_eq!(alone(1_000_000, 64), 32);
        assert_eq!(alone(1, 10), 1, "never below one");
        assert_eq!(
            share_most(Millionths(700_000), 10),
            7,
            "not 6 as in floating point"
        );
        assert_eq!(share_most(Millionths(u32::MAX), u32::MAX), u32::MAX);
    }
}
