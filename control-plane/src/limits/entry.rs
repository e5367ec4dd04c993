//! One entry of `[tenants]` or `[plans]`: made, changed, taken away, and the API keys of a tenant.
//!
//! Separate because callers name these by id, and what they ask for is worked out on top of
//! whatever is the newest policy. It must never judge a value: the whole document is checked
//! afterwards.

use compartment::policy::{Fault, KEY_ID_DIGITS, Path, Value, parse_moment};

use super::{Accepted, Author, Change, Edit, Limits, LimitsError};

/// Which table an entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// `[tenants]`.
    Tenant,
    /// `[plans]`.
    Plan,
}

impl Named {
    const fn table(self) -> &'static str {
        match self {
            Self::Tenant => "tenants",
            Self::Plan => "plans",
        }
    }

    /// The word for one of them.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Plan => "plan",
        }
    }
}

/// What is to become of one entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// It must not be there yet.
    Create(Vec<(String, Value)>),
    /// It is this from now on, whether or not it was there.
    Put(Vec<(String, Value)>),
    /// These fields change; null takes one away.
    Set(Vec<(String, Value)>),
    /// It goes.
    Remove,
    /// One more API key.
    AddKey(NewKey),
    /// The API key of this id opens nothing any more.
    RemoveKey(String),
}

/// An API key as a policy keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// For people; empty: none.
    pub label: String,
    /// Its last characters.
    pub ending: String,
    /// Now, in UTC and whole seconds.
    pub created: String,
    /// When it ends, if it does.
    pub expires: Option<String>,
    /// The id of the key that it replaces, and when that one ends.
    pub replaces: Option<(String, String)>,
}

impl NewKey {
    /// What names it.
    pub fn id(&self) -> String {
        id_of(&self.digest)
    }
}

/// The id of the key with this digest, as a policy spells it.
fn id_of(digest: &str) -> String {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    let digits = digits.chars().take(KEY_ID_DIGITS);
    digits.map(|digit| digit.to_ascii_lowercase()).collect()
}

/// How a change of one entry is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Only on top of this generation.
    pub seen: Option<u64>,
    /// Nothing is stored.
    pub dry_run: bool,
    /// Why.
    pub comment: &'a str,
}

impl Limits {
    /// Changes one tenant or plan, or its keys.
    pub async fn entry(
        &self,
        named: Named,
        id: &str,
        entry: Entry,
        asked: Asked<'_>,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        let id = id.to_owned();
        self.write(Change {
            source: "patch",
            edit: Edit::Entry { named, id, entry },
            seen: asked.seen,
            dry_run: asked.dry_run,
            always: false,
            comment: asked.comment,
            author,
        })
        .await
    }
}

/// The document with one entry changed.
pub(super) fn apply(
    document: &Value,
    named: Named,
    id: &str,
    entry: Entry,
) -> Result<Value, LimitsError> {
    let place = Path::root().key(named.table()).key(id);
    let own = document.at(&place);
    let is_there = own.is_some();
    let missing = || unknown(named.word(), id);
    let fresh = |fields: Vec<(String, Value)>| {
        let given = fields
            .into_iter()
            .filter(|(_, value)| *value != Value::Null);
        Value::Table(given.collect())
    };
    let next = match entry {
        Entry::Create(_) if is_there => {
            let (what, id) = (named.word(), wire::stream::bounded_text(id, 100));
            return Err(LimitsError::Exists { what, id });
        }
        Entry::Create(fields) | Entry::Put(fields) => fresh(fields),
        Entry::Remove => {
            own.ok_or_else(missing)?;
            if named == Named::Plan {
                unused(document, id)?;
            }
            let mut changed = document.clone();
            changed.remove(&place);
            return Ok(changed);
        }
        Entry::Set(fields) => set(own.ok_or_else(missing)?.clone(), fields, &place)?,
        Entry::AddKey(key) => add_key(own.ok_or_else(missing)?.clone(), key)?,
        Entry::RemoveKey(key) => remove_key(own.ok_or_else(missing)?.clone(), &key)?,
    };
    let mut changed = document.clone();
    if changed.set(&place, next) {
        return Ok(changed);
    }
    let rule = format!("{} is no table", named.table());
    Err(invalid(Path::root().key(named.table()), "", &rule))
}

fn unknown(what: &'static str, id: &str) -> LimitsError {
    let id = wire::stream::bounded_text(id, 100);
    LimitsError::UnknownEntry { what, id }
}

fn invalid(path: Path, value: &str, rule: &str) -> LimitsError {
    let (value, rule) = (value.to_owned(), rule.to_owned());
    let faults = vec![Fault { path, value, rule }];
    LimitsError::Invalid { faults }
}

/// A plan that tenants are on does not go: each of them would lose its limit.
fn unused(document: &Value, plan: &str) -> Result<(), LimitsError> {
    let Some(Value::Table(tenants)) = document.get("tenants") else {
        return Ok(());
    };
    let on_it = |tenant: &Value| matches!(tenant.get("plan"), Some(Value::String(p)) if p == plan);
    match tenants.iter().filter(|(_, tenant)| on_it(tenant)).count() {
        0 => Ok(()),
        tenants => Err(LimitsError::InUse {
            plan: wire::stream::bounded_text(plan, 100),
            tenants,
        }),
    }
}

fn set(mut own: Value, fields: Vec<(String, Value)>, place: &Path) -> Result<Value, LimitsError> {
    if fields.is_empty() {
        let rule = "a change names at least one field";
        return Err(invalid(Path::root(), "", rule));
    }
    for (name, value) in fields {
        let field = Path::root().key(&name);
        let done = match value {
            Value::Null => own.remove(&field) || own.at(&field).is_none(),
            value @ (Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Table(_)) => own.set(&field, value),
        };
        if !done {
            return Err(invalid(place.key(&name), "", "this entry is no table"));
        }
    }
    // What is said of keys that are no more.
    let ids: Vec<String> = digests(&own).map(id_of).collect();
    if let Some(Value::Table(notes)) = own.get_mut("keys") {
        notes.retain(|(id, _)| ids.contains(id));
    }
    Ok(tidy(own))
}

fn digests(own: &Value) -> impl Iterator<Item = &str> {
    let list = match own.get("api_keys") {
        Some(Value::Array(list)) => list.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|one| match one {
        Value::String(digest) => Some(digest.as_str()),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    })
}

/// Without tables and lists that say nothing.
fn tidy(mut own: Value) -> Value {
    if let Value::Table(fields) = &mut own {
        let says_nothing = |name: &str, value: &Value| match (name, value) {
            ("keys", Value::Table(notes)) => notes.is_empty(),
            ("api_keys", Value::Array(keys)) => keys.is_empty(),
            _ => false,
        };
        fields.retain(|(name, value)| !says_nothing(name, value));
    }
    own
}

fn forget(own: &mut Value, id: &str) {
    if let Some(Value::Array(keys)) = own.get_mut("api_keys") {
        keys.retain(|key| !matches!(key, Value::String(digest) if id_of(digest) == id));
    }
    own.remove(&Path::root().key("keys").key(id));
}

fn add_key(mut own: Value, key: NewKey) -> Result<Value, LimitsError> {
    let now_s = parse_moment(&key.created).unwrap_or_default();
    for id in ended(&own, now_s) {
        forget(&mut own, &id);
    }
    let notes = Path::root().key("keys");
    if let Some((old, until)) = &key.replaces {
        if !digests(&own).any(|digest| id_of(digest) == *old) {
            return Err(unknown("key", old));
        }
        // It never lasts longer than it would have.
        let ends = notes.key(old).key("expires");
        let sooner = own.at(&ends).and_then(moment).zip(parse_moment(until));
        if sooner.is_none_or(|(now, then)| now > then) {
            own.set(&ends, Value::String(until.clone()));
        }
    }
    let list = Path::root().key("api_keys");
    if own.at(&list).is_none() {
        own.set(&list, Value::Array(Vec::new()));
    }
    let Some(Value::Array(keys)) = own.get_mut("api_keys") else {
        return Err(invalid(list, "", "is no list"));
    };
    let id = key.id();
    keys.push(Value::String(key.digest));
    let said = [
        ("label", Some(key.label).filter(|label| !label.is_empty())),
        ("ending", Some(key.ending)),
        ("created", Some(key.created)),
        ("expires", key.expires),
    ];
    let said = said
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?))));
    own.set(&notes.key(&id), Value::Table(said.collect()));
    Ok(own)
}

fn moment(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => parse_moment(text),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    }
}

/// Keys that open nothing any more.
fn ended(own: &Value, now_s: u64) -> Vec<String> {
    let Some(Value::Table(notes)) = own.get("keys") else {
        return Vec::new();
    };
    let has_ended = |note: &Value| {
        let end = note.get("expires").and_then(moment);
        end.is_some_and(|end| end <= now_s)
    };
    let ended = notes.iter().filter(|(_, note)| has_ended(note));
    ended.map(|(id, _)| id.clone()).collect()
}

fn remove_key(mut own: Value, id: &str) -> Result<Value, LimitsError> {
    if !digests(&own).any(|digest| id_of(digest) == id) {
        return Err(unknown("key", id));
    }
    forget(&mut own, id);
    Ok(tidy(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let text = serde_json::json!({
            "schema": 1,
            "plans": {"pro": {"limit": 5}, "free": {"limit": 1}},
            "tenants": {"acme": {"plan": "pro"}},
        });
        serde_json::from_str(&text.to_string()).unwrap()
    }

    fn at<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
        document.at(&Path::from_pointer(pointer).unwrap())
    }

    fn tenant(document: &Value, entry: Entry) -> Result<Value, LimitsError> {
        apply(document, Named::Tenant, "acme", entry)
    }

    fn key(digit: &str, created: &str, replaces: Option<(&str, &str)>) -> NewKey {
        NewKey {
            digest: format!("sha256:{}", digit.repeat(64)),
            label: "ci".to_owned(),
            ending: "wxyz".to_owned(),
            created: created.to_owned(),
            expires: None,
            replaces: replaces.map(|(id, until)| (id.to_owned(), until.to_owned())),
        }
    }

    fn field(name: &str, value: Value) -> Vec<(String, Value)> {
        vec![(name.to_owned(), value)]
    }

    #[test]
    fn entries_are_made_once_changed_and_taken_away() {
        let document = document();
        let made = Entry::Create(field("plan", Value::String("free".to_owned())));
        let exists = tenant(&document, made.clone());
        assert!(matches!(exists, Err(LimitsError::Exists { .. })));
        let two = apply(&document, Named::Tenant, "beta", made).unwrap();
        assert!(at(&two, "/tenants/beta/plan").is_some());
        let changed = tenant(&two, Entry::Set(field("limit", Value::Integer(9)))).unwrap();
        assert_eq!(
            at(&changed, "/tenants/acme/limit"),
            Some(&Value::Integer(9))
        );
        let back = tenant(&changed, Entry::Set(field("limit", Value::Null))).unwrap();
        assert_eq!(back, two);
        let gone = apply(&two, Named::Tenant, "beta", Entry::Remove).unwrap();
        assert_eq!(gone, document);
        for entry in [Entry::Remove, Entry::Set(field("limit", Value::Null))] {
            let missing = apply(&document, Named::Tenant, "none", entry);
            assert!(matches!(missing, Err(LimitsError::UnknownEntry { .. })));
        }
        assert!(tenant(&document, Entry::Set(Vec::new())).is_err());
    }

    #[test]
    fn a_plan_that_tenants_are_on_stays() {
        let document = document();
        let used = apply(&document, Named::Plan, "pro", Entry::Remove);
        assert!(matches!(used, Err(LimitsError::InUse { tenants: 1, .. })));
        let gone = apply(&document, Named::Plan, "free", Entry::Remove).unwrap();
        assert_eq!(at(&gone, "/plans/free"), None);
    }

    #[test]
    fn keys_come_and_go_with_what_is_said_of_them() {
        let created = "2026-07-01T12:00:00Z";
        let one = tenant(&document(), Entry::AddKey(key("a", created, None))).unwrap();
        let id = "a".repeat(16);
        assert!(at(&one, &format!("/tenants/acme/keys/{id}/label")).is_some());
        assert!(compartment::policy::check(&one).is_ok());
        let until = "2026-07-02T12:00:00Z";
        let rotated = Entry::AddKey(key("b", created, Some((&id, until))));
        let two = tenant(&one, rotated.clone()).unwrap();
        let ends = format!("/tenants/acme/keys/{id}/expires");
        assert_eq!(at(&two, &ends), Some(&Value::String(until.to_owned())));
        // A second rotation makes it last no longer.
        let later = Entry::AddKey(key("c", created, Some((&id, "2027-01-01T00:00:00Z"))));
        let three = tenant(&two, later).unwrap();
        assert_eq!(at(&three, &ends), Some(&Value::String(until.to_owned())));
        // What has ended goes with the next key.
        let after = tenant(
            &three,
            Entry::AddKey(key("d", "2026-07-03T00:00:00Z", None)),
        )
        .unwrap();
        assert_eq!(at(&after, &format!("/tenants/acme/keys/{id}")), None);
        assert!(
            matches!(at(&after, "/tenants/acme/api_keys"), Some(Value::Array(k)) if k.len() == 3)
        );
        assert!(compartment::policy::check(&after).is_ok());
        let gone = tenant(&one, Entry::RemoveKey(id.clone())).unwrap();
        assert_eq!(gone, document(), "nothing is left of it");
        let none = tenant(&one, Entry::RemoveKey("b".repeat(16)));
        assert!(matches!(
            none,
            Err(LimitsError::UnknownEntry { what: "key", .. })
        ));
        let set = tenant(
            &one,
            Entry::Set(field("api_keys", Value::Array(Vec::new()))),
        )
        .unwrap();
        assert_eq!(set, document(), "what is said of a key goes with it");
        let unknown = tenant(
            &one,
            Entry::AddKey(key("b", created, Some(("nine", until)))),
        );
        assert!(matches!(
            unknown,
            Err(LimitsError::UnknownEntry { what: "key", .. })
        ));
    }
}
