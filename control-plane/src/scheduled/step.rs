//! What is to be done about one override at one moment.
//!
//! Separate because it is a decision over what is stored, what the policy says and the clock: a
//! process that dies between two steps finds out where it was. It must never undo what somebody
//! else set.

use compartment::policy::Value;
use serde::{Deserialize, Serialize};

use super::When;

/// How far an override has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OverrideState)]
pub enum State {
    /// A second person has to approve it.
    Proposed,
    /// Its start is ahead.
    #[default]
    Waiting,
    /// Its value is in the policy.
    Running,
    /// It was lifted at its end.
    Ended,
    /// Somebody ended it.
    Cancelled,
    /// Somebody else set the field meanwhile: that was left as it is.
    Left,
    /// Nobody was there from its start to its end.
    Missed,
    /// The policy does not take its value.
    Refused,
}

impl State {
    /// It waits or runs.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Proposed | Self::Waiting | Self::Running)
    }
}

/// What stood in the field before it was set; written down before anything is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// Nothing: the default.
    Absent,
    /// This.
    Was(Value),
}

impl Before {
    fn of(is: Option<&Value>) -> Self {
        is.map_or(Self::Absent, |value| Self::Was(value.clone()))
    }

    /// What to put back; `None`: the field goes.
    pub(super) fn value(&self) -> Option<&Value> {
        match self {
            Self::Was(value) => Some(value),
            Self::Unknown | Self::Absent => None,
        }
    }
}

/// One override of one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Override {
    /// The compartment.
    pub key: String,
    /// Which of its fields.
    pub field: String,
    /// What it is while this runs.
    pub value: Value,
    /// From.
    pub start: When,
    /// To.
    pub end: When,
    /// Why.
    pub comment: String,
    /// Who made it.
    pub by: String,
    /// The same as people are told apart by.
    #[serde(default)]
    pub person: String,
    /// The second person, where one was asked for.
    #[serde(default)]
    pub approved_by: Option<String>,
    /// When, in UTC.
    pub at: String,
    /// How far it has come.
    pub state: State,
    /// What it found.
    #[serde(default)]
    pub before: Before,
    /// Who ended it before its time.
    #[serde(default)]
    pub cancelled_by: Option<String>,
    /// Who asks to end it before its time, while that waits for a second person.
    #[serde(default)]
    pub end_asked_by: Option<String>,
    /// The same as people are told apart by.
    #[serde(default)]
    pub end_asked_person: String,
    /// Who agreed to end it before its time.
    #[serde(default)]
    pub end_approved_by: Option<String>,
    /// Why it is not, or is no more, as it was meant.
    #[serde(default)]
    pub note: Option<String>,
    /// The generation that set it.
    #[serde(default)]
    pub set_generation: Option<u64>,
    /// The generation that lifted it.
    #[serde(default)]
    pub lifted_generation: Option<u64>,
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing yet.
    Wait,
    /// What the field is now is written down.
    Remember(Before),
    /// The value is put into the policy.
    Set,
    /// It is in the policy.
    Runs,
    /// What was before is put back.
    Lift,
    /// It is over.
    Over(State),
}

/// `is` is what the field is in the newest policy.
pub(super) fn step(one: &Override, now_ms: i64, is: Option<&Value>) -> Step {
    let is_value = is == Some(&one.value);
    let is_before = Before::of(is) == one.before;
    let is_over = now_ms >= one.end.unix_ms || one.cancelled_by.is_some();
    let was_looked_at = one.before != Before::Unknown;
    let end = match one.cancelled_by {
        Some(_) => State::Cancelled,
        None => State::Ended,
    };
    match one.state {
        State::Proposed if !is_over => Step::Wait,
        State::Proposed => Step::Over(match one.cancelled_by {
            Some(_) => State::Cancelled,
            None => State::Missed,
        }),
        State::Waiting if is_over && !was_looked_at => Step::Over(match one.cancelled_by {
            Some(_) => State::Cancelled,
            None => State::Missed,
        }),
        State::Waiting if !is_over && now_ms < one.start.unix_ms => Step::Wait,
        State::Waiting if !was_looked_at => Step::Remember(Before::of(is)),
        // It was set, or not, before the process died.
        State::Waiting if !is_over && is_value => Step::Runs,
        State::Waiting if !is_over && is_before => Step::Set,
        State::Running if !is_over => Step::Wait,
        // First: where it set what was there already, nothing is to be lifted.
        State::Waiting | State::Running if is_before => Step::Over(end),
        State::Running if is_value => Step::Lift,
        State::Waiting if is_over && is_value => Step::Lift,
        State::Waiting | State::Running => Step::Over(State::Left),
        done @ (State::Ended | State::Cancelled | State::Left | State::Missed | State::Refused) => {
            Step::Over(done)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(state: State, before: Before) -> Override {
        Override {
            value: Value::Integer(80),
            start: When::at(1_000),
            end: When::at(2_000),
            state,
            before,
            ..Override::default()
        }
    }

    fn was(limit: i128) -> Before {
        Before::Was(Value::Integer(limit))
    }

    #[test]
    fn each_moment_has_its_step() {
        let (waiting, running) = (State::Waiting, State::Running);
        let over = |state| Step::Over(state);
        for (state, before, now_ms, is, want) in [
            (waiting, Before::Unknown, 999, Some(60), Step::Wait),
            (
                waiting,
                Before::Unknown,
                1_000,
                Some(60),
                Step::Remember(was(60)),
            ),
            (
                waiting,
                Before::Unknown,
                1_999,
                None,
                Step::Remember(Before::Absent),
            ),
            (
                waiting,
                Before::Unknown,
                2_000,
                Some(60),
                over(State::Missed),
            ),
            (waiting, was(60), 1_000, Some(60), Step::Set),
            (waiting, Before::Absent, 1_000, None, Step::Set),
            // Died after it was set, and between the two somebody else came.
            (waiting, was(60), 1_500, Some(80), Step::Runs),
            (waiting, was(60), 1_500, Some(70), over(State::Left)),
            // Nobody led until after its end: lifted at once where it was set.
            (waiting, was(60), 2_500, Some(80), Step::Lift),
            (waiting, was(60), 2_500, Some(60), over(State::Ended)),
            (running, was(60), 1_999, Some(80), Step::Wait),
            (running, was(60), 1_999, Some(70), Step::Wait),
            (running, was(60), 2_000, Some(80), Step::Lift),
            (running, Before::Absent, 9_000, Some(80), Step::Lift),
            (running, was(60), 2_000, Some(60), over(State::Ended)),
            (running, was(60), 2_000, Some(70), over(State::Left)),
            (running, was(60), 2_000, None, over(State::Left)),
            // It set what was there already.
            (running, was(80), 2_000, Some(80), over(State::Ended)),
        ] {
            let is = is.map(Value::Integer);
            let one = one(state, before);
            assert_eq!(step(&one, now_ms, is.as_ref()), want, "{one:?} at {now_ms}");
        }
    }

    #[test]
    fn one_that_is_cancelled_is_lifted_like_at_its_end() {
        let cancelled = |state, before| Override {
            cancelled_by: Some("ann".to_owned()),
            ..one(state, before)
        };
        let (at, value) = (1_500, Some(Value::Integer(80)));
        let over = |one: Override, is: Option<&Value>| step(&one, at, is);
        let running = || cancelled(State::Running, was(60));
        assert_eq!(over(running(), value.as_ref()), Step::Lift);
        let other = Some(Value::Integer(70));
        assert_eq!(over(running(), other.as_ref()), Step::Over(State::Left));
        let back = Some(Value::Integer(60));
        assert_eq!(over(running(), back.as_ref()), Step::Over(State::Cancelled));
        let waiting = cancelled(State::Waiting, Before::Unknown);
        assert_eq!(over(waiting, back.as_ref()), Step::Over(State::Cancelled));
    }
}
