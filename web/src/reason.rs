//! What each rejection means, in words for an operator.
//!
//! Separate because it matches the closed list exhaustively: a new reason does not compile until
//! this page can explain it. It must never speak of a rejection as a failure of an upstream.

use std::collections::BTreeMap;

use compartment::Rejection;

use crate::text;

/// One line of the table of rejections.
#[derive(Debug, Clone, PartialEq)]
pub struct ReasonRow {
    /// The name in answers, metrics and logs.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it means and what helps.
    pub explanation: &'static str,
    /// What the client gets.
    pub client: &'static str,
    /// How often since the start.
    pub count: String,
    /// Of all that arrived here.
    pub share: String,
}

/// The reasons that happened, most frequent first.
pub fn reason_rows(rejected: &BTreeMap<Rejection, u64>, arrived: u64) -> Vec<ReasonRow> {
    let mut counted: Vec<_> = rejected.iter().filter(|(_, n)| **n > 0).collect();
    counted.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    counted
        .into_iter()
        .map(|(reason, n)| ReasonRow {
            name: reason.as_str(),
            title: title(*reason),
            explanation: explanation(*reason),
            client: client(*reason),
            count: text::count(*n),
            share: text::percent(*n, arrived),
        })
        .collect()
}

/// The reason in a few words.
pub(crate) const fn title(reason: Rejection) -> &'static str {
    match reason {
        Rejection::TenantFull => "tenant full",
        Rejection::TenantRouteFull => "tenant full on this route",
        Rejection::TenantShare => "tenant over its share",
        Rejection::RouteFull => "route full",
        Rejection::ClassReserve => "last slots kept",
        Rejection::StreamFull => "streams full",
        Rejection::UpstreamFull => "upstream full",
        Rejection::GatewayFull => "gateway full",
        Rejection::SpareExhausted => "no spare slot",
        Rejection::QueueFull => "queue full",
        Rejection::QueueTimeout => "waited too long",
        Rejection::DeadlineTooShort => "deadline too short",
        Rejection::Closed => "closed",
        Rejection::BreakerOpen => "breaker open",
    }
}

const fn explanation(reason: Rejection) -> &'static str {
    match reason {
        Rejection::TenantFull => {
            "The tenant already holds as many slots as its own limit over all routes allows. \
             Other tenants are not touched."
        }
        Rejection::TenantRouteFull => {
            "The tenant already holds as many slots of this route as it may. Other tenants are \
             not touched."
        }
        Rejection::TenantShare => {
            "The tenant asked for more than its share of the slots that are free on this route. \
             The share grows when the route gets emptier."
        }
        Rejection::RouteFull => {
            "Every slot of the route was taken. Look for a slow upstream first: requests that \
             hold longer fill a route at the same traffic."
        }
        Rejection::ClassReserve => {
            "Only the last slots were free, and those are kept from sheddable requests."
        }
        Rejection::StreamFull => {
            "Every slot for this route's long-lived exchanges was taken. Short calls go on."
        }
        Rejection::UpstreamFull => {
            "The dependency's own limit, over all routes that use it, was reached."
        }
        Rejection::GatewayFull => {
            "The ceiling of the whole process was reached before a compartment stopped it: \
             isolation is only nominal here. Lower the compartments or raise the capacity."
        }
        Rejection::SpareExhausted => {
            "The route was beyond its guaranteed slots and no spare slot was left to borrow."
        }
        Rejection::QueueFull => "Every slot was taken, and so was every place to wait.",
        Rejection::QueueTimeout => "A slot did not become free within the longest allowed wait.",
        Rejection::DeadlineTooShort => {
            "The caller's own deadline left too little time to make use of a slot."
        }
        Rejection::Closed => "The limit is 0. Nothing gets in until somebody raises it.",
        Rejection::BreakerOpen => {
            "The dependency failed too often, so it was not asked and no slot was spent. A few \
             requests are let through now and then to see whether it is well again."
        }
    }
}

const fn client(reason: Rejection) -> &'static str {
    match reason {
        Rejection::TenantFull | Rejection::TenantRouteFull | Rejection::TenantShare => {
            "429 with retry-after, or the route's fallback"
        }
        Rejection::RouteFull
        | Rejection::ClassReserve
        | Rejection::StreamFull
        | Rejection::UpstreamFull
        | Rejection::GatewayFull
        | Rejection::SpareExhausted
        | Rejection::QueueFull
        | Rejection::QueueTimeout
        | Rejection::DeadlineTooShort
        | Rejection::Closed
        | Rejection::BreakerOpen => "503 with retry-after, or the route's fallback",
    }
}

/// The reasons of one compartment in one line: `41 route full, 2 queue full`.
pub(crate) fn in_words(rejected: &BTreeMap<Rejection, u64>) -> String {
    let mut counted: Vec<_> = rejected.iter().filter(|(_, n)| **n > 0).collect();
    counted.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let words: Vec<String> = counted
        .iter()
        .map(|(r, n)| format!("{} {}", text::count(**n), title(**r)))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_frequent_reason_comes_first_and_none_is_silent() {
        let rejected = BTreeMap::from([
            (Rejection::TenantFull, 0),
            (Rejection::RouteFull, 3),
            (Rejection::QueueFull, 1200),
        ]);
        assert_eq!(in_words(&rejected), "1,200 queue full, 3 route full");
        let rows = reason_rows(&rejected, 12_030);
        assert_eq!(
            rows.iter().map(|r| r.name).collect::<Vec<_>>(),
            ["queue_full", "route_full"]
        );
        for reason in Rejection::ALL {
            assert!(explanation(reason).len() > 40 && explanation(reason).ends_with('.'));
            assert!(client(reason).starts_with('4') || client(reason).starts_with("503"));
        }
    }
}
