//! The gateways' stream, at the control plane's end.
//!
//! Separate because it is a protocol: hello, whole policies down, answers and reports up. Each
//! stream has its own task and its own state, and follows the newest generation by itself, so a
//! slow gateway delays nobody. It must never send a generation twice because it was refused.

mod greeting;
mod heard;
mod held;

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::stream::proto::control_server::{Control, ControlServer};
use wire::stream::proto::{
    Drain, FromGateway, Heartbeat, PolicyPush, Rehearse, ToGateway, to_gateway,
};
use wire::stream::{MESSAGE_BYTES_MAX, authorized, bounded_text};

use crate::clock;
use crate::fleet::Moment;
use crate::orders::Entry;
use crate::rollout::Outgoing;
use crate::state::AppState;
use greeting::{hello, holds, no_hello, offered};
use held::Held;

const NOT_LET_IN: &str = "this token does not let this gateway in, or not any more";
/// Longest wait for a gateway's first message.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// Policies on their way to one gateway: the newest replaces what was not sent yet.
const PUSHES_MAX: usize = 1;
/// Longest wait for the answer to a policy before the next one is sent all the same.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Longest name of a gateway.
pub(crate) const ID_BYTES_MAX: usize = 128;
/// When nothing went down for this long, a heartbeat does.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// A gateway reports every second; one that says nothing for this long is dead, whatever its
/// machine still answers.
const SILENT_MAX: Duration = Duration::from_secs(30);

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
        let entry = if authorized(request.metadata(), &state.gateway_token) {
            Some(Entry::Shared)
        } else {
            offered(request.metadata()).and_then(|token| state.orders.entry(token))
        };
        let Some(entry) = entry else {
            return Err(Status::unauthenticated(
                "this gateway token is not known here",
            ));
        };
        if state.stopping.is_cancelled() {
            return Err(Status::unavailable("the control plane is going down"));
        }
        let (down, answers) = mpsc::channel(PUSHES_MAX);
        let task = follow(state.clone(), entry, request.into_inner(), down);
        state.tasks.spawn(task);
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }
}

type Down = mpsc::Sender<Result<ToGateway, Status>>;

/// One stream from its hello to its end.
async fn follow(state: AppState, entry: Entry, mut up: Streaming<FromGateway>, down: Down) {
    // Nothing is lost by a cancelled arm: each ends the stream.
    let greeted = tokio::select! {
        () = state.stopping.cancelled() => return,
        greeted = tokio::time::timeout(HELLO_MAX, hello(&mut up)) => greeted,
    };
    let (id, hello) = match greeted.unwrap_or_else(|_| Err(no_hello())) {
        Ok(greeted) => greeted,
        Err(status) => {
            let _gone = down.try_send(Err(status));
            return;
        }
    };
    // Followed from before the first look, so that nothing is revoked unseen.
    let ordered = state.orders.follow();
    if !state.orders.lets_in(&entry, &id) {
        let _gone = down.try_send(Err(Status::permission_denied(NOT_LET_IN)));
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
    let era = state.rollout.era();
    let Ok((newest, is_ahead)) = holds(&state, &id, &hello).await else {
        // It serves on with what it has, and comes again.
        state.fleet.disconnect(stream, &Moment::now());
        let why = "the store is away, and what this gateway runs is older than what is known";
        let _gone = down.try_send(Err(Status::unavailable(why)));
        return;
    };
    state.watched.learn(&newest);
    state.fleet.about(stream, |about| {
        (about.ahead, about.own_token) = (is_ahead, matches!(entry, Entry::Own(_)));
    });
    let runs_newest = same_store && !is_ahead && running == newest.about.number;
    let moved = state.rollout.connect(stream, &id, runs_newest);
    let asked = state.drills.follow();
    let runs = runs_newest.then(|| newest.parts.digests());
    let held = Held::new(&hello, runs);
    let link = Link {
        state,
        entry,
        ordered,
        is_drained: false,
        heard: clock::now(),
        id,
        stream,
        era,
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

/// What this end knows of one stream.
struct Link {
    state: AppState,
    /// What let it in, and must go on to.
    entry: Entry,
    /// Told when something else is ordered.
    ordered: watch::Receiver<()>,
    /// Whether the gateway was told to be drained, or says that it is.
    is_drained: bool,
    /// When it last said anything.
    heard: Instant,
    id: String,
    stream: u64,
    /// When it was found out what the gateway holds; nothing is sent in a later one.
    era: u64,
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
    /// The generation that this stream last took down, which try of it, and whether with a word,
    /// whatever became of it.
    sent: Option<(u64, u64, bool)>,
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
        if self.is_outlived() {
            return None;
        }
        let target = self.state.rollout.target(self.stream)?;
        let is_newer = target.number > self.running || self.is_ahead;
        let sent = Some((target.number, target.attempt, target.may_go_back));
        (is_newer && self.sent != sent).then_some(target)
    }

    /// Why the stream must not go on, if so.
    fn ends(&self) -> Option<Status> {
        if !self.state.orders.lets_in(&self.entry, &self.id) {
            return Some(Status::permission_denied(NOT_LET_IN));
        }
        let is_outlived = self.is_outlived();
        is_outlived.then(|| Status::unavailable("the store was replaced"))
    }

    /// The store was replaced since the gateway said what it holds.
    fn is_outlived(&self) -> bool {
        self.era != self.state.rollout.era()
    }

    /// The order that goes down next, if any.
    fn order(&self) -> Option<ToGateway> {
        let drained = self.state.orders.drained(&self.id).is_some();
        let message = Some(to_gateway::Message::Drain(Drain { drained }));
        (drained != self.is_drained).then_some(ToGateway { message })
    }

    async fn run(mut self, mut up: Streaming<FromGateway>, down: Down) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.reset();
        loop {
            self.moved.mark_unchanged();
            self.ordered.mark_unchanged();
            if let Some(why) = self.ends() {
                let _full = down.try_send(Err(why));
                return;
            }
            let policy_due = self.answer_by.is_none() && self.due().is_some();
            let due = policy_due || self.order().is_some();
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
                    Ok(place) => if let Some(message) = self.next() {
                        place.send(Ok(message));
                        heartbeat.reset();
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
                changed = self.ordered.changed() => {
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
                _ = heartbeat.tick() => {
                    if self.is_silent() {
                        return;
                    }
                    // One that finds no place is not needed: what waits there is not read.
                    let message = Some(to_gateway::Message::Heartbeat(Heartbeat {}));
                    let _full = down.try_send(Ok(ToGateway { message }));
                }
                message = up.message() => match message {
                    Ok(Some(FromGateway { message })) => {
                        self.heard = clock::now();
                        if message.is_some_and(|message| !self.take(message)) {
                            return;
                        }
                    }
                    Ok(None) | Err(_) => return,
                },
            }
        }
    }

    /// Nothing was heard for so long that nobody can be there.
    fn is_silent(&self) -> bool {
        let silent = clock::now().saturating_duration_since(self.heard) >= SILENT_MAX;
        if silent {
            tracing::warn!(gateway.id = %self.id, "a gateway fell silent");
        }
        silent
    }

    /// What goes down in the place that is free now.
    fn next(&mut self) -> Option<ToGateway> {
        if let Some(order) = self.order() {
            self.is_drained = !self.is_drained;
            return Some(order);
        }
        let is_free = self.answer_by.is_none();
        let outgoing = is_free.then(|| self.due()).flatten()?;
        Some(self.push(outgoing))
    }

    /// A generation, as it goes down.
    fn push(&mut self, outgoing: Outgoing) -> ToGateway {
        self.sent = Some((outgoing.number, outgoing.attempt, outgoing.may_go_back));
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
            may_go_back: outgoing.may_go_back,
            needs_word: self.is_ahead && !outgoing.may_go_back,
            parts,
        };
        ToGateway {
            message: Some(to_gateway::Message::Policy(policy)),
        }
    }
}
