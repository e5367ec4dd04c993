//! New connections to an endpoint.
//!
//! Separate because this is where an address becomes a socket, so where an address is refused:
//! after the name was resolved, with no time between the look and the use. It must never hand out
//! more than one connection, nor say a byte on the others: the permit stands for one.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{Secured, Socket, Target, Unreached};
use crate::clock::Clock;
use crate::resolve::{NoAddress, Resolver};

/// How long an address may be silent before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);
/// Connections to one endpoint that are made at one time for one that is used.
const RACING_MAX: usize = 3;

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<TcpStream, NoConnection>> + 'a>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnection {
    #[error("the upstream's name has no address")]
    Name(#[from] NoAddress),
    #[error("no name server answered in time")]
    NameTimeout,
    #[error("the upstream's address is one that a policy must not reach")]
    Forbidden,
    #[error("the upstream did not accept in time")]
    Timeout,
    #[error("the upstream cannot be connected to")]
    Refused(#[source] io::Error),
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    #[error("the upstream did not agree to HTTP/2")]
    NotHttp2,
    #[error("the connection cannot be used")]
    Unusable(#[from] hyper::Error),
    #[error("the connection cannot be used")]
    UnusableHttp2(#[from] h2::Error),
}

impl NoConnection {
    pub(crate) fn unreached(&self) -> Unreached {
        match self {
            Self::Name(_) => Unreached::Name,
            Self::NameTimeout => Unreached::NameTimeout,
            Self::Forbidden => Unreached::Forbidden,
            Self::Timeout => Unreached::Timeout,
            Self::Unusable(_) | Self::UnusableHttp2(_) => Unreached::Ended,
            Self::Refused(error) => Self::of_system(error.kind()),
            Self::NotHttp2 => Unreached::TlsProtocol,
            Self::Tls(error) => Self::of_tls(error),
        }
    }

    fn of_tls(error: &io::Error) -> Unreached {
        let inner = error.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
                Unreached::TlsCertificate
            }
            Some(rustls::Error::AlertReceived(_)) => Unreached::TlsAlert,
            Some(_) => Unreached::TlsProtocol,
            None => Self::of_system(error.kind()),
        }
    }

    fn of_system(kind: io::ErrorKind) -> Unreached {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
        if kind == ConnectionRefused {
            Unreached::Refused
        } else if kind == TimedOut {
            Unreached::Timeout
        } else if matches!(kind, HostUnreachable | NetworkUnreachable) {
            Unreached::Unroutable
        } else {
            Unreached::Ended
        }
    }
}

/// Dials for one core.
#[derive(Debug)]
pub(crate) struct Dialler {
    resolver: Rc<Resolver>,
    clock: Clock,
    /// The listeners of this process: a gateway that is its own upstream never comes to an end.
    own: Vec<SocketAddr>,
}

impl Dialler {
    pub(crate) fn new(resolver: Rc<Resolver>, clock: Clock, own: Vec<SocketAddr>) -> Self {
        Self {
            resolver,
            clock,
            own,
        }
    }

    /// Connects to one endpoint, whichever of its addresses accepts.
    ///
    /// `begin` makes a connection of the socket, within the same time.
    pub(crate) fn dial<T, E, F, B>(
        self: &Rc<Self>,
        target: &Arc<Target>,
        longest: Duration,
        begin: B,
    ) -> impl Future<Output = Result<T, NoConnection>> + use<T, E, F, B>
    where
        B: FnOnce(Socket) -> F,
        F: Future<Output = Result<T, E>>,
        NoConnection: From<E>,
    {
        // Its own: who waits for it may be more than whoever began it.
        let (dialler, target) = (Rc::clone(self), Arc::clone(target));
        async move {
            let dialled = timeout(longest, async {
                let stream = dialler.dial_any(&target, longest).await?;
                let socket = match &target.secure {
                    None => Socket::Plain(stream),
                    Some(Secured { by, name }) => {
                        let secured = by.handshake(name.clone(), stream).await?;
                        Socket::Secure(Box::new(secured))
                    }
                };
                Ok(begin(socket).await?)
            });
            let dialled = dialled.await;
            let dialled = dialled.unwrap_or(Err(NoConnection::Timeout));
            if dialled.is_err() {
                target.standing.shun(dialler.clock.now_us());
                dialler.resolver.doubt(&target.endpoint.host);
            }
            dialled
        }
    }

    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    async fn dial_any(
        &self,
        target: &Target,
        longest: Duration,
    ) -> Result<TcpStream, NoConnection> {
        // Told apart from a silent endpoint: another machine has to be looked at.
        let asked = timeout(longest, self.resolver.addresses(&target.endpoint.host)).await;
        let asked = match asked {
            Ok(asked) => asked.map_err(NoConnection::from),
            Err(_) => Err(NoConnection::NameTimeout),
        };
        if let Some((at_us, error)) = self.resolver.about(&target.endpoint.host) {
            let known = asked.as_deref().unwrap_or_default();
            target.note_look_up(at_us, known, error);
        }
        let addresses = asked?;
        self.connect_any(&addresses, target.endpoint.port).await
    }

    /// Address after address, the next one as soon as one fails or has been silent for a while;
    /// the first that accepts is the one, and the others are let go. The caller bounds the time.
    async fn connect_any(
        &self,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<TcpStream, NoConnection> {
        let mut left = alternating(addresses).into_iter();
        let mut last = NoConnection::Name(NoAddress);
        let mut running = Vec::new();
        let mut head_start = Box::pin(sleep(Duration::ZERO));
        poll_fn(|cx| {
            loop {
                let mut won = None;
                running.retain_mut(|one: &mut Connecting<'_>| match one.as_mut().poll(cx) {
                    Poll::Pending => true,
                    Poll::Ready(Ok(stream)) => {
                        won = Some(stream);
                        false
                    }
                    Poll::Ready(Err(error)) => {
                        last = error;
                        false
                    }
                });
                if let Some(stream) = won {
                    return Poll::Ready(Ok(stream));
                }
                if !running.is_empty() && head_start.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let Some(address) = left.next() else {
                    let last = std::mem::replace(&mut last, NoConnection::Timeout);
                    return match running.is_empty() {
                        true => Poll::Ready(Err(last)),
                        false => Poll::Pending,
                    };
                };
                if running.len() >= RACING_MAX {
                    drop(running.remove(0));
                }
                running.push(Box::pin(self.connect(SocketAddr::new(address, port))));
                head_start = Box::pin(sleep(HEAD_START));
            }
        })
        .await
    }

    async fn connect(&self, address: SocketAddr) -> Result<TcpStream, NoConnection> {
        if self.is_forbidden(address) {
            return Err(NoConnection::Forbidden);
        }
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(NoConnection::Refused)?;
        if self.leads_back(&stream, address) {
            return Err(NoConnection::Forbidden);
        }
        // Without it small bodies wait for acknowledgements; nothing else fails.
        drop(stream.set_nodelay(true));
        Ok(stream)
    }

    /// Both ends have one address, so it is this machine's, and a listener on all of them is there.
    fn leads_back(&self, stream: &TcpStream, to: SocketAddr) -> bool {
        let from = stream.local_addr().map(|local| local.ip().to_canonical());
        let everywhere = |own: &SocketAddr| own.ip().is_unspecified() && own.port() == to.port();
        from.is_ok_and(|from| from == to.ip().to_canonical()) && self.own.iter().any(everywhere)
    }

    fn is_forbidden(&self, address: SocketAddr) -> bool {
        // The kernel takes the unspecified address for this machine.
        let ip = match address.ip().to_canonical() {
            ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        let own = |own: &SocketAddr| {
            let here = own.ip().is_unspecified() && ip.is_loopback();
            own.port() == address.port() && (own.ip().to_canonical() == ip || here)
        };
        is_link_local(ip) || self.own.iter().any(own)
    }
}

/// One family after the other, beginning as the name server did: one that leads nowhere costs one
/// head start.
fn alternating(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first = addresses.first().is_some_and(IpAddr::is_ipv6);
    let of = |same: bool| {
        let all = addresses.iter().copied();
        all.filter(move |address| (address.is_ipv6() == first) == same)
    };
    let (mut own, mut other) = (of(true), of(false));
    let mut mixed = Vec::with_capacity(addresses.len());
    while mixed.len() < addresses.len() {
        mixed.extend(own.next());
        mixed.extend(other.next());
    }
    mixed
}

/// Link-local addresses, where clouds keep the credentials of the machine.
fn is_link_local(address: IpAddr) -> bool {
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6 == METADATA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let of = |all: &[&str]| {
            let all: Vec<IpAddr> = all.iter().map(|one| one.parse().unwrap()).collect();
            let mixed = alternating(&all);
            mixed
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(&["::1", "::2", "::3", "1.1.1.1"]), "::1 1.1.1.1 ::2 ::3");
        assert_eq!(of(&["1.1.1.1", "2.2.2.2"]), "1.1.1.1 2.2.2.2");
        assert_eq!(of(&["1.1.1.1", "::1", "2.2.2.2"]), "1.1.1.1 ::1 2.2.2.2");
        assert_eq!(of(&[]), "");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_silent_address_costs_a_head_start_and_a_refusing_one_nothing() {
        let clock = Clock::start();
        let dialler = Dialler::new(Resolver::new(clock), clock, Vec::new());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        // Nobody listens on the first; TEST-NET-1 is silent, or unroutable at once.
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let began_us = clock.now_us();
        let refusing = [ip("127.0.0.2"), ip("127.0.0.1")];
        assert!(dialler.connect_any(&refusing, at.port()).await.is_ok());
        assert!(clock.now_us() - began_us < 200_000);
        let silent = [ip("192.0.2.1"), ip("169.254.169.254"), ip("127.0.0.1")];
        assert!(dialler.connect_any(&silent, at.port()).await.is_ok());
        assert!(clock.now_us() - began_us < 900_000);
        let none = dialler.connect_any(&[], at.port()).await;
        assert!(matches!(none, Err(NoConnection::Name(_))));
        let forbidden = dialler
            .connect_any(&[ip("169.254.169.254")], at.port())
            .await;
        assert!(matches!(forbidden, Err(NoConnection::Forbidden)));
    }

    #[test]
    fn metadata_and_own_listeners_are_no_upstreams() {
        let clock = Clock::start();
        let own = vec![
            "127.0.0.1:8080".parse().unwrap(),
            "0.0.0.0:8443".parse().unwrap(),
        ];
        let dialler = Dialler::new(Resolver::new(clock), clock, own);
        for (address, forbidden) in [
            ("169.254.169.254:80", true),
            ("[::ffff:169.254.169.254]:80", true),
            ("[fe80::1]:80", true),
            ("[fd00:ec2::254]:80", true),
            ("127.0.0.1:8080", true),
            ("[::ffff:127.0.0.1]:8080", true),
            ("127.0.0.1:8443", true),
            ("0.0.0.0:8080", true),
            ("[::]:8080", true),
            ("0.0.0.0:8081", false),
            ("127.0.0.1:8081", false),
            ("10.0.0.1:80", false),
            ("[fd00::1]:80", false),
        ] {
            assert_eq!(
                dialler.is_forbidden(address.parse().unwrap()),
                forbidden,
                "{address}"
            );
        }
    }
}
