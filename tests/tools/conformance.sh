#!/usr/bin/env bash
# HTTP as others speak it: h2load, nghttp, curl, slowhttptest, and the RFCs' sections asked one by one by
# conformance.py, all against palisades of this script's own on free loopback ports, plain and over TLS.
#
# Usage: tests/tools/conformance.sh     about a minute; every load is bounded in count and time
# PALISADE names the binary (target/debug/palisade). SLOW=SECONDS is the length of each of slowhttptest's
# three modes (5; 0 leaves them out). Missing tools are installed by name on Debian, hpack by pip.
# Exits with 1 where anything failed.
set -euo pipefail
cd "$(dirname "$0")/../.."

palisade=$(realpath "${PALISADE:-target/debug/palisade}")
[[ -x $palisade ]] || { echo "missing: $palisade" >&2; exit 2; }
slow=${SLOW:-5}

dir=$(mktemp -d "${TMPDIR:-/tmp}/palisade-http-XXXXXX")
servers=()
end() {
    for server in "${servers[@]}"; do
        { kill "$server" && wait "$server"; } 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM

tools() {
    local missing=() tool package
    while read -r tool package; do
        command -v "$tool" >/dev/null || missing+=("$package")
    done <<'LIST'
h2load nghttp2-client
nghttp nghttp2-client
slowhttptest slowhttptest
curl curl
openssl openssl
python3 python3
LIST
    if ((${#missing[@]})); then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -q -y --no-install-recommends "${missing[@]}"
    fi >"$dir/install" 2>&1 || { cat "$dir/install" >&2; exit 2; }
    python=python3
    if ! python3 -c 'import hpack' 2>/dev/null; then
        { python3 -m venv "$dir/venv" || { apt-get install -q -y python3-venv && python3 -m venv "$dir/venv"; }
            "$dir/venv/bin/pip" install -q 'hpack>=4,<5'; } >"$dir/install" 2>&1 || { cat "$dir/install" >&2; exit 2; }
        python=$dir/venv/bin/python
    fi
}

certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -keyout "$dir/key.pem" \
        -out "$dir/cert.pem" -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
}

# NAME [TLS]: starts a palisade; sets `at`, `admin` and `server`.
start() {
    local home=$dir/$1
    mkdir -p "$home/files"
    head -c 4194304 /dev/zero >"$home/files/big"
    echo small >"$home/files/small"
    cat >"$home/palisade.toml" <<TOML
[server]
listen = "127.0.0.1:0"
${2:-}
[admin]
listen = "127.0.0.1:0"
[store]
path = "fences"
[upstreams.files]
directory = "files"
[[routes]]
path = "/{*object}"
upstream = "files"
TOML
    : >"$home/log"
    (cd "$home" && exec "$palisade" serve --config palisade.toml --fresh) 2>"$home/log" &
    server=$!
    servers+=("$server")
    for _ in $(seq 100); do
        at=$(sed -n 's|.*cli::run: listening on https\?://\([0-9.:]*\).*|\1|p' "$home/log" | head -1)
        admin=$(sed -n 's|.*admin listening on http://\([0-9.:]*\).*|\1|p' "$home/log" | head -1)
        [[ -z $at || -z $admin ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "it does not listen" >&2
    cat "$home/log" >&2
    exit 1
}

passed=0 failed=0
# WORDS COMMAND...: one check; what it prints is shown where it fails.
check() {
    local words=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $words"
    else
        failed=$((failed + 1))
        echo "FAILED  $words"
        tail -20 "$dir/out" | sed 's/^/        /'
    fi
}

# h2load, COUNT requests: all are answered, all by 2xx.
load() {
    local count=$1
    shift
    timeout 60 h2load -n "$count" -c 10 "$@" >"$dir/load" || return 1
    grep -E '^(requests|status codes|finished)' "$dir/load"
    grep -q "^requests: $count total, $count started, $count done, $count succeeded, 0 failed, 0 errored, 0 timeout" "$dir/load" &&
        grep -q "^status codes: $count 2xx, 0 3xx, 0 4xx, 0 5xx" "$dir/load"
}

# nghttp: so many answers have this status.
answers() {
    local count=$1 status=$2 found
    shift 2
    timeout 20 nghttp -nv "$@" >"$dir/nghttp" 2>&1 || { cat "$dir/nghttp"; return 1; }
    found=$(grep -c "recv .*:status: $status$" "$dir/nghttp" || true)
    [[ $found == "$count" ]] || { cat "$dir/nghttp"; return 1; }
}

# nghttp's offer of an upgrade is not taken.
passes_over() {
    { timeout 20 nghttp -nu "$1" 2>&1 || true; } | grep 'HTTP Upgrade failed'
}

# curl: this status.
status() {
    local wanted=$1 got
    shift
    got=$(curl -sS -m 20 --cacert "$dir/cert.pem" -o "$dir/answer" -w '%{http_version} %{http_code}' "$@") || return 1
    [[ $got == "$wanted" ]] || { echo "$got, not $wanted"; cat "$dir/answer"; return 1; }
}

at_rest() {
    local metrics
    for _ in $(seq 100); do
        metrics=$(curl -sS -m 5 "http://$1/metrics" | grep -E '^palisade_(in_flight|waiting)_writes ' | sort | tr '\n' ' ')
        [[ $metrics != 'palisade_in_flight_writes 0 palisade_waiting_writes 0 ' ]] || return 0
        sleep 0.1
    done
    echo "left: $metrics"
    return 1
}

# SCHEME ADDRESS: what each client asks of each of the two.
clients() {
    local url=$1://$2 how=$3
    local put=(-H ':method: PUT' -H 'fencing-token: 9' -d "$dir/body")
    check "$how: h2load, 5000 reads, 10 connections of 20 streams" load 5000 -m 20 "$url/small"
    check "$how: h2load, 40 reads of 4 MiB through small windows" load 40 -m 4 -w 14 -W 15 "$url/big"
    check "$how: h2load, 1000 writes of one key" load 1000 -m 20 "${put[@]}" "$url/load"
    check "$how: h2load, 2000 reads by HTTP/1.1" load 2000 --h1 "$url/small"
    check "$how: h2load, 500 writes by HTTP/1.1" load 500 --h1 "${put[@]}" "$url/load-1"
    check "$how: nghttp, ten at once" answers 10 200 -m 10 "$url/small"
    check "$how: nghttp, padded" answers 1 200 -b 200 "$url/small"
    check "$how: nghttp, a header block of many frames" answers 1 200 --continuation "$url/small"
    check "$how: nghttp, a window of one byte less" answers 1 200 -w 15 -W 16 "$url/big"
    check "$how: nghttp, a table of no size" answers 1 200 -c 0 "$url/small"
    check "$how: nghttp, a write" answers 1 201 "${put[@]}" "$url/nghttp"
    check "$how: nghttp, a stale one" answers 1 412 -H ':method: PUT' -H 'fencing-token: 8' -d "$dir/body" "$url/nghttp"
    check "$how: nghttp, one that expects a go-ahead" answers 1 204 --expect-continue "${put[@]}" "$url/nghttp"
    check "$how: nghttp, a token in the trailers is none" answers 1 428 -H ':method: PUT' -d "$dir/body" --trailer 'fencing-token: 99' "$url/nghttp"
    check "$how: curl, a write in chunks" status '1.1 201' --http1.1 -X PUT -H 'Fencing-Token: 9' -H 'Transfer-Encoding: chunked' -T "$dir/body" "${pin[@]}" "$url/curl"
    check "$how: curl, dots stay dots" status '1.1 400' --http1.1 --path-as-is "${pin[@]}" "$url/a/../small"
    check "$how: curl, OPTIONS *" status '1.1 400' --http1.1 -X PUT --request-target '*' "${pin[@]}" "$url/"
    check "$how: conformance.py" "$python" tests/tools/conformance.py "$2" "${@:4}"
    tail -1 "$dir/out"
}

tools
certificate
head -c 3000 /dev/zero >"$dir/body"
pin=()

start plain
plain=$at plain_admin=$admin
clients http "$plain" plain
check 'plain: nghttp, an upgrade is passed over' passes_over "http://$plain/small"
check 'plain: curl, an upgrade is passed over' status '1.1 200' --http2 "http://$plain/small"
check 'plain: curl, HTTP/2 with prior knowledge' status '2 200' --http2-prior-knowledge "http://$plain/small"
check 'plain: nothing is left' at_rest "$plain_admin"
check 'plain: it lives' kill -0 "$server"

start tls "tls = { certificate = \"$dir/cert.pem\", key = \"$dir/key.pem\" }"
# The certificate is for a name.
pin=(--connect-to "localhost:${at##*:}:127.0.0.1:${at##*:}")
clients https "localhost:${at##*:}" TLS "$dir/cert.pem"
check 'TLS: curl, HTTP/2 by agreement' status '2 200' --http2 "${pin[@]}" "https://localhost:${at##*:}/small"
check 'TLS: curl, TLS 1.1 is refused' bash -c '! curl -sS -m 20 -k --tls-max 1.1 "$1"' - "https://localhost:${at##*:}/small"
check 'TLS: nothing is left' at_rest "$admin"
check 'TLS: it lives' kill -0 "$server"

if ((slow > 0)); then
    check "slowhttptest, slow heads, bodies and readers, $slow s each" env PALISADE="$palisade" tests/tools/slowhttptest.sh "$slow" 300
    cat "$dir/out"
fi
echo "$passed passed, $failed failed"
((failed == 0))
