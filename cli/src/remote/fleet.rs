//! `bulkhead fleet`: what is ordered about gateways.
//!
//! Separate because nothing here is about the policy. It must never decide whether an order makes
//! sense: the control plane knows its gateways.

use http::Method;

use super::client::Client;
use crate::args::Format;
use crate::args_tools::{FleetArgs, FleetCommand};
use crate::error::Failure;
use crate::output;

/// Orders one gateway about, or lets a halted generation be tried again.
pub(crate) fn run(args: &FleetArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
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
pub(super) fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let encode = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
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
