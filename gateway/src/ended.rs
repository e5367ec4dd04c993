//! Why a connection to the control plane ended, in words for the log.
//!
//! Separate because a streak of the same end is one line, whoever notices it. It must never carry
//! a token.

use tonic::{Code, Status};

use crate::control_address::DialError;

/// Why a connection ended. What is logged depends on the kind alone, once for each streak.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("cannot reach the control plane")]
    Dial(#[source] DialError),
    #[error(
        "the control plane does not accept the gateway token: give this gateway the token of \
         its control plane (--token-file or BULKHEAD_GATEWAY_TOKEN)"
    )]
    Token,
    // The text of a status repeats its causes: the message says enough.
    #[error("the control plane ended the stream: {}", .0.message())]
    Stream(Status),
    #[error("the control plane closed the stream")]
    Closed,
    #[error("the control plane does not read what it is sent")]
    Stalled,
    #[error("the control plane fell silent")]
    Silent,
}

impl Ended {
    /// A number for each kind, to notice when a streak changes its kind.
    pub(crate) const fn kind(&self) -> u8 {
        match self {
            Self::Dial(_) => 0,
            Self::Token => 1,
            Self::Stream(_) => 2,
            Self::Closed => 3,
            Self::Stalled => 4,
            Self::Silent => 5,
        }
    }

    pub(crate) fn of_status(status: Status) -> Self {
        if matches!(
            status.code(),
            Code::Unauthenticated | Code::PermissionDenied
        ) {
            Self::Token
        } else {
            Self::Stream(status)
        }
    }
}

/// An error and what it says of its causes, which its own text leaves out.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
