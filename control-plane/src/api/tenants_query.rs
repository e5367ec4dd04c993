//! What the address of `GET /tenants` asks for.
//!
//! Separate because each parameter is refused by its name. It must never narrow a list by what it
//! did not understand.

use http::request::Parts;

use super::{Problem, input};
use crate::tenants::{Cursor, Query, Sort};

/// Rows of a page unless somebody says.
const PAGE_ROWS: usize = 100;
/// Most rows of a page.
const PAGE_ROWS_MAX: usize = 1_000;
/// Longest text that a search looks for, in bytes.
pub(super) const FIND_BYTES_MAX: usize = 256;

/// Reads it whole, or says which parameter cannot be meant.
pub(super) fn query(head: &Parts) -> Result<Query, Problem> {
    let known = [
        "find",
        "plan",
        "suspended",
        "saturated",
        "sort",
        "after",
        "limit",
    ];
    let pairs = input::query(head, &known)?;
    let text = |name: &str| input::parameter::<String>(&pairs, name, "text");
    let flag = |name: &str| input::parameter::<bool>(&pairs, name, "true or false");
    let find = text("find")?.unwrap_or_default();
    if find.len() > FIND_BYTES_MAX {
        let rule = format!("must have at most {FIND_BYTES_MAX} bytes");
        return Err(Problem::parameter("find", Some(&find), &rule));
    }
    let words = Sort::ALL.map(Sort::as_str).join(", ");
    let sort = input::parameter::<Sort>(&pairs, "sort", &format!("must be one of {words}"))?;
    let rule = "must be what `next` of the page before said";
    let after = input::parameter::<Cursor>(&pairs, "after", rule)?;
    let (of_cursor, asked) = (after.as_ref().map(|cursor| cursor.sort), sort);
    if of_cursor
        .zip(asked)
        .is_some_and(|(one, other)| one != other)
    {
        let rule = "its page has another order than `sort`";
        return Err(Problem::parameter("after", None, rule));
    }
    let rule = "must be a whole number from 1 to 1000";
    let count = input::parameter::<usize>(&pairs, "limit", rule)?.unwrap_or(PAGE_ROWS);
    if !(1..=PAGE_ROWS_MAX).contains(&count) {
        return Err(Problem::parameter("limit", Some(&count.to_string()), rule));
    }
    Ok(Query {
        find,
        plan: text("plan")?,
        suspended: flag("suspended")?,
        saturated: flag("saturated")?,
        sort: of_cursor.or(asked).unwrap_or_default(),
        after,
        skip: 0,
        count,
    })
}
