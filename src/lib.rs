//! Palisade, a fencing-aware storage proxy: it records the highest fencing token it has seen per
//! key and refuses writes that carry a stale one, in front of a store that knows nothing of it.
//!
//! Start reading at [`fence`]: it is the rule. [`store`] is its memory, [`gate`] adds time, and the
//! other rooms give it HTTP, sockets and words. Layers point downwards only.

pub mod admin;
pub mod cli;
pub mod config;
pub mod fence;
pub mod gate;
pub mod metrics;
pub mod proxy;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod upstream;
