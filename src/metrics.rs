//! Every series in one struct, with closed labels: routes, codes, never a key or a token.
#![allow(missing_docs, clippy::unused_self)]
use std::time::Duration;
#[derive(Debug, Default)]
pub struct Metrics;
impl Metrics {
    pub fn takeover(&self) {}
    pub fn raised(&self, _elapsed: Duration) {}
    pub fn drained(&self, _elapsed: Duration) {}
    pub fn held(&self, _elapsed: Duration) {}
    pub fn write_opened(&self) {}
    pub fn write_settled(&self) {}
    pub fn key_in_doubt(&self) {}
    pub fn key_out_of_doubt(&self) {}
    pub fn wait_began(&self) {}
    pub fn wait_ended(&self) {}
    pub fn keys(&self, _n: usize) {}
}
