//! Which of several control planes is dialled, and how long to wait before it is.
//!
//! Separate so that the order is tested without a network. It must never leave a control plane
//! that answers for one that is named before it: a gateway that flaps is told everything twice.

use std::path::Path;
use std::time::Duration;

use crate::back_off::BackOff;
use crate::control_address::{Address, AddressError};

/// Most control planes that one gateway may know.
pub(crate) const CONTROL_PLANES_MAX: usize = 8;
/// Where there is another one to dial, nobody waits longer for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Dialling is over when the control plane has answered the call, within this.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// The same where there is another one to dial.
const GREETING_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(3);

/// The control planes in the order of the settings, and the one that is dialled.
#[derive(Debug)]
pub(crate) struct ControlPlanes {
    current: Address,
    /// Those that are dialled after it, next one last.
    others: Vec<Address>,
    /// Failures since one was good.
    failures: usize,
    back_off: BackOff,
}

impl ControlPlanes {
    /// Of the settings; the first one is dialled first.
    pub(crate) fn new(urls: &[String], ca: Option<&Path>) -> Result<Self, AddressError> {
        if urls.len() > CONTROL_PLANES_MAX {
            return Err(AddressError::Many { count: urls.len() });
        }
        let mut all: Vec<Address> = Vec::new();
        for url in urls {
            let mut one = Address::new(url, ca)?;
            if all.iter().any(|known| known.url() == one.url()) {
                return Err(AddressError::Twice { url: url.clone() });
            }
            if urls.len() > 1 {
                one = one.connect_timeout(CONNECT_TIMEOUT);
            }
            all.push(one);
        }
        if ca.is_some() && !all.iter().any(Address::is_secure) {
            return Err(AddressError::PlainWithRoots);
        }
        all.reverse();
        let current = all.pop().ok_or(AddressError::Many { count: 0 })?;
        Ok(Self {
            current,
            others: all,
            failures: 0,
            back_off: BackOff::new(),
        })
    }

    /// The one that is dialled, or connected.
    pub(crate) const fn current(&self) -> &Address {
        &self.current
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        self.current.url().to_owned()
    }

    /// Longest wait for it to answer the call.
    pub(crate) const fn greeting_timeout(&self) -> Duration {
        if self.others.is_empty() {
            GREETING_TIMEOUT
        } else {
            GREETING_TIMEOUT_OF_SEVERAL
        }
    }

    /// The one that was dialled is away: on to the next. Returns how long to wait before that;
    /// nobody waits before all of them have been dialled.
    pub(crate) fn fail(&mut self, chance: u64) -> Duration {
        if let Some(next) = self.others.pop() {
            let gone = std::mem::replace(&mut self.current, next);
            self.others.insert(0, gone);
        }
        self.failures = self.failures.saturating_add(1);
        let all = self.others.len().saturating_add(1);
        match self.failures.checked_rem(all) {
            Some(0) | None => self.back_off.next(chance),
            Some(_) => Duration::ZERO,
        }
    }

    /// The connection was good for a while: the next failure starts from the beginning.
    pub(crate) const fn good(&mut self) {
        self.failures = 0;
        self.back_off.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(hosts: &[&str]) -> Result<ControlPlanes, AddressError> {
        let urls: Vec<_> = hosts
            .iter()
            .map(|host| format!("http://{host}:1"))
            .collect();
        ControlPlanes::new(&urls, None)
    }

    /// Who is dialled next, and after how many milliseconds.
    fn next(planes: &mut ControlPlanes) -> (String, u128) {
        let wait = planes.fail(0);
        (planes.url(), wait.as_millis())
    }

    #[test]
    fn each_is_dialled_once_before_anybody_waits() {
        let mut planes = named(&["a", "b", "c"]).unwrap();
        assert_eq!(planes.url(), "http://a:1");
        let dialled: Vec<_> = (0..7).map(|_| next(&mut planes)).collect();
        let want = [
            ("http://b:1", 0),
            ("http://c:1", 0),
            ("http://a:1", 50),
            ("http://b:1", 0),
            ("http://c:1", 0),
            ("http://a:1", 100),
            ("http://b:1", 0),
        ];
        assert_eq!(dialled, want.map(|(url, ms)| (url.to_owned(), ms)));
    }

    #[test]
    fn a_good_one_is_kept_and_the_next_failure_starts_over_from_it() {
        let mut planes = named(&["a", "b"]).unwrap();
        next(&mut planes);
        planes.good();
        assert_eq!(planes.url(), "http://b:1");
        assert_eq!(next(&mut planes), ("http://a:1".to_owned(), 0));
        assert_eq!(next(&mut planes), ("http://b:1".to_owned(), 50));
    }

    /// One that takes a connection and drops it at once must not be dialled in a tight circle.
    #[test]
    fn a_connection_alone_is_no_reason_not_to_wait() {
        let mut planes = named(&["a", "b"]).unwrap();
        let waits: Vec<_> = (0..6).map(|_| next(&mut planes).1).collect();
        assert_eq!(waits, [0, 50, 0, 100, 0, 200]);
        let mut alone = named(&["a"]).unwrap();
        assert_eq!(next(&mut alone), ("http://a:1".to_owned(), 50));
        assert_eq!(next(&mut alone), ("http://a:1".to_owned(), 100));
    }

    #[test]
    fn names_are_checked() {
        let refused = |hosts: &[&str]| named(hosts).unwrap_err().to_string();
        assert!(refused(&["a", "b", "a"]).contains("http://a:1: is named twice"));
        assert!(refused(&["a"; 9]).contains("9 control planes: must be 1 to 8"));
        assert!(refused(&[]).contains("0 control planes"));
        assert!(refused(&["a", "b/x"]).contains("without a path"));
        let plain = ["http://a:1".to_owned()];
        let roots = ControlPlanes::new(&plain, Some(Path::new("ca.pem")));
        assert!(roots.unwrap_err().to_string().contains("https://"));
        let secure = ["https://a:1".to_owned()];
        let roots = ControlPlanes::new(&secure, Some(Path::new("/none/ca.pem")));
        assert!(roots.unwrap_err().to_string().contains("/none/ca.pem"));
    }
}
