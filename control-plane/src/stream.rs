//! The gateways' stream, at the control plane's end.
//!
//! Separate because it is a protocol: hello, whole policies down, answers and reports up. Each
//! stream has its own task and its own state, and follows the newest generation by itself, so a
//! slow gateway delays nobody. It must never send a generation twice because it was refused.

mod held;

use std::pin::Pin;
use std::time::{Duration, Instant};

use compartment::Figures;
use telemetry::names::event;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::stream::proto::control_server::{Control, ControlServer};
use wire::stream::proto::{
    Answer, Fault, FromGateway, Hello, PolicyPush, Rehearse, Report, ToGateway, answer,
    from_gateway, to_gateway,
};
use wire::stream::{MESSAGE_BYTES_MAX, authorized, bounded_text, faults_of, figures_of};

use crate::clock;
use crate::fleet::{Moment, RefusedFault, name_endpoints};
use crate::readings::{Received, ReportMark, Taken, sorted};
use crate::rollout::{Answered, Outgoing, Published};
use crate::state::AppState;
use held::Held;

/// Longest wait for a gateway's first message.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// Policies on their way to one gateway: the newest replaces what was not sent yet.
const PUSHES_MAX: usize = 1;
/// Longest wait for the answer to a policy before the next one is sent all the same.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Longest name of a gateway.
const ID_BYTES_MAX: usize = 128;

/// The service, one for the process.
#[derive(Clone, Debug)]
pub(crate) struct Service(AppState);

/// The service as the router takes it.
pub(crate) fn service(state: AppState) -> ControlServer<Service> {
    ControlServer::new(Service(state))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

#[tonic::async_trait]
impl Control for Service {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<ToGateway, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<FromGateway>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let state = &self.0;
        if !authorized(request.metadata(), &state.gateway_token) {
            return Err(Status::unauthenticated(
                "this gateway token is not known here",
            ));
        }
        if state.stopping.is_cancelled() {
            return Err(Status::unavailable("the control plane is going down"));
        }
        let (down, answers) = mpsc::channel(PUSHES_MAX);
        let task = follow(state.clone(), request.into_inner(), down);
        state.tasks.spawn(task);
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }
}

type Down = mpsc::Sender<Result<ToGateway, Status>>;

/// One stream from its hello to its end.
async fn follow(state: AppState, mut up: Streaming<FromGateway>, down: Down) {
    // Nothing is lost by a cancelled arm: each ends the stream.
    let hello = tokio::select! {
        () = state.stopping.cancelled() => return,
        hello = tokio::time::timeout(HELLO_MAX, hello(&mut up)) => hello,
    };
    let Ok(Ok(hello)) = hello else {
        let _gone = down.try_send(Err(Status::invalid_argument("expected a hello first")));
        return;
    };
    let id = bounded_text(&hello.gateway_id, ID_BYTES_MAX);
    if id.is_empty() || id != hello.gateway_id {
        let rule = "gateway_id must have 1 to 128 bytes and no control characters";
        let _gone = down.try_send(Err(Status::invalid_argument(rule)));
        return;
    }
    let same_store = hello.epoch == state.epoch();
    let running = if same_store { hello.generation } else { 0 };
    let version = bounded_text(&hello.version, ID_BYTES_MAX);
    let stream = match state.fleet.connect(&id, &version, running, Moment::now()) {
        Ok(stream) => stream,
        Err(full) => {
            let _gone = down.try_send(Err(Status::resource_exhausted(full.to_string())));
            return;
        }
    };
    tracing::info!(gateway.id = %id, policy.generation = running, "bulkhead.gateway.connected");
    let newest = state.rollout.current();
    state.watched.learn(&newest);
    let is_ahead = same_store && is_ahead(&id, &hello, &newest);
    let runs_newest = same_store && !is_ahead && running == newest.about.number;
    let moved = state.rollout.connect(stream, &id, runs_newest);
    let asked = state.drills.follow();
    let runs = runs_newest.then(|| newest.parts.digests());
    let held = Held::new(&hello, runs);
    let link = Link {
        state,
        id,
        stream,
        same_store,
        running,
        is_ahead,
        moved,
        asked,
        held,
        sent: None,
        answer_by: None,
    };
    link.run(up, down).await;
}

/// True when the gateway holds what this store never made, or made otherwise: its numbers are of a
/// time that the store has lost.
fn is_ahead(id: &str, hello: &Hello, newest: &Published) -> bool {
    let number = newest.about.number;
    if hello.generation < number {
        return false;
    }
    let is_same = hello.generation == number && hello.digest == newest.about.digest;
    if !is_same {
        tracing::error!(
            gateway.id = id,
            gateway.generation = hello.generation,
            policy.generation = number,
            "a gateway runs a newer generation than this store has: was a backup restored?"
        );
    }
    !is_same
}

async fn hello(up: &mut Streaming<FromGateway>) -> Result<Hello, Status> {
    match up.message().await?.and_then(|message| message.message) {
        Some(from_gateway::Message::Hello(hello)) => Ok(hello),
        _ => Err(Status::invalid_argument("expected a hello first")),
    }
}

/// True for a fault that is about what the gateway holds, not about the document: it keeps a
/// higher number of the same store.
fn is_of_its_standing(fault: &Fault) -> bool {
    matches!(fault.pointer.as_str(), "/generation" | "/epoch")
}

/// What this end knows of one stream.
struct Link {
    state: AppState,
    id: String,
    stream: u64,
    /// The numbers that the gateway speaks of are of this store.
    same_store: bool,
    /// What the gateway runs, of this store; 0 for nothing.
    running: u64,
    /// It runs what this store does not have: it is told the newest, and says what it makes of it.
    is_ahead: bool,
    /// Told when the generation that this gateway is to run may be another one.
    moved: watch::Receiver<()>,
    /// Rehearsals that this gateway is to make, with all others.
    asked: broadcast::Receiver<Rehearse>,
    /// What of a document it has already.
    held: Held,
    /// The generation that this stream last took down, and which try of it, whatever became of it.
    sent: Option<(u64, u64)>,
    /// Until when the answer to it is awaited. One policy at a time: what a frozen gateway does
    /// not read must not pile up between us, and when it thaws it gets the newest next.
    answer_by: Option<Instant>,
}

impl Drop for Link {
    /// However the stream ends, the gateway is listed as gone.
    fn drop(&mut self) {
        self.state.fleet.disconnect(self.stream, &Moment::now());
        self.state.rollout.disconnect(self.stream);
        tracing::info!(gateway.id = %self.id, "bulkhead.gateway.gone");
    }
}

impl Link {
    /// What goes down next, if anything. Nothing goes down twice because it was refused, and
    /// nothing older than what runs.
    fn due(&self) -> Option<Outgoing> {
        let target = self.state.rollout.target(self.stream)?;
        let is_newer = target.number > self.running || self.is_ahead;
        (is_newer && self.sent != Some((target.number, target.attempt))).then_some(target)
    }

    async fn run(mut self, mut up: Streaming<FromGateway>, down: Down) {
        loop {
            self.moved.mark_unchanged();
            let due = self.answer_by.is_none() && self.due().is_some();
            let answer_by = self.answer_by.unwrap_or_else(clock::now);
            // Nothing is lost by a cancelled arm: a message half received stays in `up`, a place
            // that was not taken is not kept, and what changed is asked of the rollout itself.
            tokio::select! {
                () = self.state.stopping.cancelled() => {
                    let _full = down.try_send(Err(Status::unavailable("going down")));
                    return;
                }
                () = down.closed() => return,
                place = down.reserve(), if due => match place {
                    // Asked again: the newest counts, not what it was when the wait began.
                    Ok(place) => if let Some(outgoing) = self.due() {
                        place.send(Ok(self.push(outgoing)));
                    },
                    Err(_) => return,
                },
                () = tokio::time::sleep_until(answer_by.into()), if self.answer_by.is_some() => {
                    tracing::warn!(gateway.id = %self.id, "a gateway does not answer a policy");
                    self.answer_by = None;
                }
                changed = self.moved.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                asked = self.asked.recv() => {
                    // One that finds no place, or came too fast, is told as not answered.
                    if let Ok(asked) = asked {
                        let message = Some(to_gateway::Message::Rehearse(asked));
                        let _full = down.try_send(Ok(ToGateway { message }));
                    }
                }
                message = up.message() => match message {
                    Ok(Some(FromGateway { message: Some(message) })) => {
                        if !self.take(message) {
                            return;
                        }
                    }
                    Ok(Some(FromGateway { message: None })) => {}
                    Ok(None) | Err(_) => return,
                },
            }
        }
    }

    /// A generation, as it goes down.
    fn push(&mut self, outgoing: Outgoing) -> ToGateway {
        self.sent = Some((outgoing.number, outgoing.attempt));
        self.answer_by = Some(clock::now() + ANSWER_MAX);
        let newest = self.state.rollout.current();
        if newest.about.number == outgoing.number {
            self.state.watched.learn(&newest);
        }
        self.state.rollout.sent(self.stream);
        let (document, parts) = self.held.push(&outgoing.parts);
        let policy = PolicyPush {
            generation: outgoing.number,
            digest: outgoing.digest,
            document,
            epoch: outgoing.epoch,
            parts,
        };
        ToGateway {
            message: Some(to_gateway::Message::Policy(policy)),
        }
    }

    /// Takes one message; false ends the stream.
    fn take(&mut self, message: from_gateway::Message) -> bool {
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
        if self.sent.is_some_and(|(sent, _)| generation >= sent) {
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

    /// Newest figures to the fleet, what happened since the last ones to whoever follows it.
    fn figured(&self, mark: &ReportMark, generation: u64, mut figures: Vec<Figures>) -> bool {
        name_endpoints(&mut figures, &self.id);
        let (figures, now, state) = (sorted(figures), Moment::now(), &self.state);
        let received = Received {
            at: now.at,
            unix_ms: clock::unix_ms(),
        };
        match state.readings.take(&self.id, mark, &figures, received) {
            // Another one that is newer counts already.
            Taken::Late => true,
            Taken::Readings(readings) => {
                state.history.record(&readings);
                state.alerts.observe(&readings);
                state
                    .watched
                    .take(&self.id, mark, generation, &figures, received);
                state.past.record(&readings);
                let known = state.fleet.report(self.stream, generation, figures, now);
                // Last: whoever is told that figures moved looks at the fleet.
                state.live.record(&readings);
                known
            }
        }
    }

    fn reported(&mut self, mut report: Report) -> bool {
        let newest = std::mem::take(&mut report.newest);
        self.state.newest.record(&self.id, newest, clock::unix_ms());
        let generation = if self.same_store {
            report.generation
        } else {
            0
        };
        let mark = ReportMark::of(&report);
        let lost = [
            report.dropped_spans,
            report.dropped_logs,
            report.dropped_access_lines,
        ];
        let lost = lost
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        self.state.fleet.telemetry_dropped(self.stream, lost);
        match figures_of(report) {
            Ok(figures) => self.figured(&mark, generation, figures),
            Err(error) => {
                tracing::warn!(gateway.id = %self.id, %error, "a report is not understood");
                false
            }
        }
    }
}
