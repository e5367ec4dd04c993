//! Addresses of upstream names.
//!
//! Separate because a name server can be slow or dead: names are asked for in the background, the
//! last good addresses stay in use, and only a request whose name was never answered waits. It
//! must never use the system's resolver, whose threads one bad name could fill.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::server::Tasks;

/// Addresses of one name that are used.
const ADDRESSES_MAX: usize = 16;
/// Names of one core. A policy has at most 1,000 upstreams; names of older ones are forgotten.
const NAMES_MAX: usize = 4_096;
/// Addresses are asked for again when their name server says, within these bounds: a name that
/// lives for a day may move all the same, and one that lives for nothing is no question for each
/// connection.
const REFRESH_US_MIN: u64 = 1_000_000;
const REFRESH_US_MAX: u64 = 30_000_000;
/// A name that was not answered is not asked for again before.
const RETRY_US: u64 = 1_000_000;

/// The name has no address, or nobody could say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of the upstream was not resolved")]
pub(crate) struct NoAddress;

/// The names of one core.
#[derive(Debug)]
pub(crate) struct Resolver {
    clock: Clock,
    names: RefCell<HashMap<Box<str>, Rc<Named>>>,
    /// Set up with the first name. `None`: the system named no name server that can be asked,
    /// which may be mended while we run.
    asker: RefCell<Option<Rc<TokioResolver>>>,
    set_up: SetUp,
    told_of_none: Cell<bool>,
    tasks: Tasks,
}

/// Makes what asks, from the system's settings.
type SetUp = fn() -> Result<TokioResolver, NetError>;

fn from_system() -> Result<TokioResolver, NetError> {
    TokioResolver::builder_tokio().and_then(settled)
}

/// What is kept of an answer, and for how long, is decided here alone: with a cache of its own
/// the library would give the old address again, however often it is asked anew.
fn settled(mut builder: ResolverBuilder<TokioRuntimeProvider>) -> Result<TokioResolver, NetError> {
    builder.options_mut().cache_size = 0;
    builder.build()
}

#[derive(Debug, Default)]
struct Named {
    good: RefCell<Rc<[IpAddr]>>,
    /// When they were told.
    good_us: Cell<u64>,
    /// Why the last question was not answered.
    error: RefCell<Option<String>>,
    ask_again_us: Cell<u64>,
    asking: Cell<bool>,
    answered: Notify,
}

impl Resolver {
    pub(crate) fn new(clock: Clock) -> Rc<Self> {
        Self::set_up_by(from_system, clock)
    }

    fn set_up_by(set_up: SetUp, clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            clock,
            names: RefCell::default(),
            asker: RefCell::default(),
            set_up,
            told_of_none: Cell::new(false),
            tasks: Tasks::new("name look-up"),
        })
    }

    /// The addresses of `host`. Waits only for a name that was never answered; the caller bounds
    /// the wait.
    pub(crate) async fn addresses(self: &Rc<Self>, host: &str) -> Result<Rc<[IpAddr]>, NoAddress> {
        if let Some(known) = without_asking(host) {
            return Ok(known);
        }
        let named = self.named(host);
        let answered = named.answered.notified();
        let due = self.clock.now_us() >= named.ask_again_us.get();
        if due && !named.asking.get() {
            self.ask(host, &named);
        }
        if named.good.borrow().is_empty() && named.asking.get() {
            answered.await;
        }
        let good = Rc::clone(&named.good.borrow());
        if good.is_empty() {
            Err(NoAddress)
        } else {
            Ok(good)
        }
    }

    /// When the addresses of `host` were told, and why newer ones were not. `None`: it is no name
    /// that has to be asked for.
    pub(crate) fn about(&self, host: &str) -> Option<(u64, Option<String>)> {
        let names = self.names.borrow();
        let named = names.get(host)?;
        let error = named.error.borrow().clone();
        Some((named.good_us.get(), error))
    }

    /// The addresses did not work: they are asked for again with the next request.
    pub(crate) fn doubt(&self, host: &str) {
        if let Some(named) = self.names.borrow().get(host) {
            let soon_us = self.clock.now_us().saturating_add(RETRY_US);
            named
                .ask_again_us
                .set(named.ask_again_us.get().min(soon_us));
        }
    }

    fn named(&self, host: &str) -> Rc<Named> {
        let mut names = self.names.borrow_mut();
        if let Some(known) = names.get(host) {
            return Rc::clone(known);
        }
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        Rc::clone(names.entry(host.into()).or_default())
    }

    fn ask(self: &Rc<Self>, host: &str, named: &Rc<Named>) {
        let Some(asker) = self.asker() else {
            named
                .ask_again_us
                .set(self.clock.now_us().saturating_add(RETRY_US));
            return;
        };
        named.asking.set(true);
        // A trailing dot: the search list of the machine is not ours to try.
        let host = if host.ends_with('.') {
            host.to_owned()
        } else {
            format!("{host}.")
        };
        let (clock, asking) = (self.clock, Asking(Rc::clone(named)));
        self.tasks.spawn(async move {
            let answer = asker.lookup_ip(host.as_str()).await;
            let pause_us = match answer {
                Ok(answer) => {
                    let found: Vec<IpAddr> = answer.iter().take(ADDRESSES_MAX).collect();
                    if !found.is_empty() {
                        *asking.0.good.borrow_mut() = found.into();
                        asking.0.good_us.set(clock.now_us());
                    }
                    *asking.0.error.borrow_mut() = None;
                    let life_us = clock.us_of(answer.valid_until());
                    let life_us = life_us.saturating_sub(clock.now_us());
                    life_us.clamp(REFRESH_US_MIN, REFRESH_US_MAX)
                }
                Err(error) => {
                    *asking.0.error.borrow_mut() = Some(error.to_string());
                    tracing::warn!(upstream.host = host, %error, "a name was not resolved");
                    RETRY_US
                }
            };
            asking
                .0
                .ask_again_us
                .set(clock.now_us().saturating_add(pause_us));
            drop(asking);
        });
    }

    fn asker(&self) -> Option<Rc<TokioResolver>> {
        let mut kept = self.asker.borrow_mut();
        if kept.is_none() {
            match (self.set_up)() {
                Ok(asker) => *kept = Some(Rc::new(asker)),
                // One line until it works, not one for each second.
                Err(error) if !self.told_of_none.replace(true) => {
                    tracing::error!(%error, "no name server is configured");
                }
                Err(_) => {}
            }
        }
        kept.clone()
    }
}

/// A look-up under way. Dropping it, finished or not, lets the waiters look.
struct Asking(Rc<Named>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.set(false);
        self.0.answered.notify_waiters();
    }
}

/// Addresses that nobody has to be asked for.
fn without_asking(host: &str) -> Option<Rc<[IpAddr]>> {
    if host.eq_ignore_ascii_case("localhost") {
        return Some(Rc::new([
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
        ]));
    }
    host.parse::<IpAddr>()
        .ok()
        .map(|address| Rc::from([address]))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use std::sync::OnceLock;
    use std::time::Duration;

    use hickory_resolver::config::{NameServerConfig, ResolverConfig};
    use tokio::net::UdpSocket;

    use super::*;

    #[test]
    fn literals_and_localhost_ask_nobody() {
        assert_eq!(without_asking("127.0.0.1").unwrap().len(), 1);
        assert_eq!(without_asking("::1").unwrap().len(), 1);
        assert_eq!(without_asking("LocalHost").unwrap().len(), 2);
        // What inet_aton would take is a name here, so it reaches no address by the back door.
        for name in [
            "0x7f000001",
            "2130706433",
            "127.1",
            "0177.0.0.1",
            "example.com",
        ] {
            assert!(without_asking(name).is_none(), "{name}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_last_good_addresses_stay_in_use() {
        let resolver = Resolver::new(Clock::start());
        let named = resolver.named("shop.example");
        *named.good.borrow_mut() = Rc::from([IpAddr::from([192, 0, 2, 1])]);
        // A look-up that is under way and never answered: nobody waits for it.
        named.asking.set(true);
        let found = resolver.addresses("shop.example").await.unwrap();
        assert_eq!(*found, [IpAddr::from([192, 0, 2, 1])]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_first_answer_is_waited_for_and_its_failure_told() {
        let resolver = Resolver::new(Clock::start());
        let named = resolver.named("shop.example");
        named.asking.set(true);
        named.ask_again_us.set(u64::MAX);
        let waiting = resolver.addresses("shop.example");
        let answering = async {
            tokio::task::yield_now().await;
            drop(Asking(Rc::clone(&named)));
        };
        let (found, ()) = tokio::join!(waiting, answering);
        assert_eq!(found, Err(NoAddress));
    }

    /// As when the settings are mended between the first name and the second.
    fn the_second_time() -> Result<TokioResolver, NetError> {
        static TIMES: AtomicU32 = AtomicU32::new(0);
        if TIMES.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(NetError::from("no settings"));
        }
        let config = ResolverConfig::default();
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).build()
    }

    static SCRIPTED_PORT: OnceLock<u16> = OnceLock::new();

    fn from_the_scripted_one() -> Result<TokioResolver, NetError> {
        let mut server = NameServerConfig::udp(Ipv4Addr::LOCALHOST.into());
        for connection in &mut server.connections {
            connection.port = *SCRIPTED_PORT.get().unwrap();
        }
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let provider = TokioRuntimeProvider::default();
        settled(TokioResolver::builder_with_config(config, provider))
    }

    /// One answer: the address for an A question, nothing for any other, good for a day.
    fn answer(question: &[u8], address: [u8; 4]) -> Vec<u8> {
        let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let is_a = question[name_end..name_end + 2] == [0, 1];
        let mut bytes = question[..2].to_vec();
        bytes.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        bytes.extend(&question[12..name_end + 4]);
        if is_a {
            bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 1, 0x51, 0x80, 0, 4]);
            bytes.extend(address);
        }
        bytes
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_name_that_moved_is_found_before_its_old_answer_ends() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        SCRIPTED_PORT
            .set(socket.local_addr().unwrap().port())
            .unwrap();
        let address = Rc::new(Cell::new([192, 0, 2, 1]));
        let serving = async {
            let mut question = [0; 512];
            loop {
                let (length, peer) = socket.recv_from(&mut question).await.unwrap();
                let answer = answer(&question[..length], address.get());
                socket.send_to(&answer, peer).await.unwrap();
            }
        };
        let asking = async {
            let resolver = Resolver::set_up_by(from_the_scripted_one, Clock::start());
            let found = resolver.addresses("shop.example").await.unwrap();
            assert_eq!(*found, [IpAddr::from([192, 0, 2, 1])]);
            address.set([192, 0, 2, 2]);
            // The service is gone there: each failed connection is a doubt.
            loop {
                resolver.doubt("shop.example");
                let found = resolver.addresses("shop.example").await.unwrap();
                if *found == [IpAddr::from([192, 0, 2, 2])] {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let both = async {
            tokio::select! {
                () = serving => {}
                () = asking => {}
            }
        };
        let local = tokio::task::LocalSet::new();
        let bounded = tokio::time::timeout(Duration::from_secs(20), local.run_until(both));
        bounded.await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_set_up_that_failed_is_tried_again() {
        let resolver = Resolver::set_up_by(the_second_time, Clock::start());
        assert_eq!(resolver.addresses("shop.example").await, Err(NoAddress));
        assert!(resolver.asker.borrow().is_none() && resolver.told_of_none.get());
        assert!(resolver.asker().is_some());
    }
}
