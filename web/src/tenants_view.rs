//! Which tenants the page shows, in which order, and which page of them.
//!
//! Separate because all of it comes from the address and goes back into it. It must never refuse
//! an address; what is not understood does not filter.

use crate::url;

/// The longest text that is looked for, in characters.
const TEXT_CHARS_MAX: usize = 140;

/// What the address asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantsView {
    /// Only these.
    pub state: TenantsWanted,
    /// Only those with this text in name or host.
    pub find: String,
    /// Only those on this plan.
    pub plan: String,
    /// In which order.
    pub sort: TenantsOrder,
    /// Which page, from 1.
    pub page: usize,
}

/// Which tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TenantsWanted {
    /// All.
    #[default]
    Any,
    /// Those without a free slot on some gateway.
    Full,
    /// Suspended ones.
    Suspended,
}

/// In which order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TenantsOrder {
    /// By name.
    #[default]
    Name,
    /// Most in flight first.
    InFlight,
    /// Most of what it was promised first.
    Share,
    /// Most refused first.
    Rejected,
}

impl TenantsWanted {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Any, Self::Full, Self::Suspended];

    /// The value in the address.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Full => "full",
            Self::Suspended => "suspended",
        }
    }

    /// The word on the page.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Any => "all",
            Self::Full => "full",
            Self::Suspended => "suspended",
        }
    }
}

impl TenantsOrder {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Name, Self::InFlight, Self::Share, Self::Rejected];

    /// The value in the address.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "id",
            Self::InFlight => "in_flight",
            Self::Share => "share",
            Self::Rejected => "rejected",
        }
    }

    /// The words on the page.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Name => "Name",
            Self::InFlight => "Most in flight",
            Self::Share => "Most of what was promised",
            Self::Rejected => "Most rejected",
        }
    }
}

impl TenantsView {
    /// From the values of the query.
    pub fn parse(state: &str, find: &str, plan: &str, sort: &str, page: &str) -> Self {
        let text = |text: &str| text.trim().chars().take(TEXT_CHARS_MAX).collect();
        let mut states = TenantsWanted::ALL.into_iter();
        let mut orders = TenantsOrder::ALL.into_iter();
        Self {
            state: states.find(|one| one.as_str() == state).unwrap_or_default(),
            find: text(find),
            plan: text(plan),
            sort: orders.find(|one| one.as_str() == sort).unwrap_or_default(),
            page: page.parse().unwrap_or(1).max(1),
        }
    }

    fn at(&self, path: &str) -> String {
        let page = match self.page {
            0 | 1 => String::new(),
            page => page.to_string(),
        };
        let is_by_name = self.sort == TenantsOrder::Name;
        let sort = if is_by_name { "" } else { self.sort.as_str() };
        let pairs = [
            ("state", self.state.as_str()),
            ("find", self.find.as_str()),
            ("plan", self.plan.as_str()),
            ("sort", sort),
            ("page", page.as_str()),
        ];
        url::with_query(path, &pairs)
    }

    /// The address of the page.
    pub fn href(&self) -> String {
        self.at("/tenants")
    }

    /// The address of a file with the same rows.
    pub fn export(&self, path: &str) -> String {
        let all = Self {
            page: 1,
            ..self.clone()
        };
        all.at(path)
    }

    /// The same with this page of it.
    pub fn page(&self, page: usize) -> String {
        let view = Self {
            page,
            ..self.clone()
        };
        view.href()
    }

    /// The same of these tenants, from the first.
    pub fn in_state(&self, state: &TenantsWanted) -> String {
        let view = Self {
            state: *state,
            page: 1,
            ..self.clone()
        };
        view.href()
    }

    /// The same in this order, from the first.
    pub fn sorted(&self, sort: TenantsOrder) -> String {
        let view = Self {
            sort,
            page: 1,
            ..self.clone()
        };
        view.href()
    }

    /// The value of `aria-sort` of a column.
    pub fn sorted_by(&self, sort: TenantsOrder) -> &'static str {
        match (self.sort == sort, sort) {
            (false, _) => "none",
            (true, TenantsOrder::Name) => "ascending",
            (true, _) => "descending",
        }
    }

    /// True when anything is left out.
    pub fn is_narrow(&self) -> bool {
        self.state != TenantsWanted::Any || !self.find.is_empty() || !self.plan.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_comes_from_the_address_and_goes_back_into_it() {
        let view = TenantsView::parse("full", " a&b ", "pro", "share", "3");
        let href = "/tenants?state=full&find=a%26b&plan=pro&sort=share&page=3";
        assert_eq!(view.href(), href);
        assert_eq!(
            view.export("/tenants.csv"),
            "/tenants.csv?state=full&find=a%26b&plan=pro&sort=share"
        );
        let odd = TenantsView::parse("odd", "", "", "odd", "-1");
        assert_eq!((odd.href().as_str(), odd.is_narrow()), ("/tenants", false));
    }
}
