#!/usr/bin/env bash
# What palisade keys, held against the files that real servers make of the same targets: nginx and Apache with their DAV
# modules, and Python's http.server. Each odd target is written through palisade with a token of its own; the file that
# has appeared must be the key whose mark is that token. All on free loopback ports, in a directory of its own.
#
# Usage: tests/tools/differential.sh [TARGETS]     generated ones beside those of fuzz/seeds/target; 300
# PALISADE names the binary (target/debug/palisade). SERVERS names some of "nginx apache python" only. Takes about ten
# seconds. Exits with 1 where a server and a key differ, 2 where a tool is missing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
palisade=$(realpath "${PALISADE:-target/debug/palisade}")
servers=${SERVERS:-nginx apache python}
PATH=$PATH:/usr/sbin
for tool in python3 "$palisade" ${servers//python/}; do
    [[ $tool == apache ]] && tool=apache2
    command -v "$tool" >/dev/null || { echo "missing: $tool" >&2; exit 2; }
done

# Each write is a raise, and each raise a sync: in memory, where there is such a place.
[[ -n ${TMPDIR:-} || ! -w /dev/shm ]] || TMPDIR=/dev/shm
dir=$(mktemp -d "${TMPDIR:-/tmp}/palisade-differential-XXXXXX")
pids=()
end() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM
# Apache's children are of another user.
chmod 755 "$dir"

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

nginx_server() {
    mkdir -p "$dir/nginx/temp"
    cat >"$dir/nginx.conf" <<CONF
daemon off;
master_process off;
pid $dir/nginx/pid;
error_log $dir/nginx/log;
events {}
http {
    access_log off;
    client_body_temp_path $dir/nginx/temp;
    proxy_temp_path $dir/nginx/p; fastcgi_temp_path $dir/nginx/f; uwsgi_temp_path $dir/nginx/u; scgi_temp_path $dir/nginx/s;
    server {
        listen 127.0.0.1:$1;
        location / { root $dir/root-nginx; dav_methods PUT; create_full_put_path on; }
    }
}
CONF
    exec nginx -p "$dir/nginx" -c "$dir/nginx.conf" 2>>"$dir/nginx/log"
}

apache_server() {
    local modules=/usr/lib/apache2/modules user=
    ((EUID == 0)) && user="User www-data"$'\n'"Group www-data"
    cat >"$dir/apache.conf" <<CONF
ServerRoot $dir
ServerName localhost
Listen 127.0.0.1:$1
PidFile $dir/apache.pid
ErrorLog $dir/apache.log
$user
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule dav_module $modules/mod_dav.so
LoadModule dav_fs_module $modules/mod_dav_fs.so
DavLockDB $dir/apache-locks/db
DocumentRoot $dir/root-apache
<Directory $dir/root-apache>
    Dav On
    Require all granted
</Directory>
CONF
    mkdir -p "$dir/apache-locks"
    chmod 777 "$dir/apache-locks"
    exec apache2 -X -f "$dir/apache.conf" 2>>"$dir/apache.log"
}

python_server() {
    exec python3 "$here/differential.py" serve "$1" "$dir/root-python" 2>"$dir/python.log"
}

# One worker: this Apache serves one connection at a time, and a second worker's would wait for the first's end.
{
    printf '[server]\nlisten = "127.0.0.1:0"\nworkers = 1\n[admin]\nlisten = "127.0.0.1:0"\n[store]\npath = "fences"\n'
    for server in $servers; do
        port=$(free)
        mkdir -p "$dir/root-$server"
        chmod 777 "$dir/root-$server"
        "${server}_server" "$port" >/dev/null &
        pids+=($!)
        printf '[upstreams.%s]\nurl = "http://127.0.0.1:%s"\nmax_write_lifetime = "1s"\n' "$server" "$port"
        printf '[[routes]]\nhost = "%s"\npath = "/{*object}"\nupstream = "%s"\n' "$server" "$server"
    done
} >"$dir/palisade.toml"
(cd "$dir" && exec "$palisade" serve --config palisade.toml --fresh) >"$dir/out" 2>"$dir/log" &
pids+=($!)

address() { sed -n "s|.*INFO [^ ]*:* *$1listening on http://\([0-9.:]*\).*|\1|p" "$dir/log" | head -1; }
for _ in $(seq 100); do
    at=$(address '') admin=$(address 'admin ')
    [[ -n $at && -n $admin ]] && break
    sleep 0.1
done
[[ -n $at && -n $admin ]] || { echo "it does not listen" >&2; cat "$dir/log" >&2; exit 1; }

timeout 120 python3 "$here/differential.py" compare "$at" "$admin" "$dir" "$here/../../fuzz/seeds/target" "${1:-300}" $servers
