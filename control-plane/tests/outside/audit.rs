//! Who did what over the API, on both databases: filtered, followed page by page, as a file that no
//! spreadsheet runs, and for nobody without a token.

use std::collections::BTreeSet;

use control_plane::Config;
use control_plane::store::{AuditRow, Store};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use crate::support::{Plane, call, config, policy, policy_file, postgres};

const HOSTILE: &str = "=cmd|'/c calc'!A1";
/// A table, a line, a script, a formula, and text from right to left.
const WHY: &str = "a,\"b\"\r\n<script>\u{202e}";

/// Rows of two people, one in each minute of an hour, before the control plane starts.
async fn fill(url: &str) {
    let store = Store::open(url).await.unwrap();
    for minute in 0..60 {
        let is_hostile = minute % 10 == 0;
        let audit = AuditRow {
            at: format!("2026-01-01T00:{minute:02}:00.000Z"),
            action: if minute < 30 { "drain" } else { "undrain" }.to_owned(),
            subject: format!("gateway:{}", minute % 3),
            who: if is_hostile { HOSTILE } else { "ann" }.to_owned(),
            differences: json!([{"path": "x", "before": minute, "after": HOSTILE}]).to_string(),
            comment: WHY.to_owned(),
            ..AuditRow::default()
        };
        let name = format!("fact/{minute}");
        store.put_meta(name, None, Some(audit)).await.unwrap();
    }
    store.close().await;
}

fn both(test: impl Fn(&Plane)) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/store.db", folder.path().display());
    runtime.block_on(fill(&url));
    let import = Some(policy_file(folder.path(), &policy()));
    let own = Config {
        import,
        ..config(folder.path())
    };
    test(&Plane::start_with(folder, own).unwrap());
    if let Some(database) = runtime.block_on(postgres::Database::new()) {
        runtime.block_on(fill(&database.url));
        test(&crate::postgres::plane(&database.url));
    }
}

fn page(plane: &Plane, query: &str) -> (Vec<Value>, Value) {
    let answer = plane.api("GET", &format!("/audit?{query}"), None);
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let said = answer.json();
    (
        said["audit"].as_array().unwrap().clone(),
        said["next"].clone(),
    )
}

fn ids(rows: &[Value]) -> Vec<u64> {
    rows.iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

/// Row N is of minute N - 1.
fn filtered(plane: &Plane) {
    let of =
        |query: &str| ids(&page(plane, &format!("count=500&to=2026-02-01T00:00:00Z&{query}")).0);
    let all: Vec<u64> = (1..=60).rev().collect();
    let those = |keep: fn(u64) -> bool| -> Vec<u64> {
        let minutes = all.iter().copied();
        minutes.filter(|id| keep(id - 1)).collect()
    };
    assert_eq!(of(""), all);
    assert_eq!(of("who=ann"), those(|minute| minute % 10 != 0));
    assert_eq!(
        of("who=%3Dcmd%7C%27%2Fc%20calc%27%21A1"),
        those(|minute| minute % 10 == 0)
    );
    assert_eq!(of("who=an"), Vec::<u64>::new(), "the whole name");
    assert_eq!(of("who=%27%20OR%201%3D1%20--"), Vec::<u64>::new());
    assert_eq!(of("action=drain"), those(|minute| minute < 30));
    assert_eq!(of("subject=gateway:1"), those(|minute| minute % 3 == 1));
    assert_eq!(
        of("who=ann&action=undrain&subject=gateway:2&before=50"),
        those(|minute| minute % 10 != 0 && (30..49).contains(&minute) && minute % 3 == 2)
    );
    let (rows, _) = page(
        plane,
        "from=2026-01-01T02:10:00%2B02:00&to=2026-01-01T00:12:00Z&count=9",
    );
    assert_eq!(
        ids(&rows),
        [12, 11],
        "from its first moment, up to its last"
    );
    let first = &rows[1];
    assert_eq!(
        first["differences"],
        json!([{"path": "x", "before": 10, "after": HOSTILE}])
    );
    assert_eq!(
        (&first["comment"], &first["who"]),
        (&json!(WHY), &json!(HOSTILE))
    );
    assert_eq!(rows[0]["previous"], first["digest"]);
    assert_eq!(first["digest"].as_str().unwrap().len(), 64);
}

fn followed(plane: &Plane) {
    let (mut seen, mut query) = (Vec::new(), "count=7&who=ann".to_owned());
    loop {
        let (rows, next) = page(plane, &query);
        assert!(rows.len() <= 7);
        seen.extend(ids(&rows));
        let Some(next) = next.as_u64() else { break };
        query = format!("count=7&who=ann&before={next}");
        // What is written meanwhile moves no page.
        plane.patch("route/a", &json!({ "limit": 100 + next }));
    }
    let once: BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!((seen.len(), once.len()), (54, 54));
    assert!(seen.is_sorted_by(|one, other| one > other), "{seen:?}");
    let (rows, _) = page(plane, "subject=policy&count=1");
    let row = &rows[0];
    assert_eq!(row["generation_after"], json!(plane.generation()));
    assert!(row["differences"].to_string().contains("limit"), "{row}");
}

/// The form stands at the head of the store's `audit.rs`.
fn digest(row: &Value) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| hash.update(format!("{}:{text},", text.len()));
    add("bulkhead-audit-1");
    for name in [
        "previous",
        "id",
        "at",
        "action",
        "subject",
        "who",
        "origin",
        "generation_before",
        "generation_after",
        "differences",
        "comment",
        "request_id",
        "operation",
    ] {
        let value = &row[name];
        let text = value.as_str().map(str::to_owned);
        add(&text.unwrap_or_else(|| value.to_string()));
    }
    let digits = hash.finalize();
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn exported(plane: &Plane) {
    let get = |query: &str| {
        let path = format!("/audit?to=2026-02-01T00:00:00Z&{query}");
        let answer = plane.api("GET", &path, None);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer
    };
    let lines = get("format=jsonl");
    assert_eq!(lines.header("content-type"), Some("application/jsonl"));
    assert_eq!(lines.header("x-next"), None);
    let text = lines.text();
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        ids(&rows),
        (1..=60).rev().collect::<Vec<_>>(),
        "over the pages of a file"
    );
    for row in &rows {
        assert_eq!(row["digest"], json!(digest(row)), "{row}");
    }
    let part = get("format=jsonl&count=55");
    assert_eq!(
        (part.text().lines().count(), part.header("x-next")),
        (55, Some("6"))
    );
    let rest = get("format=jsonl&before=6");
    assert_eq!(part.text() + &rest.text(), text);

    let table = get("format=csv&who=%3Dcmd%7C%27%2Fc%20calc%27%21A1");
    assert_eq!(
        table.header("content-type"),
        Some("text/csv; charset=utf-8")
    );
    let place = table.header("content-disposition").unwrap().to_owned();
    assert!(place.starts_with("attachment"), "{place}");
    let table = table.text();
    assert!(table.starts_with("id,at,action,subject,who,"), "{table}");
    assert_eq!(
        table.matches(",\"'=cmd|'/c calc'!A1\",").count(),
        6,
        "{table}"
    );
    assert!(!table.contains(",=") && !table.contains(",\"="), "{table}");
    assert!(
        table.contains(",\"a,\"\"b\"\"\r\n<script>\u{202e}\","),
        "{table}"
    );
}

fn refused(plane: &Plane) {
    for query in [
        "count=0",
        "count=501",
        "count=x",
        "before=x",
        "from=yesterday",
        "to=99999999999999",
        "format=xml",
        "format=csv&count=10001",
        "nothing=1",
        "who=a&who=b",
    ] {
        let answer = plane.api("GET", &format!("/audit?{query}"), None);
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    let long = format!("/audit?who={}", "x".repeat(1_025));
    assert_eq!(plane.api("GET", &long, None).status, 400);
    for query in ["", "?format=csv", "?format=jsonl"] {
        let path = format!("/api/v1/audit{query}");
        let answer = call(plane.address, "GET", &path, &[], b"");
        assert_eq!(answer.status, 401);
        assert!(!answer.text().contains("ann"));
    }
    assert_eq!(plane.api("DELETE", "/audit", None).status, 405);
}

#[test]
fn the_audit_is_listed_by_who_what_and_when() {
    both(filtered);
}

#[test]
fn whoever_follows_the_audit_sees_each_row_once() {
    both(followed);
}

#[test]
fn an_export_of_the_audit_can_be_checked_and_runs_nothing() {
    both(exported);
}

#[test]
fn the_audit_is_for_nobody_without_a_token() {
    both(refused);
}
