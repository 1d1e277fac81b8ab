//! The promise, explored: every interleaving of a few writes, crashes and late effects, on the real
//! fence. Each rule taken out must break it, so the model itself is known to be able to fail.

mod exhaustive;
mod one_key;
mod simulation;
mod two_keys;
