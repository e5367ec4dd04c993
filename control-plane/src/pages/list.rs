//! `GET /compartments`, and the same rows as a file.
//!
//! Separate page by page. A page costs in proportion to the rows it shows: what is dear is looked
//! up for those alone. It must never write a name into a file that a program would run.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use compartment::{Level, Rejection};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use web::{Advised, ListPage, ListRow, ListView, Order, Template as _};

use super::frame::Asked;
use super::readings::Snapshot;
use super::{PageError, card_words, hour, html};
use crate::advice::{Card, Verdict};
use crate::clock;
use crate::state::AppState;
use crate::store::StoreError;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Viewed {
    state: String,
    level: String,
    tenant: String,
    find: String,
    sort: String,
    page: String,
    fragment: String,
}

impl Viewed {
    fn view(&self) -> ListView {
        ListView::parse(web::Asked {
            state: &self.state,
            level: &self.level,
            tenant: &self.tenant,
            find: &self.find,
            sort: &self.sort,
            page: &self.page,
        })
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(viewed) = viewed.unwrap_or_default();
    let asked = Asked::of(&request);
    match body(&state, &asked, viewed).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/compartments".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, viewed: Viewed) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let view = viewed.view();
    let frame = asked.frame(&current, &snapshot, view.href());
    let (state, is_live) = (state.clone(), viewed.fragment == "live");
    // With 100,000 tenants there is much to add up: not on a thread that pushes policies.
    let made = tokio::task::spawn_blocking(move || {
        let rows = rows(&state, &snapshot, &view);
        let mut page = ListPage::new(frame, view, rows);
        fill(&state, &snapshot, page.view.order, &mut page.rows);
        if is_live {
            page.fragment()
        } else {
            page.render()
        }
    });
    Ok(made.await.map_err(|_| StoreError::Closed)??)
}

/// Every compartment that somebody reports, with what the order may need.
fn rows(state: &AppState, snapshot: &Snapshot, view: &ListView) -> Vec<ListRow> {
    let saturated = state.past.saturated(clock::unix_ms().div_euclid(1_000));
    let row = |reading: web::Reading| {
        let own = saturated.get(reading.key.as_str()).copied();
        ListRow::new(reading, own.unwrap_or_default())
    };
    let mut rows: Vec<ListRow> = snapshot.readings().into_iter().map(row).collect();
    if view.order == Order::Hold {
        let mut times = snapshot.times_of(|_| true);
        for row in &mut rows {
            row.times = times.remove(row.reading.key.as_str()).unwrap_or_default();
            row.p99_us = row.times.hold.quantile_us(990);
        }
    }
    rows
}

/// What only the rows of this page need.
fn fill(state: &AppState, snapshot: &Snapshot, order: Order, rows: &mut [ListRow]) {
    let listed = state.advice.listed();
    for row in rows {
        let key = row.reading.key.as_str();
        // The order by hold times has looked at them all.
        if order != Order::Hold {
            row.times = snapshot.times(key);
        }
        row.spark = hour::spark(&state.past, key);
        let card = listed.cards.iter().find(|card| card.key == key);
        row.advice = match card {
            Some(card) => Some(advised(card)),
            None => not_yet(listed.at_ms, row.reading.level),
        };
    }
}

/// A blank would read as nothing to change, where nobody has looked yet.
fn not_yet(worked_out_ms: Option<i64>, level: Level) -> Option<(&'static str, String)> {
    let is_advised = match level {
        Level::Gateway | Level::Upstream | Level::Route | Level::Stream | Level::Fallback => true,
        Level::Tenant | Level::TenantRoute => false,
    };
    let not_yet = is_advised && worked_out_ms.is_none();
    not_yet.then(|| (Advised::TooLittle.as_str(), "no advice yet".to_owned()))
}

/// The advice in two or three words.
fn advised(card: &Card) -> (&'static str, String) {
    let words = match (card.advice.verdict, card.advice.advised) {
        (Verdict::Raise, Some(slots)) => format!("raise to {}", web::text::count(slots)),
        (Verdict::Lower, Some(slots)) => format!("{} would do", web::text::count(slots)),
        (Verdict::Keep, _) => "keep".to_owned(),
        (Verdict::TooLittleEvidence, _) => "too little evidence".to_owned(),
        (Verdict::Unsettled | Verdict::Raise | Verdict::Lower, _) => "no advice".to_owned(),
    };
    (card_words::kind(card.advice.verdict).as_str(), words)
}

/// The rows of a view as comma-separated values.
pub(super) async fn csv(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
) -> Response {
    let Query(viewed) = viewed.unwrap_or_default();
    let made = exported(&state, &viewed, |rows, left_out| {
        let mut text = String::from(HEAD);
        text.push_str("\r\n");
        for row in rows {
            let fields: Vec<String> = fields(row).map(|(_, value)| cell(&value)).collect();
            text.push_str(&fields.join(","));
            text.push_str("\r\n");
        }
        (text, left_out)
    });
    file(made.await, "text/csv; charset=utf-8", "compartments.csv")
}

/// The same as JSON.
pub(super) async fn json(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
) -> Response {
    let Query(viewed) = viewed.unwrap_or_default();
    let made = exported(&state, &viewed, |rows, left_out| {
        let object = |row: &ListRow| fields(row).collect::<serde_json::Map<_, _>>();
        let rows: Vec<_> = rows.iter().map(object).collect();
        let text = json!({"compartments": rows, "left_out": left_out}).to_string();
        (text, left_out)
    });
    file(made.await, "application/json", "compartments.json")
}

async fn exported(
    state: &AppState,
    viewed: &Viewed,
    write: impl FnOnce(&[ListRow], usize) -> (String, usize) + Send + 'static,
) -> Option<(String, usize)> {
    let (state, view) = (state.clone(), viewed.view());
    let made = tokio::task::spawn_blocking(move || {
        let snapshot = Snapshot::take(&state);
        let rows = rows(&state, &snapshot, &view);
        let (mut rows, left_out) = ListPage::export(&view, rows);
        if view.order != Order::Hold {
            let mut times = snapshot.times_of(|_| true);
            for row in &mut rows {
                row.times = times.remove(row.reading.key.as_str()).unwrap_or_default();
            }
        }
        write(&rows, left_out)
    });
    made.await.ok()
}

pub(super) fn file(
    made: Option<(String, usize)>,
    kind: &'static str,
    name: &'static str,
) -> Response {
    let Some((body, left_out)) = made else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let place = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let place = place.unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, place),
        // A table has no place to say it in.
        (LEFT_OUT, HeaderValue::from(left_out)),
    ];
    (headers, body).into_response()
}

/// How many rows of the view found no place in the file.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-left-out");

/// The columns; the same as of [`fields`].
const HEAD: &str = "key,level,state,mode,limit,in_flight,peak,queued,borrowed,arrived,admitted,\
                    rejected,rejected_by_reason,saturated_5min_permille,saturated_1h_permille,\
                    saturated_24h_permille,hold_p50_us,hold_p99_us,gateways";

fn fields(row: &ListRow) -> impl Iterator<Item = (String, Json)> + use<> {
    let r = &row.reading;
    let [of_5min, of_hour, of_day] = row.saturated.shares();
    let reasons: Vec<String> = Rejection::ALL
        .iter()
        .filter_map(|reason| Some(format!("{} {}", reason.as_str(), r.rejected.get(reason)?)))
        .collect();
    let values = [
        json!(r.key),
        json!(r.level.as_str()),
        json!(r.state.word()),
        json!(r.mode.as_str()),
        r.limit
            .map_or_else(|| json!("unlimited"), |limit| json!(limit)),
        json!(r.in_flight),
        json!(r.peak),
        json!(r.queued),
        json!(r.borrowed),
        json!(r.arrived),
        json!(r.admitted),
        json!(r.rejected_all()),
        json!(reasons.join("; ")),
        json!(of_5min),
        json!(of_hour),
        json!(of_day),
        json!(row.times.hold.quantile_us(500)),
        json!(row.times.hold.quantile_us(990)),
        json!(r.gateways),
    ];
    HEAD.split(',').map(str::to_owned).zip(values)
}

/// One field of a line. A text that a spreadsheet would take for a formula is made one that it
/// does not.
pub(crate) fn cell(value: &Json) -> String {
    let text = match value {
        Json::Null => return String::new(),
        Json::String(text) => text,
        other @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
            return other.to_string();
        }
    };
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guard = if is_formula { "'" } else { "" };
    if is_formula || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_advice_the_list_says_so() {
        let words = |at_ms, level| not_yet(at_ms, level).map(|(_, words)| words);
        let yet = Some("no advice yet".to_owned());
        assert_eq!(words(None, Level::Route), yet);
        assert_eq!(words(Some(1), Level::Route), None);
        assert_eq!(words(None, Level::Tenant), None);
    }

    #[test]
    fn a_hostile_name_is_one_text_field() {
        for (text, field) in [
            ("route/a", "route/a"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\r\nb", "\"a\r\nb\""),
            ("=cmd|'/c calc'!A1", "\"'=cmd|'/c calc'!A1\""),
            ("@x", "\"'@x\""),
        ] {
            assert_eq!(cell(&json!(text)), field);
        }
        assert_eq!(
            (cell(&json!(null)), cell(&json!(-3))),
            (String::new(), "-3".to_owned())
        );
    }
}
