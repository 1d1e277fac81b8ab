//! HTTP MEANING. From a request's head to a verdict of the gate, and from there to an answer.
//!
//! It owns what a request means: route, key, token, read or write; every refusal; and each write's
//! way to its one outcome. It never touches a key's state, and only `refusal` chooses a status.
//! Trailers end here, both ways: whatever a head was checked for, they could add unchecked.

mod answering;
pub mod authority;
mod body;
mod bytes;
mod call;
pub mod classify;
mod exchange;
pub mod fate;
pub mod fields;
mod forwarding;
pub mod headers;
pub mod hop;
mod keying;
pub mod lines;
mod outbound;
mod pattern;
mod plan;
mod preview;
mod read;
pub mod refusal;
mod reply;
mod request_id;
mod rewrite;
pub mod route;
mod service;
mod shape;
mod spend;
mod table;
pub mod target;
mod template;
mod write;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub use body::AnswerBody;
pub use forwarding::{ForwardedFields, Forwarding, Network, NetworkError};
pub use keying::KeyForm;
pub use pattern::{Captures, MAX_CAPTURES, MAX_SEGMENTS, Pattern, PatternError, overlaps_text};
pub use preview::{Beside, Preview};
pub use rewrite::Rewrite;
pub use route::Route;
pub use service::Proxy;
pub use table::{Found, RouteTable, TableError, host_name};
pub use template::{KeyParts, PartError, RenderError, Template, TemplateError};

use crate::{
    gate::Gate,
    metrics::Metrics,
    upstream::{self, files::FileStore, http::HttpUpstream},
};

/// What all workers share.
pub struct Shared {
    /// Which route a request takes.
    pub routes: RouteTable,
    /// Who may write.
    pub gate: Gate,
    /// What clients may be behind the answers to their writes, all together.
    behind: Arc<Semaphore>,
    /// `max_headers` of the server: hyper holds HTTP/1.1 to it, this proxy HTTP/2.
    pub max_headers: usize,
    /// Every series.
    pub metrics: Arc<Metrics>,
    /// The upstreams, in the configuration's order.
    pub upstreams: Vec<UpstreamSetup>,
    /// What upstreams are told of clients, and whose word is taken for it.
    pub forwarding: Forwarding,
}

impl Shared {
    /// From the configuration's parts; `max_headers` is the server's.
    pub fn new(
        routes: RouteTable,
        gate: Gate,
        metrics: Arc<Metrics>,
        upstreams: Vec<UpstreamSetup>,
        forwarding: Forwarding,
        max_headers: usize,
    ) -> Self {
        let behind = reply::room_behind();
        Self { routes, gate, behind, max_headers, metrics, upstreams, forwarding }
    }
}

/// An upstream, as set up once for all workers.
pub struct UpstreamSetup {
    /// Its options.
    pub options: Arc<upstream::Options>,
    /// The built-in file store, where it is one.
    pub files: Option<FileStore>,
}

/// An upstream, as one worker reaches it.
#[derive(Clone)]
enum Upstream {
    Http(HttpUpstream),
    Files(FileStore),
}
