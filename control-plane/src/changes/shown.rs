//! One change with everything that belongs beside it: what the rules say, what it would do, what
//! gateways answered, what happened before and after.
//!
//! Separate because all of it is worked out when somebody looks, and none of it is stored. It must
//! never decide a step.

use std::sync::Arc;

use compartment::policy::Policy;
use compartment::{Key, Limit};
use serde::Serialize;
use web::{Danger, Standing};

use super::merge::Clash;
use super::{Change, ChangeError, Changes, Prefer, State};
use crate::advice::{Measured, WhatIf};
use crate::clock;
use crate::history::{Range, Row, Step as Width};
use crate::limits::{self, Edit, LimitsError};
use crate::linter::Finding;
use crate::rollout::Published;
use crate::state::AppState;

/// Compartments whose expected effect is worked out, and those that are compared over time.
pub const EFFECTS_MAX: usize = 10;
/// Minutes before and after that are compared.
pub const COMPARED_S: i64 = 15 * 60;
/// A change of more routes than this is dangerous by that alone.
pub const ROUTES_SAFE_MAX: usize = 10;

/// What a limit of the change would do to the measured traffic.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ChangeEffect)]
pub struct Effect {
    /// Which compartment.
    pub key: String,
    /// The same as `GET /compartments/{key}/what-if` says.
    #[serde(flatten)]
    pub what_if: WhatIf,
}

/// What one gateway made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ChangeAnswer)]
pub struct Answer {
    /// Which.
    pub gateway: String,
    /// `runs`, `refused`, `waits` or `away`.
    pub answer: &'static str,
    /// What it runs.
    pub generation: u64,
    /// Why it does not run it.
    pub reason: Option<String>,
}

/// What happened in so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ChangeSum)]
pub struct Sum {
    /// Seconds that anybody was heard of in; 0: nobody knows.
    pub heard_s: u64,
    /// Requests whose decision was made here.
    pub arrived: u64,
    /// Refusals.
    pub refused: u64,
    /// The most permits out at once.
    pub peak: u64,
}

/// One compartment before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ChangeCompared)]
pub struct Compared {
    /// Which.
    pub key: String,
    /// In the 15 minutes before it was published.
    pub before: Sum,
    /// In those after, as far as they are over.
    pub after: Sum,
}

/// One change, whole.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The change.
    pub change: Change,
    /// The setting asks for a second person who did not agree yet.
    pub needs_approval: bool,
    /// What makes it dangerous, in words.
    pub dangers: Vec<String>,
    /// What the linter says of the policy with it.
    pub findings: Vec<Finding>,
    /// Rules that the policy would break with it.
    pub faults: Vec<String>,
    /// Others changed the same values meanwhile.
    pub(crate) clashes: Vec<Clash>,
    /// The newest generation.
    pub newest: u64,
    /// What its limits would do.
    pub effects: Vec<Effect>,
    /// What each gateway made of it, while it is staged or published.
    pub gateways: Vec<Answer>,
    /// Before and after it was published.
    pub compared: Vec<Compared>,
}

/// What it makes of the newest policy.
struct Outlook {
    findings: Vec<Finding>,
    faults: Vec<String>,
    clashes: Vec<Clash>,
    policy: Option<Policy>,
}

impl Changes {
    async fn outlook(
        &self,
        change: &Change,
        current: &Arc<Published>,
    ) -> Result<Outlook, ChangeError> {
        let merged = self.merged(change, current, Some(Prefer::Ours)).await?;
        let edit = Edit::Whole(Arc::new(merged.document));
        let mut outlook = Outlook {
            findings: Vec::new(),
            faults: Vec::new(),
            clashes: merged.clashes,
            policy: None,
        };
        match limits::check(edit, Some(Arc::clone(current))).await {
            Ok(checked) => {
                outlook.findings = checked.findings;
                outlook.policy = Some(checked.policy);
            }
            Err(LimitsError::Invalid { faults }) => {
                outlook.faults = faults.iter().map(ToString::to_string).collect();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(outlook)
    }
}

impl AppState {
    /// Everything about one change.
    pub(crate) async fn change_shown(&self, number: u64) -> Result<Shown, ChangeError> {
        let change = self.changes.one(number).await?;
        let current = self.policy_current().await;
        let asks = self.settings.approvals().await? == crate::settings::Approvals::All;
        let mut shown = Shown {
            needs_approval: asks && change.state.is_open() && change.body.approvals.is_empty(),
            dangers: Vec::new(),
            findings: Vec::new(),
            faults: Vec::new(),
            clashes: Vec::new(),
            newest: current.about.number,
            effects: Vec::new(),
            gateways: self.answers(&change),
            compared: self.compared(&change).await,
            change,
        };
        if !shown.change.state.is_open() {
            return Ok(shown);
        }
        let outlook = self.changes.outlook(&shown.change, &current).await?;
        if let (Ok(now), Some(proposed)) = (&current.policy, &outlook.policy) {
            shown.dangers = self.dangers(&shown.change.body.keys, now, proposed);
            shown.effects = self.effects(&shown.change.body.keys, now, proposed).await;
        }
        (shown.findings, shown.faults) = (outlook.findings, outlook.faults);
        shown.clashes = outlook.clashes;
        Ok(shown)
    }

    /// What makes the step from `now` to `proposed` dangerous.
    pub(crate) fn dangers(&self, keys: &[String], now: &Policy, proposed: &Policy) -> Vec<String> {
        let mut words = Vec::new();
        let figures = self.figures();
        for (text, key) in keys
            .iter()
            .filter_map(|text| Some((text, text.parse().ok()?)))
        {
            match (standing(now, &key), standing(proposed, &key)) {
                (Some(before), Some(after)) => {
                    let own = figures.compartments.get(text.as_str());
                    let own = own.into_iter().flat_map(|one| one.gateways.iter());
                    let most = own.map(|(_, figures)| figures.in_flight).max().unwrap_or(0);
                    let dangers = Danger::of(before, after, most);
                    words.extend(dangers.iter().map(|one| format!("{text}: {}", one.words())));
                }
                (Some(_), None) => words.push(format!("{text}: It is removed.")),
                (None, _) => {}
            }
        }
        let reserved = |policy: &Policy| {
            let of = |route: &compartment::policy::Route| u64::from(route.compartment.reserved);
            policy.routes.iter().map(of).fold(0, u64::saturating_add)
        };
        let over = |policy: &Policy| reserved(policy) > u64::from(policy.gateway.capacity);
        if over(proposed) && !over(now) {
            words.push(format!(
                "The guarantees add up to {}, more than the capacity of {}.",
                reserved(proposed),
                proposed.gateway.capacity
            ));
        }
        let routes = keys.iter().filter(|key| key.starts_with("route/")).count();
        if routes > ROUTES_SAFE_MAX {
            words.push(format!("It changes {routes} routes at once."));
        }
        words
    }

    async fn effects(&self, keys: &[String], now: &Policy, proposed: &Policy) -> Vec<Effect> {
        let mut effects = Vec::new();
        let now_s = clock::unix_ms().div_euclid(1_000);
        for text in keys {
            let Ok(key) = text.parse::<Key>() else {
                continue;
            };
            let (before, after) = (now.limit_of(&key), proposed.limit_of(&key));
            let Some(limit) = after.filter(|_| before.is_some() && before != after) else {
                continue;
            };
            // A history that is away costs this, and nothing else.
            let measured = Measured::read(&self.history, now, &key, now_s).await;
            if let Ok(Some(measured)) = measured {
                effects.push(Effect {
                    key: text.clone(),
                    what_if: measured.what_if(limit),
                });
            }
            if effects.len() >= EFFECTS_MAX {
                break;
            }
        }
        effects
    }

    /// What gateways made of the generation that the change became.
    fn answers(&self, change: &Change) -> Vec<Answer> {
        let (wanted, only) = match change.state {
            State::Staged => (change.staged, change.gateway.as_deref()),
            State::Published | State::Kept => (change.published, None),
            State::Draft | State::Approved | State::Reverted | State::Abandoned => return vec![],
        };
        let Some(wanted) = wanted else {
            return vec![];
        };
        let gateways = self.gateways().into_iter();
        let gateways = gateways.filter(|one| only.is_none_or(|only| only == one.id));
        let answer = |one: crate::fleet::GatewayView| {
            let refused = one.refused.as_ref().map(|refused| refused.generation);
            let answer = match one.connected {
                _ if one.generation >= wanted => "runs",
                _ if refused == Some(wanted) => "refused",
                true => "waits",
                false => "away",
            };
            Answer {
                reason: one.reason.filter(|_| answer != "runs"),
                gateway: one.id,
                answer,
                generation: one.generation,
            }
        };
        gateways.map(answer).collect()
    }

    async fn compared(&self, change: &Change) -> Vec<Compared> {
        let Some(at_ms) = change.body.published_ms else {
            return Vec::new();
        };
        let (at_s, now_s) = (at_ms.div_euclid(1_000), clock::unix_ms().div_euclid(1_000));
        let before = Range {
            from_s: at_s.saturating_sub(COMPARED_S),
            to_s: at_s,
        };
        let after = Range {
            from_s: at_s,
            to_s: at_s.saturating_add(COMPARED_S).min(now_s),
        };
        let mut compared = Vec::new();
        for key in change.body.keys.iter().take(EFFECTS_MAX) {
            let (before, after) = tokio::join!(self.sum(key, before), self.sum(key, after));
            compared.push(Compared {
                key: key.clone(),
                before,
                after,
            });
        }
        compared
    }

    async fn sum(&self, key: &str, range: Range) -> Sum {
        let series = self.history.series(key, range, Width::TenSeconds).await;
        let Ok(series) = series else {
            return Sum::default();
        };
        let mut sum = (0_u64, Row::default());
        for point in &series.points {
            if let Some(row) = &point.figures {
                sum.0 = sum.0.saturating_add(point.heard.covered_us);
                sum.1.then(row);
            }
        }
        Sum {
            heard_s: sum.0 / 1_000_000,
            arrived: sum.1.arrived,
            refused: sum.1.refused(),
            peak: sum.1.peak,
        }
    }
}

/// The limit of a compartment, and whether it refuses.
fn standing(policy: &Policy, key: &Key) -> Option<Standing> {
    let limit: Limit = policy.limit_of(key)?;
    let mode = match key {
        Key::Route(id) => {
            let route = policy.routes.iter().find(|route| route.id == *id);
            route.map(|route| route.compartment.mode)
        }
        Key::Gateway
        | Key::Stream(_)
        | Key::Fallback(_)
        | Key::Upstream(_)
        | Key::Tenant(_)
        | Key::TenantRoute(..) => None,
    };
    Some(Standing {
        limit,
        mode: mode.unwrap_or_default(),
    })
}
