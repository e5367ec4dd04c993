//! Which connected gateway may have which generation: one tries a new one, the rest follow.
//!
//! Separate because it is arithmetic over who is connected and what they answered: no socket, no
//! store, no clock of its own. It must never let a generation go on that nobody runs and somebody
//! refused.

mod apart;
mod left;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Outgoing;
use crate::fleet::RefusedFault;
pub(crate) use apart::Staged;

/// With this many connected gateways, or fewer, all are sent a generation at once.
pub const ALL_AT_ONCE_MAX: usize = 3;
/// How long the rest wait for the answer of the one that tries a small policy.
const FIRST_WAIT: Duration = Duration::from_millis(400);
/// And this much longer for each MiB of it: parsing and checking take their time.
const FIRST_WAIT_PER_MIB: Duration = Duration::from_millis(150);

/// A generation that is sent to nobody any more, because who tried it refused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Halt {
    /// Which.
    pub generation: u64,
    /// Who refused it.
    pub gateway: String,
    /// When, in UTC.
    pub since: String,
    /// Why.
    pub errors: Vec<RefusedFault>,
}

/// How far the newest generation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nobody runs it yet; these were sent it, or will be at once.
    Trying(Vec<Arc<str>>),
    /// It is sent to everybody.
    Open,
    /// It is sent to nobody.
    Halted(Arc<Halt>),
}

/// A gateway's answer, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It runs the generation.
    Runs,
    /// The document breaks rules of that gateway.
    Refused(Vec<RefusedFault>),
    /// The gateway's own standing keeps it from any generation of this store.
    Stands,
}

/// One open stream.
#[derive(Debug)]
struct Member {
    stream: u64,
    id: Arc<str>,
    /// May have the newest although nobody runs it yet, since then.
    allowed: Option<Instant>,
    /// Was allowed, and is waited for no more.
    passed: bool,
    /// A policy is on its way to it since then.
    asked: Option<Instant>,
    /// How long its last answer took; `None` before the first.
    took: Option<Duration>,
    /// An operator's word: its gateway may go back to this number.
    word: Option<u64>,
}

/// All open streams, and the generations that are sent.
#[derive(Debug)]
pub(crate) struct Stage {
    newest: Outgoing,
    /// Everybody may have the newest: somebody runs it, or nobody is left to try it.
    open: bool,
    /// Somebody runs the newest.
    proven: bool,
    halt: Option<Arc<Halt>>,
    /// The halt is in the store.
    halt_kept: bool,
    /// Rises whenever what somebody is to run may be another one.
    version: u64,
    /// The newest generation before that somebody ran and nobody halted.
    safe: Option<Outgoing>,
    members: Vec<Member>,
    /// Who left with the newest unanswered, and when it was allowed it: it may have died of it.
    left: Option<(Arc<str>, Instant)>,
    /// What one gateway runs instead of all that.
    staged: Option<Staged>,
}

impl Stage {
    pub(crate) const fn new(newest: Outgoing, safe: Option<Outgoing>) -> Self {
        Self {
            newest,
            open: false,
            proven: false,
            halt: None,
            halt_kept: false,
            version: 0,
            safe,
            members: Vec::new(),
            left: None,
            staged: None,
        }
    }

    /// Differs when a target may differ.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    const fn moved(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// A newer generation is stored.
    pub(crate) fn publish(&mut self, newest: Outgoing, now: Instant) {
        if self.proven {
            self.safe = Some(std::mem::replace(&mut self.newest, newest));
        } else {
            self.newest = newest;
        }
        self.proven = false;
        self.choose_anew(now);
    }

    /// The store was replaced: nothing that was said of its numbers counts any more.
    pub(crate) fn replace(&mut self, newest: Outgoing, safe: Option<Outgoing>, now: Instant) {
        (self.newest, self.safe, self.proven) = (newest, safe, false);
        self.choose_anew(now);
    }

    /// Once more from the beginning, also with those who were sent it before.
    fn start_over(&mut self, now: Instant) {
        self.newest.attempt = self.newest.attempt.saturating_add(1);
        self.choose_anew(now);
    }

    fn choose_anew(&mut self, now: Instant) {
        (self.open, self.halt, self.halt_kept) = (false, None, false);
        self.left = None;
        for member in &mut self.members {
            (member.allowed, member.passed) = (None, false);
        }
        self.moved();
        self.choose(now);
    }

    /// A stream is open; `runs_newest` when its gateway says so.
    pub(crate) fn connect(&mut self, stream: u64, id: &str, runs_newest: bool, now: Instant) {
        // A newer stream of the same gateway takes the place of the one before.
        self.members.retain(|member| *member.id != *id);
        self.members.push(Member {
            stream,
            id: id.into(),
            allowed: None,
            passed: false,
            asked: None,
            took: None,
            word: None,
        });
        if runs_newest {
            self.prove();
        }
        self.choose(now);
    }

    /// A stream is closed. The answer is true when this halted the newest generation.
    pub(crate) fn disconnect(&mut self, stream: u64, utc: String, now: Instant) -> bool {
        let at = self.members.iter().position(|m| m.stream == stream);
        let gone = at.map(|at| self.members.remove(at));
        let halted = gone.is_some_and(|gone| self.leaves(&gone, utc));
        self.choose(now);
        halted
    }

    /// A generation went down this stream.
    pub(crate) fn sent(&mut self, stream: u64, now: Instant) {
        if let Some(member) = self.member(stream) {
            member.asked = Some(now);
        }
    }

    /// A gateway answered. The answer is true when this halted the newest generation.
    pub(crate) fn answered(
        &mut self,
        stream: u64,
        generation: u64,
        answer: Answered,
        utc: String,
        now: Instant,
    ) -> bool {
        let is_newest = generation == self.newest.number;
        let Some(member) = self.member(stream) else {
            return false;
        };
        if let Some(asked) = member.asked.take() {
            member.took = Some(now.saturating_duration_since(asked));
        }
        let gateway = member.id.as_ref().to_owned();
        if !is_newest {
            return false;
        }
        // Waited for no more, whatever it said.
        member.passed = true;
        match answer {
            Answered::Runs => self.prove(),
            Answered::Stands => self.choose(now),
            Answered::Refused(errors) if !self.proven && self.halt.is_none() => {
                self.halt_by(gateway, utc, errors);
                return true;
            }
            Answered::Refused(_) => {}
        }
        false
    }

    /// What the gateways of another process ran.
    pub(crate) fn runs_elsewhere(&mut self, proof: Option<u64>) {
        if proof >= Some(self.newest.number) {
            self.prove();
        }
    }

    /// What the store says of the newest generation: another process may have halted it, or have
    /// been told to try again.
    pub(crate) fn stored(&mut self, halt: Option<Halt>, now: Instant) {
        let halt = halt.filter(|halt| halt.generation == self.newest.number);
        match (halt, &self.halt) {
            (Some(halt), None) if !self.proven => {
                (self.halt, self.halt_kept) = (Some(Arc::new(halt)), true);
                self.moved();
            }
            (None, Some(_)) if self.halt_kept => self.start_over(now),
            (Some(_) | None, _) => {}
        }
    }

    /// Somebody asked for another try.
    pub(crate) fn try_again(&mut self, number: u64, now: Instant) {
        if self.newest.number == number && self.halt.is_some() {
            self.start_over(now);
        }
    }

    /// A halt that is not in the store yet.
    pub(crate) fn halt_to_keep(&self) -> Option<Arc<Halt>> {
        self.halt.clone().filter(|_| !self.halt_kept)
    }

    /// That one is in the store now.
    pub(crate) fn halt_is_kept(&mut self, number: u64) {
        self.halt_kept |= self
            .halt
            .as_ref()
            .is_some_and(|halt| halt.generation == number);
    }

    /// Lets the next gateway try when those that try are silent for too long.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.choose(now);
    }

    /// When [`Stage::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.is_settled() || self.is_small() {
            return None;
        }
        let waits = |member: &&Member| !member.passed && !self.is_apart(&member.id);
        let waiting = self.members.iter().filter(waits);
        let allowed = waiting.filter_map(|member| member.allowed);
        let left = self.left.as_ref().map(|(_, at)| *at);
        allowed.chain(left).max().map(|at| at + self.wait())
    }

    /// The generation that this stream's gateway is to run.
    pub(crate) fn target(&self, stream: u64) -> Option<Outgoing> {
        let member = self.members.iter().find(|member| member.stream == stream);
        let allowed = member.is_some_and(|member| member.allowed.is_some());
        let apart = self
            .staged
            .as_ref()
            .filter(|staged| member.is_some_and(|member| member.id == staged.gateway));
        let target = if let Some(staged) = apart {
            &staged.outgoing
        } else if self.halt.is_none() && (self.open || allowed) {
            &self.newest
        } else {
            self.safe.as_ref()?
        };
        let may_go_back = member.is_some_and(|member| member.word == Some(target.number));
        Some(Outgoing {
            may_go_back,
            ..target.clone()
        })
    }

    pub(crate) fn halt(&self) -> Option<Arc<Halt>> {
        self.halt.clone()
    }

    /// The newest number that somebody ran: what is safe to send after a start.
    pub(crate) fn proven(&self) -> Option<u64> {
        if self.proven {
            return Some(self.newest.number);
        }
        self.safe.as_ref().map(|safe| safe.number)
    }

    fn prove(&mut self) {
        if !self.proven {
            (self.proven, self.open, self.halt) = (true, true, None);
            self.moved();
        }
    }

    const fn is_settled(&self) -> bool {
        self.open || self.halt.is_some()
    }

    /// How long who tries it may take: a large policy takes longer.
    fn wait(&self) -> Duration {
        let mib = u32::try_from(self.newest.parts.document().len() >> 20).unwrap_or(u32::MAX);
        FIRST_WAIT.saturating_add(FIRST_WAIT_PER_MIB.saturating_mul(mib))
    }

    fn member(&mut self, stream: u64) -> Option<&mut Member> {
        self.members
            .iter_mut()
            .find(|member| member.stream == stream)
    }

    /// Keeps somebody trying while nobody runs the newest.
    fn choose(&mut self, now: Instant) {
        if self.is_settled() {
            return;
        }
        if self.is_small() {
            for member in &mut self.members {
                member.allowed.get_or_insert(now);
            }
            self.moved();
            return;
        }
        let wait = self.wait();
        let is_silent = |at: Instant| now.saturating_duration_since(at) >= wait;
        for member in &mut self.members {
            member.passed |= member.allowed.is_some_and(is_silent);
        }
        let apart = self
            .staged
            .as_ref()
            .map(|staged| Arc::clone(&staged.gateway));
        let is_apart = |member: &Member| apart.as_ref() == Some(&member.id);
        let hopes =
            |member: &Member| member.allowed.is_some() && !member.passed && !is_apart(member);
        let left = self.left.as_ref();
        if self.members.iter().any(hopes) || left.is_some_and(|(_, at)| !is_silent(*at)) {
            return;
        }
        let untried = self.members.iter_mut();
        let untried = untried.filter(|m| m.allowed.is_none() && !is_apart(m));
        match untried.min_by(|one, other| one.rank(wait).cmp(&other.rank(wait))) {
            Some(member) => member.allowed = Some(now),
            // Nobody refused its rules and nobody is left to ask: each decides for itself.
            None => self.open = true,
        }
        self.moved();
    }
}

impl Member {
    /// Who tries first: who reads what it is sent and answers in time, then the lowest name.
    fn rank(&self, wait: Duration) -> (bool, bool, bool, Arc<str>) {
        (
            self.asked.is_some(),
            self.took.is_some_and(|took| took >= wait),
            self.took.is_none(),
            Arc::clone(&self.id),
        )
    }
}

#[cfg(test)]
mod tests {
    use wire::parts::Parts;

    use super::*;

    fn outgoing(number: u64) -> Outgoing {
        Outgoing {
            number,
            digest: number.to_string(),
            epoch: "e".into(),
            parts: Arc::new(Parts::of(bytes::Bytes::from_static(b"{}"))),
            attempt: 0,
            may_go_back: false,
        }
    }

    struct Played {
        stage: Stage,
        now: Instant,
    }

    impl Played {
        /// `count` gateways that run generation 1, which is proven.
        fn with(count: u64) -> Self {
            let mut played = Self {
                stage: Stage::new(outgoing(1), None),
                now: crate::clock::now(),
            };
            for stream in 1..=count {
                let id = format!("gw-{stream}");
                played.stage.connect(stream, &id, stream == 1, played.now);
                played.stage.sent(stream, played.now);
                played.answer(stream, 1, Answered::Runs);
            }
            played
        }

        fn publish(&mut self, number: u64) {
            self.stage.publish(outgoing(number), self.now);
        }

        fn answer(&mut self, stream: u64, generation: u64, answer: Answered) -> bool {
            let at = "2026-01-01T00:00:00.000Z".to_owned();
            self.stage
                .answered(stream, generation, answer, at, self.now)
        }

        fn sent(&mut self, stream: u64) {
            self.stage.sent(stream, self.now);
        }

        fn leave(&mut self, stream: u64) -> bool {
            let at = "2026-01-01T00:00:00.000Z".to_owned();
            self.stage.disconnect(stream, at, self.now)
        }

        fn wait(&mut self, ms: u64) {
            self.now += Duration::from_millis(ms);
            self.stage.tick(self.now);
        }

        fn targets(&self) -> Vec<u64> {
            let streams = self.stage.members.iter().map(|member| member.stream);
            let target = |stream| self.stage.target(stream).map_or(0, |target| target.number);
            streams.map(target).collect()
        }
    }

    fn refusal() -> Answered {
        Answered::Refused(vec![RefusedFault {
            pointer: "/routes/0".to_owned(),
            value: "7".to_owned(),
            detail: "must be even".to_owned(),
        }])
    }

    fn staged(stream: u64, number: u64) -> Option<Staged> {
        let gateway = format!("gw-{stream}").into();
        let outgoing = outgoing(number);
        Some(Staged { gateway, outgoing })
    }

    #[test]
    fn what_is_staged_goes_to_one_gateway_until_that_ends() {
        let mut played = Played::with(4);
        played.stage.set_staged(staged(1, 2), played.now);
        assert_eq!(played.targets(), [2, 1, 1, 1]);
        // It comes back: what it is to run is still its own.
        played.answer(1, 2, Answered::Runs);
        played.leave(1);
        played.stage.connect(9, "gw-1", false, played.now);
        assert_eq!(played.targets(), [1, 1, 1, 2]);
        // Others get a newer one, tried by one of them first, never by the one that is apart.
        played.publish(3);
        assert_eq!(played.targets(), [3, 1, 1, 2], "gw-2 tries");
        played.wait(400);
        assert_eq!(played.targets(), [3, 3, 1, 2], "the next");
        played.answer(2, 3, Answered::Runs);
        assert_eq!(played.targets(), [3, 3, 3, 2]);
        played.stage.set_staged(None, played.now);
        assert_eq!(played.targets(), [3; 4]);
    }

    #[test]
    fn a_refusal_of_what_is_staged_halts_nothing() {
        let mut played = Played::with(4);
        played.stage.set_staged(staged(2, 2), played.now);
        assert!(!played.answer(2, 2, refusal()));
        assert_eq!(played.targets(), [1, 2, 1, 1]);
        assert_eq!(played.stage.progress(), Progress::Open);
    }

    #[test]
    fn up_to_three_are_sent_it_at_once() {
        for count in 1..=3 {
            let mut played = Played::with(count);
            played.publish(2);
            assert!(played.targets().iter().all(|target| *target == 2));
        }
    }

    #[test]
    fn one_of_four_tries_it_and_the_rest_follow_its_answer() {
        let mut played = Played::with(4);
        played.publish(2);
        assert_eq!(played.targets(), [2, 1, 1, 1]);
        assert!(!played.answer(1, 2, Answered::Runs));
        assert_eq!(played.targets(), [2, 2, 2, 2]);
        assert_eq!(played.stage.progress(), Progress::Open);
    }

    #[test]
    fn what_the_first_refuses_reaches_nobody_else_and_a_newer_one_clears_it() {
        let mut played = Played::with(4);
        played.publish(2);
        assert!(played.answer(1, 2, refusal()));
        assert!(!played.answer(1, 2, refusal()), "told once");
        assert_eq!(played.targets(), [1, 1, 1, 1]);
        played.wait(60_000);
        assert_eq!(played.targets(), [1, 1, 1, 1]);
        played.stage.connect(9, "gw-9", false, played.now);
        assert_eq!(played.targets(), [1, 1, 1, 1, 1]);
        let halt = played.stage.halt().unwrap();
        assert_eq!((halt.generation, halt.gateway.as_str()), (2, "gw-1"));
        played.publish(3);
        assert_eq!(played.targets(), [3, 1, 1, 1, 1]);
        assert_eq!(played.stage.halt(), None);
        // What was never run is not what the rest fall back to.
        played.answer(1, 3, Answered::Runs);
        played.publish(4);
        assert_eq!(played.targets(), [4, 3, 3, 3, 3]);
    }

    #[test]
    fn a_silent_one_is_replaced_by_the_next_and_asked_last_from_then_on() {
        let mut played = Played::with(5);
        played.publish(2);
        played.stage.sent(1, played.now);
        played.wait(399);
        assert_eq!(played.targets(), [2, 1, 1, 1, 1]);
        assert!(played.stage.deadline().unwrap() <= played.now + Duration::from_millis(1));
        played.wait(1);
        assert_eq!(played.targets(), [2, 2, 1, 1, 1]);
        played.answer(2, 2, Answered::Runs);
        assert_eq!(played.targets(), [2; 5]);
        played.publish(3);
        assert_eq!(
            played.targets(),
            [2, 3, 2, 2, 2],
            "the first owes an answer"
        );
        played.answer(2, 3, Answered::Runs);
        played.answer(1, 2, Answered::Runs);
        played.publish(4);
        assert_eq!(played.targets(), [3, 4, 3, 3, 3], "the first was slow");
    }

    #[test]
    fn one_that_leaves_before_it_was_sent_it_is_replaced_at_once() {
        let mut played = Played::with(5);
        played.publish(2);
        played.leave(1);
        assert_eq!(played.targets(), [2, 1, 1, 1]);
        played.leave(2);
        assert_eq!(played.targets(), [2, 2, 2], "three are left");
    }

    #[test]
    fn who_leaves_with_it_is_waited_for_and_the_second_halts_it() {
        for count in [4, 6] {
            let mut played = Played::with(count);
            played.publish(2);
            played.sent(1);
            played.wait(100);
            assert!(!played.leave(1));
            let rest = usize::try_from(count).unwrap() - 1;
            assert_eq!(played.targets(), vec![1; rest], "nobody dies after it");
            let due = played.stage.deadline().unwrap();
            assert_eq!(due, played.now + Duration::from_millis(300));
            // It is back: those that did not leave are asked before it.
            played.stage.connect(9, "gw-1", false, played.now);
            assert!(played.targets().iter().all(|target| *target == 1));
            played.wait(300);
            let newest = |played: &Played| played.targets().iter().filter(|t| **t == 2).count();
            assert_eq!((newest(&played), played.targets()[0]), (1, 2));
            played.sent(2);
            assert!(played.leave(2));
            assert_eq!(newest(&played), 0);
            let halt = played.stage.halt().unwrap();
            assert_eq!((halt.generation, halt.gateway.as_str()), (2, "gw-2"));
            assert!(halt.errors[0].detail.contains("as that of gw-1 did"));
            assert_eq!(played.stage.halt_to_keep(), Some(halt));
            // Another try, or another generation, begins anew.
            played.stage.try_again(2, played.now);
            played.sent(3);
            assert!(!played.leave(3));
            assert_eq!(played.stage.halt(), None);
        }
    }

    #[test]
    fn who_leaves_after_its_answer_or_with_nothing_to_go_back_to_halts_nothing() {
        let mut played = Played::with(5);
        played.publish(2);
        played.sent(1);
        played.answer(1, 2, Answered::Stands);
        assert!(!played.leave(1));
        played.sent(2);
        assert!(!played.leave(2));
        assert_eq!(played.stage.halt(), None);
        // Nobody ever ran anything: a halt would leave all of them without a policy.
        let mut stage = Stage::new(outgoing(1), None);
        let now = crate::clock::now();
        for stream in 1..=3 {
            stage.connect(stream, &format!("gw-{stream}"), false, now);
            stage.sent(stream, now);
        }
        let left = |stream| stage.disconnect(stream, String::new(), now);
        assert_eq!([1, 2, 3].map(left), [false; 3]);
    }

    #[test]
    fn what_runs_elsewhere_is_halted_here_no_more() {
        let mut played = Played::with(4);
        played.publish(2);
        assert!(played.answer(1, 2, refusal()));
        played.stage.runs_elsewhere(Some(1));
        assert_eq!(played.targets(), [1; 4]);
        played.stage.runs_elsewhere(Some(2));
        assert_eq!(played.targets(), [2; 4]);
        assert_eq!(played.stage.halt_to_keep(), None);
        assert!(!played.answer(1, 2, refusal()));
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let mut played = Played::with(4);
        played.publish(2);
        for _ in 0..4 {
            played.wait(400);
        }
        assert_eq!(played.targets(), [2; 4]);
        assert!(!played.answer(1, 2, Answered::Stands));
        assert!(played.answer(2, 2, refusal()), "still nobody runs it");
        assert_eq!(played.targets(), [1; 4]);
    }

    #[test]
    fn who_stands_for_itself_is_no_judge_of_the_document() {
        let mut played = Played::with(4);
        played.publish(2);
        assert!(!played.answer(1, 2, Answered::Stands));
        assert_eq!(played.targets(), [2, 2, 1, 1]);
        assert_eq!(played.stage.halt(), None);
    }

    #[test]
    fn what_somebody_runs_is_halted_by_no_other() {
        let mut played = Played::with(2);
        played.publish(2);
        assert!(!played.answer(1, 2, Answered::Runs));
        assert!(!played.answer(2, 2, refusal()));
        assert_eq!(played.stage.progress(), Progress::Open);
        // The other order ends the same.
        played.publish(3);
        assert!(played.answer(1, 3, refusal()));
        assert!(!played.answer(2, 3, Answered::Runs));
        assert_eq!(played.stage.progress(), Progress::Open);
    }

    #[test]
    fn the_store_halts_and_lets_go_for_other_processes() {
        let mut played = Played::with(4);
        played.publish(2);
        let halt = Halt {
            generation: 2,
            gateway: "elsewhere".to_owned(),
            since: String::new(),
            errors: Vec::new(),
        };
        let older = Halt {
            generation: 1,
            ..halt.clone()
        };
        played.stage.stored(Some(older), played.now);
        assert_eq!(played.targets(), [2, 1, 1, 1]);
        played.stage.stored(Some(halt), played.now);
        assert_eq!(played.targets(), [1; 4]);
        played.stage.stored(None, played.now);
        assert_eq!(played.targets(), [2, 1, 1, 1]);
    }

    #[test]
    fn after_a_start_a_crowd_that_comes_back_waits_for_three() {
        let mut stage = Stage::new(outgoing(7), Some(outgoing(6)));
        let now = crate::clock::now();
        for stream in 1..=50 {
            stage.connect(stream, &format!("gw-{stream:02}"), false, now);
        }
        let sent = |stage: &Stage| {
            let newest = |stream: &u64| stage.target(*stream).unwrap().number == 7;
            (1..=50).filter(newest).count()
        };
        assert_eq!(sent(&stage), ALL_AT_ONCE_MAX);
        stage.connect(51, "gw-51", true, now);
        assert_eq!(sent(&stage), 50);
    }
}
