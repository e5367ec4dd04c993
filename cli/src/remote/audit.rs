//! `bulkhead audit list`: who did what, newest first.
//!
//! Separate from `audit verify`, which does not ask those who write the audit. It must never show
//! a name with its control bytes.

use http::Method;
use serde_json::{Value, json};

use super::apply::encoded;
use super::client::Client;
use super::get::rows;
use super::history::cell;
use crate::args::Format;
use crate::args_audit::AuditListArgs;
use crate::error::Failure;
use crate::output::{self, Side, Table};

/// Rows that are asked for at once.
const PAGE_ROWS: u64 = 500;

pub(crate) fn list(args: &AuditListArgs) -> Result<(), Failure> {
    let found = found(&Client::new(&args.client)?, args)?;
    if args.client.output == Format::Json {
        return output::print_json(&json!({ "audit": found }));
    }
    let mut table = Table::new(&[
        ("row", Side::Right),
        ("when", Side::Left),
        ("who", Side::Left),
        ("from", Side::Left),
        ("action", Side::Left),
        ("subject", Side::Left),
        ("generation", Side::Right),
        ("comment", Side::Left),
    ]);
    for row in &found {
        let names = [
            "id",
            "at",
            "who",
            "origin",
            "action",
            "subject",
            "generation_after",
            "comment",
        ];
        table.row(names.iter().map(|name| cell(row, name)).collect());
    }
    output::print(&table.text())
}

/// Page after page, as many as are asked for.
fn found(client: &Client, args: &AuditListArgs) -> Result<Vec<Value>, Failure> {
    let mut query = String::new();
    for (name, text) in [
        ("who", &args.who),
        ("action", &args.action),
        ("subject", &args.subject),
        ("from", &args.from),
        ("to", &args.to),
    ] {
        if let Some(text) = text {
            query.push_str(&format!("&{name}={}", encoded(text)));
        }
    }
    let (mut all, mut left, mut before) = (Vec::new(), args.count, String::new());
    loop {
        let count = left.min(PAGE_ROWS);
        let path = format!("/audit?count={count}{query}{before}");
        let page = client.json(Method::GET, &path)?;
        all.extend(rows(&page, "audit").cloned());
        left = left.saturating_sub(count);
        match page.get("next").and_then(Value::as_u64) {
            Some(next) if left > 0 => before = format!("&before={next}"),
            Some(_) | None => return Ok(all),
        }
    }
}
