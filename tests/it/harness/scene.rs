//! What many tests begin with.

use std::net::SocketAddr;

use super::{Act, Backend, Client, Config, Latch, Palisade, Response, put};

/// A write in doubt stays so for longer than a test runs.
pub fn endless(upstream: SocketAddr) -> Config {
    Config::http(upstream).upstream("max_write_lifetime", "1h")
}

/// Writes `/k` with this token.
pub fn write(palisade: &Palisade, token: &str) -> Response {
    put("/k", token).send(palisade.addr())
}

/// A write with this token that stands at the store until the latch opens.
pub fn hold(backend: &Backend, palisade: &Palisade, target: &str, token: &str) -> (Client, Latch) {
    let latch = Latch::new();
    backend.script(token, [Act::Read, Act::Wait(latch.clone()), Act::Apply, Act::Answer(201)]);
    let client = put(target, token).start(palisade.addr());
    backend.until_held(token);
    (client, latch)
}

/// Leaves token 5 of `/k` in doubt.
pub fn doubt(backend: &Backend, palisade: &Palisade) {
    backend.script("5", [Act::Read, Act::Answer(503)]);
    write(palisade, "5").assert_status(503);
    palisade.until_metric("palisade_in_doubt_keys", 1.0);
}
