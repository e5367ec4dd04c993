//! Gateways whose streams another control plane holds, in the same list as our own.
//!
//! Separate because they come by way of the store, not by a stream: nothing is sent to them from
//! here. It must never take the place of a stream that is open here and alive.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{About, FRESH_MAX, Fleet, FleetFull, Moment, RefusedGeneration};

/// What is known of a gateway beside its report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    version: String,
    /// What it runs of this store; 0 for nothing.
    pub(crate) generation: u64,
    runs_since: String,
    refused: Option<RefusedGeneration>,
    about: About,
}

impl Fleet {
    /// What others are told of the gateway of this stream; `None` when it is gone.
    pub(crate) fn told(&self, stream: u64) -> Option<Told> {
        let mut told = None;
        self.member(stream, |member| {
            told = Some(Told {
                version: member.version.clone(),
                generation: member.generation,
                runs_since: member.runs_since.clone(),
                refused: member.refused.clone(),
                about: member.about,
            });
        });
        told
    }

    /// Whether this gateway has a stream here on which it speaks.
    pub(crate) fn is_here(&self, id: &str, now: Instant) -> bool {
        self.with(|members| {
            members.list.iter().any(|member| {
                let speaks = now.saturating_duration_since(member.seen.at) <= FRESH_MAX;
                &*member.id == id && member.stream.is_some() && !member.elsewhere && speaks
            })
        })
    }

    /// Another control plane holds this gateway's stream. The answer is used like a stream's.
    pub(crate) fn connect_elsewhere(
        &self,
        id: &str,
        told: &Told,
        now: Moment,
    ) -> Result<u64, FleetFull> {
        let stream = self.connect(id, &told.version, told.generation, now.clone())?;
        self.member(stream, |member| member.elsewhere = true);
        self.follow(stream, told, now);
        Ok(stream)
    }

    /// What the other control plane knows now. False: the gateway came over, or is known no more.
    pub(crate) fn follow(&self, stream: u64, told: &Told, now: Moment) -> bool {
        self.member(stream, |member| {
            member.version.clone_from(&told.version);
            member.generation = told.generation;
            member.runs_since.clone_from(&told.runs_since);
            member.refused.clone_from(&told.refused);
            member.about = told.about;
            member.seen = now;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_stream_that_is_open_here_goes_first_until_it_falls_silent() {
        let (fleet, start) = (Fleet::default(), clock::now());
        let at = |seconds: f64| Moment {
            at: start + std::time::Duration::from_secs_f64(seconds),
            utc: format!("{seconds}"),
        };
        let own = fleet.connect("one", "1", 7, at(0.0)).unwrap();
        let told = fleet.told(own).unwrap();
        assert!(fleet.is_here("one", at(1.0).at) && !fleet.is_here("two", at(1.0).at));
        assert!(!fleet.is_here("one", at(3.5).at), "silent");
        let theirs = fleet.connect_elsewhere("one", &told, at(4.0)).unwrap();
        assert!(!fleet.is_here("one", at(4.0).at));
        assert!(
            fleet.told(own).is_none(),
            "the old stream says nothing any more"
        );
        let newer = Told {
            generation: 8,
            ..told
        };
        assert!(fleet.follow(theirs, &newer, at(5.0)));
        let again = fleet.connect("one", "1", 8, at(6.0)).unwrap();
        assert!(fleet.is_here("one", at(6.0).at));
        assert!(!fleet.follow(theirs, &newer, at(6.0)), "it came over");
        fleet.disconnect(theirs, &at(7.0));
        assert!(fleet.told(again).is_some(), "an old lease ends nothing");
    }
}
