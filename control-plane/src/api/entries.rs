//! Changes of one tenant, and what every change of a tenant or a plan says beside its fields.
//!
//! Separate from what is shown: these read a body, and hand on to the one write path. They must
//! never decide about a value themselves.

use axum::extract::{Request, State};
use axum::response::Response;
use compartment::policy::Value;
use compartment::{Limit, Name};
use http::{HeaderValue, StatusCode, header};
use utoipa::ToSchema;

use super::call::{Call, Kind};
use super::input::{self, CHANGE_BYTES_MAX, Path};
use super::{Problem, policy};
use crate::access::OPERATOR;
use crate::auth;
use crate::limits::{Asked, Author, COMMENT_BYTES_MAX, Entry, Fields, Named};
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/tenants", OPERATOR, create)
            .says("createTenant", "Make a tenant")
            .details("Every field of `[tenants.ID]`, and its name as `id`. At most 64 KiB.")
            .takes::<NewTenant>(r#"{"id": "acme", "plan": "pro", "hosts": ["acme.example.com"]}"#)
            .writes_new::<policy::Answer>("Stored")
            .may(
                StatusCode::CONFLICT,
                "There is one already, or other writers always came first",
            ),
        Call::patch("/tenants/{id}", OPERATOR, update)
            .says("patchTenant", "Change a tenant")
            .details(
                "Fields of `[tenants.ID]`; null takes one away, and what is said of a key goes \
                 with its digest. Without If-Match the change is made on top of the newest \
                 generation.",
            )
            .takes::<TenantFields>(r#"{"limit": 80, "comment": "room for the sale"}"#)
            .writes_policy(),
        Call::delete("/tenants/{id}", OPERATOR, delete)
            .says("deleteTenant", "Take a tenant away")
            .details("What it has in flight finishes and is counted.")
            .query("comment", Kind::Text(COMMENT_BYTES_MAX), WHY)
            .writes_policy(),
    ]
}

/// What is said of a comment.
pub(super) const WHY: &str = "Why, for the history.";

/// Fields of a tenant, as in the policy, and why.
#[derive(ToSchema)]
#[expect(dead_code, reason = "described here, read as the policy's own values")]
struct TenantFields {
    plan: Option<String>,
    limit: Option<Limit>,
    /// `sha256:` and 64 hexadecimal digits each.
    #[schema(max_items = 100)]
    api_keys: Option<Vec<String>>,
    #[schema(max_items = 100)]
    hosts: Option<Vec<String>>,
    suspended: Option<bool>,
    /// Why, for the history.
    #[schema(max_length = 2000)]
    comment: Option<String>,
}

/// A tenant that is to be made.
#[derive(ToSchema)]
#[expect(dead_code, reason = "described here, read as the policy's own values")]
struct NewTenant {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    id: String,
    plan: Option<String>,
    limit: Option<Limit>,
    /// `sha256:` and 64 hexadecimal digits each.
    #[schema(max_items = 100)]
    api_keys: Option<Vec<String>>,
    #[schema(max_items = 100)]
    hosts: Option<Vec<String>>,
    suspended: Option<bool>,
    /// Why, for the history.
    #[schema(max_length = 2000)]
    comment: Option<String>,
}

/// What every change of an entry says beside its fields.
pub(super) struct Change {
    pub(super) fields: Fields,
    seen: Option<u64>,
    dry_run: bool,
    pub(super) author: Author,
}

impl Change {
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            seen: self.seen,
            dry_run: self.dry_run,
            comment: &self.fields.comment,
        }
    }

    pub(super) const fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Takes a field that holds text; null is none.
    pub(super) fn take(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let at = self.fields.values.iter().position(|(own, _)| own == name);
        let Some(at) = at else { return Ok(None) };
        match self.fields.values.swap_remove(at).1 {
            Value::String(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            other @ (Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Array(_)
            | Value::Table(_)) => {
                let detail = format!("{name} = {}: must be text", other.excerpt());
                Err(Problem::invalid(&format!("/{name}"), &detail))
            }
        }
    }
}

/// Reads a change with a JSON object in its body.
pub(super) async fn change(request: Request) -> Result<Change, Problem> {
    let (head, body) = input::parts(request);
    let input::Write { seen, dry_run, .. } = input::write(&head, &[])?;
    let author = auth::author(&head.extensions);
    let body = input::json(Request::from_parts(head, body), CHANGE_BYTES_MAX).await?;
    let fields = super::compartments::fields(body.value)?;
    Ok(Change {
        fields,
        seen,
        dry_run,
        author,
    })
}

/// Reads a change without a body.
pub(super) async fn bare(request: Request) -> Result<Change, Problem> {
    let (head, body) = input::parts(request);
    let write = input::write(&head, &["comment"])?;
    let (seen, dry_run) = (write.seen, write.dry_run);
    let comment: String = input::parameter(&write.pairs, "comment", "text")?.unwrap_or_default();
    input::comment(&comment)?;
    let author = auth::author(&head.extensions);
    input::empty(Request::from_parts(head, body)).await?;
    let fields = Fields {
        comment,
        ..Fields::default()
    };
    Ok(Change {
        fields,
        seen,
        dry_run,
        author,
    })
}

/// A name that a policy can hold; what is none is told by its field.
pub(super) fn named(id: &str) -> Result<(), Problem> {
    Name::new(id).map(drop).map_err(|rule| {
        let detail = format!("id {:?}: {rule}", wire::stream::bounded_text(id, 100));
        Problem::invalid("/id", &detail)
    })
}

/// Makes a tenant.
pub(super) async fn create(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let mut change = change(request).await?;
    let id = change.take("id")?;
    let id = id.ok_or_else(|| Problem::invalid("/id", "id: is required"))?;
    named(&id)?;
    let entry = Entry::Create(std::mem::take(&mut change.fields.values));
    let (asked, author) = (change.asked(), &change.author);
    let limits = &state.limits;
    let accepted = limits
        .entry(Named::Tenant, &id, entry, asked, author)
        .await?;
    let mut answer = policy::answer(&accepted);
    if !change.is_dry() && accepted.opened().is_none() {
        *answer.status_mut() = StatusCode::CREATED;
        // A name needs no encoding.
        if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/tenants/{id}")) {
            answer.headers_mut().insert(header::LOCATION, place);
        }
    }
    Ok(answer)
}

/// Changes fields of one tenant; null takes one away.
pub(super) async fn update(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let mut change = change(request).await?;
    let entry = Entry::Set(std::mem::take(&mut change.fields.values));
    let (asked, author) = (change.asked(), &change.author);
    let limits = &state.limits;
    let accepted = limits
        .entry(Named::Tenant, &id, entry, asked, author)
        .await?;
    Ok(policy::answer(&accepted))
}

/// Takes a tenant away; what it has in flight finishes and is counted.
pub(super) async fn delete(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let change = bare(request).await?;
    let (asked, author) = (change.asked(), &change.author);
    let limits = &state.limits;
    let entry = Entry::Remove;
    let accepted = limits
        .entry(Named::Tenant, &id, entry, asked, author)
        .await?;
    Ok(policy::answer(&accepted))
}
