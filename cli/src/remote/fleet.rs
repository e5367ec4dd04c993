//! `bulkhead fleet` and `token create|list|revoke`: what is ordered about gateways, and what lets
//! them in.
//!
//! Separate because nothing here is about the policy. It must never print a token but the one that
//! was just made, and that one alone on standard output.

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, refusal};
use super::get::rows;
use super::history::cell;
use crate::args::Format;
use crate::args_tools::{ClientArgs, FleetArgs, FleetCommand, TokenOf};
use crate::error::Failure;
use crate::output::{self, Side, Table};

/// Orders one gateway about, or lets a halted generation be tried again.
pub(crate) fn run(args: &FleetArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client);
    let (path, done) = match &args.command {
        FleetCommand::Drain { gateway } => (order(gateway, "drain"), "told to be not ready"),
        FleetCommand::Undrain { gateway } => (order(gateway, "undrain"), "told to be ready again"),
        FleetCommand::Revoke { gateway } => (order(gateway, "revoke"), "shut out"),
        FleetCommand::GoBack { gateway } => (order(gateway, "go-back"), "told that it may go back"),
        FleetCommand::TryAgain { generation } => (
            format!("/generations/{generation}/try-again"),
            "tried again, by one gateway first",
        ),
    };
    let said = client.json(Method::POST, &path)?;
    match args.client.output {
        Format::Json => output::print_json(&said),
        Format::Table => output::print(&format!("{done}\n")),
    }
}

fn order(gateway: &str, what: &str) -> String {
    format!("/gateways/{}/{what}", encoded(gateway))
}

/// A name as one segment of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let encode = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// Makes a token for one gateway and prints it, alone.
pub(crate) fn create(gateway: &str, args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::new(args);
    let body = json!({ "gateway": gateway }).to_string();
    let answer = client.call(Method::POST, "/tokens", Vec::new(), Some(body))?;
    if !answer.status.is_success() {
        return Err(refusal(&answer));
    }
    let made = client.parsed(&answer)?;
    match args.output {
        Format::Json => output::print_json(&made),
        Format::Table => output::print(&format!("{}\n", cell(&made, "token"))),
    }
}

/// Lists tokens, or revokes one.
pub(crate) fn tokens(what: &TokenOf, args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::new(args);
    match what {
        TokenOf::All => {
            let said = client.json(Method::GET, "/tokens")?;
            match args.output {
                Format::Json => output::print_json(&said),
                Format::Table => output::print(&table(&said).text()),
            }
        }
        TokenOf::One(id) => {
            let path = format!("/tokens/{}", encoded(id));
            let answer = client.call(Method::DELETE, &path, Vec::new(), None)?;
            match answer.status.is_success() {
                true => output::print("revoked\n"),
                false => Err(refusal(&answer)),
            }
        }
    }
}

fn table(said: &Value) -> Table {
    let names = ["id", "gateway", "created_at", "created_by"];
    let mut table = Table::new(&[
        ("id", Side::Left),
        ("gateway", Side::Left),
        ("made", Side::Left),
        ("by", Side::Left),
    ]);
    for row in rows(said, "tokens") {
        table.row(names.iter().map(|name| cell(row, name)).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment() {
        assert_eq!(order("gw-1.a", "drain"), "/gateways/gw-1.a/drain");
        assert_eq!(order("a/b ?", "revoke"), "/gateways/a%2Fb%20%3F/revoke");
    }
}
