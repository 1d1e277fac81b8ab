//! What is tortured: a process, or the naive proxy, which is a thread of this one.

use std::net::SocketAddr;

use rustix::process::Signal;

use super::{Subject, own_address};
use crate::harness::{Config, Naive, Palisade};

/// The proxy under torture.
pub enum Proxy {
    Palisade(Box<Palisade>, Box<Config>),
    Naive(Naive),
}

impl Proxy {
    /// Starts it; whoever speaks HTTP to a store does it by `line`.
    pub fn start(subject: Subject, line: SocketAddr) -> Self {
        let config = match subject {
            Subject::Naive => return Self::Naive(Naive::start(line, PATIENCE)),
            Subject::Files => Config::files().set("drain_timeout", "200ms"),
            Subject::Abort => over_http(line),
            Subject::Wait => {
                over_http(line).set("takeover", "wait").upstream("partial_body", "discarded")
            }
        };
        let config = config.server("stop_timeout", "2s").upstream("body_idle_timeout", "1s");
        let first = config.clone().server("listen", own_address(subject).to_string());
        let palisade = Palisade::start(&first);
        let config = config.server("listen", palisade.addr().to_string());
        Self::Palisade(Box::new(palisade), Box::new(config))
    }

    pub fn addr(&self) -> SocketAddr {
        match self {
            Self::Palisade(palisade, _) => palisade.addr(),
            Self::Naive(naive) => naive.addr(),
        }
    }

    pub fn palisade(&mut self) -> Option<&mut Palisade> {
        match self {
            Self::Palisade(palisade, _) => Some(palisade),
            Self::Naive(_) => None,
        }
    }

    /// kill -9.
    pub fn kill9(&mut self) {
        match self {
            Self::Palisade(palisade, _) => palisade.kill9(),
            Self::Naive(naive) => naive.kill9(),
        }
    }

    /// Starts it again over the same store; palisade at the same address.
    pub fn restart(&mut self) {
        match self {
            Self::Palisade(palisade, config) => palisade.restart_with(config),
            Self::Naive(naive) => naive.restart(),
        }
    }

    /// A signal, where it is a process.
    pub fn signal(&self, signal: Signal) -> bool {
        match self {
            Self::Palisade(palisade, _) => palisade.signal(signal),
            Self::Naive(_) => return false,
        }
        true
    }
}

const PATIENCE: std::time::Duration = std::time::Duration::from_millis(300);

fn over_http(line: SocketAddr) -> Config {
    Config::http(line).upstream("response_timeout", "300ms")
}
