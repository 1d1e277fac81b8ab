#!/usr/bin/env bash
# Slow heads, slow bodies and slow readers, by slowhttptest, against a palisade of this script's own on
# free ports; a normal client writes and reads meanwhile.
#
# Usage: tests/tools/slowhttptest.sh [SECONDS [CONNECTIONS]]     at most 55 seconds a mode; 30 and 800
# MODES names some of "header body read" only. PALISADE names the binary (target/debug/palisade). Exits with 1 where the normal client was not
# served, or anything was left behind; 2 where a tool is missing.
set -euo pipefail

seconds=${1:-30} connections=${2:-800}
palisade=$(realpath "${PALISADE:-target/debug/palisade}")
((seconds <= 55)) || seconds=55
for tool in slowhttptest curl "$palisade"; do
    command -v "$tool" >/dev/null || { echo "missing: $tool" >&2; exit 2; }
done
ulimit -n "$(ulimit -Hn)"

dir=$(mktemp -d "${TMPDIR:-/tmp}/palisade-slow-XXXXXX")
server=
end() {
    [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM

mkdir "$dir/files"
cat >"$dir/palisade.toml" <<TOML
[server]
listen = "127.0.0.1:0"
header_timeout = "10s"
client_idle_timeout = "10s"

[admin]
listen = "127.0.0.1:0"

[store]
path = "fences"

[upstreams.files]
directory = "files"
body_idle_timeout = "10s"

[[routes]]
path = "/{*object}"
upstream = "files"
TOML
: >"$dir/log"
(cd "$dir" && exec "$palisade" serve --config palisade.toml --fresh) 2>"$dir/log" &
server=$!

address() { sed -n "s|.*INFO [^ ]*:* *$1listening on http://\([0-9.:]*\).*|\1|p" "$dir/log" | head -1; }
for _ in $(seq 100); do
    at=$(address '') admin=$(address 'admin ')
    [[ -n $at && -n $admin ]] && break
    kill -0 "$server" 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
    sleep 0.1
done
[[ -n $at && -n $admin ]] || { echo "it does not listen" >&2; cat "$dir/log" >&2; exit 1; }

metric() { curl -sS -m 5 "http://$admin/metrics" | awk -v name="$1" '$1 ~ "^"name"({|$)" { sum += $2 } END { print sum + 0 }'; }
ask() { curl -sS -m 5 -o /dev/null -w '%{http_code} %{time_total}\n' "$@" 2>&1 | tail -1 || true; }
head -c 33554432 /dev/zero >"$dir/files/big"

# A normal client, until the file `stop` is there: one line per request, with what was not as it should.
normal() {
    local n=0
    until [[ -e $dir/stop ]]; do
        n=$((n + 1))
        ask -X PUT -H "Fencing-Token: $n" -d "$n" "http://$at/normal-$1" | sed 's/^/PUT /'
        ask "http://$at/normal-$1" | sed 's/^/GET /'
        sleep 0.2
    done
}

failed=0
mode() {
    local name=$1
    shift
    [[ " ${MODES:-header body read} " == *" $name "* ]] || return 0
    rm -f "$dir/stop"
    normal "$name" >"$dir/normal" &
    local client=$!
    timeout 59 slowhttptest "$@" -c "$connections" -r 200 -l "$seconds" -p 3 >"$dir/out" 2>&1 &
    local slow=$!
    sleep $((seconds / 2))
    local held peak
    held=$(metric palisade_in_flight_writes)
    wait "$slow" || true
    peak=$(awk '/VmHWM/ { print $2 }' "/proc/$server/status")
    touch "$dir/stop"
    wait "$client" || { echo "the normal client has failed" >&2; failed=1; }
    local bad left
    bad=$(grep -cvE '^(PUT|GET) 2[0-9][0-9] ' "$dir/normal" || true)
    for _ in $(seq 150); do
        left="$(metric palisade_in_flight_writes) $(metric palisade_waiting_writes)"
        [[ $left == "0 0" ]] && break
        sleep 0.1
    done
    echo "== $name: $(wc -l <"$dir/normal") normal requests, $bad not served, slowest" \
        "$(sort -k3 -g "$dir/normal" | tail -1 | cut -d' ' -f3) s; writes held midway: $held," \
        "left: $left; peak $peak KiB"
    sed 's/\x1b\[[0-9;]*m//g' "$dir/out" | grep -E '^(service available|Test ended|Exit status)' |
        tail -3 | sed 's/^/   /'
    [[ $bad == 0 && $left == "0 0" ]] || { failed=1; grep -vE '^(PUT|GET) 2' "$dir/normal" | sort | uniq -c | head -5; }
    kill -0 "$server" 2>/dev/null || { echo "it has ended" >&2; cat "$dir/log" >&2; exit 1; }
}

# slowhttptest knows no fields of one's own; a cookie that ends its line does.
token=$'a=1\r\nFencing-Token: 9'
mode header -H -i 3 -u "http://$at/slow" -t PUT
mode body -B -i 3 -s 8192 -j "$token" -u "http://$at/slow" -t PUT
mode read -X -w 512 -y 1024 -n 3 -z 32 -u "http://$at/big"
exit $failed
