//! Listening sockets: one per worker and address, all bound before the first connection.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::Options;

/// Connections that the kernel holds for each socket until they are accepted.
const BACKLOG: i32 = 4096;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Someone listens there.
    #[error(
        "address {0} is already in use: another process, perhaps another palisade, listens there; \
         stop it, or choose another address in [server] listen"
    )]
    InUse(SocketAddr),
    /// Not allowed.
    #[error(
        "not permitted to listen on {0}: ports below 1024 need the capability \
         CAP_NET_BIND_SERVICE; choose a higher port in [server] listen"
    )]
    NotPermitted(SocketAddr),
    /// Not an address of this machine.
    #[error("{0} is not an address of this machine; see [server] listen")]
    NotLocal(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {address}: {source}")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BindError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "foreign, open enum")]
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse(address),
            io::ErrorKind::PermissionDenied => Self::NotPermitted(address),
            io::ErrorKind::AddrNotAvailable => Self::NotLocal(address),
            _ => Self::Failed { address, source },
        }
    }
}

/// Every listening socket of a server.
#[derive(Debug)]
pub struct Listeners {
    addresses: Vec<SocketAddr>,
    /// Per worker, one socket per address.
    workers: Vec<Vec<TcpListener>>,
}

impl Listeners {
    /// Binds `listen` once per worker. An IPv6 address takes IPv6 only. Port 0 is one free port,
    /// the same for all workers.
    pub fn bind(options: &Options) -> Result<Self, BindError> {
        let mut addresses = Vec::with_capacity(options.listen.len());
        let mut workers: Vec<Vec<TcpListener>> = Vec::new();
        workers.resize_with(options.workers.max(1), Vec::new);
        for &wanted in &options.listen {
            let address = free(wanted).map_err(|source| BindError::new(wanted, source))?;
            for sockets in &mut workers {
                let socket = listen(address, true);
                sockets.push(socket.map_err(|source| BindError::new(address, source))?);
            }
            addresses.push(address);
        }
        Ok(Self { addresses, workers })
    }

    /// The addresses in the order of `listen`, with the real ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The sockets of each worker.
    pub(super) fn into_workers(self) -> Vec<Vec<TcpListener>> {
        self.workers
    }
}

/// SO_REUSEPORT lets a second process of the same user share a port silently. A socket without it
/// is refused where anyone listens, so one is tried first.
fn free(address: SocketAddr) -> io::Result<SocketAddr> {
    listen(address, false)?.local_addr()
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
