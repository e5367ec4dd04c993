//! What the forms of tenants send, and what is wrong with it, field by field.
//!
//! Separate because making and changing one send the same fields. It must never lose a text that
//! was typed.

use compartment::policy::{Fault, Value};
use serde::Deserialize;
use web::TenantForm;

/// The fields of a tenant as they come from a browser.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sent {
    /// Its name; only where one is made.
    pub(super) id: String,
    plan: String,
    limit: String,
    hosts: String,
    /// Why.
    pub(super) comment: String,
    /// The generation that the form was made of; only where one is changed.
    pub(super) generation: String,
}

impl Sent {
    /// As the policy spells them; an empty field is none.
    pub(super) fn fields(&self) -> Vec<(String, Value)> {
        let text = |text: &str| match text.trim() {
            "" => Value::Null,
            text => Value::String(text.to_owned()),
        };
        let hosts = self.hosts.split([',', '\n', ' ']).map(str::trim);
        let hosts: Vec<Value> = hosts.filter(|host| !host.is_empty()).map(text).collect();
        let hosts = match hosts.is_empty() {
            true => Value::Null,
            false => Value::Array(hosts),
        };
        vec![
            ("plan".to_owned(), text(&self.plan)),
            ("limit".to_owned(), number(&self.limit)),
            ("hosts".to_owned(), hosts),
        ]
    }

    /// The form with what was typed in it.
    pub(super) fn typed(self, errors: Vec<(String, String)>) -> TenantForm {
        TenantForm {
            id: self.id,
            plan: self.plan,
            limit: self.limit,
            hosts: self.hosts,
            comment: self.comment,
            errors,
        }
    }
}

/// A limit: a number where it is one, else the text, which the policy refuses by name.
pub(super) fn number(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => text
            .parse::<i128>()
            .map_or_else(|_| Value::String(text.to_owned()), Value::Integer),
    }
}

/// The form of a tenant as the document has it.
pub(super) fn fresh(own: Option<&Value>) -> TenantForm {
    let text = |name: &str| match own.and_then(|own| own.get(name)) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Integer(n)) => n.to_string(),
        _ => String::new(),
    };
    let hosts = match own.and_then(|own| own.get("hosts")) {
        Some(Value::Array(hosts)) => hosts.as_slice(),
        _ => &[],
    };
    let hosts = hosts.iter().filter_map(|host| {
        let Value::String(host) = host else {
            return None;
        };
        Some(host.as_str())
    });
    TenantForm {
        plan: text("plan"),
        limit: text("limit"),
        hosts: hosts.collect::<Vec<_>>().join(", "),
        ..TenantForm::default()
    }
}

/// Broken rules by the field that they are about; what is elsewhere is about all of it.
pub(super) fn faults_by_field(faults: &[Fault], below: &str) -> Vec<(String, String)> {
    let one = |fault: &Fault| {
        let pointer = fault.path.pointer();
        match pointer.strip_prefix(below) {
            Some(rest) => {
                let field = rest.split('/').next().unwrap_or_default();
                let value = match fault.value.as_str() {
                    "" => String::new(),
                    value => format!("{value}: "),
                };
                (field.to_owned(), format!("{value}{}", fault.rule))
            }
            None => (String::new(), fault.to_string()),
        }
    };
    faults.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read_and_goes_back() {
        let sent = Sent {
            plan: " pro ".to_owned(),
            limit: "80".to_owned(),
            hosts: "a.example, b.example\nc.example".to_owned(),
            ..Sent::default()
        };
        let fields = sent.fields();
        let own = Value::Table(fields.clone());
        assert_eq!(fields[1].1, Value::Integer(80));
        let back = fresh(Some(&own));
        assert_eq!(back.hosts, "a.example, b.example, c.example");
        assert_eq!((back.plan.as_str(), back.limit.as_str()), ("pro", "80"));
        let empty = Sent::default().fields();
        assert!(empty.iter().all(|(_, value)| *value == Value::Null));
        assert_eq!(number("unlimited"), Value::String("unlimited".to_owned()));
    }

    #[test]
    fn rules_stand_at_their_field() {
        let fault = |pointer: &str, value: &str| Fault {
            path: compartment::policy::Path::from_pointer(pointer).unwrap(),
            value: value.to_owned(),
            rule: "must hold".to_owned(),
        };
        let faults = [
            fault("/tenants/a/limit", "-3"),
            fault("/gateway/capacity", ""),
        ];
        let errors = faults_by_field(&faults, "/tenants/a/");
        assert_eq!(errors[0], ("limit".to_owned(), "-3: must hold".to_owned()));
        assert_eq!(errors[1].0, "");
    }
}
