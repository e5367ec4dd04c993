//! How much a request matters when slots run out.
//!
//! Separate because both policy and admission speak of it.

use serde::{Deserialize, Serialize};

/// The class of a request; the lower of its route's and its plan's. Ordered by importance.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Given up first: kept off the last slots of a compartment.
    Sheddable,
    /// The default.
    #[default]
    Standard,
    /// Kept longest.
    Critical,
}

impl Class {
    /// The name in policies, logs and pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::Standard => "standard",
            Self::Critical => "critical",
        }
    }
}
