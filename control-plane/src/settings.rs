//! Settings that people change while the process runs.
//!
//! Separate from those of the command line because they lie in the store, each with the audit row
//! of whoever set it, and count for every process at once. None may be believed from memory.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::limits::Author;
use crate::store::{AuditRow, Store, StoreError};

/// Before the name of a setting.
const PREFIX: &str = "setting/";
const APPROVALS: &str = "setting/approvals";

/// Which changes of the policy wait for a second person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approvals {
    /// None.
    #[default]
    Off,
    /// Every one.
    All,
}

impl Approvals {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::All => "all",
        }
    }

    /// The one that is written like this.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Off, Self::All]
            .into_iter()
            .find(|one| one.as_str() == name)
    }
}

/// The settings of a store.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    store: Store,
}

impl Settings {
    pub(crate) const fn new(store: Store) -> Self {
        Self { store }
    }

    /// Asked of the store each time: another process may have set it a moment ago.
    pub(crate) async fn approvals(&self) -> Result<Approvals, StoreError> {
        let rows = self.store.meta(APPROVALS).await?;
        let text = rows.first().map(|(_, text)| text.as_str());
        let unread = |_| StoreError::Row("meta.setting");
        text.map_or(Ok(Approvals::Off), |text| {
            serde_json::from_str(text).map_err(unread)
        })
    }

    /// Sets it, with its audit row.
    pub(crate) async fn set_approvals(
        &self,
        approvals: Approvals,
        author: &Author,
    ) -> Result<(), StoreError> {
        let before = self.approvals().await?;
        if before == approvals {
            return Ok(());
        }
        let name = APPROVALS.strip_prefix(PREFIX).unwrap_or(APPROVALS);
        let audit = AuditRow {
            differences: json!({ "old": before, "new": approvals }).to_string(),
            ..author.audit("setting", format!("setting:{name}"))
        };
        let text = format!("\"{}\"", approvals.as_str());
        self.store
            .put_meta(APPROVALS.to_owned(), Some(text), Some(audit))
            .await
    }
}
