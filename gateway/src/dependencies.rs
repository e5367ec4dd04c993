//! The upstreams of a policy, ready to be spoken to.
//!
//! Separate because this is done off the serving threads and may fail: a file of roots may not be
//! there. What is known of an endpoint is kept over policies. It must never open a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compartment::Name;
use compartment::policy::{Endpoint, Fault, Path, Policy, Upstream};
use telemetry::NoRoots;

use crate::upstream::{NoTls, Readers, Secure, Secured, Target, server_name};

/// Every upstream of the policy in force.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    known: Mutex<HashMap<Name, Arc<Dependency>>>,
    readers: Arc<Readers>,
}

/// One upstream.
#[derive(Debug)]
pub(crate) struct Dependency {
    secure: Option<Arc<Secure>>,
    /// In the order of the policy.
    pub(crate) targets: Vec<Arc<Target>>,
    checks: Option<CheckTerms>,
}

/// How the endpoints of one upstream are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckTerms {
    pub(crate) path: String,
    pub(crate) interval: Duration,
    pub(crate) http2: bool,
}

/// Those of one policy, in its order; not yet in force.
pub(crate) type Prepared = Vec<Arc<Dependency>>;

impl Dependencies {
    /// Makes ready what the policy names. Changes nothing. Blocks: for a thread that serves nobody.
    pub(crate) fn prepare(&self, policy: &Policy) -> Result<Prepared, Vec<Fault>> {
        let known = self.known();
        let (mut prepared, mut faults) = (Vec::new(), Vec::new());
        for upstream in &policy.upstreams {
            match Dependency::new(upstream, known.get(&upstream.id), &self.readers) {
                Ok(dependency) => prepared.push(Arc::new(dependency)),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.is_empty() {
            true => Ok(prepared),
            false => Err(faults),
        }
    }

    /// They are in force from now on.
    pub(crate) fn keep(&self, policy: &Policy, prepared: &Prepared) {
        let ids = policy.upstreams.iter().map(|upstream| upstream.id.clone());
        let all = ids.zip(prepared.iter().cloned()).collect();
        let mut kept = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = all;
    }

    fn known(&self) -> HashMap<Name, Arc<Dependency>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// Every upstream, by name.
    pub(crate) fn all(&self) -> Vec<(Name, Arc<Dependency>)> {
        let known = self.known();
        let mut all: Vec<_> = known.into_iter().collect();
        all.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        all
    }

    /// The upstreams whose endpoints are to be checked, each with its terms.
    pub(crate) fn checked(&self) -> Vec<(Name, CheckTerms, Arc<Dependency>)> {
        let all = self.all().into_iter();
        let checked = all.filter_map(|(name, known)| {
            let terms = known.checks.clone()?;
            Some((name, terms, known))
        });
        checked.collect()
    }

    /// Reads files of roots again. Blocks, as above, and a while longer for each file that is on a
    /// disk that does not answer.
    pub(crate) fn read_again(&self) {
        let known = self.known();
        let secure = known.values().filter_map(|known| known.secure.as_ref());
        secure.for_each(|secure| secure.read_again(&self.readers));
    }
}

impl Dependency {
    fn new(
        upstream: &Upstream,
        known: Option<&Arc<Self>>,
        readers: &Arc<Readers>,
    ) -> Result<Self, Fault> {
        let secure = secure(upstream, known, readers)?;
        let mut targets = Vec::with_capacity(upstream.endpoints.len());
        for (index, endpoint) in upstream.endpoints.iter().enumerate() {
            let same = known.and_then(|known| known.target(endpoint, secure.as_ref()));
            targets.push(match same {
                Some(same) => same,
                None => Arc::new(target(upstream, index, endpoint, secure.as_ref())?),
            });
        }
        let checks = upstream.health.as_ref().map(|health| CheckTerms {
            path: health.path.clone(),
            interval: health.interval,
            http2: upstream.http2,
        });
        Ok(Self {
            secure,
            targets,
            checks,
        })
    }

    fn target(&self, endpoint: &Endpoint, secure: Option<&Arc<Secure>>) -> Option<Arc<Target>> {
        let same = self
            .targets
            .iter()
            .find(|target| target.endpoint == *endpoint)?;
        let by = same.secure.as_ref().map(|secured| &secured.by);
        let as_before = match (by, secure.filter(|_| endpoint.secure)) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        as_before.then(|| Arc::clone(same))
    }
}

fn secure(
    upstream: &Upstream,
    known: Option<&Arc<Dependency>>,
    readers: &Arc<Readers>,
) -> Result<Option<Arc<Secure>>, Fault> {
    if !upstream.endpoints.iter().any(|endpoint| endpoint.secure) {
        return Ok(None);
    }
    let (terms, http2) = (upstream.tls.as_ref(), upstream.http2);
    let kept = known.and_then(|known| known.secure.as_ref());
    if let Some(kept) = kept.filter(|kept| kept.is_for(terms, http2)) {
        return Ok(Some(Arc::clone(kept)));
    }
    let at = Path::root().key("upstreams").key(upstream.id.as_str());
    Secure::new(terms, http2, readers)
        .map(Some)
        .map_err(|error| {
            let (path, value) = match (&error, terms) {
                (NoTls::Roots(NoRoots::System(_)), _) | (_, None) => {
                    (at.key("endpoints"), String::new())
                }
                (_, Some(terms)) => (at.key("tls").key("ca_file"), format!("{:?}", terms.ca_file)),
            };
            Fault {
                path,
                value,
                rule: error.to_string(),
            }
        })
}

fn target(
    upstream: &Upstream,
    index: usize,
    endpoint: &Endpoint,
    secure: Option<&Arc<Secure>>,
) -> Result<Target, Fault> {
    let Some(by) = secure.filter(|_| endpoint.secure) else {
        return Ok(Target::new(endpoint.clone(), None));
    };
    let Some(name) = server_name(&endpoint.host) else {
        let at = Path::root().key("upstreams").key(upstream.id.as_str());
        return Err(Fault {
            path: at.key("endpoints").index(index),
            value: format!("\"{endpoint}\""),
            rule: "must have a host that a certificate can name".to_owned(),
        });
    };
    let by = Arc::clone(by);
    Ok(Target::new(endpoint.clone(), Some(Secured { by, name })))
}

#[cfg(test)]
mod tests {
    use compartment::policy::UpstreamTls;

    use super::*;
    use crate::testing::{policy, route};

    fn by_tls(ca_file: &str, host: &str) -> Policy {
        let mut policy = policy(&[route("a", "/a")]);
        let upstream = &mut policy.upstreams[0];
        upstream.endpoints[0].secure = true;
        upstream.endpoints[0].host = host.to_owned();
        upstream.tls = Some(UpstreamTls {
            ca_file: ca_file.to_owned(),
        });
        policy
    }

    #[test]
    fn roots_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("empty"), "").unwrap();
        std::fs::write(path("large"), vec![b'x'; 1_100_000]).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(path("broken"), broken).unwrap();
        for (file, rule) in [
            (path("none"), "cannot be read"),
            (path("empty"), "holds no certificate"),
            (path("large"), "at most 1048576 bytes"),
            (path("broken"), "holds no certificate"),
            (folder.path().display().to_string(), "must be a file"),
        ] {
            let refused = Dependencies::default().prepare(&by_tls(&file, "a.test"));
            let faults = refused.unwrap_err();
            let text = faults[0].to_string();
            assert!(text.contains("upstreams.u.tls.ca_file"), "{text}");
            assert!(text.contains(rule), "{rule}: {text}");
        }
    }

    #[test]
    fn what_is_known_of_an_endpoint_outlives_a_policy() {
        let dependencies = Dependencies::default();
        let first = policy(&[route("a", "/a")]);
        let prepared = dependencies.prepare(&first).unwrap();
        dependencies.keep(&first, &prepared);
        let mut second = first.clone();
        let mut more = second.upstreams[0].endpoints[0].clone();
        more.port = 10;
        second.upstreams[0].endpoints.insert(0, more);
        let again = dependencies.prepare(&second).unwrap();
        assert!(Arc::ptr_eq(&prepared[0].targets[0], &again[0].targets[1]));
        assert_eq!(again[0].targets.len(), 2);
    }
}
