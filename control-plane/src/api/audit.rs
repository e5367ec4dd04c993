//! `GET /audit`: who did what, and the same rows as a file.
//!
//! Separate because it reads what nobody may change. It must never leave out a field that a digest
//! is made of, nor hold a file in memory that has no bound.

use axum::extract::Request;
use axum::extract::State as Of;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::call::{Call, Kind};
use super::{Problem, input};
use crate::access::VIEWER;
use crate::pages;
use crate::state::AppState;
use crate::store::{AUDIT_PAGE_MAX, AuditEntry, AuditFilter};

/// How many are listed unless the caller says.
const PAGE: u32 = 100;
/// Most rows in one file, and how many there are unless the caller says.
const EXPORT_ROWS_MAX: u32 = 10_000;
/// A file ends with the row that makes it longer than this; one row may be as long as a policy.
const EXPORT_BYTES_MAX: usize = 16 << 20;
/// Rows that are read at once for a file.
const EXPORT_PAGE: u32 = 50;
/// Longest text of a filter.
const FILTER_BYTES_MAX: usize = 1_024;

const FORMATS: &[&str] = &["json", "csv", "jsonl"];
const TIME_RULE: &str = "must be RFC 3339, or seconds since 1970";
const NAMES: &[&str] = &[
    "who", "action", "subject", "from", "to", "before", "count", "format",
];

/// Where a file goes on; absent in the last one.
const NEXT: HeaderName = HeaderName::from_static("x-next");

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    let count = Kind::Within(1, EXPORT_ROWS_MAX.into(), PAGE.into());
    vec![
        Call::get("/audit", VIEWER, list)
            .says("getAudit", "Who did what, newest first")
            .details(
                "With `format=csv` or `format=jsonl` a file: at most 10,000 rows, and it ends with \
                 the row that makes it longer than 16 MiB. `x-next` then is `before` of the next \
                 file. Cells that a spreadsheet would run begin with an apostrophe; whoever checks \
                 digests takes `jsonl`.",
            )
            .query(
                "who",
                Kind::Text(FILTER_BYTES_MAX),
                "Only what this one did.",
            )
            .query(
                "action",
                Kind::Text(FILTER_BYTES_MAX),
                "Only this, such as `put` or `drain`.",
            )
            .query(
                "subject",
                Kind::Text(FILTER_BYTES_MAX),
                "Only about this, such as `policy` or `gateway:gw-1`.",
            )
            .query("from", Kind::Time, "At this moment or later.")
            .query("to", Kind::Time, "Before this moment.")
            .query(
                "before",
                Kind::From(1),
                "Rows with a lower number: `next` of the answer before.",
            )
            .query(
                "count",
                count,
                "How many; at most 500 but for a file, which has 10,000 unless given.",
            )
            .query("format", Kind::OneOf(FORMATS), "As JSON unless given.")
            .answers::<AuditPage>("Newest first")
            .tells::<String>("text/csv", "")
            .tells::<String>("application/jsonl", ""),
    ]
}

/// What is asked for.
struct Wanted {
    filter: AuditFilter,
    count: Option<u32>,
    format: String,
}

async fn list(Of(state): Of<AppState>, request: Request) -> Result<Response, Problem> {
    let asked = wanted(&input::query(&input::parts(request).0, NAMES)?)?;
    let is_file = matches!(asked.format.as_str(), "csv" | "jsonl");
    let (most, usual) = match is_file {
        true => (EXPORT_ROWS_MAX, EXPORT_ROWS_MAX),
        false => (AUDIT_PAGE_MAX, PAGE),
    };
    let count = asked.count.unwrap_or(usual);
    if !(1..=most).contains(&count) {
        let rule = format!("must be a whole number from 1 to {most}");
        return Err(Problem::parameter("count", Some(&count.to_string()), &rule));
    }
    if is_file {
        return file(&state, asked.filter, count, asked.format == "csv").await;
    }
    let found = state.store.audit_page(&asked.filter, count).await?;
    let next = next(&found, count);
    let audit = found.into_iter().map(|entry| told(entry, true)).collect();
    Ok(axum::Json(AuditPage { audit, next }).into_response())
}

fn wanted(pairs: &[(String, String)]) -> Result<Wanted, Problem> {
    let text = |name: &str| {
        let text: String = input::parameter(pairs, name, "text")?.unwrap_or_default();
        if text.len() > FILTER_BYTES_MAX {
            let rule = format!("must have at most {FILTER_BYTES_MAX} bytes");
            return Err(Problem::parameter(name, Some(&text), &rule));
        }
        Ok(text)
    };
    let format = text("format")?;
    let is_given = pairs.iter().any(|(name, _)| name == "format");
    if is_given && !FORMATS.contains(&format.as_str()) {
        let rule = format!("must be one of {}", FORMATS.join(", "));
        return Err(Problem::parameter("format", Some(&format), &rule));
    }
    let filter = AuditFilter {
        who: text("who")?,
        action: text("action")?,
        subject: text("subject")?,
        from: moment("from", &text("from")?)?,
        to: moment("to", &text("to")?)?,
        before: input::parameter(pairs, "before", "must be the number of a row, from 1 on")?
            .map(std::num::NonZeroU64::get),
    };
    Ok(Wanted {
        filter,
        count: input::parameter(pairs, "count", "must be a whole number")?,
        format,
    })
}

/// A moment as rows have theirs, so that one text is before another as one moment is.
fn moment(name: &str, text: &str) -> Result<String, Problem> {
    if text.is_empty() {
        return Ok(String::new());
    }
    // In a query a plus is often sent as a blank: a time zone's.
    let read = match text.parse::<i64>() {
        Ok(second) => jiff::Timestamp::from_second(second),
        Err(_) => text.replace(' ', "+").parse(),
    };
    let read = read.map_err(|_| Problem::parameter(name, Some(text), TIME_RULE))?;
    Ok(format!("{read:.3}"))
}

/// The number below which it goes on, after a full page.
fn next(found: &[AuditEntry], count: u32) -> Option<u64> {
    let is_full = u32::try_from(found.len()).is_ok_and(|n| n == count);
    found.last().map(|entry| entry.id).filter(|_| is_full)
}

/// One row of the audit.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
struct Told {
    /// Its number; rises by one.
    id: u64,
    /// When, in UTC.
    at: String,
    /// What was done, such as `put`, `patch`, `restore` or `drain`.
    action: String,
    /// What it is about: `policy`, `gateway:gw-1`, `token:ab12`, `change:7`.
    subject: String,
    /// Who.
    who: String,
    /// From which address; empty for the process itself.
    origin: String,
    /// The generation that was the newest before; 0 for none.
    generation_before: u64,
    /// The newest generation afterwards.
    generation_after: u64,
    /// What differs: before and after. In a file the text as it is stored, of which the digest is
    /// made.
    #[schema(required)]
    differences: Value,
    /// Why, in the words of who did it.
    comment: String,
    /// The request that asked for it.
    request_id: String,
    /// Under which it can be asked for.
    operation: String,
    /// The digest of the row before; empty for the first.
    previous: String,
    /// SHA-256 of this row and of `previous`, hexadecimal.
    digest: String,
}

/// Rows of the audit, and where the list goes on.
#[derive(Serialize, ToSchema)]
struct AuditPage {
    /// Newest first.
    audit: Vec<Told>,
    /// `before` of the next page; null at the end.
    #[schema(required)]
    next: Option<u64>,
}

fn told(entry: AuditEntry, is_read: bool) -> Told {
    let row = entry.row;
    let read = is_read.then(|| match row.differences.as_str() {
        "" => Some(Value::Null),
        text => serde_json::from_str(text).ok(),
    });
    Told {
        id: entry.id,
        at: row.at,
        action: row.action,
        subject: row.subject,
        who: row.who,
        origin: row.origin,
        generation_before: row.generation_before,
        generation_after: row.generation_after,
        differences: read.flatten().unwrap_or(Value::String(row.differences)),
        comment: row.comment,
        request_id: row.request_id,
        operation: row.operation,
        previous: entry.previous,
        digest: entry.digest,
    }
}

/// The columns of a table.
const HEAD: &str = "id,at,action,subject,who,origin,generation_before,generation_after,\
                    differences,comment,request_id,operation,previous,digest";

/// Rows, page by page, until there are enough or the file is long enough.
async fn file(
    state: &AppState,
    mut filter: AuditFilter,
    count: u32,
    is_csv: bool,
) -> Result<Response, Problem> {
    let mut text = String::new();
    if is_csv {
        text.extend([HEAD, "\r\n"]);
    }
    let mut left = count;
    let next = 'file: loop {
        let page = left.min(EXPORT_PAGE);
        let found = state.store.audit_page(&filter, page).await?;
        let next = next(&found, page);
        for entry in found {
            let id = entry.id;
            line(&mut text, &told(entry, false), is_csv);
            if text.len() > EXPORT_BYTES_MAX {
                break 'file Some(id);
            }
        }
        left = left.saturating_sub(page);
        filter.before = next;
        if next.is_none() || left == 0 {
            break next;
        }
    };
    let (kind, name) = match is_csv {
        true => (
            "text/csv; charset=utf-8",
            "attachment; filename=\"audit.csv\"",
        ),
        false => ("application/jsonl", "attachment; filename=\"audit.jsonl\""),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
    ];
    let mut response = (headers, text).into_response();
    if let Some(next) = next {
        response.headers_mut().insert(NEXT, HeaderValue::from(next));
    }
    Ok(response)
}

fn line(text: &mut String, told: &Told, is_csv: bool) {
    let fields = serde_json::json!(told);
    if is_csv {
        let cell = |name| fields.get(name).map(pages::cell).unwrap_or_default();
        let cells: Vec<String> = HEAD.split(',').map(cell).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    } else {
        text.push_str(&fields.to_string());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_column() {
        let entry = AuditEntry {
            id: 1,
            row: crate::store::AuditRow::default(),
            previous: String::new(),
            digest: String::new(),
        };
        let fields = serde_json::json!(told(entry, false));
        let mut names: Vec<_> = fields.as_object().unwrap().keys().cloned().collect();
        let mut columns: Vec<_> = HEAD.split(',').map(str::to_owned).collect();
        names.sort();
        columns.sort();
        assert_eq!(columns, names);
    }

    #[test]
    fn moments_are_texts_in_the_order_of_time() {
        let read = |text| moment("from", text).unwrap_or_default();
        assert_eq!(read("0"), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            read("2026-01-01T02:00:00+02:00"),
            "2026-01-01T00:00:00.000Z"
        );
        assert_eq!(
            read("2026-01-01T02:00:00 02:00"),
            "2026-01-01T00:00:00.000Z"
        );
        assert!(moment("to", "yesterday").is_err());
        assert!(moment("to", "99999999999999").is_err());
    }
}
