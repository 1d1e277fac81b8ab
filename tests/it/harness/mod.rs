//! The harness: a backend that a test scripts, the real binary, a raw client, and a naive proxy that
//! must fail where palisade may not.

pub mod backend;
pub mod client;
pub mod config;
pub mod frames;
pub mod http2;
pub mod kernel;
pub mod log;
pub mod message;
pub mod naive;
pub mod palisade;
pub mod scene;
pub mod subject;
pub mod tally;
pub mod tls;
pub mod toxic;
pub mod wait;

pub use backend::{Act, Backend, answer, send};
pub use client::{Client, Request, Response, claim, put};
pub use config::Config;
pub use message::Framing;
pub use naive::Naive;
pub use palisade::Palisade;
pub use scene::{doubt, endless, hold, write};
pub use subject::{Subject, keeps_the_promise, naive_breaks_the_promise};
pub use wait::{LIFETIME, Latch, now, side_by_side, until};
