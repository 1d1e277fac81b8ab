//! The admin listener's hand on the running process.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{
    admin::{self, BoxFuture, ProcessState},
    fence::{Key, Limits, Token, UpstreamId},
    gate::{Advanced, Gate, OperatorError, Released, Snapshot},
    proxy::{Route, RouteTable},
    store::StoreError,
};

/// The gate, and what the process is doing.
pub(super) struct Control {
    gate: Gate,
    routes: RouteTable,
    state: Mutex<ProcessState>,
}

impl Control {
    pub(super) fn new(gate: Gate, routes: RouteTable) -> Self {
        Self { gate, routes, state: Mutex::new(ProcessState::Starting) }
    }

    pub(super) fn set(&self, state: ProcessState) {
        *self.state.lock() = state;
    }

    /// R9 as the key's routes have it: what any of them allows.
    fn limits(&self, key: &Key) -> (Limits, bool) {
        let upstream = self.gate.place(key);
        let routes: Vec<&Route> =
            self.routes.routes().iter().filter(|route| Some(route.upstream) == upstream).collect();
        let least = |limit: fn(&Route) -> Option<u64>| {
            let limits: Option<Vec<u64>> = routes.iter().map(|route| limit(route)).collect();
            limits.and_then(|limits| limits.into_iter().max())
        };
        let max_token: Option<Vec<Token>> =
            routes.iter().map(|route| route.policy.max_token).collect();
        let limits = Limits {
            max_jump: least(|route| route.policy.max_jump),
            max_token: max_token.and_then(|tokens| tokens.into_iter().max()),
            ..Limits::default()
        };
        (limits, routes.iter().any(|route| route.policy.generations))
    }
}

impl admin::Control for Control {
    fn resolve(&self, upstream: &str) -> Option<UpstreamId> {
        self.gate.resolve(upstream)
    }

    fn state(&self) -> ProcessState {
        self.state.lock().clone()
    }

    fn quarantines(&self) -> Vec<(String, Duration)> {
        self.gate.quarantines()
    }

    fn show(&self, key: Key) -> BoxFuture<'_, Result<Snapshot, StoreError>> {
        Box::pin(async move { self.gate.show(&key).await })
    }

    fn advance(
        &self,
        key: Key,
        token: Token,
        force: bool,
    ) -> BoxFuture<'_, Result<Advanced, OperatorError>> {
        let (limits, generations) = self.limits(&key);
        Box::pin(async move {
            if token.generation > 0 && !generations {
                return Err(OperatorError::Implausible);
            }
            self.gate.advance(&key, token, Limits { forced: force, ..limits }).await
        })
    }

    fn release(&self, key: Key) -> BoxFuture<'_, Result<Released, OperatorError>> {
        Box::pin(async move { self.gate.release(&key).await })
    }

    fn reset(&self, key: Key) -> BoxFuture<'_, Result<(), OperatorError>> {
        Box::pin(async move { self.gate.reset(&key).await })
    }
}
