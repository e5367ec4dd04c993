//! Errors as pages: status, title, request id, where to try again.
//!
//! Separate from the API's problems because a person reads these. It must never show a cause: that
//! goes to the log, under the same request id.

use axum::response::Response;
use http::StatusCode;
use web::{Problem, RenderError, Template as _};

use crate::limits::LimitsError;
use crate::people::PeopleError;
use crate::store::StoreError;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// No such thing.
    #[error("{what}")]
    NotFound {
        /// The sentence for the reader.
        what: &'static str,
    },
    /// The form could not be read, or is not one that our pages send.
    #[error("the form was not taken")]
    Form {
        /// 400 or a closer one.
        status: StatusCode,
        /// The sentence for the reader.
        what: &'static str,
    },
    /// Who calls is not who our own pages would let in.
    #[error("{what}")]
    Refused {
        /// 401 or 403.
        status: StatusCode,
        /// The sentence for the reader.
        what: String,
    },
    /// Every place for a stream is taken.
    #[error("too many browsers follow the pages")]
    TooManyStreams,
    /// The write path.
    #[error("the change was not taken")]
    Limits(#[source] LimitsError),
    /// The store.
    #[error("the store was not read")]
    Store(#[from] StoreError),
    /// People.
    #[error("nothing about people was changed")]
    People(#[source] PeopleError),
    /// No random number for a session.
    #[error("no session could be opened")]
    Session(#[from] wire::SecretError),
    /// A template; a defect of ours.
    #[error("the page could not be made")]
    Template(#[from] RenderError),
}

impl PageError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::Form { status, .. } | Self::Refused { status, .. } => *status,
            Self::Limits(
                LimitsError::UnknownKey { .. }
                | LimitsError::UnknownEntry { .. }
                | LimitsError::UnknownGeneration(_),
            ) => StatusCode::NOT_FOUND,
            Self::Limits(LimitsError::MovedOn { .. }) => StatusCode::PRECONDITION_FAILED,
            Self::Limits(LimitsError::NotSettable { .. } | LimitsError::Invalid { .. }) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Limits(
                LimitsError::Contended
                | LimitsError::TooManyOpen
                | LimitsError::Exists { .. }
                | LimitsError::InUse { .. },
            ) => StatusCode::CONFLICT,
            Self::People(error) => people_status(error),
            Self::Limits(LimitsError::Store(StoreError::NotKept(_)))
            | Self::Store(StoreError::NotKept(_)) => StatusCode::GONE,
            Self::Limits(LimitsError::Store(_))
            | Self::Store(_)
            | Self::Session(_)
            | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::Template(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// A fault of ours, for the log. Who is turned away for want of a place tries again every
    /// second: that is told to the browser alone.
    fn is_fault(&self) -> bool {
        self.status().is_server_error() && !matches!(self, Self::TooManyStreams)
    }

    fn words(&self) -> (&'static str, String) {
        match self {
            Self::NotFound { what } => ("Not found", (*what).to_owned()),
            Self::Form { what, .. } => ("The form was not taken", (*what).to_owned()),
            Self::Refused { what, .. } => ("Not allowed", what.clone()),
            Self::Limits(LimitsError::Store(error @ StoreError::NotKept(_)))
            | Self::Store(error @ StoreError::NotKept(_)) => {
                ("No longer kept", format!("{error}. Nothing was changed."))
            }
            Self::Limits(LimitsError::Store(_)) | Self::Store(_) => (
                "The store does not answer",
                "Gateways keep running what they have. Nothing was changed.".to_owned(),
            ),
            Self::TooManyStreams => (
                "Too many browsers follow the pages",
                "Pages work as before and ask for their figures themselves.".to_owned(),
            ),
            Self::Limits(error) => ("The change was not taken", error.to_string()),
            Self::People(error) => ("It was not done", format!("Nothing was changed: {error}.")),
            Self::Session(_) | Self::Template(_) => (
                "Something broke on our side",
                "Nothing was changed. The log says more.".to_owned(),
            ),
        }
    }

    /// The page. `retry` is where trying again makes sense.
    pub(crate) fn answer(&self, request_id: &str, retry: Option<String>) -> Response {
        let status = self.status();
        if self.is_fault() {
            tracing::error!(
                request.id = request_id,
                error = self as &dyn std::error::Error,
                "no page"
            );
        }
        let (title, detail) = self.words();
        let page = Problem {
            status: status.as_u16(),
            title: title.to_owned(),
            detail,
            request_id: request_id.to_owned(),
            retry,
        };
        super::html(
            status,
            page.render().unwrap_or_else(|_| format!("{title}\n")),
        )
    }
}

impl From<PeopleError> for PageError {
    fn from(error: PeopleError) -> Self {
        match error {
            PeopleError::Store(error) => Self::Store(error),
            PeopleError::Secret(error) => Self::Session(error),
            other @ (PeopleError::Name
            | PeopleError::TokenName
            | PeopleError::Password
            | PeopleError::Expiry
            | PeopleError::Person(_)
            | PeopleError::Beyond(_)
            | PeopleError::Taken
            | PeopleError::Unknown(_)
            | PeopleError::LastAdmin
            | PeopleError::Full
            | PeopleError::Code
            | PeopleError::Wrong
            | PeopleError::TooMany(_)
            | PeopleError::Hash(_)
            | PeopleError::Contended) => Self::People(other),
        }
    }
}

/// The same on pages and in the API.
pub(crate) fn people_status(error: &PeopleError) -> StatusCode {
    match error {
        PeopleError::Name
        | PeopleError::TokenName
        | PeopleError::Password
        | PeopleError::Expiry
        | PeopleError::Person(_)
        | PeopleError::Beyond(_)
        | PeopleError::Full => StatusCode::UNPROCESSABLE_ENTITY,
        PeopleError::Taken | PeopleError::LastAdmin | PeopleError::Contended => {
            StatusCode::CONFLICT
        }
        PeopleError::Unknown(_) | PeopleError::Code => StatusCode::NOT_FOUND,
        PeopleError::Wrong => StatusCode::UNAUTHORIZED,
        PeopleError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
        PeopleError::Hash(_) | PeopleError::Secret(_) | PeopleError::Store(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_no_place_is_left_for_fills_no_log() {
        let full = PageError::TooManyStreams;
        assert_eq!((full.status().as_u16(), full.is_fault()), (503, false));
        let store = PageError::Store(StoreError::Closed);
        assert_eq!((store.status().as_u16(), store.is_fault()), (503, true));
        let missing = PageError::NotFound { what: "nothing" };
        assert!(!missing.is_fault());
    }
}
