//! `bulkhead token create|list|revoke` and `user create|list|disable|enable|role|delete`.
//!
//! Separate because nothing here is about the policy. It must never print a secret but the one that
//! was just made, and that one alone on standard output.

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, refusal};
use super::fleet::encoded;
use super::get::rows;
use super::history::cell;
use crate::args::Format;
use crate::args_people::{TokenOf, TokenWanted, UserCommand};
use crate::args_tools::ClientArgs;
use crate::error::Failure;
use crate::output::{self, Side, Table};

/// Makes a token and prints it, alone.
pub(crate) fn create_token(wanted: &TokenWanted, args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::new(args)?;
    let body = match &wanted.gateway {
        Some(gateway) => json!({ "gateway": gateway }),
        None => {
            let scopes: &[&str] = if wanted.scope.is_empty() {
                &[]
            } else {
                &["emergency"]
            };
            let mut body = json!({
                "name": wanted.name,
                "role": wanted.role.word(),
                "scopes": scopes,
            });
            if let (Some(days), Some(fields)) = (wanted.expires, body.as_object_mut()) {
                fields.insert("expires_days".to_owned(), days.into());
            }
            if let (Some(person), Some(fields)) = (&wanted.person, body.as_object_mut()) {
                fields.insert("person".to_owned(), person.as_str().into());
            }
            body
        }
    };
    let made = sent(&client, Method::POST, "/tokens", Some(&body))?;
    match args.output {
        Format::Json => output::print_json(&made),
        Format::Table => output::print(&format!("{}\n", cell(&made, "token"))),
    }
}

/// Lists tokens, or revokes one.
pub(crate) fn tokens(what: &TokenOf, args: &ClientArgs) -> Result<(), Failure> {
    let client = Client::new(args)?;
    match what {
        TokenOf::All => {
            let said = client.json(Method::GET, "/tokens")?;
            match args.output {
                Format::Json => output::print_json(&said),
                Format::Table => output::print(&token_table(&said).text()),
            }
        }
        TokenOf::One(id) => {
            let path = format!("/tokens/{}", encoded(id));
            gone(&client, &path, "revoked\n")
        }
    }
}

/// Everything about users that goes through the API.
pub(crate) fn users(command: &UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Create { name, role, client } => {
            let body = json!({ "name": name, "role": role.word() });
            let api = Client::new(client)?;
            let made = sent(&api, Method::POST, "/users", Some(&body))?;
            match client.output {
                Format::Json => output::print_json(&made),
                Format::Table => {
                    let link = cell(&made, "setup");
                    output::print(&format!("{}{link}\n", api.base()))
                }
            }
        }
        UserCommand::List(client) => {
            let said = Client::new(client)?.json(Method::GET, "/users")?;
            match client.output {
                Format::Json => output::print_json(&said),
                Format::Table => output::print(&user_table(&said).text()),
            }
        }
        UserCommand::Disable { name, client } => {
            change(name, &json!({ "disabled": true }), "disabled", client)
        }
        UserCommand::Enable { name, client } => {
            change(name, &json!({ "disabled": false }), "enabled", client)
        }
        UserCommand::Role { name, role, client } => {
            let done = format!("{} from now on", role.word());
            change(name, &json!({ "role": role.word() }), &done, client)
        }
        UserCommand::Delete { name, client } => {
            let path = format!("/users/{}", encoded(name));
            gone(&Client::new(client)?, &path, "deleted\n")
        }
        // It goes to the store itself.
        UserCommand::Reset { .. } => Ok(()),
    }
}

fn change(name: &str, body: &Value, done: &str, args: &ClientArgs) -> Result<(), Failure> {
    let path = format!("/users/{}", encoded(name));
    let said = sent(&Client::new(args)?, Method::PATCH, &path, Some(body))?;
    match args.output {
        Format::Json => output::print_json(&said),
        Format::Table => output::print(&format!("{done}\n")),
    }
}

fn gone(client: &Client, path: &str, done: &str) -> Result<(), Failure> {
    let answer = client.call(Method::DELETE, path, Vec::new(), None)?;
    match answer.status.is_success() {
        true => output::print(done),
        false => Err(refusal(&answer)),
    }
}

fn sent(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let answer = client.call(method, path, Vec::new(), body.map(Value::to_string))?;
    match answer.status.is_success() {
        true => client.parsed(&answer),
        false => Err(refusal(&answer)),
    }
}

fn table(said: &Value, what: &'static str, columns: &[(&'static str, &str)]) -> Table {
    let heads: Vec<_> = columns
        .iter()
        .map(|(head, _)| (*head, Side::Left))
        .collect();
    let mut table = Table::new(&heads);
    for row in rows(said, what) {
        table.row(columns.iter().map(|(_, name)| cell(row, name)).collect());
    }
    table
}

fn token_table(said: &Value) -> Table {
    let columns = [
        ("id", "id"),
        ("kind", "kind"),
        ("gateway", "gateway"),
        ("name", "name"),
        ("role", "role"),
        ("made", "created_at"),
        ("by", "created_by"),
        ("ends", "expires_at"),
        ("last used", "last_used_at"),
    ];
    table(said, "tokens", &columns)
}

fn user_table(said: &Value) -> Table {
    let columns = [
        ("name", "id"),
        ("role", "role"),
        ("disabled", "disabled"),
        ("password", "has_password"),
        ("last sign-in", "signed_in_at"),
        ("made", "created_at"),
        ("by", "created_by"),
    ];
    table(said, "users", &columns)
}
