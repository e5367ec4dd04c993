//! The first generation of a store.
//!
//! Separate because it happens once, before anybody listens: a store that holds nothing takes the
//! policy that the process was started with, or an empty one. A store that holds something is
//! never changed here.

use compartment::policy::Value;
use wire::document::{self, Loaded, Syntax};

use crate::StartError;
use crate::config::Config;
use crate::limits::{LimitsError, write_first};
use crate::store::Store;

/// Makes sure that there is a generation.
pub(crate) async fn import(store: &Store, config: &Config) -> Result<(), StartError> {
    let newest = store.newest_number().await?;
    if newest > 0 {
        return compare(store, config, newest).await;
    }
    let (document, comment) = match given(config)? {
        Some((document, name)) => (document, format!("imported from {name}")),
        None => (empty(), "an empty policy to begin with".to_owned()),
    };
    match write_first(store, document, &comment).await {
        Ok(Some(generation)) => {
            tracing::info!(
                policy.generation = generation,
                "bulkhead.policy.imported: {comment}"
            );
            Ok(())
        }
        // Another process was first; what it imported is what there is.
        Ok(None) => Ok(()),
        Err(LimitsError::Store(error)) => Err(error.into()),
        Err(error) => Err(StartError::Import {
            name: name_of(config),
            rules: rules(error),
        }),
    }
}

/// A policy that routes nothing.
fn empty() -> Value {
    Value::Table(vec![("schema".to_owned(), Value::Integer(1))])
}

fn name_of(config: &Config) -> String {
    let file = config
        .import
        .as_ref()
        .map(|path| path.display().to_string());
    file.unwrap_or_else(|| "the command line".to_owned())
}

fn given(config: &Config) -> Result<Option<(Value, String)>, StartError> {
    if let Some(Loaded { document, .. }) = &config.import_document {
        return Ok(Some((document.clone(), name_of(config))));
    }
    let Some(path) = &config.import else {
        return Ok(None);
    };
    let name = name_of(config);
    let unreadable = |source| StartError::ImportFile {
        name: name.clone(),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let loaded = document::load(&text, Syntax::of_path(path));
    let refused = |error: document::LoadError| StartError::Import {
        name: name.clone(),
        rules: error.to_string(),
    };
    Ok(Some((loaded.map_err(refused)?.document, name)))
}

fn rules(error: LimitsError) -> String {
    match error {
        LimitsError::Invalid { faults } => {
            let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }
        error @ (LimitsError::UnknownKey { .. }
        | LimitsError::UnknownEntry { .. }
        | LimitsError::Exists { .. }
        | LimitsError::InUse { .. }
        | LimitsError::NotSettable { .. }
        | LimitsError::UnknownGeneration(_)
        | LimitsError::MovedOn { .. }
        | LimitsError::TooManyOpen
        | LimitsError::Contended
        | LimitsError::Store(_)) => error.to_string(),
    }
}

/// The generation of a store that was empty before.
const FIRST: u64 = 1;

/// Says so when the policy that was given is not the one in the store. Flags that never had an
/// effect on this store are an error: somebody who says `--shadow` must not be served by a limit
/// that refuses. Flags that made the first generation are what they were, and changed since.
async fn compare(store: &Store, config: &Config, newest: u64) -> Result<(), StartError> {
    let (document, name) = match given(config) {
        Ok(None) => return Ok(()),
        Ok(Some(given)) => given,
        Err(error) => {
            tracing::warn!("{error}; the store holds generation {newest}, which runs on");
            return Ok(());
        }
    };
    let digest = document::digest(&document);
    if is_of(store, newest, &digest).await {
        return Ok(());
    }
    if config.import.is_some() {
        tracing::warn!(
            "the store holds generation {newest}, which differs from {name}: nothing was \
             imported. To publish the file: bulkhead apply -f {name}"
        );
    } else if is_of(store, FIRST, &digest).await {
        tracing::warn!(
            "the store holds generation {newest}, changed since {name} made the first: what it \
             holds is served"
        );
    } else {
        return Err(StartError::Differs { newest });
    }
    Ok(())
}

/// Whether the generation has this digest.
async fn is_of(store: &Store, number: u64, digest: &str) -> bool {
    // The row, not the document: that of an old one may be kept no more.
    let listed = store.generations(Some(number.saturating_add(1)), 1).await;
    listed.is_ok_and(|listed| {
        let mut listed = listed.iter();
        listed.any(|about| about.number == number && about.digest == digest)
    })
}
