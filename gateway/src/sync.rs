//! The gateway's end of the stream from its control plane: dial, greet, take policies, answer,
//! report, and dial again for ever.
//!
//! Separate because everything that can go wrong between the two processes ends here: traffic
//! must never notice whether the control plane is there. It must never apply a policy itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use compartment::policy::Fault;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Streaming};
use wire::Secret;
use wire::parts::{MissingPart, Parts, SPLIT_BYTES_MIN, assemble};
use wire::stream::proto::control_client::ControlClient;
use wire::stream::proto::from_gateway::Message;
use wire::stream::proto::{self, FromGateway, Hello, PolicyPush, ToGateway, to_gateway};
use wire::stream::{MESSAGE_BYTES_MAX, authorization};

pub(crate) use crate::control_address::AddressError;
use crate::control_planes::ControlPlanes;
use crate::ended::{Ended, causes};
use crate::intake::{Answer, Identity, Intake, Word, broken};
use crate::keeper::Keeper;
use crate::report::Reporter;
use crate::standing::Standing;

const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// Messages to the control plane that wait for it to read.
const OUTBOUND_MAX: usize = 4;
/// A connection that has lasted this many reports was good: the next failure starts from the
/// shortest wait. Counted in reports, so that one that breaks at once does not reset anything.
const REPORTS_WHEN_GOOD: u32 = 5;
/// Rehearsals of a fallback at one time; what is asked beyond is not answered.
const REHEARSALS_MAX: usize = 4;
/// Longest wait for the disk before a policy is put in force without it.
const SAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// An answer that nobody reads this long ends the connection.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A control plane that sends heartbeats and then nothing for so many reports is dead, whatever
/// its machine still answers.
const SILENT_REPORTS_MAX: u32 = 35;

/// The stream's client; owned by the background thread.
#[derive(Debug)]
pub(crate) struct Link {
    planes: ControlPlanes,
    authorization: MetadataValue<Ascii>,
    gateway_id: String,
    intake: Arc<Intake>,
    keeper: Keeper,
    reporter: Reporter,
    standing: Arc<Standing>,
    /// The document that runs, where it is large enough to be sent in parts.
    base: Option<Arc<Parts>>,
    /// The kind of failure that was logged last in this streak.
    logged: Option<u8>,
}

impl Link {
    pub(crate) fn new(
        (urls, ca): (&[String], Option<&Path>),
        token: &Secret,
        gateway_id: String,
        intake: Arc<Intake>,
        keeper: Keeper,
        reporter: Reporter,
        standing: Arc<Standing>,
    ) -> Result<Self, AddressError> {
        Ok(Self {
            planes: ControlPlanes::new(urls, ca)?,
            authorization: authorization(token).ok_or(AddressError::Token)?,
            gateway_id,
            intake,
            keeper,
            reporter,
            standing,
            base: None,
            logged: None,
        })
    }

    /// Stays connected for ever; ends when it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let Err(ended) = self.connection().await;
            self.standing.set_control_plane(None);
            self.log(&ended);
            self.keep_up().await;
            tokio::time::sleep(self.planes.fail(chance())).await;
        }
    }

    /// One connection, from dialling to its end.
    async fn connection(&mut self) -> Result<std::convert::Infallible, Ended> {
        let channel = self.planes.current().connect().await.map_err(Ended::Dial)?;
        let (outbound, queue) = mpsc::channel(OUTBOUND_MAX);
        // The greeting is queued before the call, so that it is the first message.
        send(&outbound, Message::Hello(self.hello())).await?;
        // The channel is kept: without a handle on it nothing would say that it is still wanted.
        let mut inbound = self.call(channel.clone(), queue).await?;
        let url = self.planes.url();
        tracing::info!(control.address = url, "connected to the control plane");
        self.standing.set_control_plane(Some(url));
        self.logged = None;
        let mut period = tokio::time::interval(REPORT_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reports: u32 = 0;
        // Reports since anything came down; counted from the first heartbeat on.
        let mut silence: Option<u32> = None;
        let mut rehearsals = JoinSet::new();
        loop {
            tokio::select! {
                // Cancelled between two messages or inside one, the stream keeps what it has.
                message = inbound.message() => {
                    let message = message.map_err(Ended::of_status)?.ok_or(Ended::Closed)?;
                    silence = silence.map(|_| 0);
                    match message.message {
                        Some(to_gateway::Message::Policy(push)) => {
                            self.take(push, &outbound).await?;
                        }
                        // Beside the stream: a policy never waits for one.
                        Some(to_gateway::Message::Rehearse(asked))
                            if rehearsals.len() < REHEARSALS_MAX =>
                        {
                            let reporter = self.reporter.clone();
                            rehearsals.spawn(async move { reporter.rehearse(asked).await });
                        }
                        Some(to_gateway::Message::Drain(order)) => self.drain(order.drained),
                        Some(to_gateway::Message::Heartbeat(_)) => silence = Some(0),
                        // A newer control plane may say what this build does not know.
                        Some(to_gateway::Message::Rehearse(_)) | None => {}
                    }
                }
                // Cancelled, the ended one is joined the next time.
                Some(told) = rehearsals.join_next() => {
                    if let Ok(told) = told {
                        send(&outbound, Message::Rehearsed(told)).await?;
                    }
                }
                // A tick that is cancelled comes again with the next call.
                _ = period.tick() => {
                    self.keep_up().await;
                    self.report(&outbound).await?;
                    silence = silence.map(|reports| reports.saturating_add(1));
                    if silence.is_some_and(|reports| reports > SILENT_REPORTS_MAX) {
                        return Err(Ended::Silent);
                    }
                    reports = reports.saturating_add(1);
                    if reports == REPORTS_WHEN_GOOD {
                        self.planes.good();
                    }
                }
            }
        }
    }

    fn hello(&self) -> Hello {
        let Identity {
            epoch,
            generation,
            digest,
        } = self.intake.running().unwrap_or_default();
        Hello {
            gateway_id: self.gateway_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generation,
            digest,
            epoch,
            takes_parts: true,
            has_parts: self.base.is_some(),
        }
    }

    async fn call(
        &self,
        channel: Channel,
        queue: mpsc::Receiver<FromGateway>,
    ) -> Result<Streaming<ToGateway>, Ended> {
        let mut request = Request::new(ReceiverStream::new(queue));
        request
            .metadata_mut()
            .insert("authorization", self.authorization.clone());
        let mut client = ControlClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let answered =
            tokio::time::timeout(self.planes.greeting_timeout(), client.connect(request)).await;
        let stalled = |_| Ended::Stalled;
        Ok(answered
            .map_err(stalled)?
            .map_err(Ended::of_status)?
            .into_inner())
    }

    /// One policy of the control plane.
    async fn take(
        &mut self,
        push: PolicyPush,
        outbound: &mpsc::Sender<FromGateway>,
    ) -> Result<(), Ended> {
        let generation = push.generation;
        let answer = self.apply(push).await;
        let outcome = match answer {
            Err(MissingPart) => proto::answer::Outcome::Missing(proto::Missing {}),
            Ok(Answer::Running) => proto::answer::Outcome::Running(proto::Running {}),
            Ok(Answer::AlreadyThere) => {
                proto::answer::Outcome::AlreadyThere(proto::AlreadyThere {})
            }
            Ok(Answer::Refused(faults)) => proto::answer::Outcome::Refused(proto::Refused {
                faults: faults.iter().map(fault_message).collect(),
            }),
        };
        let answer = proto::Answer {
            generation,
            outcome: Some(outcome),
        };
        send(outbound, Message::Answer(answer)).await?;
        self.report(outbound).await
    }

    /// Check, save, put in force: in this order, so that a limit that anybody has met is on disk.
    /// All on threads of the blocking pool: a policy of 20 MB must not delay the admin port,
    /// which shares this thread.
    async fn apply(&mut self, push: PolicyPush) -> Result<Answer, MissingPart> {
        let PolicyPush {
            generation,
            digest,
            document,
            epoch,
            parts,
            may_go_back,
            needs_word,
        } = push;
        let word = match (may_go_back, needs_word) {
            (true, _) => Word::MayGoBack,
            (false, true) => Word::Needed,
            (false, false) => Word::None,
        };
        let document = if parts.is_empty() {
            document
        } else {
            let base = self.base.clone();
            let whole = spawn_blocking(move || assemble(&parts, base.as_deref())).await;
            whole.unwrap_or(Err(MissingPart))?
        };
        let offered = Identity {
            epoch,
            generation,
            digest,
        };
        let (intake, text, identity) =
            (Arc::clone(&self.intake), document.clone(), offered.clone());
        let checked = spawn_blocking(move || intake.check_with(identity, &text, word)).await;
        let checked = match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err(answer)) => return Ok(answer),
            Err(_) => return Ok(Answer::Refused(vec![broken()])),
        };
        let keeper = self.keeper.clone();
        let saved = document.clone();
        let saving = spawn_blocking(move || keeper.keep(offered, &saved));
        // A disk that hangs delays a change by this much and no more; saving goes on.
        let _saved = tokio::time::timeout(SAVE_TIMEOUT, saving).await;
        let intake = Arc::clone(&self.intake);
        let installed = spawn_blocking(move || intake.install(checked)).await;
        let answer = installed.unwrap_or_else(|_| Answer::Refused(vec![broken()]));
        if matches!(answer, Answer::Refused(_)) {
            self.keeper.distrust();
        } else if answer == Answer::Running {
            self.base = base_of(document).await;
        }
        Ok(answer)
    }

    /// An operator's order: probes say that this gateway is not ready, and it serves on.
    fn drain(&self, drained: bool) {
        if self.standing.set_drained(drained) {
            tracing::warn!(drained, "an operator ordered whether this gateway is ready");
        }
    }

    /// Saves again what could not be saved.
    async fn keep_up(&self) {
        let keeper = self.keeper.clone();
        if keeper.is_behind() {
            let saving = spawn_blocking(move || keeper.retry());
            // A disk that hangs holds up neither policies nor reports.
            let _saved = tokio::time::timeout(SAVE_TIMEOUT, saving).await;
        }
    }

    async fn report(&self, outbound: &mpsc::Sender<FromGateway>) -> Result<(), Ended> {
        let reporter = self.reporter.clone();
        let Ok(mut report) = spawn_blocking(move || reporter.message()).await else {
            return Ok(());
        };
        report.drained = self.standing.is_drained();
        // When the last reports wait unread, one more would only be older when it is read.
        match outbound.try_send(FromGateway {
            message: Some(Message::Report(report)),
        }) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Ended::Closed),
        }
    }

    /// Once for each streak of the same kind: a control plane that is away for a night is one
    /// line, not ten thousand.
    fn log(&mut self, ended: &Ended) {
        let kind = ended.kind();
        if self.logged.replace(kind) == Some(kind) {
            tracing::debug!(error = %causes(ended), "still not connected to the control plane");
            return;
        }
        let running = self
            .intake
            .running()
            .map_or(0, |running| running.generation);
        tracing::warn!(
            error = %causes(ended),
            control.address = self.planes.url(),
            policy.generation = running,
            "not connected to the control plane; the policy in force stays, dialling goes on"
        );
    }
}

async fn send(outbound: &mpsc::Sender<FromGateway>, message: Message) -> Result<(), Ended> {
    let message = FromGateway {
        message: Some(message),
    };
    match tokio::time::timeout(SEND_TIMEOUT, outbound.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ended::Closed),
        Err(_) => Err(Ended::Stalled),
    }
}

/// What the next document is told against; `None`: it comes whole.
async fn base_of(document: Bytes) -> Option<Arc<Parts>> {
    if document.len() < SPLIT_BYTES_MIN {
        return None;
    }
    let cut = spawn_blocking(move || Arc::new(Parts::of(document)));
    cut.await.ok()
}

fn fault_message(fault: &Fault) -> proto::Fault {
    proto::Fault {
        pointer: fault.path.pointer(),
        value: fault.value.clone(),
        rule: fault.rule.clone(),
    }
}

/// A number by chance. Without randomness all gateways wait equally long, which is bearable.
fn chance() -> u64 {
    getrandom::u64().unwrap_or_default()
}
