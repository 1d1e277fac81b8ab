#!/usr/bin/env python3
"""Counts the instructions that a request costs the real binary, and compares them with instructions.txt.

Usage: benches/instructions.py [--write] [--keep DIR]      below a minute and a half; needs valgrind

Times drift with the machine by tens of percent; instructions in user space hardly do. The release binary
(PALISADE, or target/release/palisade) runs under callgrind with one worker, a store that answers 204 is
behind it, and one kept connection asks. What a kind of request costs is the difference between a run with
and one without ASKED requests of that kind, so starting and stopping are in no figure.

Exits with 1 where a figure is above the one in the file by more than the file's tolerance. The figures
belong to a toolchain and a C library: with others they are printed and nothing is judged. --write puts
today's figures into the file. --keep leaves callgrind's own files in DIR, for callgrind_annotate.
"""

import argparse
import itertools
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
FIGURES = HERE / "instructions.txt"
BINARY = os.environ.get("PALISADE", HERE.parent / "target/release/palisade")
ASKED = 2000
PATIENCE = 60
BODY = b"x" * 1024
KIND = {
    "accepted": (b"PUT", b"Fencing-Token: 7\r\n", BODY, 204),
    "refused": (b"PUT", b"Fencing-Token: 6\r\n", b"", 412),
    "refused_1k": (b"PUT", b"Fencing-Token: 6\r\n", BODY, 412),
    "read": (b"GET", b"", None, 204),
    # Each with a token above the last one's.
    "raised": (b"PUT", b"Fencing-Token: %d\r\n", BODY, 204),
}
TOKENS = itertools.count(1000)
CONFIG = """
[server]
listen = "127.0.0.1:0"
workers = 1
[store]
path = "{home}/fences"
[upstreams.store]
url = "http://127.0.0.1:{port}"
max_write_lifetime = "1s"
[[routes]]
path = "/{{*object}}"
upstream = "store"
"""


def message(stream, buffered=b""):
    """The next head, its body and what follows; `None` at the end."""
    while b"\r\n\r\n" not in buffered:
        more = stream.recv(65536)
        if not more:
            return None
        buffered += more
    head, _, rest = buffered.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
    length = int(length[1]) if length else 0
    while len(rest) < length:
        rest += stream.recv(65536)
    return head, rest[:length], rest[length:]


def store(listener):
    """A store that keeps nothing, on each connection until its end."""
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=answer, args=(stream,), daemon=True).start()


def answer(stream):
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffered = b""
    try:
        while came := message(stream, buffered):
            buffered = came[2]
            stream.sendall(b"HTTP/1.1 204 No Content\r\nServer: store\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n")
    except OSError:
        pass  # It is reset when the proxy ends.


def ask(stream, kind, times):
    method, fields, body, expected = KIND[kind]
    length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    rising = b"%d" in fields
    key = b"1000000" if rising else b"0000000"
    request = method + b" /b/" + key + b" HTTP/1.1\r\nHost: bench.local\r\n" + length + fields + b"\r\n" + (body or b"")
    for _ in range(times):
        stream.sendall(request % next(TOKENS) if rising else request)
        came = message(stream)
        status = came and int(came[0].split(b" ", 2)[1])
        if status != expected:
            sys.exit(f"{kind}: {status} instead of {expected}: {came}")


class Proxy:
    """The binary under callgrind, with its files in `home`."""

    def __init__(self, home, port):
        home.mkdir(parents=True)
        self.out, log = home / "callgrind.out", home / "log"
        config = home / "palisade.toml"
        config.write_text(CONFIG.format(home=home, port=port))
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}", f"--log-file={home}/valgrind"]
        command = [*valgrind, BINARY, "serve", "--fresh", "--config", config]
        self.process = subprocess.Popen(command, stderr=log.open("w"), env={"PATH": os.environ["PATH"]})
        deadline = time.monotonic() + PATIENCE
        while not (listens := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                sys.exit(f"it did not start: {log.read_text()}")
            time.sleep(0.05)
        self.address = ("127.0.0.1", int(listens[1]))

    def count(self, kind, times):
        """All instructions from the start to the stop: of a little of everything, and so many of one kind."""
        with socket.create_connection(self.address, timeout=PATIENCE) as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for each in KIND:
                ask(stream, each, 20)
            ask(stream, kind, times)
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(PATIENCE) != 0:
            sys.exit(f"exit code {self.process.returncode} after SIGTERM")
        return int(re.search(r"^(?:totals|summary): (\d+)", self.out.read_text(), re.MULTILINE)[1])


def measure(home):
    """Instructions per request by kind."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=store, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        none = Proxy(home / "none", port).count("read", 0)
        return {kind: (Proxy(home / kind, port).count(kind, ASKED) - none) // ASKED for kind in KIND}


def environment():
    """What the figures depend on, beside the code."""
    rustc = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"host: (.*)", rustc)[1]
    return f"{rustc.splitlines()[0]}, {host}, {os.confstr('CS_GNU_LIBC_VERSION')}"


def report(now, known, tolerance, judged):
    """Prints the table; whether a figure is too high."""
    high = []
    print(f"{'request':12} {'instructions':>12} {'file':>10} {'change':>8}")
    for kind, figure in now.items():
        change = (figure / known[kind] - 1) * 100 if kind in known else 0
        print(f"{kind:12} {figure:12} {known.get(kind, '-'):>10} {change:+7.1f}%")
        if change > tolerance:
            high.append(kind)
    if not judged or not high:
        return False
    print(f"FAILED: more than {tolerance} % above benches/instructions.txt: {', '.join(high)}", file=sys.stderr)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    text = FIGURES.read_text()
    tolerance = float(re.search(r"^tolerance (.+) %$", text, re.MULTILINE)[1])
    known = {kind: int(figure) for kind, figure in re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE)}
    belongs, here = re.search(r"^with (.*)$", text, re.MULTILINE)[1], environment()
    with tempfile.TemporaryDirectory() as temporary:
        home = options.keep or pathlib.Path(temporary)
        now = measure(home.resolve())
    if belongs != here:
        print(f"not judged: the file's figures are of\n  {belongs}\nand these of\n  {here}")
    too_high = report(now, known, tolerance, belongs == here)
    if options.write:
        comment = "".join(line for line in text.splitlines(True) if line.startswith("#"))
        figures = "".join(f"{kind:12}{figure}\n" for kind, figure in now.items())
        FIGURES.write_text(f"{comment}with {here}\ntolerance {tolerance:g} %\n{figures}")
        return 0
    return 1 if too_high else 0


if __name__ == "__main__":
    sys.exit(main())
