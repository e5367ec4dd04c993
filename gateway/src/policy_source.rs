//! From the settings to a source of policies: what happens at the start, what goes on afterwards.
//!
//! Separate so that the three kinds of source look alike to the rest of the process. It must
//! never make a start depend on a control plane being there.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::config::Source;
use crate::intake::{Answer, Identity, Intake};
use crate::keeper::Keeper;
use crate::last_good::FolderError;
use crate::policy_file::{FileError, PolicyFile};
use crate::report::Reporter;
use crate::standing::Standing;
use crate::sync::{AddressError, Link};

/// Why no source could be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("the policy of the command line is refused: {faults}")]
    Refused { faults: String },
}

/// What the source goes on to do, on the background thread.
#[derive(Debug)]
pub(crate) enum PolicySource {
    /// A document never changes.
    Fixed,
    File(Arc<PolicyFile>),
    ControlPlane(Box<Link>),
}

/// Opens `source` and puts in force what it has at once.
pub(crate) fn open(
    source: Source,
    gateway_id: String,
    intake: &Arc<Intake>,
    reporter: Reporter,
    standing: &Arc<Standing>,
) -> Result<PolicySource, SourceError> {
    match source {
        Source::File(path) => Ok(PolicySource::File(Arc::new(PolicyFile::open(
            &path, intake,
        )?))),
        Source::Document(loaded) => {
            let digest = wire::document::digest(&loaded.document);
            let offered = Identity {
                epoch: String::new(),
                generation: 1,
                digest,
            };
            match intake.offer_loaded(offered, loaded) {
                Answer::Running | Answer::AlreadyThere => Ok(PolicySource::Fixed),
                Answer::Refused(faults) => Err(SourceError::Refused {
                    faults: crate::intake::texts(&faults),
                }),
            }
        }
        Source::ControlPlane {
            urls,
            ca,
            token,
            state_dir,
        } => {
            let keeper = match &state_dir {
                Some(folder) => Keeper::open(folder)?,
                None => Keeper::nowhere(),
            };
            let (own, standing) = (Arc::clone(intake), Arc::clone(standing));
            let link = Link::new(
                (&urls, ca.as_deref()),
                &token,
                gateway_id,
                own,
                keeper.clone(),
                reporter,
                standing,
            )?;
            keeper.restore(intake);
            if intake.running().is_none() {
                tracing::warn!(
                    control.address = urls.join(" "),
                    "no policy yet: this gateway answers 503 until its control plane sends one"
                );
            }
            Ok(PolicySource::ControlPlane(Box::new(link)))
        }
    }
}

impl PolicySource {
    /// Follows the source for ever; ends when it is dropped. `reload` is notified to look again.
    pub(crate) async fn follow(self, intake: Arc<Intake>, reload: Arc<Notify>) {
        match self {
            Self::Fixed => std::future::pending().await,
            Self::File(file) => loop {
                reload.notified().await;
                let (file, intake) = (Arc::clone(&file), Arc::clone(&intake));
                // A panic inside is caught by the intake; reading cannot panic.
                let _done = tokio::task::spawn_blocking(move || file.reload(&intake)).await;
            },
            Self::ControlPlane(link) => link.run().await,
        }
    }
}
