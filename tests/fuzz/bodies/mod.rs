//! What each fuzz target does with its bytes, in one place for `fuzz/` and for this test binary.
//!
//! A body is a function of bytes that panics where the product is wrong. It never stops at "does not
//! panic": each holds the product against a second reading of its own, written from the RFCs, the
//! other servers' documentation or the standard library.

pub mod answer;
pub mod authority;
pub mod config;
pub mod front;
pub mod head;
pub mod pattern;
pub mod recovery;
pub mod servers;
pub mod target;
pub mod token;
mod world;

/// A target's bytes in; a panic where something is wrong.
pub type Body = fn(&[u8]);

/// Every body, by the name of its fuzz target and of its directory of seeds.
pub const BODIES: [(&str, Body); 9] = [
    ("answer", answer::run),
    ("authority", authority::run),
    ("config", config::run),
    ("front", front::run),
    ("head", head::run),
    ("pattern", pattern::run),
    ("recovery", recovery::run),
    ("target", target::run),
    ("token", token::run),
];

/// The lines of an input, at most `most` of them.
fn lines(data: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == b'\n').take(most)
}

/// Bytes for people.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
