//! Which tenants a list shows: filtered, in a total order, cut at a page or behind a cursor.
//!
//! Separate because API, pages and files choose alike. It must never leave a tenant out or show one
//! twice to whoever follows the cursor by name, whatever comes and goes meanwhile.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use compartment::policy::{Policy, Tenant};

use super::{ByName, Placed, Told};

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// By name.
    #[default]
    Id,
    /// Most in flight first.
    InFlight,
    /// Most of what it was promised first.
    Share,
    /// Most refusals since the start first.
    Rejected,
}

impl Sort {
    /// Every order.
    pub(crate) const ALL: [Self; 4] = [Self::Id, Self::InFlight, Self::Share, Self::Rejected];

    /// The word in addresses.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::InFlight => "in_flight",
            Self::Share => "share",
            Self::Rejected => "rejected",
        }
    }
}

impl FromStr for Sort {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|sort| sort.as_str() == text).ok_or(())
    }
}

/// The last row of the page before: its order, its rank in it, its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) sort: Sort,
    rank: u64,
    id: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.sort.as_str(), self.rank, self.id)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, ':');
        let (sort, rank) = (parts.next().ok_or(())?, parts.next().ok_or(())?);
        let id = parts.next().ok_or(())?.to_owned();
        let (sort, rank) = (sort.parse()?, rank.parse().map_err(|_| ())?);
        Ok(Self { sort, rank, id })
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    /// Only names and hosts with this text.
    pub(crate) find: String,
    /// Only this plan.
    pub(crate) plan: Option<String>,
    /// Only suspended ones, or only others.
    pub(crate) suspended: Option<bool>,
    /// Only those without a free slot on some gateway, or only others.
    pub(crate) saturated: Option<bool>,
    /// In which order.
    pub(crate) sort: Sort,
    /// Only behind this row.
    pub(crate) after: Option<Cursor>,
    /// That many rows further on.
    pub(crate) skip: usize,
    /// At most so many.
    pub(crate) count: usize,
}

/// What belongs to a query.
#[derive(Debug)]
pub(crate) struct Selected<'a> {
    /// How many tenants, on all pages.
    pub(crate) matching: usize,
    /// Those of this page.
    pub(crate) rows: Vec<Placed<'a>>,
    /// Where the next page begins.
    pub(crate) next: Option<Cursor>,
}

/// Chooses the rows.
pub(crate) fn select<'a>(
    policy: &'a Policy,
    by_name: &'a ByName,
    told: &Told,
    query: &Query,
) -> Selected<'a> {
    let plan_at = |plan: &String| policy.plans.iter().position(|one| one.id.as_str() == *plan);
    let plan = query.plan.as_ref().map(plan_at);
    let full = query.saturated.is_some().then(|| told.saturated());
    let is_full = |tenant: &Tenant| full.as_ref().map(|full| full.contains(tenant.id.as_str()));
    let find = query.find.as_str();
    let named = |tenant: &Tenant| {
        let by_host = || tenant.hosts.iter().any(|host| host.contains(find));
        find.is_empty() || tenant.id.as_str().contains(find) || by_host()
    };
    let wanted = |(_, tenant): &Placed<'_>| {
        // A plan that nobody knows has no tenants.
        plan.is_none_or(|plan| plan.is_some() && tenant.plan == plan)
            && query.suspended.is_none_or(|is| tenant.suspended == is)
            && is_full(tenant) == query.saturated
            && named(tenant)
    };
    let ranks = (query.sort != Sort::Id).then(|| told.ranks(query.sort));
    let rank = |tenant: &Tenant| {
        let ranks = ranks.as_ref()?;
        ranks.get(tenant.id.as_str()).copied()
    };
    let found = by_name.all(policy).filter(wanted);
    let mut found: Vec<(Reverse<u64>, Placed<'_>)> = found
        .map(|placed| (Reverse(rank(placed.1).unwrap_or(0)), placed))
        .collect();
    if ranks.is_some() {
        // Stable: equal ones stay in the order of their names.
        found.sort_by_key(|(rank, _)| *rank);
    }
    let matching = found.len();
    let seen = query.after.as_ref().map_or(0, |cursor| {
        let last = (Reverse(cursor.rank), cursor.id.as_str());
        found.partition_point(|(rank, (_, tenant))| (*rank, tenant.id.as_str()) <= last)
    });
    let start = seen.saturating_add(query.skip);
    let page = || found.iter().skip(start).take(query.count);
    let more = found.len() > start.saturating_add(query.count);
    let next = page()
        .next_back()
        .filter(|_| more)
        .map(|(rank, (_, tenant))| Cursor {
            sort: query.sort,
            rank: rank.0,
            id: tenant.id.to_string(),
        });
    Selected {
        matching,
        rows: page().map(|(_, placed)| *placed).collect(),
        next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(names: &[&str]) -> Policy {
        let tenants: serde_json::Map<_, _> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let host = format!("{name}.shop.example").to_lowercase();
                let tenant = serde_json::json!({"plan": if at % 2 == 0 { "even" } else { "odd" },
                    "suspended": at % 3 == 0, "hosts": [host]});
                ((*name).to_owned(), tenant)
            })
            .collect();
        let document = serde_json::json!({"schema": 1, "tenants": tenants,
            "plans": {"even": {"limit": 1}, "odd": {"limit": 2}}});
        let document = serde_json::from_str(&document.to_string()).unwrap();
        compartment::policy::check(&document).unwrap()
    }

    fn names(selected: &Selected<'_>) -> Vec<String> {
        let names = selected
            .rows
            .iter()
            .map(|(_, tenant)| tenant.id.to_string());
        names.collect()
    }

    fn nobody() -> Told {
        Told { heard: Vec::new() }
    }

    #[test]
    fn whoever_follows_the_cursor_sees_each_that_stays_once() {
        let all: Vec<String> = (0..100).map(|n| format!("t{n:03}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (mut after, mut seen) = (None, Vec::new());
        for turn in 0.. {
            // On each turn another one is gone and another one is new.
            let gone = all.get(turn * 7 % 100);
            let mut now: Vec<&str> = all.iter().copied().filter(|n| Some(n) != gone).collect();
            let new = format!("t{:03}x", turn * 13 % 100);
            now.push(&new);
            let policy = policy(&now);
            let by_name = ByName::of(&policy);
            let query = Query {
                after: after.take(),
                count: 9,
                ..Query::default()
            };
            let selected = select(&policy, &by_name, &nobody(), &query);
            assert_eq!(selected.matching, 100);
            seen.extend(names(&selected));
            let Some(next) = selected.next else { break };
            assert_eq!(next.to_string().parse(), Ok(next.clone()));
            after = Some(next);
        }
        let mut once = seen.clone();
        once.sort();
        once.dedup();
        assert_eq!(once, seen, "each once, in order");
        let missed = all
            .iter()
            .filter(|name| !seen.contains(&(**name).to_owned()));
        // Only who was away when its page was shown.
        assert!(missed.count() <= 12, "{seen:?}");
    }

    #[test]
    fn filters_narrow_and_pages_are_cut() {
        let policy = policy(&["a", "b", "c", "d", "e", "B2"]);
        let by_name = ByName::of(&policy);
        let ask = |query: Query| {
            let query = Query { count: 10, ..query };
            names(&select(&policy, &by_name, &nobody(), &query))
        };
        let find = |text: &str| Query {
            find: text.to_owned(),
            ..Query::default()
        };
        assert_eq!(ask(find("")), ["B2", "a", "b", "c", "d", "e"]);
        assert_eq!(ask(find("b2.shop")), ["B2"], "by host");
        assert_eq!(ask(find("b")), ["B2", "b"], "by name and by host");
        let plan = |plan: &str| Query {
            plan: Some(plan.to_owned()),
            ..Query::default()
        };
        assert_eq!(ask(plan("even")), ["a", "c", "e"]);
        assert!(ask(plan("none")).is_empty());
        let suspended = Query {
            suspended: Some(true),
            ..Query::default()
        };
        assert_eq!(ask(suspended), ["a", "d"]);
        let skipped = Query {
            skip: 4,
            ..Query::default()
        };
        assert_eq!(ask(skipped), ["d", "e"]);
        assert!(by_name.find(&policy, "B2").is_some());
        assert!(by_name.find(&policy, "B").is_none());
    }

    #[test]
    fn a_cursor_that_is_none_is_refused() {
        for text in ["", "a", "id", "id:1", "id:x:a", "nothing:1:a"] {
            assert_eq!(text.parse::<Cursor>(), Err(()), "{text}");
        }
        let odd: Cursor = "rejected:7:a:b".parse().unwrap();
        assert_eq!((odd.rank, odd.id.as_str()), (7, "a:b"));
    }
}
