//! Listening sockets: bound once, shared by every thread.
//!
//! Separate because a busy port must be one clear error before anything has started. It must
//! never set SO_REUSEPORT: a second process would share the port in silence, and a thread that
//! closes its own listener would drop what waits in it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel may hold for us; it takes the smaller of this and its own bound.
const BACKLOG_MAX: i32 = 4_096;

/// Bound sockets with their addresses.
#[derive(Debug)]
pub(crate) struct Listeners(Vec<(TcpListener, SocketAddr)>);

impl Listeners {
    /// Binds every address; the first that cannot be bound is named.
    pub(crate) fn bind(addresses: &[SocketAddr]) -> Result<Self, (SocketAddr, io::Error)> {
        let bound = addresses
            .iter()
            .map(|address| bind(*address).map_err(|e| (*address, e)));
        bound.collect::<Result<_, _>>().map(Self)
    }

    /// Where clients connect: with the real ports.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|(_, address)| *address).collect()
    }

    /// The same sockets for one more thread.
    pub(crate) fn for_thread(&self) -> io::Result<Self> {
        let cloned = self
            .0
            .iter()
            .map(|(listener, at)| Ok((listener.try_clone()?, *at)));
        cloned.collect::<io::Result<_>>().map(Self)
    }

    pub(crate) fn into_sockets(self) -> Vec<(TcpListener, SocketAddr)> {
        self.0
    }
}

/// One listening socket that does not block.
pub(crate) fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // So that [::]:8080 and 0.0.0.0:8080 can stand side by side on every system.
        socket.set_only_v6(true)?;
    }
    // Lets a restart bind while old connections linger; two listeners still exclude each other.
    socket.set_reuse_address(true)?;
    // Inherited by every accepted connection, which saves a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG_MAX)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_an_error_that_names_it() {
        let first = Listeners::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let taken = first.addresses()[0];
        let (named, error) = Listeners::bind(&[taken]).unwrap_err();
        assert_eq!((named, error.kind()), (taken, io::ErrorKind::AddrInUse));
    }

    #[test]
    fn accepted_sockets_inherit_no_delay() {
        let (listener, at) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.set_nonblocking(false).unwrap();
        let _client = std::net::TcpStream::connect(at).unwrap();
        assert!(listener.accept().unwrap().0.nodelay().unwrap());
    }
}
