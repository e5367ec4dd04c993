//! What the gateways are to run, and why one does not.
//!
//! Separate from the list because the rollout decides it; here it becomes words. It must never be
//! the reason why something is sent or not.

use super::{GatewayState, RefusedFault, RefusedGeneration};
use crate::rollout::{Progress, StagedOn};

/// Gateways that are named in a sentence; the rest are counted.
const NAMED_MAX: usize = 3;

/// The newest generation and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its number.
    pub newest: u64,
    /// When it was stored, in UTC.
    pub published_at: String,
    /// Who may have it.
    pub progress: Progress,
    /// What goes to one gateway alone.
    pub staged: Option<StagedOn>,
}

impl Wanted {
    /// The generation that this gateway is to run.
    pub(super) fn of(&self, id: &str) -> u64 {
        self.staged_on(id).unwrap_or(self.newest)
    }

    /// What is staged on this gateway.
    pub(super) fn staged_on(&self, id: &str) -> Option<u64> {
        let staged = self.staged.as_ref();
        let own = staged.filter(|staged| *staged.gateway == *id);
        own.map(|staged| staged.generation)
    }

    /// The refusal that halted the newest generation, when it was this gateway's: it outlives the
    /// stream and the process that heard it.
    pub(super) fn halted_by(&self, id: &str, runs: u64) -> Option<RefusedGeneration> {
        let Progress::Halted(halt) = &self.progress else {
            return None;
        };
        let is_its = halt.gateway == id && runs != halt.generation;
        is_its.then(|| RefusedGeneration {
            generation: halt.generation,
            since: halt.since.clone(),
            errors: halt.errors.clone(),
        })
    }

    /// Why the gateway does not run the newest generation.
    pub(super) fn reason(
        &self,
        id: &str,
        connected: bool,
        state: GatewayState,
        refused: Option<&RefusedGeneration>,
    ) -> Option<String> {
        let newest = self.newest;
        if state == GatewayState::Running {
            return None;
        }
        if let Some(refused) = refused {
            return Some(sentence(&refused.errors));
        }
        if !connected {
            return Some("not connected".to_owned());
        }
        if let Some(staged) = self.staged_on(id) {
            return Some(format!(
                "generation {staged}, staged here alone, was sent and is not answered yet"
            ));
        }
        Some(match &self.progress {
            Progress::Halted(halt) => format!(
                "generation {newest} is halted: {} refused it ({})",
                halt.gateway,
                sentence(&halt.errors)
            ),
            Progress::Trying(ids) if ids.iter().any(|own| **own == *id) => {
                format!("generation {newest} was sent and is not answered yet")
            }
            Progress::Trying(ids) if ids.is_empty() => format!("waits for generation {newest}"),
            Progress::Trying(ids) => {
                let named: Vec<_> = ids.iter().take(NAMED_MAX).map(|id| &**id).collect();
                let more = match ids.len().saturating_sub(NAMED_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let named = named.join(", ");
                format!("waits until {named}{more} has tried generation {newest}")
            }
            Progress::Open => format!("generation {newest} was sent and is not answered yet"),
        })
    }
}

/// The first broken rule, and how many more there are.
fn sentence(errors: &[RefusedFault]) -> String {
    let Some(first) = errors.first() else {
        return "without a reason".to_owned();
    };
    let pointer = match first.pointer.as_str() {
        "" => String::new(),
        pointer => format!("{pointer}: "),
    };
    let more = match errors.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{pointer}{}{more}", first.detail)
}
