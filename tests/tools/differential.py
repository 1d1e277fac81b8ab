"""The other half of differential.sh: a store that is Python's http.server, and the comparison."""

import http.server
import json
import os
import random
import socket
import sys
import time
from urllib.parse import quote

PARTS = """a b c.txt A / / // . .. ... %2e %2E %2f %5c \\ ; %3b %25 %252e %61 %41 %62 + %2B %20 ~ %7e %c3%a9 %C3%A9
%c0%af = - _ , @ : $ ! ' ( ) * & %26 %3d %3f %23 %22 %3c %7c %5b [ ] ^ { } | %u0061 %00 %0a ?v=1 # %e2%82%ac""".split()

# Answers of palisade itself are no server's.
ADMITTED = "fencing-result: admitted"


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.translate_path(self.path)
        status = 201
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(body)
        except OSError:
            status = 409
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(port, root):
    os.chdir(root)
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


def exchange(address, data):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as stream:
        stream.sendall(data)
        answer = b""
        while chunk := stream.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode("latin-1").lower(), body


def put(address, host, target, token):
    body = str(token).encode()
    fields = f"Host: {host}\r\nConnection: close\r\nFencing-Token: {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    return exchange(address, b"PUT " + target + b" HTTP/1.1\r\n" + fields.encode() + body)[0]


def written(root, token):
    """The files that hold a write's body, as bytes of their paths below the root."""
    root, wanted = root.encode(), str(token).encode()
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                if file.read() == wanted:
                    yield os.path.relpath(path, root)


def mark(admin, server, path):
    """The mark of the key that has this path's bytes."""
    key = quote(server.encode() + b":" + path, safe="")
    request = f"GET /v1/keys/{key} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    head, body = exchange(admin, request.encode())
    return json.loads(body).get("highest") if " 200 " in head.splitlines()[0] else None


def targets(seeds, count):
    for name in sorted(os.listdir(seeds)):
        with open(os.path.join(seeds, name), "rb") as file:
            yield from (line for line in file.read().split(b"\n") if line.startswith(b"/") and b" " not in line)
    chosen = random.Random(7)
    for _ in range(count):
        yield ("/" + "".join(chosen.choices(PARTS, k=chosen.randint(1, 6)))).encode()


def compare(address, admin, folder, seeds, count, *servers):
    token, faults = 0, 0
    tally = {server: {"admitted": 0, "stored": 0} for server in servers}
    for server in servers:
        # Until it listens; a folder, too, where a server makes none of its own.
        root = f"{folder}/root-{server}"
        for name in ["a", "b", "A", "versions"]:
            os.makedirs(f"{root}/{name}", exist_ok=True)
            os.chmod(f"{root}/{name}", 0o777)
        for _ in range(100):
            token += 1
            if " 20" in put(address, server, b"/ready", token).splitlines()[0]:
                break
            time.sleep(0.1)
        else:
            sys.exit(f"{server} takes no writes")
    tried = list(targets(seeds, int(count)))
    for server in servers:
        root = f"{folder}/root-{server}"
        for target in tried:
            token += 1
            head = put(address, server, target, token)
            if ADMITTED not in head:
                assert not list(written(root, token)), f"refused, and stored: {target}"
                continue
            tally[server]["admitted"] += 1
            if " 20" not in head.splitlines()[0]:
                continue
            tally[server]["stored"] += 1
            found = list(written(root, token))
            marks = [mark(admin, server, path) for path in found]
            if marks != [str(token)]:
                faults += 1
                print(f"{server}: {target} became {found}, whose marks are {marks}, not [{token}]")
    for server, seen in tally.items():
        print(f"{server}: {len(tried)} targets, {seen['admitted']} admitted, {seen['stored']} stored")
        # Few would mean that nothing was compared.
        assert seen["stored"] >= 40, server
    print(f"{faults} differ")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    {"serve": serve, "compare": compare}[sys.argv[1]](*sys.argv[2:])
