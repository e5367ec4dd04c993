//! What happened in the last seconds: the difference of two looks at the same gateway.
//!
//! Separate because a counter since the start hides what is going on now, and a look at one moment
//! misses a compartment that fills and empties between two reports. It must never mix gateways:
//! each counts from its own start, and a restart begins at zero again.

use std::collections::HashMap;

use compartment::{Figures, Level, Rejection};

use crate::text;

/// What one gateway said last, and what it said some seconds before.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Its newest figures.
    pub now: &'a [Figures],
    /// Its figures of some seconds before, when it was heard by then.
    pub earlier: Option<&'a [Figures]>,
}

/// What was counted in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lately {
    /// Requests that got everything; of the gateway's own compartment alone.
    pub admitted: u64,
    /// Requests refused.
    pub rejected: u64,
    /// Those of them that the ceiling itself refused, before a compartment did.
    pub ceiling: u64,
}

/// Where the counters of one gateway stood.
#[derive(Debug)]
pub(crate) struct Base<'a>(Option<HashMap<&'a str, Lately>>);

impl<'a> Base<'a> {
    pub(crate) fn of(earlier: Option<&'a [Figures]>) -> Self {
        let counted = |list: &'a [Figures]| {
            let counts = list.iter().filter(|figures| matters(figures));
            counts
                .map(|figures| (figures.key.as_str(), counters(figures)))
                .collect()
        };
        Self(earlier.map(counted))
    }

    /// The difference; nothing while there is nothing to compare with.
    pub(crate) fn since(&self, figures: &Figures) -> Lately {
        let Some(base) = &self.0 else {
            return Lately::default();
        };
        if !matters(figures) {
            return Lately::default();
        }
        let now = counters(figures);
        let then = base.get(figures.key.as_str()).copied().unwrap_or_default();
        Lately {
            admitted: passed(then.admitted, now.admitted),
            rejected: passed(then.rejected, now.rejected),
            ceiling: passed(then.ceiling, now.ceiling),
        }
    }
}

/// Most compartments never refuse anything, and those cost nothing here.
fn matters(figures: &Figures) -> bool {
    figures.level == Level::Gateway || !figures.rejected.is_empty()
}

fn counters(figures: &Figures) -> Lately {
    let of_ceiling = figures.level == Level::Gateway;
    let full = figures.rejected.get(&Rejection::GatewayFull).copied();
    Lately {
        admitted: if of_ceiling { figures.admitted } else { 0 },
        rejected: text::sum(&figures.rejected),
        ceiling: full.filter(|_| of_ceiling).unwrap_or(0),
    }
}

/// A counter that went down began anew.
const fn passed(then: u64, now: u64) -> u64 {
    if now < then { now } else { now - then }
}

#[cfg(test)]
mod tests {
    use compartment::Rejection;

    use super::*;
    use crate::samples::figures;

    fn rejecting(n: u64) -> Vec<Figures> {
        let mut one = figures("route/a", Level::Route, 1, 1, 10);
        if n > 0 {
            one.rejected.insert(Rejection::RouteFull, n);
        }
        vec![one]
    }

    #[test]
    fn differences_survive_a_restart_and_a_first_look() {
        let since = |earlier: Option<u64>, now| {
            let (earlier, now) = (earlier.map(rejecting), rejecting(now));
            Base::of(earlier.as_deref()).since(&now[0]).rejected
        };
        assert_eq!(since(Some(3), 5), 2);
        assert_eq!(since(Some(0), 5), 5);
        assert_eq!(since(Some(9), 4), 4, "it began anew");
        assert_eq!(since(None, 5), 0, "nothing to compare with");
        assert_eq!(since(Some(5), 5), 0);
    }
}
