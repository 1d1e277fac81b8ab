#!/usr/bin/env bash
# Runs the fuzz targets, one after the other: SECONDS each, all of them or those that are named.
#
# Usage: fuzz/run.sh [SECONDS [TARGET...]]     60 seconds where none are named
# Needs `cargo install cargo-fuzz --locked` and a C++ compiler; a stable toolchain will do, since the code has nothing
# for a sanitizer to find: it is safe Rust. What is found goes to fuzz/corpus (not kept) and fuzz/artifacts; a crash,
# when it is understood, becomes a seed in fuzz/seeds, which `cargo test --test fuzz` runs.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
if (($# > 0)); then targets=("$@"); else mapfile -t targets < <(cargo fuzz list); fi
# Stores are made and thrown away by the thousand: in memory, where there is such a place.
[[ -z ${TMPDIR:-} && -w /dev/shm ]] && export TMPDIR=/dev/shm

cargo fuzz build --sanitizer none
for target in "${targets[@]}"; do
    echo "== $target"
    mkdir -p "fuzz/corpus/$target"
    cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout=60 -max_len=4096 -rss_limit_mb=4096 -print_final_stats=1 2>&1 |
        grep -vE 'NEW|REDUCE|pulse|RELOAD' | tail -n 25
done
