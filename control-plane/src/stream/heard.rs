//! What a gateway says on its stream: answers, reports, rehearsals.
//!
//! Separate from what goes down because it is heard at any time and decides nothing about it. It
//! must never take a gateway's word for another gateway's.

use telemetry::names::event;
use wire::stream::faults_of;
use wire::stream::proto::{Answer, Fault, Report, answer, from_gateway};

use super::Link;
use crate::fleet::{Moment, RefusedFault};
use crate::rollout::Answered;

/// True for a fault that is about what the gateway holds, not about the document: it keeps
/// what this store never made.
fn is_of_its_standing(fault: &Fault) -> bool {
    matches!(fault.pointer.as_str(), "/generation" | "/epoch")
}

impl Link {
    /// Takes one message; false ends the stream.
    pub(super) fn take(&mut self, message: from_gateway::Message) -> bool {
        match message {
            from_gateway::Message::Hello(_) => false,
            from_gateway::Message::Answer(answer) => self.answered(answer),
            from_gateway::Message::Report(report) => self.reported(report),
            from_gateway::Message::Rehearsed(told) => {
                self.state.drills.told(&self.id, told);
                true
            }
        }
    }

    fn answered(&mut self, answer: Answer) -> bool {
        let Answer {
            generation,
            outcome,
        } = answer;
        let (fleet, now) = (&self.state.fleet, Moment::now());
        if self.sent.is_some_and(|(sent, ..)| generation >= sent) {
            self.answer_by = None;
        }
        match outcome {
            Some(answer::Outcome::Missing(_)) if self.held.forget() => {
                // The same once more, whole.
                self.sent = None;
                true
            }
            Some(answer::Outcome::Running(_) | answer::Outcome::AlreadyThere(_)) => {
                (self.same_store, self.is_ahead) = (true, false);
                self.running = generation;
                self.held.runs();
                self.state.watched.runs(&self.id, generation);
                tracing::info!(
                    gateway.id = %self.id,
                    policy.generation = generation,
                    "{}",
                    event::POLICY_APPLIED
                );
                // First the list, then whoever is sent it next: nobody sees the rest run before.
                let known = fleet.runs(self.stream, generation, now);
                self.state
                    .rollout
                    .answered(self.stream, generation, Answered::Runs);
                known
            }
            Some(answer::Outcome::Refused(refused)) => {
                let faults = faults_of(refused);
                let first = faults.first();
                tracing::warn!(
                    gateway.id = %self.id,
                    policy.generation = generation,
                    fault.pointer = first.map(|fault| fault.pointer.as_str()),
                    fault.rule = first.map(|fault| fault.rule.as_str()),
                    "{}",
                    event::POLICY_REFUSED
                );
                let answer = if faults.iter().any(is_of_its_standing) {
                    Answered::Stands
                } else {
                    Answered::Refused(faults.iter().cloned().map(RefusedFault::from).collect())
                };
                let known = fleet.refuses(self.stream, generation, faults, now);
                self.state.rollout.answered(self.stream, generation, answer);
                known
            }
            Some(answer::Outcome::Missing(_)) | None => false,
        }
    }

    fn reported(&mut self, report: Report) -> bool {
        self.state.elsewhere.note(&self.id, self.stream, &report);
        let generation = if self.same_store {
            report.generation
        } else {
            0
        };
        self.is_drained = report.drained;
        let taken = self
            .state
            .take_report(&self.id, self.stream, generation, report, true);
        taken.unwrap_or_else(|error| {
            tracing::warn!(gateway.id = %self.id, %error, "a report is not understood");
            false
        })
    }
}
