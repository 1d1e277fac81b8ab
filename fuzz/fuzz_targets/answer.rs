#![no_main]
//! See `tests/fuzz/bodies/answer.rs`.

#[allow(dead_code, reason = "each target runs one of the bodies")]
#[path = "../../tests/fuzz/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::answer::run(data));
