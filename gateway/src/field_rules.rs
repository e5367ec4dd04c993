//! `rewrite` and `headers` of a route, prepared for its requests.
//!
//! Separate because names and values become HTTP's own once, with the policy, and a request only
//! copies them. It must never touch a field of the connection, of framing or of the gateway.

use compartment::policy::{Headers, Rewrite};
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

/// See the module.
#[derive(Debug)]
pub(crate) struct FieldRules {
    /// Bytes at the beginning of the path that the upstream does not see.
    strip_bytes: usize,
    host: Option<HeaderValue>,
    request: Edits,
    response: Edits,
}

/// Fields of one direction.
#[derive(Debug)]
struct Edits {
    set: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

impl Edits {
    fn new(set: &[(String, String)], remove: &[String]) -> Self {
        // What the policy's check let through can be read by HTTP as well.
        let name = |name: &String| HeaderName::from_bytes(name.as_bytes()).ok();
        let field = |(key, value): &(String, String)| {
            Some((name(key)?, HeaderValue::from_str(value).ok()?))
        };
        Self {
            set: set.iter().filter_map(field).collect(),
            remove: remove.iter().filter_map(name).collect(),
        }
    }

    fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name.clone(), value.clone());
        }
    }
}

impl FieldRules {
    /// `None`: the route asks for nothing of it.
    pub(crate) fn new(rewrite: &Rewrite, headers: &Headers) -> Option<Box<Self>> {
        if *rewrite == Rewrite::default() && *headers == Headers::default() {
            return None;
        }
        let host = rewrite.host.as_ref();
        Some(Box::new(Self {
            strip_bytes: rewrite.strip_prefix.as_ref().map_or(0, String::len),
            host: host.and_then(|host| HeaderValue::from_str(host).ok()),
            request: Edits::new(&headers.request_set, &headers.request_remove),
            response: Edits::new(&headers.response_set, &headers.response_remove),
        }))
    }

    /// The path goes as it is.
    pub(crate) const fn keeps_path(&self) -> bool {
        self.strip_bytes == 0
    }

    /// The target that the upstream sees, from the canonical path and the query as it came. `None`:
    /// the path begins in a way that no path of the route can.
    pub(crate) fn target(&self, path: &str, sent: &Uri) -> Option<Uri> {
        let rest = match path.get(self.strip_bytes..)? {
            "" => "/",
            rest => rest,
        };
        // Two slashes would begin a host to whoever resolves it.
        if !rest.starts_with('/') || rest.starts_with("//") {
            return None;
        }
        let target = match sent.query() {
            Some(query) => PathAndQuery::try_from(format!("{rest}?{query}")),
            None => PathAndQuery::try_from(rest),
        };
        target.ok().map(Uri::from)
    }

    /// After all that the gateway itself does to the fields.
    pub(crate) fn to_upstream(&self, headers: &mut HeaderMap) {
        self.request.apply(headers);
        if let Some(host) = &self.host {
            headers.insert(HOST, host.clone());
        }
    }

    /// The same for the answer.
    pub(crate) fn to_client(&self, headers: &mut HeaderMap) {
        self.response.apply(headers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripping(prefix: &str) -> Box<FieldRules> {
        let rewrite = Rewrite {
            strip_prefix: Some(prefix.to_owned()),
            host: None,
        };
        FieldRules::new(&rewrite, &Headers::default()).unwrap()
    }

    #[test]
    fn what_is_left_of_a_path_is_a_path() {
        let rules = stripping("/api");
        for (path, sent, want) in [
            ("/api", "/api", Some("/")),
            ("/api/", "/api/", Some("/")),
            ("/api/x/y", "/api/x/y?q=/api", Some("/x/y?q=/api")),
            ("/api", "/api?x", Some("/?x")),
            ("/api//evil.example/x", "/", None),
            ("/apix", "/apix", None),
            ("/ap", "/ap", None),
        ] {
            let found = rules.target(path, &sent.parse().unwrap());
            assert_eq!(found.map(|uri| uri.to_string()).as_deref(), want, "{path}");
        }
        assert!(FieldRules::new(&Rewrite::default(), &Headers::default()).is_none());
    }

    #[test]
    fn fields_are_removed_then_set() {
        let text = |text: &str| text.to_owned();
        let headers = Headers {
            request_set: vec![(text("x-env"), text("prod"))],
            request_remove: vec![text("x-debug")],
            response_set: vec![(text("cache-control"), text("no-store"))],
            response_remove: vec![text("server")],
        };
        let rewrite = Rewrite {
            strip_prefix: None,
            host: Some(text("internal.example")),
        };
        let rules = FieldRules::new(&rewrite, &headers).unwrap();
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("x-env", "a"),
            ("x-env", "b"),
            ("x-debug", "1"),
            ("x-env2", "c"),
        ] {
            fields.append(name, HeaderValue::from_static(value));
        }
        rules.to_upstream(&mut fields);
        let mut seen: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value:?}"))
            .collect();
        seen.sort();
        assert_eq!(
            seen,
            [
                "host: \"internal.example\"",
                "x-env2: \"c\"",
                "x-env: \"prod\""
            ]
        );
        let mut fields = HeaderMap::new();
        fields.insert("server", HeaderValue::from_static("x"));
        rules.to_client(&mut fields);
        assert_eq!(fields.len(), 1);
        assert_eq!(fields["cache-control"], "no-store");
    }
}
