//! admin.

use std::{fmt, net::SocketAddr};

/// `[admin]`, validated.
#[derive(Clone)]
pub struct Options {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The bearer token that every request must carry, read from `token_file` at the start;
    /// always there where the listener is reachable from beyond this machine.
    pub token: Option<String>,
}

/// The token stays out of logs.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "...");
        f.debug_struct("Options").field("listen", &self.listen).field("token", &token).finish()
    }
}
