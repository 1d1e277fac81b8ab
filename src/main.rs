//! The thin binary: everything is in the library.

use std::process::ExitCode;

/// Chosen by measurement (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    palisade::cli::run(std::env::args_os())
}
