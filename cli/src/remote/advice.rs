//! `bulkhead advice` and `what-if`: which limit the measured traffic asks for, and what another
//! one would do.
//!
//! Separate because both only read and neither decides: the control plane says the same to pages
//! and scripts. It must never round what it prints into a promise.

use http::Method;
use serde_json::Value;

use super::apply::encoded;
use super::client::Client;
use super::history::cell;
use crate::args::Format;
use crate::args_tools::{AdviceArgs, WhatIfArgs};
use crate::error::Failure;
use crate::output::{self, Side, Table};

pub(crate) fn run(args: &AdviceArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let Some(key) = &args.key else {
        return list(&client, args.client.output);
    };
    let path = format!("/compartments/{}/advice", encoded(key));
    let said = client.json(Method::GET, &path)?;
    if args.client.output == Format::Json {
        return output::print_json(&said);
    }
    let mut text = format!("{}: {}\n", cell(&said, "key"), cell(&said, "summary"));
    let figures = [
        ("rule_of_thumb", "rule of thumb"),
        ("loss_formula", "loss formula"),
        ("bursts", "bursts"),
    ];
    for (name, words) in figures {
        if let Some(figure) = said.get(name).filter(|figure| !figure.is_null()) {
            let (limit, because) = (cell(figure, "limit"), cell(figure, "because"));
            text.push_str(&format!("  {words}: {limit}   {because}\n"));
        }
    }
    if let Some(evidence) = said.get("evidence") {
        let left_out = evidence.get("left_out").and_then(Value::as_array);
        text.push_str(&format!(
            "  evidence: {} arrivals in {} s, {} windows left out, confidence {}\n",
            cell(evidence, "arrivals"),
            cell(evidence, "seconds"),
            left_out.map_or(0, Vec::len),
            cell(evidence, "confidence"),
        ));
    }
    output::print(&text)
}

fn list(client: &Client, format: Format) -> Result<(), Failure> {
    let said = client.json(Method::GET, "/advice")?;
    if format == Format::Json {
        return output::print_json(&said);
    }
    let mut table = Table::new(&[
        ("key", Side::Left),
        ("limit", Side::Right),
        ("advised", Side::Right),
        ("verdict", Side::Left),
        ("summary", Side::Left),
    ]);
    for card in said
        .get("advice")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let names = ["key", "limit", "advised", "verdict", "summary"];
        table.row(names.iter().map(|name| cell(card, name)).collect());
    }
    let mut text = table.text();
    let sum = said.get("advised").map(|sum| cell(sum, "because"));
    if let Some(sum) = sum.filter(|sum| !sum.is_empty()) {
        text.push_str(&format!("{sum}\n"));
    }
    output::print(&text)
}

pub(crate) fn what_if(args: &WhatIfArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let path = format!(
        "/compartments/{}/what-if?limit={}",
        encoded(&args.key),
        encoded(&args.limit)
    );
    let said = client.json(Method::GET, &path)?;
    if args.client.output == Format::Json {
        return output::print_json(&said);
    }
    let mut text = format!(
        "{}: limit {} instead of {}\n",
        cell(&said, "key"),
        cell(&said, "limit"),
        cell(&said, "now"),
    );
    for line in said
        .get("because")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        text.push_str(&format!("  {}\n", line.as_str().unwrap_or_default()));
    }
    output::print(&text)
}
