//! Whose request it is.
//!
//! Separate because identity has one order that nothing may shortcut: credentials first, all of
//! them, and only without any do host, path and trusted fields count. It must never await, never
//! create anything from what a caller says, and never compare keys other than by digest.

use std::collections::HashMap;
use std::net::IpAddr;

use compartment::policy::{Identifier, Network, Policy, Unknown};
use compartment::{Class, Name};
use http::HeaderMap;
use http::header::HeaderName;
use sha2::{Digest, Sha256};

/// Most values of one credential's field that are looked at: more is no honest caller.
const CREDENTIALS_MAX: usize = 4;

/// Who calls, as an index into the policy's tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The policy has no tenants.
    Nobody,
    /// This one.
    Tenant(usize),
    /// Somebody unknown; all of them share one compartment.
    SharedUnknown,
}

/// Why a caller is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// 401.
    Unknown,
    /// 403.
    Suspended,
    /// 400: the identity can be read in two ways.
    Ambiguous,
}

/// What of a request identity is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// Lower case, without port.
    pub(crate) host: Option<&'a str>,
    /// Canonical.
    pub(crate) path: &'a str,
    pub(crate) peer: IpAddr,
    /// Wall-clock seconds since 1970; asked for where a key that ends is offered.
    pub(crate) unix_s: fn() -> u64,
}

/// The tenants of one policy, by everything that names them.
#[derive(Debug, Default)]
pub(crate) struct TenantTable {
    credentials: Vec<HeaderName>,
    /// All fields that an identity is read from.
    fields: Vec<HeaderName>,
    others: Vec<Other>,
    unknown: Option<Unknown>,
    by_key: HashMap<[u8; 32], usize>,
    /// Keys that open nothing any more from this second since 1970 on.
    ending: HashMap<[u8; 32], u64>,
    by_host: HashMap<Box<str>, usize>,
    by_id: HashMap<Name, usize>,
    traits: Vec<Traits>,
}

/// What admission asks of a tenant.
#[derive(Clone, Copy, Debug)]
struct Traits {
    suspended: bool,
    class: Option<Class>,
    plan: Option<usize>,
}

/// An identifier that is no credential.
#[derive(Debug)]
enum Other {
    Host,
    PathSegment(usize),
    Header(HeaderName, Vec<Network>),
}

impl Other {
    fn field(&self) -> Option<&HeaderName> {
        match self {
            Self::Header(name, _) => Some(name),
            Self::Host | Self::PathSegment(_) => None,
        }
    }
}

impl TenantTable {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut table = Self::default();
        let Some(identify) = &policy.identify else {
            return table;
        };
        table.unknown = Some(identify.unknown);
        for by in &identify.by {
            table.identify_by(by);
        }
        table.fields.clone_from(&table.credentials);
        let plain = table.others.iter().filter_map(Other::field).cloned();
        table.fields.extend(plain);
        for (index, tenant) in policy.tenants.iter().enumerate() {
            table.by_id.insert(tenant.id.clone(), index);
            table
                .by_key
                .extend(tenant.api_keys.iter().map(|&key| (key, index)));
            table.ending.extend(tenant.expiring.iter().copied());
            let hosts = tenant
                .hosts
                .iter()
                .map(|host| (host.as_str().into(), index));
            table.by_host.extend(hosts);
            let plan = tenant.plan.and_then(|plan| policy.plans.get(plan));
            let class = plan.and_then(|plan| plan.class);
            let (suspended, plan) = (tenant.suspended, tenant.plan);
            table.traits.push(Traits {
                suspended,
                class,
                plan,
            });
        }
        table
    }

    fn identify_by(&mut self, by: &Identifier) {
        // The names are valid: the policy's check has seen to it. One that were not would
        // identify nobody.
        let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).ok();
        match by {
            Identifier::ApiKey { header } => self.credentials.extend(name(header)),
            Identifier::Host => self.others.push(Other::Host),
            Identifier::PathSegment { index } => self.others.push(Other::PathSegment(*index)),
            Identifier::Header { name: field, trust } => {
                let header = name(field).map(|field| Other::Header(field, trust.clone()));
                self.others.extend(header);
            }
        }
    }

    /// The fields that an identity is read from.
    pub(crate) fn fields(&self) -> &[HeaderName] {
        &self.fields
    }

    /// A plain field that names somebody else than the tenant found does not reach the upstream,
    /// which may believe it.
    pub(crate) fn drop_others(&self, headers: &mut HeaderMap, tenant: Option<&str>) {
        for field in self.others.iter().filter_map(Other::field) {
            let mut values = headers.get_all(field).iter();
            let own = tenant.map(str::as_bytes);
            if values.any(|value| Some(value.as_bytes()) != own) {
                headers.remove(field);
            }
        }
    }

    /// Who sent this request.
    pub(crate) fn find(&self, marks: Marks<'_>) -> Result<Who, NotLetIn> {
        let Some(unknown) = self.unknown else {
            return Ok(Who::Nobody);
        };
        let found = match self.by_credentials(marks)? {
            Some(tenant) => Some(tenant),
            None => self.by_others(marks)?,
        };
        match (found, unknown) {
            (Some(tenant), _) if self.traits(tenant).is_some_and(|traits| traits.suspended) => {
                Err(NotLetIn::Suspended)
            }
            (Some(tenant), _) => Ok(Who::Tenant(tenant)),
            (None, Unknown::Shared { .. }) => Ok(Who::SharedUnknown),
            (None, Unknown::Reject) => Err(NotLetIn::Unknown),
        }
    }

    /// The class that the tenant's plan caps its requests at.
    pub(crate) fn class(&self, tenant: usize) -> Option<Class> {
        self.traits(tenant)?.class
    }

    /// Index of the tenant's plan.
    pub(crate) fn plan(&self, tenant: usize) -> Option<usize> {
        self.traits(tenant)?.plan
    }

    fn traits(&self, tenant: usize) -> Option<&Traits> {
        self.traits.get(tenant)
    }

    /// Every credential that is present must verify and name the same tenant. One header twice is
    /// ambiguous even then: an upstream may read either.
    fn by_credentials(&self, marks: Marks<'_>) -> Result<Option<usize>, NotLetIn> {
        let (mut tenant, mut repeated) = (None, false);
        for name in &self.credentials {
            for (count, value) in marks.headers.get_all(name).iter().enumerate() {
                let digest: [u8; 32] = Sha256::digest(value.as_bytes()).into();
                let named = self.by_key.get(&digest).copied().ok_or(NotLetIn::Unknown)?;
                if self
                    .ending
                    .get(&digest)
                    .is_some_and(|end| (marks.unix_s)() >= *end)
                {
                    return Err(NotLetIn::Unknown);
                }
                if count >= CREDENTIALS_MAX || tenant.is_some_and(|tenant| tenant != named) {
                    return Err(NotLetIn::Unknown);
                }
                tenant = Some(named);
                repeated |= count > 0;
            }
        }
        if repeated {
            Err(NotLetIn::Ambiguous)
        } else {
            Ok(tenant)
        }
    }

    /// The first of the others that names a tenant wins.
    fn by_others(&self, marks: Marks<'_>) -> Result<Option<usize>, NotLetIn> {
        for other in &self.others {
            let named = match other {
                Other::Host => marks.host.and_then(|host| self.by_host.get(host)).copied(),
                Other::PathSegment(index) => {
                    // The first piece is what stands before the leading slash: nothing.
                    let segment = marks.path.split('/').skip(1).nth(*index);
                    segment.and_then(|id| self.by_id(id))
                }
                Other::Header(name, trust) => self.by_header(name, trust, marks)?,
            };
            if named.is_some() {
                return Ok(named);
            }
        }
        Ok(None)
    }

    fn by_header(
        &self,
        name: &HeaderName,
        trust: &[Network],
        marks: Marks<'_>,
    ) -> Result<Option<usize>, NotLetIn> {
        if !trust.iter().any(|network| network.contains(marks.peer)) {
            return Ok(None);
        }
        let mut values = marks.headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        // Two readings (repeated, a list, bytes that others decode differently) name nobody.
        let text = value.to_str().map_err(|_| NotLetIn::Ambiguous)?;
        if values.next().is_some() || text.contains(',') {
            return Err(NotLetIn::Ambiguous);
        }
        Ok(self.by_id(text))
    }

    fn by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::testing::{network, policy, tenant};

    fn key(text: &str) -> [u8; 32] {
        Sha256::digest(text.as_bytes()).into()
    }

    fn table(unknown: Unknown, by: Vec<Identifier>) -> TenantTable {
        let mut acme = tenant("acme");
        acme.api_keys = vec![key("key-one"), key("key-two")];
        acme.hosts = vec!["acme.example".to_owned()];
        let mut zeta = tenant("zeta");
        zeta.api_keys = vec![key("key-zeta")];
        let mut gone = tenant("gone");
        gone.suspended = true;
        let mut policy = policy(&[]);
        policy.tenants = vec![acme, zeta, gone];
        policy.identify = Some(compartment::policy::Identify { by, unknown });
        TenantTable::new(&policy)
    }

    fn header(name: &str, trust: &str) -> Identifier {
        Identifier::Header {
            name: name.to_owned(),
            trust: vec![network(trust)],
        }
    }

    fn all() -> TenantTable {
        let key = Identifier::ApiKey {
            header: "x-api-key".to_owned(),
        };
        let far = header("x-far", "10.0.0.0/8");
        let near = header("x-near", "127.0.0.0/8");
        table(Unknown::Reject, vec![key, Identifier::Host, far, near])
    }

    fn find(table: &TenantTable, host: &str, path: &str, fields: &[(&str, &str)]) -> Outcome {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let peer = IpAddr::from([127, 0, 0, 1]);
        table.find(Marks {
            headers: &headers,
            host: Some(host),
            path,
            peer,
            unix_s: || 1_000,
        })
    }

    type Outcome = Result<Who, NotLetIn>;

    const ACME: Outcome = Ok(Who::Tenant(0));
    const ZETA: Outcome = Ok(Who::Tenant(1));
    const AMBIGUOUS: Result<Who, NotLetIn> = Err(NotLetIn::Ambiguous);
    const UNKNOWN: Outcome = Err(NotLetIn::Unknown);

    #[test]
    fn a_key_opens_nothing_from_its_end_on() {
        let mut acme = tenant("acme");
        acme.api_keys = vec![key("ended"), key("ends"), key("stays")];
        acme.expiring = vec![(key("ended"), 1_000), (key("ends"), 1_001)];
        let mut policy = policy(&[]);
        policy.tenants = vec![acme];
        policy.identify = Some(compartment::policy::Identify {
            by: vec![Identifier::ApiKey {
                header: "x-api-key".to_owned(),
            }],
            unknown: Unknown::Shared {
                limit: compartment::Limit::UNLIMITED,
            },
        });
        let table = TenantTable::new(&policy);
        for (offered, outcome) in [("ended", UNKNOWN), ("ends", ACME), ("stays", ACME)] {
            let found = find(&table, "", "/", &[("x-api-key", offered)]);
            assert_eq!(found, outcome, "{offered}");
        }
    }

    #[test]
    fn a_field_that_names_another_tenant_goes_no_further() {
        let table = all();
        assert_eq!(table.fields(), ["x-api-key", "x-far", "x-near"]);
        for (values, tenant, kept) in [
            (vec!["acme"], Some("acme"), true),
            (vec!["zeta"], Some("acme"), false),
            (vec!["acme", "zeta"], Some("acme"), false),
            (vec!["acme"], None, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append("x-far", HeaderValue::from_static(value));
            }
            headers.append("x-api-key", HeaderValue::from_static("key-one"));
            table.drop_others(&mut headers, tenant);
            assert_eq!(headers.contains_key("x-far"), kept, "{values:?} {tenant:?}");
            assert!(headers.contains_key("x-api-key"));
        }
    }

    #[test]
    fn credentials_come_first_and_must_all_agree() {
        let table = all();
        for (host, fields, want) in [
            ("gw", vec![("x-api-key", "key-one")], ACME),
            (
                "gw",
                vec![("x-api-key", "key-one"), ("x-api-key", "key-two")],
                AMBIGUOUS,
            ),
            (
                "gw",
                vec![("x-api-key", "key-one"), ("x-api-key", "key-zeta")],
                UNKNOWN,
            ),
            (
                "gw",
                vec![("x-api-key", "key-one"), ("x-api-key", "nope")],
                UNKNOWN,
            ),
            ("gw", vec![("x-api-key", "KEY-ONE")], UNKNOWN),
            ("gw", vec![("x-api-key", "")], UNKNOWN),
            (
                "acme.example",
                vec![("x-api-key", "key-zeta"), ("x-near", "acme")],
                ZETA,
            ),
            ("acme.example", vec![("x-api-key", "nope")], UNKNOWN),
            (
                "gw",
                vec![("x-api-key", "nope"), ("x-near", "acme")],
                UNKNOWN,
            ),
        ] {
            assert_eq!(find(&table, host, "/", &fields), want, "{host} {fields:?}");
        }
    }

    #[test]
    fn the_first_of_the_others_wins() {
        let table = all();
        for (host, fields, want) in [
            ("acme.example", vec![], ACME),
            ("acme.example", vec![("x-near", "zeta")], ACME),
            ("gw", vec![("x-near", "zeta")], ZETA),
            ("gw", vec![("x-far", "zeta")], UNKNOWN),
            ("gw", vec![("x-far", "acme"), ("x-near", "zeta")], ZETA),
            ("gw", vec![("x-near", "nobody")], UNKNOWN),
            ("gw", vec![("x-near", "gone")], Err(NotLetIn::Suspended)),
            (
                "gw",
                vec![("x-near", "acme"), ("x-near", "zeta")],
                Err(NotLetIn::Ambiguous),
            ),
            (
                "gw",
                vec![("x-near", "acme"), ("x-near", "acme")],
                Err(NotLetIn::Ambiguous),
            ),
            (
                "gw",
                vec![("x-near", "acme, zeta")],
                Err(NotLetIn::Ambiguous),
            ),
            ("gw", vec![("x-near", "é")], Err(NotLetIn::Ambiguous)),
            // From a peer that is not trusted the field is no identity, so no ambiguity either.
            ("gw", vec![("x-far", "acme"), ("x-far", "zeta")], UNKNOWN),
            ("gw", vec![], UNKNOWN),
        ] {
            assert_eq!(find(&table, host, "/", &fields), want, "{host} {fields:?}");
        }
    }

    #[test]
    fn segments_and_shared_strangers() {
        let shared = Unknown::Shared {
            limit: compartment::Limit::new(5).unwrap(),
        };
        let table = table(shared, vec![Identifier::PathSegment { index: 1 }]);
        assert_eq!(find(&table, "gw", "/v1/acme/x", &[]), ACME);
        assert_eq!(find(&table, "gw", "/acme", &[]), Ok(Who::SharedUnknown));
        assert_eq!(
            find(&table, "gw", "/v1/_unknown", &[]),
            Ok(Who::SharedUnknown)
        );
    }

    #[test]
    fn no_identify_no_tenants() {
        let table = TenantTable::new(&policy(&[]));
        assert_eq!(
            find(&table, "gw", "/", &[("x-api-key", "nope")]),
            Ok(Who::Nobody)
        );
    }
}
