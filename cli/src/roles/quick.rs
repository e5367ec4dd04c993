//! A policy without a file, from `--upstream [PREFIX=]URL` and `--limit N`.
//!
//! Separate because it is the one place that writes a policy instead of reading one. It must never
//! bypass the check that every other policy goes through.

use control_plane::document::{self, Loaded, Syntax};
use serde_json::{Map, Value, json};

use crate::error::Failure;
use crate::settings::Settings;

/// What a gateway's capacity is unless the policy says otherwise.
const CAPACITY_DEFAULT: u64 = 1000;
/// Most upstreams on one command line.
const UPSTREAMS_MAX: usize = 100;
/// Longest name that is made from a prefix, in characters.
const NAME_CHARS_MAX: usize = 100;

/// The policy that the settings ask for; `None` without `--upstream`.
pub(super) fn policy(settings: &Settings) -> Result<Option<Loaded>, Failure> {
    let refused = |text: &str| Err(Failure::Setting(text.to_owned()));
    let upstreams = settings.all("upstream");
    match (upstreams, settings.text("limit")) {
        ([], None) if settings.switch("shadow") => {
            refused("--shadow has no effect without --upstream URL")
        }
        ([], None) => Ok(None),
        ([], Some(_)) => refused("--limit has no effect without --upstream URL"),
        (_, Some("unlimited")) if settings.switch("shadow") => {
            refused("--shadow watches a limit, and unlimited is none: give --limit a number")
        }
        (_, None) => refused(
            "--upstream needs --limit N: how many requests may be in flight there, or unlimited",
        ),
        (_, Some(_)) if settings.text("policy").is_some() => {
            refused("--upstream and --policy both make a policy: give one of them")
        }
        (_, Some(_)) if upstreams.len() > UPSTREAMS_MAX => {
            refused("more than 100 --upstream: write a policy file")
        }
        (_, Some(limit)) => {
            let shadow = settings.switch("shadow");
            let text = document_of(upstreams, limit, shadow).to_string();
            document::load(&text, Syntax::Json)
                .map(Some)
                .map_err(|error| Failure::Quick(error.to_string()))
        }
    }
}

/// One upstream and one route for each text.
fn document_of(upstreams: &[String], limit: &str, shadow: bool) -> Value {
    let limit: Value = limit
        .parse::<u32>()
        .map_or_else(|_| limit.into(), Value::from);
    let mut endpoints = Map::new();
    let mut routes = Vec::new();
    for text in upstreams {
        let (prefix, url) = split(text);
        let name = unused(&name_of(prefix), &endpoints);
        let compartment = match shadow {
            true => json!({ "limit": limit, "mode": "shadow" }),
            false => json!({ "limit": limit }),
        };
        routes.push(json!({
            "id": name, "path": prefix, "upstream": name, "compartment": compartment,
        }));
        endpoints.insert(name, json!({ "endpoints": [url] }));
    }
    let slots = limit.as_u64().unwrap_or(0);
    let count = u64::try_from(routes.len()).unwrap_or(u64::MAX);
    let capacity = slots.saturating_mul(count).max(CAPACITY_DEFAULT);
    json!({
        "schema": 1, "gateway": { "capacity": capacity }, "upstreams": endpoints, "routes": routes,
    })
}

/// `/api=http://…` or `http://…`, which takes every path. A `=` inside a URL is no separator.
fn split(text: &str) -> (&str, &str) {
    match text.split_once('=') {
        Some((prefix, url)) if !prefix.contains("://") => (prefix, url),
        Some(_) | None => ("/", text),
    }
}

/// `/api/v1` becomes `api-v1`, `/` becomes `all`.
fn name_of(prefix: &str) -> String {
    let plain: String = prefix
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(NAME_CHARS_MAX)
        .collect();
    let plain = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if plain.is_empty() {
        "all".to_owned()
    } else {
        plain.to_owned()
    }
}

fn unused(name: &str, taken: &Map<String, Value>) -> String {
    let numbered = (2_u32..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| !taken.contains_key(name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(pairs: &[(&'static str, &[&str])]) -> Result<Option<Loaded>, String> {
        let flags = pairs
            .iter()
            .map(|(key, texts)| (*key, texts.iter().map(|t| (*t).to_owned()).collect()))
            .collect();
        let settings = Settings::gather(flags, None, &[]).unwrap();
        policy(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn one_url_takes_every_path() {
        let made = quick(&[("upstream", &["http://127.0.0.1:3000"]), ("limit", &["50"])]);
        let policy = made.unwrap().unwrap().policy;
        assert_eq!(policy.routes.len(), 1);
        assert_eq!(policy.routes[0].id.as_str(), "all");
        assert_eq!(policy.routes[0].compartment.reserved, 50);
        assert_eq!(policy.gateway.capacity, 1000);
    }

    #[test]
    fn in_shadow_every_limit_is_watched_and_none_is_enforced() {
        let urls = ["/a=http://a:1", "http://b:2"].map(str::to_owned);
        let document = document_of(&urls, "5", true);
        for route in document["routes"].as_array().unwrap() {
            let compartment = json!({"limit": 5, "mode": "shadow"});
            assert_eq!(route["compartment"], compartment);
        }
        // Beyond what is guaranteed a route in shadow borrows: there must be room for that.
        assert_eq!(document["gateway"]["capacity"], 1000);
    }

    #[test]
    fn every_prefix_gets_its_own_compartment() {
        let urls = ["/api/v1=http://a:1", "/api-v1=http://b:2?x=y", "http://c:3"];
        let document = document_of(&urls.map(str::to_owned), "600", false);
        let ids: Vec<_> = document["routes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| &r["id"])
            .collect();
        assert_eq!(ids, ["api-v1", "api-v1-2", "all"]);
        assert_eq!(document["gateway"]["capacity"], 1800);
        assert_eq!(
            document["upstreams"]["api-v1-2"]["endpoints"][0],
            "http://b:2?x=y"
        );
    }

    #[test]
    fn halves_of_a_policy_are_refused() {
        assert!(quick(&[]).unwrap().is_none());
        let refused = quick(&[("limit", &["5"])]).unwrap_err();
        assert!(refused.contains("--upstream"), "{refused}");
        let refused = quick(&[("upstream", &["http://a:1"])]).unwrap_err();
        assert!(refused.contains("--limit"), "{refused}");
        let both: [(&str, &[&str]); 3] = [
            ("upstream", &["http://a:1"]),
            ("limit", &["5"]),
            ("policy", &["p.toml"]),
        ];
        assert!(quick(&both).unwrap_err().contains("--policy"));
        let shadow: [(&str, &[&str]); 1] = [("shadow", &["true"])];
        assert!(quick(&shadow).unwrap_err().contains("--shadow"));
        let unlimited: [(&str, &[&str]); 3] = [
            ("upstream", &["http://a:1"]),
            ("limit", &["unlimited"]),
            ("shadow", &["true"]),
        ];
        assert!(quick(&unlimited).unwrap_err().contains("a number"));
        let refused = quick(&[("upstream", &["ftp://a:1"]), ("limit", &["5"])]).unwrap_err();
        assert!(refused.contains("endpoints"), "{refused}");
    }
}
