//! The admin listener's hand on the running process.

use std::{path::PathBuf, time::Duration};

use parking_lot::Mutex;

use crate::{
    admin::{self, BoxFuture, ProcessState, RouteStatus, Status, UpstreamStatus},
    config::Config,
    fence::{Key, Limits, Token, UpstreamId},
    gate::{Advanced, Gate, ListError, Listing, OperatorError, Released, Snapshot, Takeover},
    proxy::{Route, RouteTable},
    store::StoreError,
    upstream::{self, Kind},
};

use super::check::{self, Wait};

/// The gate, and what the process is doing.
pub(super) struct Control {
    gate: Gate,
    routes: RouteTable,
    store: PathBuf,
    /// Kind and address of each upstream, in the configuration's order.
    places: Vec<(&'static str, String)>,
    listed: Vec<RouteStatus>,
    state: Mutex<ProcessState>,
}

impl Control {
    pub(super) fn new(gate: Gate, config: &Config) -> Self {
        Self {
            gate,
            routes: config.routes.clone(),
            store: config.store.path.clone(),
            places: config.upstreams.iter().map(place).collect(),
            listed: check::in_order(config).map(|route| listed(config, route)).collect(),
            state: Mutex::new(ProcessState::Starting),
        }
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

    fn status(&self) -> Status {
        let upstream = |(standing, (kind, address)): (_, &(&'static str, String))| UpstreamStatus {
            kind,
            address: address.clone(),
            standing,
        };
        Status {
            uptime: self.gate.uptime(),
            store: self.store.clone(),
            upstreams: self.gate.standings().into_iter().zip(&self.places).map(upstream).collect(),
        }
    }

    fn routes(&self) -> Vec<RouteStatus> {
        self.listed.clone()
    }

    fn upstream(&self, key: &Key) -> String {
        self.gate.upstream(key).to_owned()
    }

    fn list(
        &self,
        prefix: Vec<u8>,
        after: Option<Key>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Listing, ListError>> {
        Box::pin(async move { self.gate.list(&prefix, after.as_ref(), limit).await })
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
                return Err(OperatorError::Generation);
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

/// What an upstream is and where, as the configuration has it but for what it keeps secret.
fn place(upstream: &upstream::Options) -> (&'static str, String) {
    match &upstream.kind {
        Kind::Files { directory } => ("files", directory.display().to_string()),
        Kind::Unix { socket } => ("unix", format!("unix:{}", socket.display())),
        Kind::Http { host, port } => {
            let scheme = if upstream.tls.is_some() { "https" } else { "http" };
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            (scheme, format!("{scheme}://{host}:{port}"))
        }
    }
}

fn listed(config: &Config, route: &Route) -> RouteStatus {
    let policy = &route.policy;
    let (worst_wait, worst_wait_bounded) = match check::worst_wait(config, route) {
        Wait::None => (None, true),
        Wait::Bounded(wait) => (Some(wait), true),
        Wait::Unbounded => (None, false),
    };
    RouteStatus {
        path: route.path.clone(),
        hosts: route.hosts.clone(),
        methods: route.methods.iter().map(ToString::to_string).collect(),
        upstream: check::upstream(config, route).to_owned(),
        key: route.template.as_str().map(str::to_owned),
        fold_case: route.fold_case,
        token: check::token(route),
        enforce: policy.enforce,
        takeover: match policy.takeover {
            Takeover::Abort => "abort",
            Takeover::Wait => "wait",
        },
        drain_timeout: policy.drain_timeout,
        worst_wait,
        worst_wait_bounded,
    }
}
