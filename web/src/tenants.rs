//! The Tenants page: what each uses of what it was promised, who crowds whom, and who was hurt.
//!
//! Separate page by page. Its rows are chosen elsewhere, out of 100,000; it must never show one
//! without saying of how many.

use askama::Template;

use crate::{Bar, Frame, Pager, State, TenantsOrder, TenantsView, TenantsWanted, text, url};

/// The most rows of one page.
pub const TENANT_ROWS_MAX: usize = 50;
/// The most crowded routes that are named.
pub const CROWDS_MAX: usize = 10;

/// The list.
#[derive(Debug, Clone, Template)]
#[template(path = "tenants.html", blocks = ["strip", "states", "crowds", "rows"])]
pub struct TenantsPage {
    /// What stands around it.
    pub frame: Frame,
    /// What the address asks for.
    pub view: TenantsView,
    /// This page of the rows.
    pub rows: Vec<TenantRow>,
    /// How many belong to the view.
    pub matching: usize,
    /// How many the policy has.
    pub total: usize,
    /// Callers that nobody knows.
    pub unknown: Option<UnknownRow>,
    /// Where one tenant holds what others are refused.
    pub crowds: Vec<Crowd>,
    /// How a tenant is found in a request; none: the policy does not look for one.
    pub recognised: Vec<String>,
    /// The names of all plans.
    pub plans: Vec<String>,
    /// The form that makes one.
    pub form: TenantForm,
    /// What became of a form that was sent.
    pub said: Option<String>,
}

/// One tenant in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRow {
    /// Its name.
    pub id: String,
    /// Its plan.
    pub plan: Option<String>,
    /// Its limit in each gateway process; `None`: unlimited.
    pub limit: Option<u64>,
    /// The limit is its own, not its plan's.
    pub has_own_limit: bool,
    /// Every request of it is answered 403.
    pub suspended: bool,
    /// How many API keys it has.
    pub keys: usize,
    /// What gateways tell of it; `None`: none reports.
    pub used: Option<Used>,
}

/// What a tenant uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Permits out.
    pub in_flight: u64,
    /// Sum of the peaks.
    pub peak: u64,
    /// Sum of the limits; `None`: unlimited.
    pub promised: Option<u64>,
    /// Refusals since the start.
    pub rejected: u64,
    /// How many of them in the last seconds.
    pub rejected_lately: u64,
    /// Some gateway has no slot left for it.
    pub full: bool,
}

/// Callers that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRow {
    /// The limit that they share; `None`: they are refused.
    pub shared: Option<String>,
    /// What gateways tell of them.
    pub used: Option<Used>,
}

/// A route where one tenant holds what others are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowd {
    /// The route.
    pub route: String,
    /// Permits out there.
    pub in_flight: u64,
    /// Its limit over the gateways that report; `None`: unlimited.
    pub limit: Option<u64>,
    /// Who holds most, and how much.
    pub most: Option<(String, u64)>,
    /// How many tenants hold something.
    pub tenants: usize,
    /// Who was refused there lately, of the newest that gateways noted.
    pub hurt: Vec<(String, usize)>,
}

/// The fields that make or change a tenant, as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantForm {
    /// Its name.
    pub id: String,
    /// Its plan; empty: none.
    pub plan: String,
    /// A limit of its own; empty: its plan's.
    pub limit: String,
    /// Hosts, one a line or with commas.
    pub hosts: String,
    /// Why.
    pub comment: String,
    /// What is wrong, by field; without a field it is about all of it.
    pub errors: Vec<(String, String)>,
}

impl TenantForm {
    /// What is wrong with a field.
    pub fn error(&self, field: &str) -> Option<&str> {
        let mut own = self.errors.iter().filter(|(name, _)| name == field);
        own.next().map(|(_, rule)| rule.as_str())
    }
}

impl Used {
    /// `7 of 100, 7 %`.
    pub fn words(&self) -> String {
        match self.promised {
            None => format!("{} of unlimited", text::count(self.in_flight)),
            Some(promised) => format!(
                "{} of {}",
                text::count(self.in_flight),
                text::count(promised)
            ),
        }
    }

    /// How much of what was promised.
    pub fn share(&self) -> String {
        let promised = self.promised.filter(|promised| *promised > 0);
        promised.map_or_else(String::new, |all| text::percent(self.in_flight, all))
    }

    /// The bar; nothing without a limit.
    pub fn bar(&self) -> Option<Bar> {
        Bar::new(self.in_flight, self.peak, self.promised)
    }
}

impl TenantRow {
    /// Its page.
    pub fn href(&self) -> String {
        url::tenant(&self.id)
    }

    /// Class and word of its state.
    pub fn state(&self) -> (&'static str, &'static str) {
        match (&self.used, self.suspended) {
            (_, true) => ("closed", "suspended"),
            (None, false) => ("idle", "not told"),
            (Some(used), false) if used.full => (State::Full.class(), State::Full.word()),
            (Some(used), false) if used.rejected_lately > 0 => {
                (State::Rejecting.class(), State::Rejecting.word())
            }
            (Some(used), false) if used.in_flight > 0 => (State::Busy.class(), State::Busy.word()),
            (Some(_), false) => (State::Idle.class(), State::Idle.word()),
        }
    }

    /// Its limit, in words.
    pub fn limit_text(&self) -> String {
        self.limit
            .map_or_else(|| "unlimited".to_owned(), text::count)
    }
}

impl Crowd {
    /// One sentence: who holds how much of what.
    pub fn sentence(&self) -> String {
        let of = self.limit.map_or_else(
            || "unlimited slots".to_owned(),
            |limit| text::plural(limit, "slot", "slots"),
        );
        match &self.most {
            Some((_, held)) => {
                let share = text::percent(*held, self.in_flight.max(*held));
                let among = text::plural(self.tenants, "tenant", "tenants");
                format!(
                    "holds {} of {} in flight ({share}), {among} on {of}",
                    text::count(*held),
                    text::count(self.in_flight.max(*held))
                )
            }
            None => format!("{} in flight on {of}", text::count(self.in_flight)),
        }
    }

    /// The page of the route's compartment.
    pub fn href(&self) -> String {
        url::compartment(&format!("route/{}", self.route))
    }
}

impl TenantsPage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let parts = [
            self.as_strip().render()?,
            self.as_states().render()?,
            self.as_crowds().render()?,
            self.as_rows().render()?,
        ];
        Ok(parts.join(crate::BETWEEN))
    }

    /// Which rows these are, and the addresses of those before and after.
    pub fn pager(&self) -> (String, Option<String>, Option<String>) {
        let pager = Pager {
            page: self.view.page,
            rows_max: TENANT_ROWS_MAX,
            matching: self.matching,
        };
        pager.links(("tenant", "tenants"), |page| self.view.page(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_says_what_an_operator_has_to_know_first() {
        let row = |suspended, used| TenantRow {
            id: "acme".to_owned(),
            plan: None,
            limit: Some(5),
            has_own_limit: true,
            suspended,
            keys: 0,
            used,
        };
        let used = |in_flight, rejected_lately, full| {
            Some(Used {
                in_flight,
                rejected_lately,
                full,
                ..Used::default()
            })
        };
        for (suspended, used, word) in [
            (true, used(5, 1, true), "suspended"),
            (false, used(5, 1, true), State::Full.word()),
            (false, used(1, 1, false), State::Rejecting.word()),
            (false, used(1, 0, false), State::Busy.word()),
            (false, used(0, 0, false), State::Idle.word()),
            (false, None, "not told"),
        ] {
            assert_eq!(row(suspended, used).state().1, word);
        }
    }
}
