//! Single gateways that are an exception: one that runs what is staged, one that may go back.
//!
//! Separate for length, and because neither is a judgement about the newest generation. What is
//! staged must never go to anybody but its gateway.

use std::sync::Arc;
use std::time::Instant;

use super::{Member, Progress, Stage};
use crate::rollout::Outgoing;

/// A generation that goes to one gateway and to nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) gateway: Arc<str>,
    pub(crate) outgoing: Outgoing,
}

impl Stage {
    /// What goes to one gateway alone, or that nothing does any more.
    pub(crate) fn set_staged(&mut self, staged: Option<Staged>, now: Instant) {
        if self.staged != staged {
            self.staged = staged;
            self.moved();
            self.choose(now);
        }
    }

    /// That.
    pub(crate) const fn staged(&self) -> Option<&Staged> {
        self.staged.as_ref()
    }

    /// True for the gateway that does not get the newest.
    pub(super) fn is_apart(&self, id: &str) -> bool {
        self.staged
            .as_ref()
            .is_some_and(|staged| *staged.gateway == *id)
    }

    /// Lets a gateway go back to what it is to run; false when it is not connected.
    pub(crate) fn give_word(&mut self, id: &str) -> bool {
        let Some(at) = self.members.iter().position(|member| *member.id == *id) else {
            return false;
        };
        let stream = self.members.get(at).map_or(0, |member| member.stream);
        let number = self.target(stream).map(|target| target.number);
        if let Some(member) = self.members.get_mut(at) {
            member.word = number;
        }
        self.moved();
        number.is_some()
    }

    /// How far the newest has come among the others.
    pub(crate) fn progress(&self) -> Progress {
        if let Some(halt) = &self.halt {
            return Progress::Halted(Arc::clone(halt));
        }
        if self.open {
            return Progress::Open;
        }
        let tries = |member: &&Member| member.allowed.is_some() && !self.is_apart(&member.id);
        let trying = self.members.iter().filter(tries);
        Progress::Trying(trying.map(|member| Arc::clone(&member.id)).collect())
    }
}
