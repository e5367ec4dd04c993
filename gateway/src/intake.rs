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

use crate::clock::Clock;
use crate::live_policy::Live;
use crate::standing::Standing;

/// Longest name of a store.
const EPOCH_BYTES_MAX: usize = 128;

/// Which policy: enough to know whether two are the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Identity {
    /// The store it comes from; empty for a file or a document.
    pub(crate) epoch: String,
    pub(crate) generation: u64,
    /// SHA-256 of the document.
    pub(crate) digest: String,
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
    pub(crate) fn offer_text(&self, offered: Identity, document: &[u8]) -> Answer {
        self.offer(offered, |offered| load(offered, document))
    }

    /// A policy that this process itself read and checked.
    pub(crate) fn offer_loaded(&self, offered: Identity, loaded: Loaded) -> Answer {
        self.offer(offered, |_| Ok(loaded))
    }

    /// Lets go of compartments that no policy names and no request holds any more, and of
    /// snapshots that nobody reads.
    pub(crate) fn sweep(&self) {
        self.live.sweep();
        self.live.hull().sweep(self.clock.now_us());
    }

    fn offer<F>(&self, offered: Identity, load: F) -> Answer
    where
        F: FnOnce(&Identity) -> Result<Loaded, Vec<Fault>>,
    {
        let mut running = self.lock();
        let answer = match judge(running.as_ref(), &offered) {
            Err(answer) => answer,
            // Nothing that a policy says may end the process; and since the pointer is swapped
            // last, what was in force before still is.
            Ok(()) => catch_unwind(AssertUnwindSafe(|| self.apply(&offered, load)))
                .unwrap_or_else(|_| Answer::Refused(vec![broken()])),
        };
        match &answer {
            Answer::Running => {
                tracing::info!(
                    policy.generation = offered.generation,
                    policy.digest = offered.digest,
                    "bulkhead.policy.applied"
                );
                *running = Some(offered);
                self.standing.policy_live(self.clock.now_us());
            }
            Answer::AlreadyThere => {}
            Answer::Refused(faults) => log_refused(offered.generation, &texts(faults)),
        }
        answer
    }

    fn apply<F>(&self, offered: &Identity, load: F) -> Answer
    where
        F: FnOnce(&Identity) -> Result<Loaded, Vec<Fault>>,
    {
        match load(offered) {
            Ok(Loaded { document, policy }) => {
                self.live.install(offered.generation, &document, policy);
                Answer::Running
            }
            Err(faults) => Answer::Refused(faults),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Identity>> {
        // Nothing is left half done by a panic under this lock: it is caught inside.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `offered` should be applied over `running`. Numbers rise within one store; they say
/// nothing across two, where following the new store is the only way that ends.
fn judge(running: Option<&Identity>, offered: &Identity) -> Result<(), Answer> {
    let fits = offered.epoch.len() <= EPOCH_BYTES_MAX;
    if !fits || !offered.epoch.bytes().all(|byte| byte.is_ascii_graphic()) {
        let rule = format!("must be at most {EPOCH_BYTES_MAX} visible ASCII characters");
        return Err(refusal(
            "epoch",
            offered.epoch.escape_debug().take(80).collect(),
            rule,
        ));
    }
    let Some(running) = running else {
        return Ok(());
    };
    if running == offered {
        return Err(Answer::AlreadyThere);
    }
    if running.epoch != offered.epoch {
        tracing::warn!(
            policy.generation = offered.generation,
            running.generation = running.generation,
            "the policy comes from another store than the running one"
        );
        return Ok(());
    }
    if offered.generation > running.generation {
        return Ok(());
    }
    let rule = if offered.generation == running.generation {
        "runs already with another content: the store of the control plane was replaced".to_owned()
    } else {
        let hint = "was an old backup restored? To accept it, restart this gateway";
        format!(
            "is older than the running {}: {hint} with an empty --state-dir",
            running.generation
        )
    };
    Err(refusal("generation", offered.generation.to_string(), rule))
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

fn refusal(field: &str, value: String, rule: String) -> Answer {
    Answer::Refused(vec![Fault {
        path: Path::root().key(field),
        value,
        rule,
    }])
}

pub(crate) fn texts(faults: &[Fault]) -> String {
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// One line for a refused policy, with everything that was wrong in it. The policy before it
/// stays in force.
pub(crate) fn log_refused(generation: u64, faults: &str) {
    tracing::error!(
        policy.generation = generation,
        policy.faults = faults,
        "bulkhead.policy.refused"
    );
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn intake() -> Intake {
        Intake::new(Live::new(), Arc::new(Standing::default()), Clock::start())
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
    fn a_panic_while_applying_is_a_refusal() {
        let intake = intake();
        intake.offer_text(identity("a", 1, 3), document(3).as_bytes());
        let answer = intake.offer(identity("a", 2, 4), |_| panic!("on purpose"));
        assert_eq!(answer, Answer::Refused(vec![broken()]));
        assert_eq!(intake.running().map(|running| running.generation), Some(1));
        let next = intake.offer_text(identity("a", 3, 4), document(4).as_bytes());
        assert_eq!(next, Answer::Running);
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
