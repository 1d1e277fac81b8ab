//! Black-box tests: the real binary over real sockets, against a backend that a test can script. The
//! backend's own log is the judge of the promise; a naive proxy shows that the scenarios can fail.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stderr, reason = "a failing test shows what palisade has logged")]
#![allow(unreachable_pub, reason = "pub within a test binary means: for the other modules")]
#![allow(clippy::missing_panics_doc, clippy::needless_pass_by_value, reason = "a test's helpers")]

mod answers;
mod bulk;
mod cases;
mod commands;
mod crash;
mod demo;
mod files;
mod forward;
mod harness;
mod http2;
mod memory;
mod mistakes;
mod operator;
mod power;
mod promise;
mod rules;
mod start;
mod takeover;
mod terminal;
mod timeouts;
mod tls;
mod torture;
