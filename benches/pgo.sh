#!/usr/bin/env bash
# Builds palisade with profile-guided optimization: an instrumented build works through benches/load's own load
# and a little HTTP/2 and TLS, and a second build is laid out by what it counted. Where there is an llvm-bolt, what was
# built is counted once more in the same way, and its functions and their parts are put in order.
#
# Usage: benches/pgo.sh     two release builds and two minutes of load; the binary is target/pgo/palisade
# Needs what benches/load needs, openssl, and an llvm-profdata that fits rustc's LLVM: of rustup's component
# `llvm-tools`, of Debian's `llvm-22` (`llvm-19` is enough for rustc 1.95), or what LLVM_PROFDATA names. An llvm-bolt is
# in Debian's `bolt-22`, or what LLVM_BOLT names; `LLVM_BOLT=none` does without.
# Listens on loopback only; every load is bounded in count or time; ends the processes it started, no others.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/pgo")
dir=$(mktemp -d "${TMPDIR:-/tmp}/palisade-pgo-XXXXXX")
export PATH=$PATH:/usr/sbin # nginx
unset LLVM_PROFILE_FILE     # it would send the counts elsewhere
server=
end() {
    [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM

fail() {
    echo "FAILED: $*" >&2
    exit 2
}

tools() {
    local tool missing=()
    for tool in cargo curl h2load nginx openssl python3 taskset wrk; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    ((${#missing[@]} == 0)) || fail "missing: ${missing[*]} (benches/load/README.md names the packages)"
}

# Sets `profdata`: the first that can merge what this rustc's programs write into what it reads. That is tried on a
# program of nothing, since only after both builds would it show otherwise.
find_profdata() {
    local each candidates=("$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" "llvm-profdata-$major" llvm-profdata)
    [[ -z ${LLVM_PROFDATA:-} ]] || candidates=("$LLVM_PROFDATA")
    echo 'fn main() {}' >"$dir/empty.rs"
    rustc -Cprofile-generate="$dir/empty" -o "$dir/empty.bin" "$dir/empty.rs" || fail "this rustc cannot instrument"
    "$dir/empty.bin"
    for each in "${candidates[@]}"; do
        profdata=$each
        "$each" merge -o "$dir/empty.profdata" "$dir/empty" 2>/dev/null &&
            rustc -Cprofile-use="$dir/empty.profdata" -o "$dir/empty.bin" "$dir/empty.rs" 2>/dev/null && return
    done
    fail "no llvm-profdata that fits LLVM $major: rustup component add llvm-tools, or apt-get install llvm-$major"
}

# Sets `bolt`, to nothing where there is none, and `merge_fdata`, which has its name but for the start: the first that can
# instrument, tried as above.
find_bolt() {
    local each candidates=("llvm-bolt-$major" llvm-bolt)
    [[ -z ${LLVM_BOLT:-} ]] || candidates=("$LLVM_BOLT")
    for each in "${candidates[@]}"; do
        [[ $each == *llvm-bolt* ]] || continue
        bolt=$each
        merge_fdata=${each%llvm-bolt*}merge-fdata${each##*llvm-bolt}
        command -v "$merge_fdata" >/dev/null && rustc -Clink-arg=-Wl,--emit-relocs -o "$dir/relocs.bin" "$dir/empty.rs" &&
            "$each" "$dir/relocs.bin" -instrument -instrumentation-file="$dir/empty.fdata" -o "$dir/empty.bin" >"$dir/bolt" 2>&1 &&
            "$dir/empty.bin" && "$merge_fdata" "$dir/empty.fdata" >"$dir/bolt" 2>&1 && return
    done
    bolt=
    [[ ${LLVM_BOLT:-none} == none ]] || fail "$LLVM_BOLT cannot instrument, or has no merge-fdata beside it"
}

# FLAGS NAME: a release build with these flags of rustc's, kept as NAME. The target is named, so that build scripts and
# macros are built without the flag, once for both builds.
build() {
    RUSTFLAGS="${RUSTFLAGS:-} $1" cargo build --release --locked --bin palisade --target "$host" --target-dir "$out/build"
    cp "$out/build/$host/release/palisade" "$out/$2"
}

# What is proxied, over plain HTTP/1.1. Two seconds of each kind, so that no kind outweighs the others.
train_load() {
    benches/load/load.py run put1k-1 put1k-100k put64k get reject-hot reject-100k raise-c1 raise-c64 raise-c256 stream rate \
        --peers palisade --palisade "$out/instrumented" --rounds 1 --seconds 2 --results "$dir/results"
    # Other answers than the right ones would have trained other paths.
    ! grep -q '"valid": false' "$dir/results" || fail "a load went wrong"
    compgen -G "$out/counts/*" >/dev/null || fail "no server of the load has left its counts"
}

start_tls() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -keyout "$dir/key.pem" \
        -out "$dir/cert.pem" -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
    rm -rf "$dir/fences" "$dir/files"
    mkdir "$dir/files"
    : >"$dir/log" # of an earlier one, which listened elsewhere
    cat >"$dir/palisade.toml" <<TOML
[server]
listen = "127.0.0.1:0"
tls = { certificate = "cert.pem", key = "key.pem" }
[store]
path = "fences"
[upstreams.files]
directory = "files"
[[routes]]
path = "/{*object}"
upstream = "files"
TOML
    (cd "$dir" && exec "$out/instrumented" serve --fresh --config palisade.toml) 2>"$dir/log" &
    server=$!
    for _ in $(seq 100); do
        at=$(sed -n 's|.*listening on https://\([0-9.:]*\).*|\1|p' "$dir/log" | head -n 1)
        [[ -z $at ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    fail "it does not listen: $(cat "$dir/log")"
}

# COUNT STATUS h2load's words: so many requests to one key, all of which have this kind of answer.
ask() {
    timeout 60 h2load -n "$1" -c 16 "${@:3}" "https://$at/b/0000000" >"$dir/h2load" || fail "$(cat "$dir/h2load")"
    grep -Eq "^status codes: .*\b$1 $2" "$dir/h2load" || fail "not all $2: $(cat "$dir/h2load")"
}

# A little of HTTP/2, TLS and the file store, so that they are not laid out as what is never run.
train_tls() {
    local put=(-d "$dir/1k" -H ':method: PUT' -H) protocol code=0
    head -c 1024 /dev/zero >"$dir/1k"
    start_tls
    for protocol in -m8 --h1; do
        ask 2000 2xx "$protocol" "${put[@]}" 'Fencing-Token: 7'
        ask 20000 4xx "$protocol" "${put[@]}" 'Fencing-Token: 6'
        ask 20000 2xx "$protocol"
    done
    kill "$server"
    wait "$server" || code=$?
    server=
    ((code == 0)) || fail "exit code $code after SIGTERM: $(cat "$dir/log")"
}

# Puts in order what is run, apart from what is not. Hand-written assembly is left as it is.
reorder() {
    mkdir "$out/counts"
    "$bolt" "$out/unordered" -instrument -instrumentation-file="$out/counts/bolt" -instrumentation-file-append-pid \
        -skip-funcs='ring_core.*' -o "$out/instrumented" >"$dir/bolt" 2>&1 || fail "$(tail "$dir/bolt")"
    train_load
    train_tls
    "$merge_fdata" "$out"/counts/*.fdata >"$out/palisade.fdata" 2>"$dir/bolt" || fail "$(tail "$dir/bolt")"
    "$bolt" "$out/unordered" -data="$out/palisade.fdata" -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions \
        -split-all-cold -icf=safe -skip-funcs='ring_core.*' -o "$out/palisade" >"$dir/bolt" 2>&1 || fail "$(tail "$dir/bolt")"
}

tools
find_profdata
find_bolt
rm -rf "$out" # cargo would keep the crates that an earlier profile built: it does not watch what they read
build "-Cprofile-generate=$out/counts" instrumented
train_load
train_tls
"$profdata" merge -o "$out/palisade.profdata" "$out/counts"
rm -r "$out/counts"
if [[ -n $bolt ]]; then
    build "-Cprofile-use=$out/palisade.profdata -Clink-arg=-Wl,--emit-relocs" unordered
    reorder
else
    build "-Cprofile-use=$out/palisade.profdata" palisade
fi
echo "built $out/palisade, with ${bolt:-no llvm-bolt}; what it gives: PALISADE=$out/palisade benches/instructions.py"
