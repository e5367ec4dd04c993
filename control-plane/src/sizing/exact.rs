//! Fractions of whole numbers.
//!
//! Separate because `ceil(1.1 x 50)` is 56 in floating point and 55 in truth, and a policy is
//! refused by such sums. Nothing here must ever touch a float but the last step to JSON.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use compartment::policy::Millionths;
use serde::{Serialize, Serializer};

const MILLI: u128 = 1000;
const MICRO: u128 = 1_000_000;

/// The most decimals that are shown of a number that has no end.
const DECIMALS_SHOWN: u32 = 3;

/// The most decimals of a number that is shown whole.
const DECIMALS_MAX: u32 = 15;

/// A number that is not negative, as a reduced fraction.
///
/// Rates, times and limits are bounded by the policy, so that products of three of them stay far
/// below the range; beyond it a result is the largest number, never a wrapped one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    numerator: u128,
    denominator: u128,
}

impl Exact {
    /// Nothing.
    pub const ZERO: Self = Self {
        numerator: 0,
        denominator: 1,
    };
    /// One.
    pub const ONE: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// A whole number.
    pub const fn whole(number: u128) -> Self {
        Self {
            numerator: number,
            denominator: 1,
        }
    }

    /// `numerator / denominator`; the largest number when divided by zero.
    pub fn ratio(numerator: u128, denominator: u128) -> Self {
        if denominator == 0 {
            return Self::whole(u128::MAX);
        }
        let common = common_divisor(numerator, denominator);
        Self {
            numerator: numerator / common,
            denominator: denominator / common,
        }
    }

    /// A rate per second.
    pub fn rate(rate_milli: u64) -> Self {
        Self::ratio(rate_milli.into(), MILLI)
    }

    /// A time in seconds, to the microsecond.
    pub fn seconds(time: Duration) -> Self {
        Self::ratio(time.as_micros(), MICRO)
    }

    /// A share.
    pub fn share(share: Millionths) -> Self {
        Self::ratio(share.0.into(), MICRO)
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Self {
        let common = common_divisor(self.denominator, other.denominator);
        let own = self.numerator.saturating_mul(other.denominator / common);
        let theirs = other.numerator.saturating_mul(self.denominator / common);
        let denominator = (self.denominator / common).saturating_mul(other.denominator);
        Self::ratio(own.saturating_add(theirs), denominator)
    }

    /// The difference; zero when `other` is larger.
    pub fn minus(self, other: Self) -> Self {
        let common = common_divisor(self.denominator, other.denominator);
        let own = self.numerator.saturating_mul(other.denominator / common);
        let theirs = other.numerator.saturating_mul(self.denominator / common);
        let denominator = (self.denominator / common).saturating_mul(other.denominator);
        Self::ratio(own.saturating_sub(theirs), denominator)
    }

    /// The product.
    pub fn times(self, other: Self) -> Self {
        let left = Self::ratio(self.numerator, other.denominator);
        let right = Self::ratio(other.numerator, self.denominator);
        Self {
            numerator: left.numerator.saturating_mul(right.numerator),
            denominator: left.denominator.saturating_mul(right.denominator),
        }
    }

    /// The quotient; the largest number when divided by zero.
    pub fn over(self, other: Self) -> Self {
        if other.numerator == 0 {
            return Self::whole(u128::MAX);
        }
        self.times(Self {
            numerator: other.denominator,
            denominator: other.numerator,
        })
    }

    /// The largest whole number that is not above.
    pub const fn floor(self) -> u128 {
        // A denominator is never zero.
        match self.numerator.checked_div(self.denominator) {
            Some(whole) => whole,
            None => u128::MAX,
        }
    }

    /// The smallest whole number that is above.
    pub const fn next_whole(self) -> u128 {
        self.floor().saturating_add(1)
    }

    /// The smallest whole number that is not below.
    pub fn ceil(self) -> u128 {
        self.numerator.div_ceil(self.denominator)
    }

    /// The nearest float, for JSON and for laws of chance, which refuse nothing.
    pub(crate) fn nearest_float(self) -> f64 {
        // Read from digits, as any reader of the same text would: no arithmetic in floats.
        self.digits(DECIMALS_MAX).parse().unwrap_or(f64::MAX)
    }

    /// The number with at most `decimals` decimals, cut off.
    fn digits(self, decimals: u32) -> String {
        let whole = self.numerator / self.denominator;
        let mut rest = self.numerator % self.denominator;
        let mut text = String::new();
        for _ in 0..decimals {
            if rest == 0 {
                break;
            }
            rest = rest.saturating_mul(10);
            text.push_str(&(rest / self.denominator).to_string());
            rest %= self.denominator;
        }
        let text = text.trim_end_matches('0');
        if text.is_empty() {
            whole.to_string()
        } else {
            format!("{whole}.{text}")
        }
    }

    /// True when the decimals end soon enough to be shown whole.
    fn ends(self) -> bool {
        10_u128.pow(DECIMALS_MAX).is_multiple_of(self.denominator)
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ends() {
            f.write_str(&self.digits(DECIMALS_MAX))
        } else {
            // The mark says that the number goes on; it is cut, never rounded.
            write!(f, "{}…", self.digits(DECIMALS_SHOWN))
        }
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.numerator) {
            Ok(number) if self.denominator == 1 => serializer.serialize_u64(number),
            _ => serializer.serialize_f64(self.nearest_float()),
        }
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    /// By whole parts, then by the rests turned upside down: no product that could overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.numerator, self.denominator);
        let (mut c, mut d) = (other.numerator, other.denominator);
        loop {
            let whole = (a / b).cmp(&(c / d));
            if whole != Ordering::Equal {
                return whole;
            }
            match (a % b, c % d) {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Less,
                (_, 0) => return Ordering::Greater,
                (own, theirs) => (a, b, c, d) = (d, theirs, b, own),
            }
        }
    }
}

/// A time for people: `300 ms`, `1.5 s`, `80 us`.
pub fn time(seconds: Exact) -> String {
    let in_unit = |per_second: u128| seconds.times(Exact::whole(per_second));
    if seconds >= Exact::ONE {
        format!("{seconds} s")
    } else if in_unit(MILLI) >= Exact::ONE || seconds == Exact::ZERO {
        format!("{} ms", in_unit(MILLI))
    } else {
        format!("{} us", in_unit(MICRO))
    }
}

fn common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_stay_exact() {
        let tenth = Exact::ratio(1, 10);
        assert_eq!(
            Exact::whole(50).times(Exact::ONE.plus(tenth)).ceil(),
            55,
            "not 56"
        );
        assert_eq!(tenth.plus(Exact::ratio(2, 10)), Exact::ratio(3, 10));
        assert_eq!(tenth.minus(Exact::ONE), Exact::ZERO);
        assert_eq!(Exact::ONE.over(Exact::ZERO), Exact::whole(u128::MAX));
        assert!(Exact::ratio(1, 3) > Exact::ratio(333_333, 1_000_000));
        assert!(Exact::ratio(u128::MAX, u128::MAX - 1) > Exact::ONE);
        assert!(Exact::ratio(7, 2) < Exact::ratio(11, 3));
        assert_eq!(Exact::ratio(6, 4).cmp(&Exact::ratio(3, 2)), Ordering::Equal);
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        for (number, text) in [
            (Exact::ZERO, "0"),
            (Exact::ratio(55, 2), "27.5"),
            (Exact::ratio(125, 4), "31.25"),
            (Exact::ratio(373, 100), "3.73"),
            (Exact::ratio(400, 3), "133.333…"),
            (Exact::whole(800), "800"),
            (Exact::ratio(1, 1000), "0.001"),
        ] {
            assert_eq!(number.to_string(), text);
        }
        for (seconds, text) in [
            (Exact::ratio(3, 10), "300 ms"),
            (Exact::ratio(3, 2), "1.5 s"),
            (Exact::ratio(80, 1_000_000), "80 us"),
            (Exact::ZERO, "0 ms"),
        ] {
            assert_eq!(time(seconds), text);
        }
        assert_eq!(serde_json::to_string(&Exact::ratio(55, 2)).unwrap(), "27.5");
        assert_eq!(serde_json::to_string(&Exact::whole(10)).unwrap(), "10");
    }
}
