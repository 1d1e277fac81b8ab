//! From a name to a connected socket.

use std::{io, net::SocketAddr, time::Duration};

use socket2::SockRef;
use tokio::{
    net::{TcpSocket, TcpStream, lookup_host},
    time::{Instant, timeout, timeout_at},
};

use crate::upstream::{Kind, Options};

/// No connection could be had, so nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// The name did not resolve.
    #[error("the name {host} does not resolve: {source}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The name resolved to no address.
    #[error("the name {0} has no address")]
    NoAddress(String),
    /// The last address that was tried failed.
    #[error("no connection to {address}: {source}")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// `connect_timeout` passed.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// The upstream is not an HTTP server.
    #[error("it is not reached by HTTP")]
    NotHttp,
}

/// Tries all addresses in turn, each with an even share of what is left of `connect_timeout`.
pub(super) async fn dial(options: &Options) -> Result<(SocketAddr, TcpStream), Unreachable> {
    let Kind::Http { host, port } = &options.kind else { return Err(Unreachable::NotHttp) };
    let deadline = Instant::now() + options.connect_timeout;
    let late = || Unreachable::TimedOut(options.connect_timeout);
    let addresses = timeout_at(deadline, resolve(host, *port)).await.map_err(|_| late())??;

    let mut last = Unreachable::NoAddress(host.clone());
    for (tried, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        last = match timeout(share, connect(*address, options)).await {
            Ok(Ok(stream)) => return Ok((*address, stream)),
            Ok(Err(source)) => Unreachable::Failed { address: *address, source },
            Err(_) => late(),
        };
    }
    Err(last)
}

/// An address written out is parsed, and asks no resolver.
async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Unreachable> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    match lookup_host((bare, port)).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(source) => Err(Unreachable::Unresolved { host: host.to_owned(), source }),
    }
}

async fn connect(address: SocketAddr, options: &Options) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // R4: from here on every close is a reset, that of a killed process too.
    socket.set_zero_linger()?;
    socket.set_nodelay(true)?;
    SockRef::from(&socket).set_tcp_user_timeout(Some(options.body_idle_timeout))?;
    let stream = socket.connect(address).await?;
    // A dial within the ephemeral ports can meet itself where nothing listens.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}
