//! The rows of the Tenants page as a file.
//!
//! Separate because a file is opened by other programs. It must never hold a name that one of them
//! would run, nor leave rows out without saying so.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde_json::{Value as Json, json};
use web::{EXPORT_ROWS_MAX, TenantRow, Used};

use super::list::{cell, file};
use super::tenants::{Viewed, row, wanted};
use crate::state::AppState;
use crate::tenants::{self, Told};

/// The rows of a view as comma-separated values.
pub(super) async fn csv(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
) -> Response {
    let made = exported(state, viewed, |rows| {
        let mut text = String::from(HEAD);
        text.push_str("\r\n");
        for row in rows {
            let fields: Vec<String> = fields(row).map(|(_, value)| cell(&value)).collect();
            text.push_str(&fields.join(","));
            text.push_str("\r\n");
        }
        text
    });
    file(made.await, "text/csv; charset=utf-8", "tenants.csv")
}

/// The same as JSON.
pub(super) async fn json(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
) -> Response {
    let made = exported(state, viewed, |rows| {
        let object = |row: &TenantRow| fields(row).collect::<serde_json::Map<_, _>>();
        let rows: Vec<_> = rows.iter().map(object).collect();
        json!({ "tenants": rows }).to_string()
    });
    file(made.await, "application/json", "tenants.json")
}

async fn exported(
    state: AppState,
    viewed: Result<Query<Viewed>, QueryRejection>,
    write: impl FnOnce(&[TenantRow]) -> String + Send + 'static,
) -> Option<(String, usize)> {
    let Query(viewed) = viewed.unwrap_or_default();
    let current = state.policy_current().await;
    let made = tokio::task::spawn_blocking(move || {
        let told = Told::of(&state);
        let (policy, by_name) = current.tenants()?;
        let query = wanted(&viewed.view(), 0, EXPORT_ROWS_MAX);
        let selected = tenants::select(policy, by_name, &told, &query);
        let left_out = selected.matching.saturating_sub(selected.rows.len());
        let placed = selected.rows.into_iter();
        let rows: Vec<TenantRow> = placed
            .map(|placed| row(&current, policy, &told, placed))
            .collect();
        Some((write(&rows), left_out))
    });
    made.await.ok().flatten()
}

/// The columns; the same as of [`fields`].
const HEAD: &str = "id,plan,limit,suspended,keys,in_flight,peak,promised,rejected,saturated";

fn fields(row: &TenantRow) -> impl Iterator<Item = (String, Json)> + use<> {
    let slots = |limit: Option<u64>| limit.map_or_else(|| json!("unlimited"), |n| json!(n));
    let told = |value: &dyn Fn(&Used) -> Json| row.used.as_ref().map_or(Json::Null, value);
    let values = [
        json!(row.id),
        json!(row.plan),
        slots(row.limit),
        json!(row.suspended),
        json!(row.keys),
        told(&|used| json!(used.in_flight)),
        told(&|used| json!(used.peak)),
        told(&|used| slots(used.promised)),
        told(&|used| json!(used.rejected)),
        told(&|used| json!(used.full)),
    ];
    HEAD.split(',').map(str::to_owned).zip(values)
}
