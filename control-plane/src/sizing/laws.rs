//! The arithmetic of the pattern, one law a function.
//!
//! Separate because the linter, `size` and the demo must say the same numbers. Times are in
//! seconds, rates per second; nothing here must ever round but where a slot is a whole one.

use compartment::Class;

use super::exact::Exact;

/// Little's law: how many are in flight.
pub fn in_flight(rate: Exact, latency: Exact) -> Exact {
    rate.times(latency)
}

/// What a limit lets through when each call takes `latency`.
pub fn throughput_left(limit: u32, latency: Exact) -> Exact {
    Exact::whole(limit.into()).over(latency)
}

/// What arrives and is not let through.
pub fn shed(rate: Exact, throughput: Exact) -> Exact {
    rate.minus(throughput)
}

/// How long until every slot is taken when calls stop returning, `busy` slots being taken already.
pub fn time_to_fill(limit: u32, busy: Exact, rate: Exact) -> Exact {
    Exact::whole(limit.into()).minus(busy).over(rate)
}

/// The most that can be in flight when every attempt runs into its timeout; `extra` is the mean
/// number of retries for each request.
pub fn worst_case(rate: Exact, extra: Exact, attempt_timeout: Exact) -> Exact {
    rate.times(Exact::ONE.plus(extra)).times(attempt_timeout)
}

/// What the product in flight is multiplied with: room above it by importance.
pub fn headroom(class: Class) -> Exact {
    match class {
        Class::Critical => Exact::whole(2),
        Class::Standard => Exact::ratio(3, 2),
        Class::Sheddable => Exact::ONE,
    }
}

/// The limit for this many in flight: with the headroom of its class, in whole slots, at least 1.
pub fn suggested_limit(in_flight: Exact, class: Class) -> u128 {
    in_flight.times(headroom(class)).ceil().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(number: u32) -> Exact {
        Exact::whole(number.into())
    }

    fn ms(milliseconds: u32) -> Exact {
        Exact::ratio(milliseconds.into(), 1000)
    }

    /// P10 to P15, the traced collapse, and the other figures of the articles (A17).
    #[test]
    fn the_figures_of_the_articles_are_exact() {
        let check = |what: &str, figure: Exact, want: &str| {
            assert_eq!(figure.to_string(), want, "{what}");
        };
        check("8 s at 100/s", in_flight(whole(100), whole(8)), "800");
        check(
            "200 slots at 100/s fill in",
            time_to_fill(200, Exact::ZERO, whole(100)),
            "2",
        );
        check("200/s x 50 ms", in_flight(whole(200), ms(50)), "10");
        check("300/s x 30 ms", in_flight(whole(300), ms(30)), "9");
        check("100/s x 200 ms", in_flight(whole(100), ms(200)), "20");
        let payments = in_flight(whole(20), ms(100));
        let inventory = in_flight(whole(30), ms(50));
        let recommendations = in_flight(whole(50), ms(200));
        check("payments", payments, "2");
        check("inventory", inventory, "1.5");
        check("recommendations", recommendations, "10");
        let busy = payments.plus(inventory).plus(recommendations);
        check("all three", busy, "13.5");
        check(
            "recommendations, slow",
            in_flight(whole(50), whole(5)),
            "250",
        );
        check("200/s x 2 s", in_flight(whole(200), whole(2)), "400");
        check("slices", whole(30).plus(whole(30)).plus(whole(40)), "100");
        let left = throughput_left(40, whole(5));
        check("left of 40 slots at 5 s", left, "8");
        check("shed of 50/s", shed(whole(50), left), "42");
        check("four that peak at 50", whole(50).times(whole(4)), "200");
        check(
            "10 and half as much again",
            whole(10).times(Exact::ratio(3, 2)),
            "15",
        );
        check(
            "30 slots at 100/s fill in",
            time_to_fill(30, Exact::ZERO, whole(100)),
            "0.3",
        );
        check(
            "worst case",
            worst_case(whole(100), Exact::ratio(1, 10), ms(250)),
            "27.5",
        );
        check(
            "worst, 25 %",
            worst_case(whole(100), Exact::ratio(1, 4), ms(250)),
            "31.25",
        );
        check("20 slots cut into five", whole(20).over(whole(5)), "4");
        check("hours before", whole(4).times(whole(6 * 3 + 8)), "104");
        check("hours after", whole(4).times(whole(1 + 2)), "12");
        check(
            "about 4 s until the 200 are gone",
            time_to_fill(200, busy, whole(50)),
            "3.73",
        );
    }

    /// P11: and the trap of floats.
    #[test]
    fn limits_are_rounded_up_exactly() {
        for (product, class, limit) in [
            (whole(10), Class::Critical, 20),
            (whole(10), Class::Standard, 15),
            (whole(10), Class::Sheddable, 10),
            (Exact::ratio(3, 2), Class::Standard, 3),
            (Exact::ratio(1, 100), Class::Sheddable, 1),
            (Exact::ratio(11, 10).times(whole(50)), Class::Sheddable, 55),
        ] {
            assert_eq!(
                suggested_limit(product, class),
                limit,
                "{product} {class:?}"
            );
        }
    }
}
