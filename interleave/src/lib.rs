//! The gate, the store's queue and its latch, from the product's own sources, on stand-ins for the
//! locks below them: a scheduler chooses every step (shuttle). See `tests/`.
//!
//! Switches happen at each lock, each condition and each bell; atomics and what tokio does within
//! are single steps, in one order for all. What a weaker memory order could do is not shown here.

#[path = "../../src/fence/mod.rs"]
pub mod fence;
#[path = "../../src/gate/mod.rs"]
pub mod gate;
#[path = "../../src/metrics/mod.rs"]
pub mod metrics;
pub mod store;
