//! New connections to an endpoint.
//!
//! Separate because this is where an address becomes a socket, so where an address is refused:
//! after the name was resolved, with no time between the look and the use. It must never race two
//! connections: the permit stands for one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Secured, Socket, Target, Unreached};
use crate::clock::Clock;
use crate::resolve::{NoAddress, Resolver};

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

    /// Connects to one endpoint, address after address, each with its share of `longest`: one that
    /// is silent leaves some for the next.
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
                target.shun(dialler.clock.now_us());
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
        let addresses = asked.map_err(|_| NoConnection::NameTimeout)??;
        let share = longest / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = NoConnection::Name(NoAddress);
        for &address in addresses.iter() {
            let address = SocketAddr::new(address, target.endpoint.port);
            if self.is_forbidden(address) {
                last = NoConnection::Forbidden;
                continue;
            }
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) if self.leads_back(&stream, address) => {
                    last = NoConnection::Forbidden;
                }
                Ok(Ok(stream)) => {
                    // Without it small bodies wait for acknowledgements; nothing else fails.
                    drop(stream.set_nodelay(true));
                    return Ok(stream);
                }
                Ok(Err(error)) => last = NoConnection::Refused(error),
                Err(_) => last = NoConnection::Timeout,
            }
        }
        Err(last)
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
