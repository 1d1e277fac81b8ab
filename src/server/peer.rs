//! Who is at the other end of a request's connection.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Weak},
    time::Duration,
};

use http::HeaderValue;
use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio::time::sleep;

use super::{TlsPeer, burst::Socket};

/// How often a waiting request looks for its client.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The other end of a request's connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    remote: SocketAddr,
    /// Its address as text: every request of the connection tells it.
    text: HeaderValue,
    local: SocketAddr,
    tls: Option<TlsPeer>,
    /// Weak, so that a request that outlives its connection does not keep the socket open.
    socket: Weak<Mutex<Socket>>,
}

impl Peer {
    pub(super) fn new(
        remote: SocketAddr,
        local: SocketAddr,
        tls: Option<TlsPeer>,
        socket: Weak<Mutex<Socket>>,
    ) -> Self {
        let text = HeaderValue::try_from(remote.ip().to_canonical().to_string());
        let text = text.unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { inner: Arc::new(Inner { remote, text, local, tls, socket }) }
    }

    /// The client's address.
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote
    }

    /// The client's address without its port, an IPv4 one always in its own form.
    pub fn ip(&self) -> IpAddr {
        self.inner.remote.ip().to_canonical()
    }

    /// The same as a field's value.
    pub fn ip_text(&self) -> &HeaderValue {
        &self.inner.text
    }

    /// The address that it reached.
    pub fn local(&self) -> SocketAddr {
        self.inner.local
    }

    /// What its TLS handshake told; `None` where the connection is plain TCP.
    pub fn tls(&self) -> Option<&TlsPeer> {
        self.inner.tls.as_ref()
    }

    /// For the connection itself.
    pub(super) fn socket(&self) -> Weak<Mutex<Socket>> {
        Weak::clone(&self.inner.socket)
    }

    /// Resolves when the client has closed its side, or its connection has ended. A half close
    /// counts: the kernel cannot tell it from a client that left.
    ///
    /// hyper does not read while a service waits with an unread body, so this asks the kernel every
    /// quarter of a second. It costs nothing unless awaited. Of HTTP/2 it tells the connection's end;
    /// the end of a stream drops its request.
    pub async fn gone(&self) {
        while !self.is_gone() {
            sleep(LOOK_EVERY).await;
        }
    }

    /// [`Peer::gone`], now.
    pub fn is_gone(&self) -> bool {
        let Some(socket) = self.inner.socket.upgrade() else { return true };
        let socket = socket.lock();
        let mut fds = [PollFd::new(&socket.stream, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&at_once)) {
            Ok(found) => found > 0,
            Err(error) => error == Errno::BADF,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_in_one_form() {
        for (remote, text) in [
            ("192.0.2.7:80", "192.0.2.7"),
            ("[::ffff:192.0.2.7]:80", "192.0.2.7"),
            ("[2001:db8:0::1]:80", "2001:db8::1"),
        ] {
            let remote = remote.parse().unwrap();
            let peer = Peer::new(remote, remote, None, Weak::new());
            assert_eq!(peer.ip_text(), text);
            assert_eq!(peer.ip().to_string(), text);
        }
    }
}
