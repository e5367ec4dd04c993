//! Which endpoint of an upstream a request goes to.
//!
//! Separate because it is asked for every request and must stay a look at a few words: of two that
//! chance picks, the one with less to do. It must never leave a request without an endpoint
//! because too many of them are out.

use super::{Standing, Tried};

/// The next one to try. `tried`: not again. `failed`: only if nobody else is left.
pub(crate) fn choose<'a>(
    all: impl ExactSizeIterator<Item = &'a Standing> + Clone,
    now_us: u64,
    (tried, failed): (Tried, Tried),
    random: u64,
) -> Option<usize> {
    let count = all.len();
    if count <= 1 {
        return (count == 1 && !tried.has(0)).then_some(0);
    }
    let (mut out, mut shunned) = (Tried::default(), Tried::default());
    for (index, one) in all.clone().enumerate() {
        if one.is_out(now_us) {
            out = out.with(index);
        }
        if one.is_shunned(now_us) {
            shunned = shunned.with(index);
        }
    }
    // More than half: it is rather us, or all of them. Nobody is left out then.
    let most = usize::try_from(out.count()).unwrap_or(usize::MAX) > count / 2;
    let out = if most { Tried::default() } else { out };
    let left = Tried::first(count).without(tried);
    let steps = [out.and(failed).and(shunned), out.and(failed), out, failed];
    let fit = steps.map(|unwanted| left.without(unwanted));
    let fit = fit.into_iter().find(|fit| fit.count() > 0).unwrap_or(left);
    let load = |index: usize| all.clone().nth(index).map(|one| one.load(now_us));
    let (first, second) = fit.two(random)?;
    match load(second) < load(first) {
        true => Some(second),
        false => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 5_000_000;

    fn counts(all: &[Standing], tried: Tried, failed: Tried) -> Vec<u32> {
        let mut counts = vec![0; all.len()];
        for random in 0..10_000_u64 {
            let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let chosen = choose(all.iter(), NOW_US, (tried, failed), random ^ (random >> 31));
            if let Some(index) = chosen {
                counts[index] += 1;
            }
        }
        counts
    }

    fn some(count: usize) -> Vec<Standing> {
        (0..count).map(|_| Standing::default()).collect()
    }

    fn eject(one: &Standing) {
        while !one.fail(NOW_US) {}
    }

    #[test]
    fn equals_get_equal_parts_and_the_slow_and_the_busy_get_less() {
        let all = some(4);
        let none = Tried::default();
        assert!(
            counts(&all, none, none)
                .iter()
                .all(|&count| (2_000..3_000).contains(&count))
        );
        all[1].took(100_000, NOW_US);
        (0..9).for_each(|_| all[2].begin(NOW_US));
        let counts = counts(&all, none, none);
        // The worst of four never wins a pair, the second worst only against it.
        assert!(
            counts[1] == 0 && (1_000..2_500).contains(&counts[2]),
            "{counts:?}"
        );
    }

    #[test]
    fn who_is_out_gets_nothing_until_too_many_are() {
        let all = some(4);
        let none = Tried::default();
        eject(&all[0]);
        eject(&all[1]);
        let two = counts(&all, none, none);
        assert!(
            two[0] == 0 && two[1] == 0 && two[2] > 4_000 && two[3] > 4_000,
            "{two:?}"
        );
        eject(&all[2]);
        assert!(counts(&all, none, none).iter().all(|&count| count > 0));
        eject(&all[3]);
        assert!(counts(&all, none, none).iter().all(|&count| count > 0));
        let alone = some(1);
        eject(&alone[0]);
        assert_eq!(counts(&alone, none, none), [10_000]);
    }

    #[test]
    fn a_retry_goes_elsewhere_and_nobody_is_tried_twice() {
        let all = some(3);
        let none = Tried::default();
        let (first, two) = (none.with(0), none.with(0).with(1));
        assert_eq!(counts(&all, none, two), [0, 0, 10_000]);
        assert_eq!(counts(&all, first, two), [0, 0, 10_000]);
        assert_eq!(counts(&all, two.with(2), none), [0, 0, 0]);
        // Where all have failed, one of them it is.
        assert!(
            counts(&all, none, two.with(2))
                .iter()
                .all(|&count| count > 0)
        );
        all[2].shun(NOW_US);
        assert_eq!(
            counts(&all, none, two),
            [0, 0, 10_000],
            "rather shunned than failed"
        );
    }
}
