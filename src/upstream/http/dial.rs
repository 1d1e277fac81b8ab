//! From a name or a path to a connection that can carry a request.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::{
    net::{TcpSocket, TcpStream, UnixStream},
    time::{Instant, timeout_at},
};

use super::{
    names::Names,
    socket::{Io, Watched},
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
        source: Arc<io::Error>,
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
    /// The Unix socket failed.
    #[error("no connection to {}: {source}", socket.display())]
    SocketFailed {
        /// Its path.
        socket: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is a connection, but no TLS over it.
    #[error("no TLS with {address}: {why}")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// What is wrong with whose certificate, or with what the other side speaks.
        why: String,
    },
    /// `connect_timeout` passed.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// The upstream is not an HTTP server.
    #[error("it is not reached by HTTP")]
    NotHttp,
}

impl Unreachable {
    /// For whoever sent the request: what happened, without the names and addresses behind the
    /// proxy. The whole of it is for the log.
    pub fn brief(&self) -> &'static str {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the log has the words for the others")]
        match self {
            Self::Unresolved { .. } => "its name does not resolve",
            Self::NoAddress(_) => "its name has no address",
            Self::Failed { source, .. } | Self::SocketFailed { source, .. } => {
                match source.kind() {
                    io::ErrorKind::ConnectionRefused => "it refuses connections",
                    io::ErrorKind::NotFound => "its socket does not exist",
                    _ => "no connection can be made",
                }
            }
            Self::Tls { .. } => "no TLS can be agreed on with it",
            Self::TimedOut(_) => "no connection was made in time",
            Self::NotHttp => "it is not reached by HTTP",
        }
    }
}

/// A connection over which nothing of a request was sent yet.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) io: Box<dyn Io>,
    /// `None` for a Unix socket.
    pub(super) address: Option<SocketAddr>,
    /// TLS lies in between, which takes bytes before the kernel does.
    pub(super) tls: bool,
}

/// Dials one upstream, and remembers where it was answered.
#[derive(Debug)]
pub(super) struct Dialler {
    options: Arc<Options>,
    names: Names,
    /// The address that answered last, tried first: one that is dead costs its share of
    /// `connect_timeout` once, not with every dial.
    answered: Mutex<Option<SocketAddr>>,
}

impl Dialler {
    pub(super) fn new(options: Arc<Options>, names: Names) -> Self {
        Self { options, names, answered: Mutex::default() }
    }

    /// A new connection; to that very address if one is given. A Unix socket has none to choose.
    pub(super) async fn dial(&self, pinned: Option<SocketAddr>) -> Result<Dialled, Unreachable> {
        let deadline = Instant::now() + self.options.connect_timeout;
        match &self.options.kind {
            Kind::Files { .. } => Err(Unreachable::NotHttp),
            Kind::Unix { socket } => self.dial_socket(socket.clone(), deadline).await,
            Kind::Http { host, port } => {
                if let Some(address) = pinned {
                    return self.dial_one(address, deadline).await;
                }
                let asked = timeout_at(deadline, self.names.addresses(host, *port)).await;
                let addresses = asked
                    .map_err(|_| self.late())?
                    .map_err(|source| Unreachable::Unresolved { host: host.clone(), source })?;
                self.dial_any(host, addresses, deadline).await
            }
        }
    }

    /// Tries all addresses in turn, each with an even share of the time that is left.
    async fn dial_any(
        &self,
        host: &str,
        mut addresses: Vec<SocketAddr>,
        deadline: Instant,
    ) -> Result<Dialled, Unreachable> {
        let answered = *self.answered.lock();
        if let Some(at) = addresses.iter().position(|address| Some(*address) == answered) {
            addresses[..=at].rotate_right(1);
        }
        let mut failure = Unreachable::NoAddress(host.to_owned());
        for (tried, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            match self.dial_one(*address, Instant::now() + share).await {
                Ok(dialled) => {
                    *self.answered.lock() = Some(*address);
                    return Ok(dialled);
                }
                // A certificate that is not accepted says more than another address's silence.
                Err(_) if matches!(failure, Unreachable::Tls { .. }) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn dial_one(
        &self,
        address: SocketAddr,
        deadline: Instant,
    ) -> Result<Dialled, Unreachable> {
        let connected = timeout_at(deadline, connect(address, &self.options)).await;
        let stream = connected
            .map_err(|_| self.late())?
            .map_err(|source| Unreachable::Failed { address, source })?;
        let stream = Watched::new(stream, self.options.body_idle_timeout);
        let Some(tls) = &self.options.tls else {
            return Ok(Dialled { io: Box::new(stream), address: Some(address), tls: false });
        };
        let why = match timeout_at(deadline, tls.connect(stream)).await {
            Ok(Ok(stream)) => {
                return Ok(Dialled { io: Box::new(stream), address: Some(address), tls: true });
            }
            Ok(Err(error)) => tls.explain(&error),
            Err(_) => "the handshake did not end in time; does it speak TLS?".to_owned(),
        };
        Err(Unreachable::Tls { address, why })
    }

    /// No linger here: closing a Unix socket never takes back what was written. The store still
    /// reads all of it, and then sees an end, or a reset where we left something unread. So a cut
    /// shows as a body that is short of its length or its last chunk, never as whole; and after a
    /// cut there is the same doubt as over TCP (R4).
    async fn dial_socket(
        &self,
        socket: PathBuf,
        deadline: Instant,
    ) -> Result<Dialled, Unreachable> {
        match timeout_at(deadline, UnixStream::connect(&socket)).await {
            Ok(Ok(stream)) => {
                let stream = Watched::new(stream, self.options.body_idle_timeout);
                Ok(Dialled { io: Box::new(stream), address: None, tls: false })
            }
            Ok(Err(source)) => Err(Unreachable::SocketFailed { socket, source }),
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> Unreachable {
        Unreachable::TimedOut(self.options.connect_timeout)
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
