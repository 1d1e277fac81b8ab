//! A control without a gate: it records what it is asked and answers as it is told.

use std::{future::ready, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    admin::{BoxFuture, Control, ProcessState, RouteStatus, Status, UpstreamStatus},
    fence::{Holder, Key, Mark, Token, UpstreamId},
    gate::{Advanced, Gate, ListError, Listing, OperatorError, Released, Snapshot, Standing},
    store::StoreError,
};

pub(super) struct Fake {
    pub(super) state: Mutex<ProcessState>,
    pub(super) quarantines: Mutex<Vec<(String, Duration)>>,
    /// What is listed, where something is.
    pub(super) gate: Mutex<Option<Gate>>,
    /// Ends every change and look-up with it.
    pub(super) error: Mutex<Option<OperatorError>>,
    /// `ACTION UPSTREAM:KEY ...`, one line per change, written when it is done.
    pub(super) done: Mutex<Vec<String>>,
    /// Changes that have begun.
    pub(super) begun: Arc<Semaphore>,
    /// Changes that are done.
    pub(super) ended: Arc<Semaphore>,
    /// One permit lets one change end; plenty unless a test takes them.
    pub(super) go: Arc<Semaphore>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            state: Mutex::new(ProcessState::Ready),
            quarantines: Mutex::default(),
            gate: Mutex::default(),
            error: Mutex::default(),
            done: Mutex::default(),
            begun: Arc::new(Semaphore::new(0)),
            ended: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(1000)),
        }
    }
}

impl Fake {
    pub(super) fn done(&self) -> Vec<String> {
        self.done.lock().clone()
    }

    async fn change<T>(&self, line: String, answer: T) -> Result<T, OperatorError> {
        self.begun.add_permits(1);
        self.go.acquire().await.unwrap().forget();
        if let Some(error) = self.error.lock().clone() {
            return Err(error);
        }
        self.done.lock().push(line);
        self.ended.add_permits(1);
        Ok(answer)
    }
}

fn words(key: &Key) -> String {
    format!("{}:{}", key.upstream().0, key.path().escape_ascii())
}

fn empty() -> Snapshot {
    Snapshot {
        highest: None,
        durable: None,
        in_flight: Vec::new(),
        in_doubt: Vec::new(),
        waiting: 0,
        quarantine: None,
    }
}

impl Control for Fake {
    /// `files` is number 7.
    fn resolve(&self, upstream: &str) -> Option<UpstreamId> {
        (upstream == "files").then_some(UpstreamId(7))
    }

    fn state(&self) -> ProcessState {
        self.state.lock().clone()
    }

    fn quarantines(&self) -> Vec<(String, Duration)> {
        self.quarantines.lock().clone()
    }

    fn status(&self) -> Status {
        let standing = Standing {
            upstream: "files".into(),
            quarantine: Some(Duration::from_millis(12_500)),
            unfenced: true,
            keys: 4,
            in_flight: 3,
            waiting: 2,
            in_doubt: 1,
        };
        Status {
            uptime: Duration::from_millis(61_250),
            store: PathBuf::from("data/fences"),
            upstreams: vec![UpstreamStatus {
                kind: "http",
                address: "http://store:9000".into(),
                standing,
            }],
        }
    }

    fn routes(&self) -> Vec<RouteStatus> {
        vec![RouteStatus {
            path: "/{*object}".into(),
            hosts: Vec::new(),
            methods: vec!["GET".into(), "PUT".into()],
            upstream: "files".into(),
            key: None,
            fold_case: false,
            token: "required",
            enforce: true,
            takeover: "abort",
            drain_timeout: Duration::from_secs(10),
            worst_wait: Some(Duration::from_millis(12_500)),
            worst_wait_bounded: true,
        }]
    }

    fn upstream(&self, key: &Key) -> String {
        let gate = self.gate.lock();
        gate.as_ref().map_or_else(String::new, |gate| gate.upstream(key).to_owned())
    }

    fn list(
        &self,
        prefix: Vec<u8>,
        after: Option<Key>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Listing, ListError>> {
        let gate = self.gate.lock().clone();
        Box::pin(async move {
            match gate {
                Some(gate) => gate.list(&prefix, after.as_ref(), limit).await,
                None => Err(StoreError::Unavailable("no gate".into()).into()),
            }
        })
    }

    /// `busy/key` has everything, `reset` a record without a token, `waits` a waiter only, other
    /// keys have nothing.
    fn show(&self, key: Key) -> BoxFuture<'_, Result<Snapshot, StoreError>> {
        if let Some(OperatorError::Store(error)) = self.error.lock().clone() {
            return Box::pin(ready(Err(error)));
        }
        let snapshot = match key.path() {
            b"busy/key" => Snapshot {
                highest: Some(Token { generation: 2, counter: 43 }),
                durable: Some(Mark {
                    token: Some(Token::new(u64::MAX)),
                    contested: true,
                    holder: Holder::parse(b"worker-7"),
                }),
                in_flight: vec![(Some(Token::new(42)), 2), (None, 1)],
                in_doubt: vec![(None, Duration::from_millis(12_345))],
                waiting: 3,
                quarantine: Some(Duration::from_mins(1)),
            },
            b"reset" => Snapshot {
                durable: Some(Mark { token: None, contested: true, holder: None }),
                ..empty()
            },
            b"waits" => Snapshot { waiting: 1, ..empty() },
            _ => empty(),
        };
        Box::pin(ready(Ok(snapshot)))
    }

    fn advance(
        &self,
        key: Key,
        token: Token,
        force: bool,
    ) -> BoxFuture<'_, Result<Advanced, OperatorError>> {
        assert_ne!(key.path(), b"panics");
        let line = format!("advance {} {token} force={force}", words(&key));
        Box::pin(self.change(line, Advanced { highest: token, lower_open: 2 }))
    }

    fn release(&self, key: Key) -> BoxFuture<'_, Result<Released, OperatorError>> {
        let line = format!("release {}", words(&key));
        Box::pin(self.change(line, Released { doubts: 1, quarantine: true }))
    }

    fn reset(&self, key: Key) -> BoxFuture<'_, Result<(), OperatorError>> {
        Box::pin(self.change(format!("reset {}", words(&key)), ()))
    }
}
