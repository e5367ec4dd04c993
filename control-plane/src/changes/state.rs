//! What has become of a change, and which step may follow.
//!
//! Separate because it is a table: no store, no clock, no policy. It must never let a step through
//! that skips the second person.

use serde::{Deserialize, Serialize};

/// What has become of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ChangeState)]
pub enum State {
    /// Proposed.
    Draft,
    /// Somebody else looked at it as it is.
    Approved,
    /// One gateway runs it.
    Staged,
    /// Everybody is sent it; it may still be taken back by itself.
    Published,
    /// Somebody, or the end of the watch, said that it stays.
    Kept,
    /// Taken back by a generation of its own.
    Reverted,
    /// It will not come.
    Abandoned,
}

/// Something that is done to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// It proposes something else.
    Edit,
    /// The same on top of the newest generation.
    Rebase,
    /// A second person agrees.
    Approve,
    /// One gateway gets it.
    Stage,
    /// Everybody gets it.
    Publish,
    /// It stays.
    Keep,
    /// It goes.
    Revert,
    /// It does not come.
    Abandon,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Draft,
        Self::Approved,
        Self::Staged,
        Self::Published,
        Self::Kept,
        Self::Reverted,
        Self::Abandoned,
    ];

    /// As it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Approved => "approved",
            Self::Staged => "staged",
            Self::Published => "published",
            Self::Kept => "kept",
            Self::Reverted => "reverted",
            Self::Abandoned => "abandoned",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// True while it is not in force everywhere and still may be.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Draft | Self::Approved | Self::Staged)
    }

    /// What it is after `step`; `None`: this step cannot be taken from here.
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            // Whatever was agreed to was another content.
            (Self::Draft | Self::Approved, Step::Edit) => Some(Self::Draft),
            (Self::Draft | Self::Approved, Step::Rebase) => Some(self),
            (Self::Draft | Self::Approved, Step::Approve) => Some(Self::Approved),
            (Self::Staged, Step::Approve) => Some(Self::Staged),
            (Self::Draft | Self::Approved, Step::Stage) => Some(Self::Staged),
            (Self::Draft | Self::Approved | Self::Staged, Step::Publish) => Some(Self::Published),
            (Self::Draft | Self::Approved | Self::Staged, Step::Abandon) => Some(Self::Abandoned),
            (Self::Published, Step::Keep) => Some(Self::Kept),
            (Self::Published | Self::Kept, Step::Revert) => Some(Self::Reverted),
            (
                Self::Staged | Self::Published | Self::Kept | Self::Reverted | Self::Abandoned,
                Step::Edit | Step::Rebase | Step::Stage,
            )
            | (
                Self::Published | Self::Kept | Self::Reverted | Self::Abandoned,
                Step::Approve | Step::Publish | Step::Abandon,
            )
            | (
                Self::Draft
                | Self::Approved
                | Self::Staged
                | Self::Kept
                | Self::Reverted
                | Self::Abandoned,
                Step::Keep,
            )
            | (
                Self::Draft | Self::Approved | Self::Staged | Self::Reverted | Self::Abandoned,
                Step::Revert,
            ) => None,
        }
    }
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 8] = [
        Self::Edit,
        Self::Rebase,
        Self::Approve,
        Self::Stage,
        Self::Publish,
        Self::Keep,
        Self::Revert,
        Self::Abandon,
    ];

    /// As it is stored, shown and called.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Rebase => "rebase",
            Self::Approve => "approve",
            Self::Stage => "stage",
            Self::Publish => "publish",
            Self::Keep => "keep",
            Self::Revert => "revert",
            Self::Abandon => "abandon",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for state in State::ALL {
            assert_eq!(State::from_name(state.as_str()), Some(state));
            let json = serde_json::to_value(state).unwrap();
            assert_eq!(json, state.as_str());
        }
        for step in Step::ALL {
            assert_eq!(serde_json::to_value(step).unwrap(), step.as_str());
        }
        assert_eq!(State::from_name("live"), None);
    }

    /// Every walk of steps from a draft, to a depth that covers every state.
    #[test]
    fn no_walk_leads_back_from_an_end_or_past_its_publication() {
        fn walk(state: State, published: bool, depth: u32) {
            for step in Step::ALL {
                let Some(next) = state.after(step) else {
                    continue;
                };
                assert!(
                    !matches!(state, State::Reverted | State::Abandoned),
                    "{state:?} {step:?}"
                );
                let is_out = matches!(next, State::Published | State::Kept | State::Reverted);
                assert_eq!(
                    is_out,
                    published || step == Step::Publish,
                    "{state:?} {step:?}"
                );
                if step == Step::Edit {
                    assert_eq!(next, State::Draft, "an edit voids what was agreed to");
                }
                if next == State::Approved {
                    assert!(step == Step::Approve || state == State::Approved);
                }
                if depth > 0 {
                    walk(next, is_out, depth - 1);
                }
            }
        }
        walk(State::Draft, false, 6);
    }
}
