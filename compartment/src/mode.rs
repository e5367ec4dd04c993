//! How seriously a route takes its own limits.
//!
//! Separate because policy, mechanism and figures all speak of it. It must never grow a level of
//! its own: what protects others (tenant, dependency, ceiling, spare slots) is always enforced.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a route does with its own decisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Judges nothing.
    Off,
    /// Decides and counts, and admits all the same.
    Shadow,
    /// Refuses what does not fit.
    #[default]
    Enforce,
}

impl Mode {
    /// All of them, the mildest first.
    pub const ALL: [Self; 3] = [Self::Off, Self::Shadow, Self::Enforce];

    /// The name in policies, answers and pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
