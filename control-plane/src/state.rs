//! What API, pages and the stream share.
//!
//! Separate so that each of them takes one handle and none of them reaches into another. It must
//! never hold a session or anything that belongs to one request.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::Secret;

use crate::advice::Book;
use crate::alerts::Alerts;
use crate::auth::Auth;
use crate::changes::Changes;
use crate::clock;
use crate::drills::Drills;
use crate::elsewhere::Elsewhere;
use crate::events::Events;
use crate::fleet::{Fleet, FleetFigures, GatewayView};
use crate::history::History;
use crate::leader::Leader;
use crate::limits::{Author, Limits};
use crate::live::Live;
use crate::orders::Orders;
use crate::pages::{Made, PageStreams};
use crate::past::Past;
use crate::people::People;
use crate::readings::Readings;
use crate::refused::Newest;
use crate::rollout::{Published, Rollout};
use crate::scheduled::Overrides;
use crate::settings::Settings;
use crate::store::{Store, StoreError};
use crate::watched::Watched;

/// One handle to everything; clones are cheap.
#[derive(Clone, Debug)]
pub struct AppState {
    pub(crate) store: Store,
    pub(crate) rollout: Rollout,
    pub(crate) fleet: Fleet,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) limits: Limits,
    pub(crate) changes: Changes,
    pub(crate) settings: Settings,
    pub(crate) readings: Readings,
    pub(crate) watched: Watched,
    pub(crate) alerts: Alerts,
    pub(crate) leader: Leader,
    pub(crate) history: History,
    pub(crate) live: Live,
    pub(crate) past: Past,
    pub(crate) newest: Newest,
    pub(crate) events: Events,
    pub(crate) page_streams: PageStreams,
    pub(crate) advice: Book,
    pub(crate) drills: Drills,
    pub(crate) orders: Orders,
    pub(crate) overrides: Overrides,
    /// Tokens between the form that made them and the page that shows them.
    pub(crate) made: Made<web::MadeToken>,
    /// API keys of tenants, the same way.
    pub(crate) made_keys: Made<(String, web::MadeKey)>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) people: People,
    pub(crate) gateway_token: Secret,
    /// Tasks of the gateways' streams; awaited when the process goes down.
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl AppState {
    /// The newest generation: what this and other processes stored last. While the store cannot
    /// be read, the last one that was.
    pub async fn policy_current(&self) -> Arc<Published> {
        match self.rollout.refresh(None).await {
            Ok(published) => published,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the store is not read"
                );
                self.rollout.current()
            }
        }
    }

    /// The newest generation as it was last published; never waits.
    pub fn policy_published(&self) -> Arc<Published> {
        self.rollout.current()
    }

    /// Live figures over all gateways that report.
    pub fn figures(&self) -> FleetFigures {
        self.fleet.figures(clock::now())
    }

    /// Live figures of one compartment.
    pub fn figures_of(&self, key: &str) -> FleetFigures {
        self.fleet.figures_of(key, clock::now())
    }

    /// How many of the known gateways report: `3 of 4`.
    pub fn reporting_text(&self) -> String {
        let gateways = self.gateways();
        let reporting = gateways.iter().filter(|gateway| gateway.reporting).count();
        format!("{reporting} of {}", gateways.len())
    }

    /// The limit that the newest policy gives a compartment; `None` when it names none.
    pub fn limit_published(&self, key: &str) -> Option<compartment::Limit> {
        let published = self.policy_published();
        crate::api::series::limit_in(published.policy.as_ref().ok()?, key)
    }

    /// The last ten minutes, second by second.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// What was measured over time.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Every gateway that is known, by name.
    pub fn gateways(&self) -> Vec<GatewayView> {
        let mut gateways = self.fleet.gateways(&self.rollout.wanted(), clock::now());
        for gateway in &mut gateways {
            gateway.clock_skew_ms = self.readings.skew_ms(&gateway.id);
            gateway.drain = self.orders.drained(&gateway.id);
        }
        gateways
    }

    /// Lets a gateway that holds what this store never made follow to `generation`, which must be
    /// the newest; false when there is nothing to let it do.
    pub(crate) async fn go_back(
        &self,
        gateway: &str,
        generation: u64,
        author: &Author,
    ) -> Result<bool, StoreError> {
        let waits = |view: &GatewayView| view.id == gateway && view.ahead;
        if generation != self.rollout.current().about.number || !self.gateways().iter().any(waits) {
            return Ok(false);
        }
        self.orders.gave_word(gateway, author).await?;
        Ok(self.rollout.give_word(gateway))
    }

    /// The write path.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The alerts.
    pub fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// Names the store in the log and to gateways.
    pub fn epoch(&self) -> &str {
        self.store.epoch()
    }

    /// The newest generations, without their documents.
    pub async fn generations(
        &self,
        before: Option<u64>,
        count: u32,
    ) -> Result<Vec<crate::store::Generation>, StoreError> {
        self.store.generations(before, count).await
    }
}
