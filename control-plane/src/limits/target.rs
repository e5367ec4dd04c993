//! Where in the document the limit of a compartment stands.
//!
//! Separate because it is the only place that turns a compartment's key into a place of the
//! document. It must never judge a value: the whole document is checked afterwards.

use compartment::Key;
use compartment::policy::{Fault, Path, Value, compartment_keys, stream_keys};

use super::LimitsError;

/// The document with these fields of one compartment changed.
pub(super) fn apply(
    document: &Value,
    key: &str,
    fields: &[(String, Value)],
) -> Result<Value, LimitsError> {
    let places = Places::of(document, key)?;
    let mut changed = document.clone();
    let mut faults = Vec::new();
    for (name, value) in fields {
        // What is taken away is read by nobody afterwards: its name is looked at here.
        let is_known = *value != Value::Null || places.takes_key(name);
        let Some(path) = places.of_field(name).filter(|_| is_known) else {
            let rule = format!("cannot be set here: {key} takes {}", places.takes());
            faults.push(Fault {
                path: Path::root().key(name),
                value: value.excerpt(),
                rule,
            });
            continue;
        };
        // Taking a value away means going back to the default; a limit has none.
        let done = if *value != Value::Null {
            changed.set(&path, value.clone())
        } else {
            name != "limit" && (changed.remove(&path) || changed.at(&path).is_none())
        };
        if !done {
            let rule = format!("{name} must be given a value that can stand here");
            faults.push(Fault {
                path,
                value: value.excerpt(),
                rule,
            });
        }
    }
    if !fields.iter().any(|(name, _)| name != "comment") {
        let rule = format!("a change names at least one of: {}", places.takes());
        faults.push(Fault {
            path: Path::root(),
            value: String::new(),
            rule,
        });
    }
    if faults.is_empty() {
        Ok(changed)
    } else {
        Err(LimitsError::Invalid { faults })
    }
}

/// Where a field of one compartment stands; `None` when it has no such field.
pub(crate) fn place(document: &Value, key: &str, field: &str) -> Option<Path> {
    Places::of(document, key).ok()?.of_field(field)
}

/// The step of a fallback that asks another dependency.
fn upstream_step(document: &Value, steps: &Path) -> Option<usize> {
    let Some(Value::Array(steps)) = document.at(steps) else {
        return None;
    };
    let kind = Value::String("upstream".to_owned());
    steps
        .iter()
        .position(|step| step.get("kind") == Some(&kind))
}

/// The places of one compartment's fields.
enum Places {
    /// `routes[i].compartment`, any field.
    Route(Path),
    /// `routes[i].compartment.stream`, any field.
    Stream(Path),
    /// `upstreams.ID`, where the limit and the breaker may be set.
    Upstream(Path),
    /// A table in which `limit` alone may be set.
    Limit(Path),
    /// `gateway`, where the limit is called `capacity`.
    Gateway,
}

impl Places {
    fn of(document: &Value, key: &str) -> Result<Self, LimitsError> {
        let unknown = || LimitsError::UnknownKey { key: excerpt(key) };
        let root = Path::root();
        let named = |table: &str, id: &str| {
            let path = root.key(table).key(id);
            document.at(&path).map(|_| path)
        };
        match key.parse::<Key>().map_err(|_| unknown())? {
            Key::Gateway => Ok(Self::Gateway),
            Key::Route(id) => {
                let index = route_index(document, id.as_str()).ok_or_else(unknown)?;
                Ok(Self::Route(
                    root.key("routes").index(index).key("compartment"),
                ))
            }
            Key::Stream(id) => {
                let index = route_index(document, id.as_str()).ok_or_else(unknown)?;
                let route = root.key("routes").index(index);
                let stream = route.key("compartment").key("stream");
                let has_slots = document.at(&stream).is_some();
                has_slots
                    .then_some(Self::Stream(stream))
                    .ok_or_else(unknown)
            }
            Key::Fallback(id) => {
                let index = route_index(document, id.as_str()).ok_or_else(unknown)?;
                let steps = root.key("routes").index(index).key("fallback");
                let step = upstream_step(document, &steps).ok_or_else(unknown)?;
                Ok(Self::Limit(steps.index(step).key("limit")))
            }
            Key::Upstream(id) => named("upstreams", id.as_str())
                .map(Self::Upstream)
                .ok_or_else(unknown),
            Key::Tenant(id) if id.as_str() == "_unknown" => {
                let shared = document.at(&root.key("identify").key("unknown"));
                let is_shared = shared == Some(&Value::String("shared".to_owned()));
                let path = root.key("identify").key("unknown_limit");
                is_shared.then_some(Self::Limit(path)).ok_or_else(unknown)
            }
            Key::Tenant(id) => named("tenants", id.as_str())
                .map(|p| Self::Limit(p.key("limit")))
                .ok_or_else(unknown),
            Key::TenantRoute(route, tenant) => {
                let route = route_index(document, route.as_str());
                let tenant = named("tenants", tenant.as_str());
                let known = route.is_some() && tenant.is_some();
                Err(if known {
                    LimitsError::NotSettable { key: excerpt(key) }
                } else {
                    unknown()
                })
            }
        }
    }

    fn of_field(&self, name: &str) -> Option<Path> {
        match self {
            Self::Route(table) | Self::Stream(table) => Some(table.key(name)),
            Self::Upstream(table) => ["limit", "breaker", "force_breaker"]
                .contains(&name)
                .then(|| table.key(name)),
            Self::Limit(path) => (name == "limit").then(|| path.clone()),
            Self::Gateway => match name {
                "limit" => Some(Path::root().key("gateway").key("capacity")),
                "spare" => Some(Path::root().key("gateway").key("spare")),
                _ => None,
            },
        }
    }

    /// Whether a field of this name can stand here.
    fn takes_key(&self, name: &str) -> bool {
        match self {
            Self::Route(_) => compartment_keys().contains(&name),
            Self::Stream(_) => stream_keys().contains(&name),
            Self::Upstream(_) | Self::Limit(_) | Self::Gateway => self.of_field(name).is_some(),
        }
    }

    fn takes(&self) -> &'static str {
        match self {
            Self::Route(_) => "the fields of [routes.compartment]",
            Self::Stream(_) => "limit, idle, max_age, grpc",
            Self::Upstream(_) => "limit, breaker, force_breaker",
            Self::Limit(_) => "limit",
            Self::Gateway => "limit (the capacity), spare",
        }
    }
}

fn route_index(document: &Value, id: &str) -> Option<usize> {
    let Some(Value::Array(routes)) = document.get("routes") else {
        return None;
    };
    let is_it = |route: &Value| matches!(route.get("id"), Some(Value::String(own)) if own == id);
    routes.iter().position(is_it)
}

/// A key as an answer may repeat it.
fn excerpt(key: &str) -> String {
    wire::stream::bounded_text(key, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        serde_json::from_str(
            r#"{"schema": 1, "identify": {"unknown": "shared", "unknown_limit": 5},
                "tenants": {"t": {"limit": 2}}, "upstreams": {"u": {"endpoints": []}},
                "routes": [{"id": "a", "compartment": {"limit": 1, "stream": {"limit": 4}}},
                           {"id": "b", "compartment": {"limit": 2, "queue": 3}}]}"#,
        )
        .unwrap()
    }

    fn set(key: &str, field: &str, value: Value) -> Result<Value, LimitsError> {
        apply(&document(), key, &[(field.to_owned(), value)])
    }

    #[test]
    fn each_key_has_its_place() {
        for (key, field, pointer) in [
            ("route/b", "limit", "/routes/1/compartment/limit"),
            ("route/b", "reserved", "/routes/1/compartment/reserved"),
            (
                "route/a/stream",
                "limit",
                "/routes/0/compartment/stream/limit",
            ),
            (
                "route/a/stream",
                "idle",
                "/routes/0/compartment/stream/idle",
            ),
            ("upstream/u", "limit", "/upstreams/u/limit"),
            ("upstream/u", "force_breaker", "/upstreams/u/force_breaker"),
            ("tenant/t", "limit", "/tenants/t/limit"),
            ("tenant/_unknown", "limit", "/identify/unknown_limit"),
            ("gateway", "limit", "/gateway/capacity"),
            ("gateway", "spare", "/gateway/spare"),
        ] {
            let changed = set(key, field, Value::Integer(77)).unwrap();
            let path = Path::from_pointer(pointer).unwrap();
            assert_eq!(
                changed.at(&path),
                Some(&Value::Integer(77)),
                "{key} {field}"
            );
        }
    }

    #[test]
    fn keys_without_a_place_are_told_apart() {
        for key in [
            "route/none",
            "route/none/stream",
            "route/b/stream",
            "tenant/none",
            "upstream/none",
            "nonsense",
            "route/a/tenant/x",
        ] {
            let outcome = set(key, "limit", Value::Integer(1));
            assert!(
                matches!(outcome, Err(LimitsError::UnknownKey { .. })),
                "{key}"
            );
        }
        let outcome = set("route/a/tenant/t", "limit", Value::Integer(1));
        assert!(matches!(outcome, Err(LimitsError::NotSettable { .. })));
    }

    #[test]
    fn fields_that_have_no_place_are_named() {
        for (key, field) in [
            ("upstream/u", "queue"),
            ("tenant/t", "plan"),
            ("gateway", "http"),
        ] {
            let Err(LimitsError::Invalid { faults }) = set(key, field, Value::Integer(1)) else {
                panic!("{key} took {field}");
            };
            assert_eq!(faults[0].path.pointer(), format!("/{field}"));
        }
    }

    #[test]
    fn null_takes_a_field_away_but_never_a_limit() {
        let changed = set("route/b", "queue", Value::Null).unwrap();
        let path = Path::from_pointer("/routes/1/compartment/queue").unwrap();
        assert_eq!(changed.at(&path), None);
        assert!(set("route/a", "queue", Value::Null).is_ok(), "gone already");
        assert!(set("route/a/stream", "idle", Value::Null).is_ok());
        for (key, field) in [
            ("route/a", "limits"),
            ("route/a", "auto"),
            ("route/a/stream", "queue"),
            ("upstream/u", "endpoints"),
        ] {
            let Err(LimitsError::Invalid { faults }) = set(key, field, Value::Null) else {
                panic!("{key} took {field}");
            };
            assert_eq!(faults[0].path.pointer(), format!("/{field}"));
        }
        for key in ["route/a", "route/a/stream", "tenant/t", "gateway"] {
            assert!(set(key, "limit", Value::Null).is_err(), "{key}");
        }
    }

    #[test]
    fn a_change_changes_something() {
        assert!(matches!(
            apply(&document(), "route/a", &[]),
            Err(LimitsError::Invalid { .. })
        ));
    }
}
