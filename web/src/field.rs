//! One field of the form: its rule, what was typed, and the value that this means.
//!
//! Separate so that each field says its rule where it is typed, in one place. It must never judge a
//! value: what cannot be read as a number goes to the check of the policy as text, and the rule it
//! breaks comes back to the field.

use compartment::policy::Value;
use compartment::{Level, Mode};

/// One field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    /// Its name in the policy.
    pub name: &'static str,
    /// What the policy says; empty: nothing, so the default holds.
    pub current: String,
    /// As typed.
    pub typed: String,
    /// What is wrong with it.
    pub error: Option<String>,
    /// What holds while the policy says nothing, and why.
    pub otherwise: Option<String>,
}

/// The fields that a compartment of this level has; the first is always its limit.
pub const fn fields_of(level: Level) -> &'static [&'static str] {
    match level {
        Level::Route => &[
            "limit",
            "mode",
            "reserved",
            "candidate",
            "queue",
            "queue_wait",
            "class_reserve",
            "tenant_limit",
            "tenant_share",
        ],
        Level::Stream => &["limit", "idle", "max_age"],
        Level::Gateway => &["limit", "spare"],
        Level::Fallback | Level::Upstream | Level::Tenant | Level::TenantRoute => &["limit"],
    }
}

impl Field {
    /// As first shown.
    pub fn new(name: &'static str, value: Option<&Value>) -> Self {
        let current = match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Integer(number)) => number.to_string(),
            Some(Value::Float(number)) => number.to_string(),
            Some(other @ (Value::Bool(_) | Value::Array(_) | Value::Table(_))) => other.excerpt(),
        };
        Self {
            name,
            typed: current.clone(),
            current,
            error: None,
            otherwise: None,
        }
    }

    /// True when what was typed is not what the policy says.
    pub fn is_changed(&self) -> bool {
        self.typed.trim() != self.current
    }

    /// What was typed, as a value of the policy; `Null` takes the key away.
    pub fn value(&self) -> Value {
        let typed = self.typed.trim();
        let text = || Value::String(typed.to_owned());
        match self.name {
            // A limit has no default: its own rule is what an empty one breaks.
            "limit" if typed.is_empty() => text(),
            _ if typed.is_empty() => Value::Null,
            "queue_wait" | "mode" | "idle" | "max_age" => text(),
            "tenant_share" => match (typed.parse::<i128>(), typed.parse::<f64>()) {
                // `parse` would take signs, exponents and words such as `inf`.
                _ if !typed.bytes().all(|b| b.is_ascii_digit() || b == b'.') => text(),
                (Ok(whole), _) => Value::Integer(whole),
                (Err(_), Ok(part)) => Value::Float(part),
                (Err(_), Err(_)) => text(),
            },
            _ if typed.eq_ignore_ascii_case("unlimited") => Value::String("unlimited".to_owned()),
            _ => match typed.parse::<i128>() {
                Ok(number) if !typed.starts_with('+') => Value::Integer(number),
                Ok(_) | Err(_) => text(),
            },
        }
    }

    /// The label.
    pub fn label(&self) -> &'static str {
        match self.name {
            "limit" => "Limit in each gateway",
            "mode" => "Mode",
            "reserved" => "Guaranteed slots",
            "candidate" => "Candidate",
            "queue" => "Places to wait",
            "queue_wait" => "Longest wait",
            "class_reserve" => "Kept from sheddable requests",
            "tenant_limit" => "One tenant at most",
            "tenant_share" => "One tenant’s share of what is free",
            "spare" => "Spare slots",
            "idle" => "Longest silence",
            "max_age" => "Longest life",
            _ => "",
        }
    }

    /// The rule, next to the field.
    pub fn help(&self) -> &'static str {
        match self.name {
            "limit" => {
                "Requests in flight at once: 0 to 1,000,000, or “unlimited”. Lowering it ends no \
                 request that is under way."
            }
            "mode" => "Shadow decides and counts but refuses nobody; off judges nothing.",
            "reserved" => {
                "Slots that nobody else can take, at most the limit. Empty: the limit. What is \
                 above them is borrowed from the spare slots."
            }
            "candidate" => {
                "A limit judged beside this one and never enforced: 0 to 1,000,000. Empty: none."
            }
            "queue" => "0 to 10,000; above 9 a queue hides an overload. Empty: 0, refuse at once.",
            "queue_wait" => {
                "Such as 20ms, at best a quarter of the attempt’s timeout, at most the total. \
                 Needed with places to wait."
            }
            "class_reserve" => "The last slots, fewer than the limit. Empty: 0.",
            "tenant_limit" => "On this route: 0 to 1,000,000, or “unlimited”. Empty: no cap.",
            "tenant_share" => {
                "A tenant holds at most this times the free slots, and always one: above 0 to \
                 1000, such as 0.5. Empty: not judged."
            }
            "spare" => {
                "For bursts above guarantees and for streams: with all guarantees at most the \
                 limit. Empty: what the guarantees leave."
            }
            "idle" | "max_age" => "Such as 60s or 1h, above 0 and at most 24h.",
            _ => "",
        }
    }

    /// True for the mode that is chosen; none is spelt as the default.
    pub fn is_mode(&self, mode: &str) -> bool {
        match self.typed.as_str() {
            "" => mode == Mode::Enforce.as_str(),
            typed => typed == mode,
        }
    }

    /// As the policy has it, or that it says nothing.
    pub fn in_force(&self) -> &str {
        match self.current.as_str() {
            "" => "not set",
            current => current,
        }
    }

    /// The same as a sentence, with what holds in its place.
    pub fn standing(&self) -> String {
        match (self.current.as_str(), &self.otherwise) {
            ("", Some(otherwise)) => format!("Not set (in force: {otherwise})."),
            ("", None) => "Not set.".to_owned(),
            (current, _) => format!("In force: {current}."),
        }
    }

    /// What `aria-describedby` names.
    pub fn described_by(&self) -> String {
        let name = self.name;
        match self.error {
            Some(_) => format!("{name}-help {name}-error"),
            None => format!("{name}-help"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_the_value_that_it_spells() {
        for (name, typed, value) in [
            ("limit", " 60 ", Value::Integer(60)),
            ("limit", "Unlimited", Value::String("unlimited".to_owned())),
            ("limit", "", Value::String(String::new())),
            ("queue", " ", Value::Null),
            ("limit", "-7", Value::Integer(-7)),
            ("limit", "+7", Value::String("+7".to_owned())),
            ("limit", "1.5", Value::String("1.5".to_owned())),
            ("limit", "1e3", Value::String("1e3".to_owned())),
            ("limit", "٣", Value::String("٣".to_owned())),
            ("tenant_share", "0.5", Value::Float(0.5)),
            ("tenant_share", "2", Value::Integer(2)),
            ("tenant_share", "inf", Value::String("inf".to_owned())),
            ("tenant_share", "-1", Value::String("-1".to_owned())),
            ("queue_wait", "20ms", Value::String("20ms".to_owned())),
            ("mode", "shadow", Value::String("shadow".to_owned())),
        ] {
            let field = Field {
                typed: typed.to_owned(),
                ..Field::new(name, None)
            };
            assert_eq!(field.value(), value, "{name} {typed:?}");
        }
    }

    #[test]
    fn a_value_comes_back_as_it_was_typed() {
        for value in [
            Value::Integer(60),
            Value::Float(0.25),
            Value::String("unlimited".to_owned()),
        ] {
            let field = Field::new("tenant_share", Some(&value));
            assert!(!field.is_changed());
            assert_eq!(Field::new("limit", Some(&value)).typed, field.current);
        }
        assert_eq!(
            Field::new("tenant_share", Some(&Value::Float(0.25))).value(),
            Value::Float(0.25)
        );
    }

    #[test]
    fn every_field_has_its_words() {
        for level in [
            Level::Route,
            Level::Stream,
            Level::Fallback,
            Level::Gateway,
            Level::Upstream,
            Level::Tenant,
        ] {
            for name in fields_of(level) {
                let field = Field::new(name, None);
                assert!(!field.label().is_empty(), "{name}");
                assert!(field.help().ends_with('.'), "{name}");
            }
        }
    }
}
