//! What is found out of a gateway when its stream opens: its token, its name, whether what it holds
//! was made here.
//!
//! Separate because it is asked once, before anything is sent. It must never let a number alone
//! say that two policies belong together.

use std::cmp::Ordering as Cmp;
use std::sync::Arc;

use tonic::{Status, Streaming};
use wire::stream::bounded_text;
use wire::stream::proto::{FromGateway, Hello, from_gateway};

use super::ID_BYTES_MAX;
use crate::rollout::Published;
use crate::state::AppState;
use crate::store::StoreError;

/// The token of a call.
pub(super) fn offered(metadata: &tonic::metadata::MetadataMap) -> Option<&str> {
    let value = metadata.get("authorization")?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}

/// The newest generation, and whether the gateway holds what this store never made.
pub(super) async fn holds(
    state: &AppState,
    id: &str,
    hello: &Hello,
) -> Result<(Arc<Published>, bool), StoreError> {
    let same_store = hello.epoch == state.epoch();
    let newest = match state.rollout.current() {
        // It may have been told by another process of this store.
        known if same_store && hello.generation > known.about.number => {
            // Or be staged on it. A store that does not answer is told of.
            let _silent = state.rollout.read_staged().await;
            state.policy_current().await
        }
        known => known,
    };
    let is_ahead = same_store && is_ahead(state, id, hello, &newest).await?;
    Ok((newest, is_ahead))
}

/// True when the gateway holds what this store never made, or made otherwise: it is of a time that
/// the store has lost, and stays so when the store's numbers pass it.
async fn is_ahead(
    state: &AppState,
    id: &str,
    hello: &Hello,
    newest: &Published,
) -> Result<bool, StoreError> {
    let (held, number) = (hello.generation, newest.about.number);
    if held == 0 {
        return Ok(false);
    }
    let is_made = match held.cmp(&number) {
        Cmp::Less => state.rollout.made(held, &hello.digest).await?,
        Cmp::Equal => hello.digest == newest.about.digest,
        Cmp::Greater => state.rollout.is_staged(id, held, &hello.digest),
    };
    if !is_made {
        tracing::error!(
            gateway.id = id,
            gateway.generation = held,
            policy.generation = number,
            "a gateway runs a generation that this store never made: was a backup restored?"
        );
    }
    Ok(!is_made)
}

pub(super) fn no_hello() -> Status {
    Status::invalid_argument("expected a hello first")
}

/// The first message, and the name in it.
pub(super) async fn hello(up: &mut Streaming<FromGateway>) -> Result<(String, Hello), Status> {
    let message = up.message().await?.and_then(|message| message.message);
    let Some(from_gateway::Message::Hello(hello)) = message else {
        return Err(no_hello());
    };
    let id = bounded_text(&hello.gateway_id, ID_BYTES_MAX);
    if id.is_empty() || id != hello.gateway_id {
        let rule = "gateway_id must have 1 to 128 bytes and no control characters";
        return Err(Status::invalid_argument(rule));
    }
    Ok((id, hello))
}
