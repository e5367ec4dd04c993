//! Why a step of a change was not taken.
//!
//! Separate because API, pages and the command line say the same of it. Nothing was stored
//! whenever one of these is the answer.

use super::merge::Clash;
use super::state::{State, Step};
use crate::limits::LimitsError;
use crate::store::{CHANGES_OPEN_MAX, StoreError};

/// Why a step was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// No such change.
    #[error("there is no change {0}")]
    Unknown(u64),
    /// The step does not follow its state.
    #[error("change {number} is {}: {} cannot follow", state.as_str(), step.as_str())]
    State {
        /// Which.
        number: u64,
        /// What it is.
        state: State,
        /// What was asked.
        step: Step,
    },
    /// It is not any more what the caller saw.
    #[error("change {number} moved on: you saw version {seen}, it is at {current} and {}",
            state.as_str())]
    Moved {
        /// Which.
        number: u64,
        /// What the caller saw.
        seen: u64,
        /// What it is.
        current: u64,
        /// And its state.
        state: State,
    },
    /// Whoever wrote a change cannot approve it.
    #[error("{person} wrote change {number}, or a part of it: another person has to approve it")]
    Own {
        /// Which.
        number: u64,
        /// Who.
        person: String,
    },
    /// The setting asks for a second person.
    #[error("change {0} needs approval by another person first (setting approvals)")]
    NotApproved(u64),
    /// Others changed the same values meanwhile.
    #[error(
        "others changed the same values meanwhile: change {number} was made on generation {base}, \
         generation {current} is the newest"
    )]
    Clash {
        /// Which.
        number: u64,
        /// What it was made on.
        base: u64,
        /// What is the newest.
        current: u64,
        /// Both values of each.
        clashes: Vec<Clash>,
    },
    /// It would change nothing.
    #[error("it changes nothing: the newest policy is already like that")]
    Nothing,
    /// Too many are open.
    #[error("{CHANGES_OPEN_MAX} changes are open, which is the most: publish or abandon some")]
    TooMany,
    /// Too many steps.
    #[error("change {0} has taken as many steps as are kept: publish or abandon it")]
    TooLong(u64),
    /// One at a time.
    #[error("change {0} is staged: one change is staged at a time")]
    Taken(u64),
    /// Nowhere to stage it.
    #[error("gateway = {0:?}: must be the name of a gateway that is connected")]
    NoGateway(String),
    /// A page asks for the typed name and a reason.
    #[error("this change is dangerous: type {0}, letter for letter, and say why")]
    Unconfirmed(String),
    /// What was proposed is kept no more.
    #[error("the document of change {0} is kept no more")]
    Gone(u64),
    /// The write path.
    #[error(transparent)]
    Limits(#[from] LimitsError),
}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> Self {
        Self::Limits(error.into())
    }
}
