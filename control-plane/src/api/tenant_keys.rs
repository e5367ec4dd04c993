//! `/tenants/{id}/keys`: API keys made, rotated and revoked.
//!
//! Separate because one answer of these, and no other, holds a secret. It must never be made twice
//! from one call, nor be kept.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Kind};
use super::input::Path;
use super::{Problem, entries, policy};
use crate::access::OPERATOR;
use crate::limits::{COMMENT_BYTES_MAX, Entry, Named};
use crate::state::AppState;
use crate::tenants::{self as own, AskedKey, KeyError};

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/tenants/{id}/keys", OPERATOR, create)
            .says("createTenantKey", "Make an API key")
            .details(
                "The key is in this answer alone; the policy keeps its SHA-256 digest. `replaces` \
                 ends an older key after `overlap`.",
            )
            .takes::<NewKey>(r#"{"label": "ci", "replaces": "9f86d081884c7d65", "overlap": "24h"}"#)
            .writes_new::<MadeKey<'_>>("The key, for the only time")
            .shows_once("key"),
        Call::delete("/tenants/{id}/keys/{key}", OPERATOR, delete)
            .says("deleteTenantKey", "Revoke an API key")
            .segment("id", Kind::Text(0), "The tenant.")
            .segment(
                "key",
                Kind::Text(0),
                "The key: the first 16 digits of its digest.",
            )
            .query("comment", Kind::Text(COMMENT_BYTES_MAX), entries::WHY)
            .writes_policy(),
    ]
}

/// A key that is to be made.
#[derive(ToSchema)]
#[schema(as = NewTenantKey)]
#[expect(dead_code, reason = "described here, read field by field")]
struct NewKey {
    /// For people.
    #[schema(max_length = 64)]
    label: Option<String>,
    /// A moment to come, in UTC and whole seconds; gateways refuse the key from then on.
    #[schema(example = "2027-07-01T12:00:00Z")]
    expires_at: Option<String>,
    /// The id of the key that this one replaces.
    replaces: Option<String>,
    /// How long that one opens on; a day unless said, at most 2160h.
    #[schema(example = "24h")]
    overlap: Option<String>,
    /// Why, for the history.
    #[schema(max_length = 2000)]
    comment: Option<String>,
}

/// A key, for the only time.
#[derive(Serialize, ToSchema)]
#[schema(as = MadeTenantKey)]
struct MadeKey<'a> {
    /// Names the key from now on.
    id: String,
    /// What a caller sends; null in a dry run. Nobody can ask for it again.
    #[schema(required)]
    key: Option<&'a str>,
    /// Its last characters.
    ending: &'a str,
    label: &'a str,
    created_at: &'a str,
    #[schema(required)]
    expires_at: Option<&'a str>,
    /// The key that it replaces, and when that one ends.
    #[schema(required)]
    replaces: Option<Replaced<'a>>,
    /// The generation that holds its digest.
    generation: u64,
    /// False in a dry run, and while it waits for another person's approval.
    stored: bool,
    /// The change that waits for that, or that holds what was stored.
    #[schema(required)]
    change: Option<u64>,
    findings: Vec<policy::FindingRow>,
}

/// The key that is replaced, and when it ends.
#[derive(Serialize, ToSchema)]
#[schema(as = ReplacedKey)]
struct Replaced<'a> {
    id: &'a str,
    expires_at: &'a str,
}

/// Makes a key.
pub(super) async fn create(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let mut change = entries::change(request).await?;
    let asked = AskedKey {
        label: change.take("label")?.unwrap_or_default(),
        expires_at: change.take("expires_at")?,
        replaces: change.take("replaces")?,
        overlap: change.take("overlap")?,
    };
    if let Some((name, value)) = change.fields.values.first() {
        let name = wire::stream::bounded_text(name, 100);
        let rule = "this call takes label, expires_at, replaces, overlap, comment";
        let detail = format!("{name} = {}: {rule}", value.excerpt());
        return Err(Problem::invalid(&format!("/{name}"), &detail));
    }
    let made = own::make(&asked, crate::clock::timestamp())?;
    let entry = Entry::AddKey(made.kept.clone());
    let (asked, author) = (change.asked(), &change.author);
    let limits = &state.limits;
    let accepted = limits
        .entry(Named::Tenant, &id, entry, asked, author)
        .await?;
    let kept = &made.kept;
    let answer = MadeKey {
        id: kept.id(),
        key: (!change.is_dry()).then(|| made.key.expose()),
        ending: &kept.ending,
        label: &kept.label,
        created_at: &kept.created,
        expires_at: kept.expires.as_deref(),
        replaces: kept
            .replaces
            .as_ref()
            .map(|(id, expires_at)| Replaced { id, expires_at }),
        generation: accepted.generation,
        stored: accepted.stored,
        change: accepted.change,
        findings: accepted
            .findings
            .iter()
            .map(policy::FindingRow::from)
            .collect(),
    };
    let status = match (change.is_dry(), accepted.opened()) {
        (true, _) => StatusCode::OK,
        (false, Some(_)) => StatusCode::ACCEPTED,
        (false, None) => StatusCode::CREATED,
    };
    let etag = (header::ETAG, policy::etag(accepted.generation));
    Ok((status, [etag], axum::Json(answer)).into_response())
}

/// Revokes a key.
pub(super) async fn delete(
    State(state): State<AppState>,
    Path((id, key)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let change = entries::bare(request).await?;
    let (asked, author) = (change.asked(), &change.author);
    let entry = Entry::RemoveKey(key);
    let limits = &state.limits;
    let accepted = limits
        .entry(Named::Tenant, &id, entry, asked, author)
        .await?;
    Ok(policy::answer(&accepted))
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        let words = error.to_string();
        match error {
            KeyError::Field { field, .. } => Self::invalid(&format!("/{field}"), &words),
            KeyError::Random(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-random-numbers", words)
            }
        }
    }
}
