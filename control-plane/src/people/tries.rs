//! How often somebody may try: by account, and by where the tries come from.
//!
//! Separate because it decides before a password is looked at, for names that exist and for names
//! that do not, alike. Every wait ends by itself within the window, and none of them can be made
//! longer by trying. It must never count what it refuses, nor grow with what is tried.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Within this time tries are counted together.
pub(crate) const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Most tries of one account in a window.
pub(crate) const ACCOUNT_TRIES_MAX: u32 = 5;
/// Most tries from one source in a window.
pub(crate) const SOURCE_TRIES_MAX: u32 = 20;
/// Tries that nobody waits after: people mistype.
const ACCOUNT_FREE: u32 = 2;
const SOURCE_FREE: u32 = 10;
/// Most accounts, and most sources, that are remembered; the oldest go.
const KEPT_MAX: usize = 10_000;

/// Where a try comes from; an IPv6 network counts as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(String);

impl Source {
    /// `None` for somebody who cannot be told from others: a proxy that names nobody.
    pub(crate) fn of(address: Option<IpAddr>) -> Option<Self> {
        Some(Self(match address?.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        }))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    tries: u32,
    /// No try before this.
    next: Instant,
}

/// Whose tries are counted together: an account by everybody, or from one source that it signed
/// in from before.
type Account = (String, Option<Source>);

#[derive(Debug, Default)]
struct Book {
    accounts: HashMap<Account, Count>,
    sources: HashMap<Source, Count>,
}

/// All counts of this process.
#[derive(Debug, Default)]
pub(crate) struct Tries(Mutex<Book>);

/// One try that was let through: counted as wrong until it is known to be right.
#[derive(Debug)]
pub(crate) struct Try {
    account: Account,
}

impl Tries {
    /// Lets a try through and counts it, or says how long to wait. `is_known`: this account has
    /// signed in from this source before, so that strangers elsewhere cannot shut its owner out.
    pub(crate) fn begin(
        &self,
        account: &str,
        source: Option<&Source>,
        is_known: bool,
        now: Instant,
    ) -> Result<Try, Duration> {
        let own = source.filter(|_| is_known).cloned();
        let account = (account.to_owned(), own);
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = book
            .accounts
            .get(&account)
            .map_or(Duration::ZERO, |count| count.wait(ACCOUNT_TRIES_MAX, now));
        let of_source = source.and_then(|source| book.sources.get(source));
        let wait =
            wait.max(of_source.map_or(Duration::ZERO, |count| count.wait(SOURCE_TRIES_MAX, now)));
        if !wait.is_zero() {
            return Err(wait);
        }
        count(&mut book.accounts, account.clone(), ACCOUNT_FREE, now);
        if let Some(source) = source {
            count(&mut book.sources, source.clone(), SOURCE_FREE, now);
        }
        Ok(Try { account })
    }

    /// Counts something wrong that was tried without an account: a token, a code.
    pub(crate) fn wrong(&self, source: Option<&Source>, now: Instant) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = source {
            count(&mut book.sources, source.clone(), SOURCE_FREE, now);
        }
    }

    /// How long this source has to wait.
    pub(crate) fn wait(&self, source: Option<&Source>, now: Instant) -> Duration {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = source.and_then(|source| book.sources.get(source));
        count.map_or(Duration::ZERO, |count| count.wait(SOURCE_TRIES_MAX, now))
    }

    /// It was right: the account's tries are forgotten, the source's are one less.
    pub(crate) fn right(&self, good: &Try, source: Option<&Source>) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.accounts.remove(&good.account);
        if let Some(count) = source.and_then(|source| book.sources.get_mut(source)) {
            count.tries = count.tries.saturating_sub(1);
            count.next = count.since;
        }
    }
}

impl Count {
    fn wait(&self, tries_max: u32, now: Instant) -> Duration {
        let end = self.since + WINDOW;
        if now >= end {
            return Duration::ZERO;
        }
        let until = match self.tries >= tries_max {
            true => end,
            false => self.next.min(end),
        };
        until.saturating_duration_since(now)
    }
}

fn count<K: Eq + std::hash::Hash + Clone>(
    counts: &mut HashMap<K, Count>,
    key: K,
    free: u32,
    now: Instant,
) {
    if counts.len() >= KEPT_MAX && !counts.contains_key(&key) {
        counts.retain(|_, count| now < count.since + WINDOW);
        let oldest = counts.iter().min_by_key(|(_, count)| count.since);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone())
            && counts.len() >= KEPT_MAX
        {
            counts.remove(&oldest);
        }
    }
    let fresh = Count {
        since: now,
        tries: 0,
        next: now,
    };
    let count = counts.entry(key).or_insert(fresh);
    if now >= count.since + WINDOW {
        *count = fresh;
    }
    count.tries = count.tries.saturating_add(1);
    // 1, 2, 4 … seconds.
    let beyond = count.tries.saturating_sub(free);
    let delay_s = match beyond {
        0 => 0,
        n => 1_u64 << n.saturating_sub(1).min(10),
    };
    count.next = now + Duration::from_secs(delay_s);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Option<Source> {
        Source::of(Some(text.parse().unwrap()))
    }

    /// Tries of `account` once a second for `seconds`; how many were let through.
    fn tried(tries: &Tries, account: &str, at: &str, begin: Instant, seconds: u64) -> u32 {
        let (source, mut let_through) = (from(at), 0);
        for second in 0..seconds {
            let now = begin + Duration::from_secs(second);
            let_through += u32::from(tries.begin(account, source.as_ref(), false, now).is_ok());
        }
        let_through
    }

    #[test]
    fn an_account_has_five_tries_in_a_window_and_every_wait_ends() {
        let (tries, now) = (Tries::default(), crate::clock::now());
        assert_eq!(
            tried(&tries, "ann", "192.0.2.1", now, 899),
            ACCOUNT_TRIES_MAX
        );
        let wait = tries.begin("ann", None, false, now + Duration::from_secs(899));
        assert_eq!(
            wait.unwrap_err(),
            Duration::from_secs(1),
            "tries make it no longer"
        );
        assert!(tries.begin("ann", None, false, now + WINDOW).is_ok());
    }

    #[test]
    fn waits_grow() {
        let (tries, mut now) = (Tries::default(), crate::clock::now());
        let mut waits = Vec::new();
        for _ in 0..4 {
            assert!(tries.begin("ann", None, false, now).is_ok());
            let book = tries.0.lock().unwrap();
            let wait = book.accounts[&("ann".to_owned(), None)].wait(ACCOUNT_TRIES_MAX, now);
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [0, 0, 1, 2]);
    }

    #[test]
    fn a_source_has_twenty_and_others_go_on() {
        let (tries, now) = (Tries::default(), crate::clock::now());
        let mut let_through = 0;
        for number in 0..10_000_u64 {
            let now = now + Duration::from_millis(number * 80);
            let name = format!("name-{number}");
            let source = from("192.0.2.1");
            let_through += u32::from(tries.begin(&name, source.as_ref(), false, now).is_ok());
        }
        assert!(let_through <= SOURCE_TRIES_MAX, "{let_through}");
        assert!(let_through > SOURCE_FREE, "{let_through}");
        let now = now + Duration::from_secs(800);
        assert!(
            tries
                .begin("bob", from("192.0.2.2").as_ref(), false, now)
                .is_ok()
        );
        assert!(!tries.wait(from("192.0.2.1").as_ref(), now).is_zero());
        assert!(
            tries
                .wait(from("192.0.2.1").as_ref(), now + WINDOW)
                .is_zero()
        );
    }

    #[test]
    fn strangers_do_not_shut_out_whoever_signed_in_from_here_before() {
        let (tries, now) = (Tries::default(), crate::clock::now());
        for number in 0..10_000_u32 {
            let address = std::net::Ipv4Addr::from(0x0b00_0000 + number);
            let source = Source::of(Some(address.into()));
            let _often_refused = tries.begin("ann", source.as_ref(), false, now);
        }
        let home = from("192.0.2.7");
        assert!(tries.begin("ann", home.as_ref(), false, now).is_err());
        let good = tries.begin("ann", home.as_ref(), true, now).unwrap();
        tries.right(&good, home.as_ref());
        assert!(tries.begin("ann", home.as_ref(), true, now).is_ok());
    }

    #[test]
    fn memory_does_not_grow_with_what_is_tried() {
        let (tries, now) = (Tries::default(), crate::clock::now());
        for number in 0..12_000_u32 {
            let address = std::net::Ipv4Addr::from(0x0b00_0000 + number);
            let source = Source::of(Some(address.into()));
            let name = format!("name-{number}");
            assert!(tries.begin(&name, source.as_ref(), false, now).is_ok());
        }
        let book = tries.0.lock().unwrap();
        assert!(book.accounts.len() <= KEPT_MAX && book.sources.len() <= KEPT_MAX);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
        assert_eq!(Source::of(None), None);
    }
}
