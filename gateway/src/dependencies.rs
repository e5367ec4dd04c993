//! The upstreams of a policy, ready to be spoken to.
//!
//! Separate because this is done off the serving threads and may fail: a file of roots may not be
//! there. What is known of an endpoint is kept over policies. It must never open a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use compartment::Name;
use compartment::policy::{Endpoint, Fault, Path, Policy, Upstream};
use telemetry::NoRoots;

use crate::upstream::{NoTls, Readers, Secure, Secured, Target, server_name};

/// Endpoints that are followed until their last exchange is over, when no policy names them any
/// more; of more the oldest are forgotten.
const LEAVING_MAX: usize = 1_000;

/// Every upstream of the policy in force.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    kept: Mutex<Kept>,
    readers: Arc<Readers>,
}

#[derive(Debug, Default)]
struct Kept {
    all: HashMap<Name, Arc<Dependency>>,
    leaving: Vec<Leaving>,
}

/// An endpoint that its upstream has no more.
#[derive(Clone, Debug)]
struct Leaving {
    of: Name,
    target: Weak<Target>,
    /// There were others to choose from.
    several: bool,
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
        let known = self.kept().all.clone();
        let leaving = self.leaving();
        let (mut prepared, mut faults) = (Vec::new(), Vec::new());
        for upstream in &policy.upstreams {
            // One that returns while it drains is the same one.
            let back = leaving.iter().filter(|(of, ..)| *of == upstream.id);
            let back = back.map(|(_, target, _)| target).collect();
            let earlier = Earlier {
                known: known.get(&upstream.id),
                back,
            };
            match Dependency::new(upstream, &earlier, &self.readers) {
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
        let mut kept = self.kept();
        let before = std::mem::replace(&mut kept.all, all);
        kept.follow(before);
    }

    /// Endpoints that no policy names any more while somebody is served there, the oldest first:
    /// of which upstream, and whether there were others to choose from.
    pub(crate) fn leaving(&self) -> Vec<(Name, Arc<Target>, bool)> {
        let leaving = self.kept().leaving.clone().into_iter();
        let busy = leaving.filter_map(|one| {
            let target = one.target.upgrade()?;
            let is_busy = target.is_busy(one.several);
            is_busy.then_some((one.of, target, one.several))
        });
        busy.collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every upstream, by name.
    pub(crate) fn all(&self) -> Vec<(Name, Arc<Dependency>)> {
        let mut all: Vec<_> = self.kept().all.clone().into_iter().collect();
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
        let known = self.kept().all.clone();
        let secure = known.values().filter_map(|known| known.secure.as_ref());
        secure.for_each(|secure| secure.read_again(&self.readers));
    }
}

impl Kept {
    /// Remembers what `before` had and nobody has now.
    fn follow(&mut self, before: HashMap<Name, Arc<Dependency>>) {
        for (of, known) in before {
            let several = known.targets.len() > 1;
            let own = self.all.get(&of).map(|now| now.targets.as_slice());
            for target in &known.targets {
                let mut own = own.unwrap_or_default().iter();
                if !own.any(|now| Arc::ptr_eq(now, target)) {
                    self.leaving.push(Leaving {
                        of: of.clone(),
                        target: Arc::downgrade(target),
                        several,
                    });
                }
            }
        }
        let all = &self.all;
        self.leaving.retain(|one| {
            let target = one.target.upgrade();
            let own = all.get(&one.of).map(|now| now.targets.as_slice());
            let mut own = own.unwrap_or_default().iter();
            target.is_some_and(|left| !own.any(|now| Arc::ptr_eq(now, &left)))
        });
        let more = self.leaving.len().saturating_sub(LEAVING_MAX);
        self.leaving.drain(..more);
    }
}

/// What is known of one upstream from earlier policies.
struct Earlier<'a> {
    known: Option<&'a Arc<Dependency>>,
    /// Endpoints that it had once.
    back: Vec<&'a Arc<Target>>,
}

impl Earlier<'_> {
    /// The same endpoint, spoken to in the same way.
    fn target(&self, endpoint: &Endpoint, secure: Option<&Arc<Secure>>) -> Option<Arc<Target>> {
        let known = self.known.map(|known| known.targets.as_slice());
        let known = known.unwrap_or_default().iter();
        let mut all = known.chain(self.back.iter().rev().copied());
        let same = all.find(|target| {
            let by = target.secure.as_ref().map(|secured| &secured.by);
            let as_before = match (by, secure.filter(|_| endpoint.secure)) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            target.endpoint == *endpoint && as_before
        });
        same.cloned()
    }
}

impl Dependency {
    fn new(
        upstream: &Upstream,
        earlier: &Earlier<'_>,
        readers: &Arc<Readers>,
    ) -> Result<Self, Fault> {
        let secure = secure(upstream, earlier.known, readers)?;
        let mut targets = Vec::with_capacity(upstream.endpoints.len());
        for (index, endpoint) in upstream.endpoints.iter().enumerate() {
            targets.push(match earlier.target(endpoint, secure.as_ref()) {
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

    /// Another only endpoint with each call.
    fn moved(dependencies: &Dependencies, port: u16) -> Arc<Target> {
        let mut policy = policy(&[route("a", "/a")]);
        policy.upstreams[0].endpoints[0].port = port;
        let prepared = dependencies.prepare(&policy).unwrap();
        dependencies.keep(&policy, &prepared);
        Arc::clone(&prepared[0].targets[0])
    }

    #[test]
    fn an_endpoint_that_leaves_is_followed_to_its_last_exchange_and_may_return() {
        let dependencies = Dependencies::default();
        let ports = || {
            let all = dependencies.leaving().into_iter();
            all.map(|(_, target, _)| target.endpoint.port)
                .collect::<Vec<_>>()
        };
        let first = moved(&dependencies, 1);
        first.pooled(true);
        let second = moved(&dependencies, 2);
        assert_eq!(
            ports(),
            [1],
            "it is used; one that never was is not followed"
        );
        moved(&dependencies, 3);
        assert_eq!(ports(), [1]);
        assert!(Arc::ptr_eq(&moved(&dependencies, 1), &first));
        assert_eq!(ports(), [0_u16; 0]);
        moved(&dependencies, 3);
        assert_eq!(ports(), [1]);
        first.pooled(false);
        second.pooled(true);
        assert_eq!(ports(), [2]);
    }

    #[test]
    fn endpoints_that_left_are_followed_up_to_a_bound() {
        let dependencies = Dependencies::default();
        let held: Vec<_> = (1..=LEAVING_MAX + 10)
            .map(|port| {
                let target = moved(&dependencies, u16::try_from(port).unwrap());
                target.pooled(true);
                target
            })
            .collect();
        assert_eq!(dependencies.leaving().len(), LEAVING_MAX);
        drop(held);
    }
}
