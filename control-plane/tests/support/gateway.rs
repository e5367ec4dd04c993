//! A gateway as the control plane sees one: a stream, and what the test makes it say.

use control_plane::Secret;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use wire::stream::proto::control_client::ControlClient;
use wire::stream::proto::{
    AlreadyThere, Answer, Compartment, Fault, FromGateway, Hello, Missing, PolicyPush, Refused,
    Rehearse, Rejected, Report, Running, ToGateway, answer, from_gateway, to_gateway,
};
use wire::stream::{MESSAGE_BYTES_MAX, authorization};

use super::Plane;

/// One open stream.
pub(crate) struct Gateway {
    up: mpsc::Sender<FromGateway>,
    down: Streaming<ToGateway>,
}

/// What this gateway says it runs.
#[derive(Clone, Default)]
pub(crate) struct Runs {
    pub(crate) generation: u64,
    pub(crate) digest: String,
    pub(crate) epoch: String,
    pub(crate) has_parts: bool,
}

async fn channel(plane: &Plane) -> Channel {
    let url = format!("http://{}", plane.address);
    Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

impl Gateway {
    pub(crate) async fn connect(plane: &Plane, id: &str) -> Self {
        Self::try_connect(plane, id, &plane.token(), Runs::default())
            .await
            .unwrap()
    }

    pub(crate) async fn try_connect(
        plane: &Plane,
        id: &str,
        token: &Secret,
        runs: Runs,
    ) -> Result<Self, Status> {
        let (up, messages) = mpsc::channel(16);
        let hello = Hello {
            gateway_id: id.to_owned(),
            version: "test".to_owned(),
            generation: runs.generation,
            digest: runs.digest,
            epoch: runs.epoch,
            takes_parts: true,
            has_parts: runs.has_parts,
        };
        let hello = FromGateway {
            message: Some(from_gateway::Message::Hello(hello)),
        };
        up.send(hello).await.unwrap();
        let mut request = Request::new(ReceiverStream::new(messages));
        request
            .metadata_mut()
            .insert("authorization", authorization(token).unwrap());
        let mut client =
            ControlClient::new(channel(plane).await).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let down = client.connect(request).await?.into_inner();
        Ok(Self { up, down })
    }

    /// The next policy that comes down.
    pub(crate) async fn policy(&mut self) -> PolicyPush {
        self.next().await.unwrap().unwrap()
    }

    /// The next policy; what else comes down is skipped.
    pub(crate) async fn next(&mut self) -> Result<Option<PolicyPush>, Status> {
        loop {
            match self.message().await? {
                Some(to_gateway::Message::Policy(policy)) => return Ok(Some(policy)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Whatever comes down next.
    pub(crate) async fn message(&mut self) -> Result<Option<to_gateway::Message>, Status> {
        let message = self.down.message().await?;
        Ok(message.and_then(|message| message.message))
    }

    /// The next rehearsal that is asked for; policies before it are passed over.
    pub(crate) async fn asked(&mut self) -> Rehearse {
        loop {
            let message = self.down.message().await.unwrap().unwrap();
            if let Some(to_gateway::Message::Rehearse(asked)) = message.message {
                return asked;
            }
        }
    }

    pub(crate) async fn say(&self, message: from_gateway::Message) {
        self.up
            .send(FromGateway {
                message: Some(message),
            })
            .await
            .unwrap();
    }

    async fn answer(&self, generation: u64, outcome: answer::Outcome) {
        let outcome = Some(outcome);
        self.say(from_gateway::Message::Answer(Answer {
            generation,
            outcome,
        }))
        .await;
    }

    pub(crate) async fn running(&self, generation: u64) {
        self.answer(generation, answer::Outcome::Running(Running {}))
            .await;
    }

    pub(crate) async fn missing(&self, generation: u64) {
        self.answer(generation, answer::Outcome::Missing(Missing {}))
            .await;
    }

    pub(crate) async fn already_there(&self, generation: u64) {
        self.answer(generation, answer::Outcome::AlreadyThere(AlreadyThere {}))
            .await;
    }

    pub(crate) async fn refused(&self, generation: u64, pointer: &str, rule: &str) {
        let fault = Fault {
            pointer: pointer.to_owned(),
            value: "7".to_owned(),
            rule: rule.to_owned(),
        };
        self.answer(
            generation,
            answer::Outcome::Refused(Refused {
                faults: vec![fault],
            }),
        )
        .await;
    }

    /// A report of rejections by themselves.
    pub(crate) async fn rejected(&self, generation: u64, newest: Vec<Rejected>) {
        let report = Report {
            generation,
            newest,
            ..Report::default()
        };
        self.say(from_gateway::Message::Report(report)).await;
    }

    pub(crate) async fn report(&self, generation: u64, compartments: Vec<Compartment>) {
        let report = Report {
            generation,
            compartments,
            ..Default::default()
        };
        self.say(from_gateway::Message::Report(report)).await;
    }
}
