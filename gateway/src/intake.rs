//! The one place that takes a policy, from wherever it comes, and puts it in force.
//!
//! Separate so that a file, a document of the command line, the disk and the control plane all
//! pass the same checks and give one of three answers: running, already there, refused. It must
//! never run on a serving thread, never half apply, and never leave the gateway without the
//! policy it had.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compartment::policy::{Fault, Path};
use wire::document::{LoadError, Loaded, Syntax};

use telemetry::names::event;

use crate::clock::Clock;
pub(crate) use crate::judge::Word;
use crate::judge::{is_held_back, judge};
use crate::live_policy::Live;
use crate::standing::Standing;

/// Which policy: enough to know whether two are the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Identity {
    /// The store it comes from; empty for a file or a document.
    pub(crate) epoch: String,
    pub(crate) generation: u64,
    /// SHA-256 of the document.
    pub(crate) digest: String,
}

/// A policy that may be put in force.
#[derive(Debug)]
pub(crate) struct Checked {
    offered: Identity,
    loaded: Loaded,
    word: Word,
}

/// The three answers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    Running,
    AlreadyThere,
    Refused(Vec<Fault>),
}

/// Takes policies, one at a time.
#[derive(Debug)]
pub(crate) struct Intake {
    live: Arc<Live>,
    standing: Arc<Standing>,
    clock: Clock,
    /// Held while a policy is applied, so that two never overtake each other.
    running: Mutex<Option<Identity>>,
}

impl Intake {
    pub(crate) const fn new(live: Arc<Live>, standing: Arc<Standing>, clock: Clock) -> Self {
        Self {
            live,
            standing,
            clock,
            running: Mutex::new(None),
        }
    }

    /// What runs; waits for an apply that is under way.
    pub(crate) fn running(&self) -> Option<Identity> {
        self.lock().clone()
    }

    /// A policy that came as JSON text: parsed and checked here, whatever its sender checked.
    /// Changes nothing yet.
    pub(crate) fn check_text(&self, offered: Identity, document: &[u8]) -> Result<Checked, Answer> {
        self.check_with(offered, document, Word::None)
    }

    /// The same, with an operator's word.
    pub(crate) fn check_with(
        &self,
        offered: Identity,
        document: &[u8],
        word: Word,
    ) -> Result<Checked, Answer> {
        let answer = match judge(self.lock().as_ref(), &offered, word) {
            Err(answer) => answer,
            Ok(()) => match contained(|| load(&offered, document)) {
                Ok(loaded) => {
                    return Ok(Checked {
                        offered,
                        loaded,
                        word,
                    });
                }
                Err(faults) => Answer::Refused(faults),
            },
        };
        self.standing.set_held_back(is_held_back(&answer));
        if let Answer::Refused(faults) = &answer {
            log_refused(offered.generation, &texts(faults));
        }
        Err(answer)
    }

    /// A policy that this process itself read and checked.
    pub(crate) fn offer_loaded(&self, offered: Identity, loaded: Loaded) -> Answer {
        self.install(Checked {
            offered,
            loaded,
            word: Word::None,
        })
    }

    /// Puts a checked policy in force.
    pub(crate) fn install(&self, checked: Checked) -> Answer {
        let Checked {
            offered,
            loaded,
            word,
        } = checked;
        let Loaded { document, policy } = loaded;
        let mut running = self.lock();
        let answer = match judge(running.as_ref(), &offered, word) {
            Err(answer) => answer,
            // The pointer is swapped last, so after a panic what was in force before still is.
            Ok(()) => match contained(|| {
                let now_us = self.clock.now_us();
                self.live
                    .install(offered.generation, &document, policy, now_us)
            }) {
                Ok(()) => Answer::Running,
                Err(faults) => Answer::Refused(faults),
            },
        };
        self.standing.set_held_back(is_held_back(&answer));
        match &answer {
            Answer::Running => {
                log_applied(running.as_ref(), &offered);
                *running = Some(offered);
                self.standing.policy_live(self.clock.now_us());
            }
            Answer::AlreadyThere => {}
            Answer::Refused(faults) => log_refused(offered.generation, &texts(faults)),
        }
        answer
    }

    /// Lets go of compartments that no policy names and no request holds any more, and of
    /// snapshots that nobody reads.
    pub(crate) fn sweep(&self) {
        self.live.sweep();
        let now_us = self.clock.now_us();
        self.live.hull().sweep(now_us);
        self.live.stale.sweep(now_us, None);
    }

    /// Reads again what upstreams believe. Apart from the sweep: a disk may not answer.
    pub(crate) fn read_roots_again(&self) {
        self.live.dependencies.read_again();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Identity>> {
        // Nothing is left half done by a panic under this lock: it is caught inside.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing that a policy says may end the process.
fn contained<T>(step: impl FnOnce() -> Result<T, Vec<Fault>>) -> Result<T, Vec<Fault>> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| Err(vec![broken()]))
}

fn load(offered: &Identity, document: &[u8]) -> Result<Loaded, Vec<Fault>> {
    let text = std::str::from_utf8(document).map_err(|_| vec![whole("must be UTF-8")])?;
    let loaded = wire::document::load(text, Syntax::Json).map_err(faults_of)?;
    let digest = wire::document::digest(&loaded.document);
    if digest != offered.digest {
        return Err(vec![whole(&format!(
            "has the digest {digest}, announced was another"
        ))]);
    }
    Ok(loaded)
}

fn faults_of(error: LoadError) -> Vec<Fault> {
    match error {
        LoadError::Refused(located) => located.into_iter().map(|located| located.fault).collect(),
        error @ (LoadError::TooLarge { .. } | LoadError::Syntax { .. }) => {
            vec![whole(&error.to_string())]
        }
    }
}

/// A fault of the document as a whole.
fn whole(rule: &str) -> Fault {
    Fault {
        path: Path::root(),
        value: String::new(),
        rule: rule.to_owned(),
    }
}

pub(crate) fn broken() -> Fault {
    whole("could not be applied: a defect of this gateway; the policy before it stays in force")
}

pub(crate) fn texts(faults: &[Fault]) -> String {
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn log_applied(before: Option<&Identity>, now: &Identity) {
    tracing::info!(
        policy.generation = now.generation,
        policy.digest = now.digest,
        "{}",
        event::POLICY_APPLIED
    );
    if let Some(before) = before.filter(|before| before.epoch != now.epoch) {
        tracing::warn!(
            policy.generation = now.generation,
            policy.generation_before = before.generation,
            "the policy comes from another store than the one before"
        );
    }
}

/// One line for a refused policy, with everything that was wrong in it. The policy before it
/// stays in force.
pub(crate) fn log_refused(generation: u64, faults: &str) {
    tracing::error!(
        policy.generation = generation,
        policy.faults = faults,
        "{}",
        event::POLICY_REFUSED
    );
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn intake() -> Intake {
        Intake::new(Live::new(1), Arc::new(Standing::default()), Clock::start())
    }

    pub(crate) fn document(limit: i64) -> String {
        format!(
            r#"{{"schema":1,"upstreams":{{"main":{{"endpoints":["http://127.0.0.1:9"]}}}},
                "routes":[{{"id":"a","path":"/a","upstream":"main",
                "compartment":{{"limit":{limit}}}}}]}}"#
        )
    }

    pub(crate) fn identity(epoch: &str, generation: u64, limit: i64) -> Identity {
        let value = wire::document::value_of(&document(limit), Syntax::Json).unwrap();
        let digest = wire::document::digest(&value);
        Identity {
            epoch: epoch.to_owned(),
            generation,
            digest,
        }
    }

    impl Intake {
        pub(crate) fn offer_text(&self, offered: Identity, document: &[u8]) -> Answer {
            match self.check_text(offered, document) {
                Ok(checked) => self.install(checked),
                Err(answer) => answer,
            }
        }
    }

    /// Offers one policy after the other and compares what the last answer was, as text.
    fn check(offers: &[(&str, u64, i64)], want: &str, running: Option<(&str, u64, i64)>) {
        let intake = intake();
        let mut last = None;
        for (epoch, generation, limit) in offers {
            let offered = identity(epoch, *generation, *limit);
            last = Some(intake.offer_text(offered, document(*limit).as_bytes()));
        }
        let last = match last.unwrap() {
            Answer::Running => "running".to_owned(),
            Answer::AlreadyThere => "already there".to_owned(),
            Answer::Refused(faults) => texts(&faults),
        };
        assert!(last.contains(want), "{offers:?}: {last}");
        let running = running.map(|(epoch, number, limit)| identity(epoch, number, limit));
        assert_eq!(intake.running(), running, "{offers:?}");
        assert_eq!(intake.standing.is_live(), running.is_some(), "{offers:?}");
        let live = intake
            .live
            .current()
            .map(|live| (live.generation, live.digest.clone()));
        assert_eq!(
            live,
            running.map(|running| (running.generation, running.digest))
        );
    }

    #[test]
    fn the_answers_are_three_and_numbers_only_rise() {
        let a7 = ("a", 7, 3);
        check(&[a7], "running", Some(a7));
        check(&[a7, a7], "already there", Some(a7));
        check(&[a7, ("a", 8, 3)], "running", Some(("a", 8, 3)));
        check(&[a7, ("a", 9, 4)], "running", Some(("a", 9, 4)));
        check(&[a7, ("a", 6, 4)], "older than the running 7", Some(a7));
        check(&[a7, ("a", 7, 4)], "another content", Some(a7));
        check(&[a7, ("b", 1, 4)], "running", Some(("b", 1, 4)));
        check(&[a7, ("a", 8, -1)], "limit", Some(a7));
        check(&[("a", 8, -1)], "limit", None);
        check(&[("two words", 8, 1)], "epoch", None);
    }

    #[test]
    fn it_goes_back_on_a_word_alone_and_says_that_it_waits_for_one() {
        let intake = intake();
        intake.offer_text(identity("a", 50, 3), document(3).as_bytes());
        let older = || identity("a", 30, 4);
        for offered in [older(), identity("a", 50, 4)] {
            let limit = document(4);
            let answer = intake.offer_text(offered, limit.as_bytes());
            assert!(matches!(answer, Answer::Refused(_)));
            assert!(intake.standing.is_held_back());
        }
        let bad = intake.check_with(older(), document(5).as_bytes(), Word::MayGoBack);
        assert!(bad.is_err(), "a word is no excuse for another document");
        assert_eq!(intake.running(), Some(identity("a", 50, 3)));
        let checked = intake.check_with(older(), document(4).as_bytes(), Word::MayGoBack);
        assert_eq!(intake.install(checked.unwrap()), Answer::Running);
        assert_eq!(intake.running(), Some(older()));
        assert!(!intake.standing.is_held_back());
    }

    #[test]
    fn a_panic_is_a_refusal() {
        let outcome: Result<(), _> = contained(|| panic!("on purpose"));
        assert_eq!(outcome, Err(vec![broken()]));
        assert_eq!(contained(|| Ok(7)), Ok(7));
    }

    #[test]
    fn a_document_that_is_not_what_was_announced_is_refused() {
        let intake = intake();
        let answer = intake.offer_text(identity("a", 1, 3), document(4).as_bytes());
        assert!(matches!(answer, Answer::Refused(faults) if texts(&faults).contains("digest")));
        let answer = intake.offer_text(identity("a", 1, 3), &[0xff]);
        assert!(matches!(answer, Answer::Refused(faults) if texts(&faults).contains("UTF-8")));
        assert_eq!(intake.running(), None);
    }
}
