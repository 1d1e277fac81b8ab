#!/usr/bin/env python3
"""Palisade beside nginx, HAProxy and the fences that one can build with them. See README.md.

  load.py check                        which fences fence, and up to which token
  load.py run WORKLOAD...              workloads by name; `load.py list` names them
  load.py all                          all of them
  load.py report                       the table once more, from the last results
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import report
from peers import FENCES, PEERS, Peer

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PLAIN = ["nginx", "haproxy"]
REFUSE = ["nginx-412", "haproxy-412"]
BIG = 64 << 20

# What wrk sends: keys, bytes of a body, callers, the status that every answer must have.
DEFAULT = {"method": "PUT", "prefix": "/small/", "keys": 1000, "body": 1024, "callers": 64, "raise": False,
           "status": 204, "peers": PLAIN + FENCES}
WORKLOADS = {
    "put1k-1": {"keys": 1},
    "put1k-1k": {},
    "put1k-100k": {"keys": 100_000},
    "put64k": {"prefix": "/large/", "body": 65536},
    "get": {"method": "GET"},
    "reject-hot": {"keys": 1, "status": 412, "peers": REFUSE + FENCES},
    "reject-100k": {"keys": 100_000, "status": 412, "peers": REFUSE + FENCES},
    "raise-c1": {"raise": True, "keys": 100_000, "callers": 1},
    "raise-c64": {"raise": True, "keys": 100_000},
    "raise-c256": {"raise": True, "keys": 100_000, "callers": 256},
}
SPECIAL = ["stream", "rate", "memory"]


class Load:
    def __init__(self, args):
        self.args = args
        self.folder = Path(tempfile.mkdtemp(prefix="palisade-load-", dir=args.dir))
        self.folder.chmod(0o755)  # nginx's workers may run as somebody else
        self.running = []
        self.token = int(time.time() - 1_700_000_000) * 16  # above every earlier one, below 2^32

    # -- peers ------------------------------------------------------------------------------

    def cpus(self, role):
        if self.args.pin == "none" or os.cpu_count() < 2:
            return f"0-{os.cpu_count() - 1}"
        return "0" if role == "peer" else "1"

    def start(self, name, upstream=None):
        binary = {"palisade": self.args.palisade, "palisade-b": self.args.palisade_b}.get(name)
        role = "load" if name == "upstream" else "peer"
        peer = Peer(name, self.folder, self.cpus(role), upstream.port if upstream else 0, binary)
        self.running.append(peer)
        return peer.start()

    def stop(self):
        for peer in reversed(self.running):
            peer.stop()
        self.running = []

    def chosen(self, names):
        wanted = self.args.peers.split(",") if self.args.peers else names
        return [name for name in names if name in wanted and (name != "palisade-b" or self.args.palisade_b)]

    def new_token(self):
        self.token += 100_000
        return self.token

    def probe(self, peer, work, token):
        """One request by hand: wrk only tells successes from failures, this tells the status."""
        body = b"x" * work["body"] if work["method"] == "PUT" else None
        request = urllib.request.Request(f"http://127.0.0.1:{peer.port}{work['prefix']}0000000", body,
                                         {"Fencing-Token": str(token)} if body else {}, method=work["method"])
        try:
            return urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code

    # -- load -------------------------------------------------------------------------------

    def wrk(self, peer, work, token, seconds, fill=0, order=None):
        """`fill`: so many requests instead of so many seconds. `order`: FIRST, STRIDE and SEED of load.lua."""
        out = self.folder / "wrk.json"
        out.unlink(missing_ok=True)
        command, env = self.wrk_command(peer, work, token, seconds, fill, order)
        subprocess.run(command, env=env, check=True, timeout=seconds + 60, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())

    def wrk_command(self, peer, work, token, seconds, fill=0, order=None):
        env = {**os.environ, "METHOD": work["method"], "PREFIX": work["prefix"], "KEYS": str(work["keys"]),
               "BODY": str(work["body"]), "TOKEN": str(token), "RAISE": str(int(work["raise"])), "FILL": str(fill),
               "OUT": str(self.folder / "wrk.json"), **{name: str(value) for name, value in (order or {}).items()}}
        return ["taskset", "-c", self.cpus("load"), "wrk", "-t1", f"-c{work['callers']}", f"-d{seconds}s",
                "--timeout", "10s", "-s", HERE / "load.lua", f"http://127.0.0.1:{peer.port}/"], env

    def warm(self, peer, work, token):
        """Every key holds `token` afterwards; connections and caches are warm."""
        if work["method"] == "PUT" and not work["raise"] and PEERS[peer.name][1]:
            keys = max(work["keys"], 1000)
            self.wrk(peer, {**work, "keys": keys}, token, 120, fill=keys)
        else:
            self.wrk(peer, work, token, 1)

    def measure(self, name, work, peer, token):
        before = self.probe(peer, work, token)
        cpu = peer.cpu_seconds()
        got = self.wrk(peer, work, token, self.args.seconds)
        cpu = peer.cpu_seconds() - cpu
        after = self.probe(peer, work, token + 50_000 if work["raise"] else token)
        failed = got["requests"] - got["not_2xx_3xx"] if work["status"] >= 400 else got["not_2xx_3xx"]
        valid = before == after == work["status"] and failed == 0 and got["socket_errors"] == 0
        return {"rps": got["requests"] / got["wall_s"], "per_cpu_s": got["requests"] / cpu,
                "cpu_us": cpu * 1e6 / max(1, got["requests"]), "busy": cpu / got["wall_s"],
                "p50_us": got["p50_us"], "p99_us": got["p99_us"], "pss_kib": peer.memory_kib(),
                "unexpected": failed, "socket_errors": got["socket_errors"], "probes": [before, after], "valid": valid}

    # -- workloads --------------------------------------------------------------------------

    def rounds(self, name, peers, one):
        """Interleaved: each peer once a round, the order reversed every other round."""
        for number in range(1, self.args.rounds + 1):
            for peer in peers if number % 2 else reversed(peers):
                row = {"workload": name, "pin": self.args.pin, "peer": peer.name, "round": number, "block": self.block,
                       "load_average": os.getloadavg()[0], **one(peer)}
                self.record(row)

    def record(self, row):
        with open(self.args.results, "a") as file:
            file.write(json.dumps(row) + "\n")
        shown = {k: round(v, 1) if isinstance(v, float) else v for k, v in row.items() if k not in ("block", "pin")}
        print(*(f"{k}={v}" for k, v in shown.items()), flush=True)

    def run(self, name):
        self.block = time.time()
        try:
            if name in SPECIAL:
                getattr(self, name)()
            else:
                self.requests(name, {**DEFAULT, **WORKLOADS[name]})
        finally:
            self.stop()

    def start_all(self, names):
        upstream = self.start("upstream")
        return [self.start(name, upstream) for name in self.chosen(names)]

    def requests(self, name, work):
        peers, token = self.start_all(work["peers"]), self.new_token()
        for peer in peers:
            self.warm(peer, work, token)
        def one(peer):
            stale = work["status"] == 412
            return self.measure(name, work, peer, 1 if stale else self.new_token() if work["raise"] else token)
        self.rounds(name, peers, one)

    def stream(self):
        """64 MiB uploads, one after the other on one connection."""
        peers, count, file = self.start_all(PLAIN + FENCES), self.args.uploads, self.folder / "64m.bin"
        with open(file, "wb") as big:
            big.truncate(BIG)
        def one(peer):
            cpu, began = peer.cpu_seconds(), time.monotonic()
            command = ["taskset", "-c", self.cpus("load"), "curl", "-s", "-o", os.devnull, "-w", "%{http_code} ", "-H", "Expect:",
                       "-H", f"Fencing-Token: {self.new_token()}", "-T", file, f"http://127.0.0.1:{peer.port}/large/[1-{count}]"]
            codes = subprocess.run(command, capture_output=True, text=True, timeout=180).stdout.split()
            took, gib = time.monotonic() - began, count * BIG / (1 << 30)
            return {"mib_s": gib * 1024 / took, "cpu_s_gib": (peer.cpu_seconds() - cpu) / gib,
                    "per_cpu_s": gib * 1024 / (peer.cpu_seconds() - cpu),
                    "peak_kib": peer.memory_kib("VmHWM"), "pss_kib": peer.memory_kib(), "valid": codes == ["204"] * count}
        self.rounds("stream", peers, one)

    def rate(self):
        """Latency at a fixed moderate rate, each caller at a steady pace of its own (h2load, HTTP/1.1)."""
        work, callers, seconds = {**DEFAULT, "status": 204}, 64, 4
        peers, token = self.start_all(PLAIN + FENCES), self.new_token()
        for peer in peers:
            self.warm(peer, work, token)
        body, log, targets = (self.folder / n for n in ("1k.bin", "h2load.log", "targets"))
        body.write_bytes(b"x" * 1024)
        def one(peer):
            targets.write_text("".join(f"http://127.0.0.1:{peer.port}/small/{k:07}\n" for k in range(work["keys"])))
            log.unlink(missing_ok=True)
            pace, cpu = max(1, self.args.rate // callers), peer.cpu_seconds()
            command = ["taskset", "-c", self.cpus("load"), "h2load", "--h1", "-t1", f"-c{callers}", f"--rps={pace}", f"-n{pace * callers * seconds}",
                       "-i", targets, "-d", body, "-H", ":method: PUT", "-H", f"Fencing-Token: {token}", f"--log-file={log}"]
            subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
            rows = [line.split() for line in log.read_text().splitlines()]
            took = sorted(int(row[2]) for row in rows)
            at = lambda share: took[min(len(took) - 1, int(len(took) * share))]
            return {"p50_us": at(0.5), "p99_us": at(0.99), "requests": len(took),
                    "cpu_us": (peer.cpu_seconds() - cpu) * 1e6 / len(took), "valid": all(row[1] == "204" for row in rows)}
        self.rounds("rate", peers, one)

    def memory(self):
        """Proportional memory: idle, after 256 connections, and per key of a fence."""
        upstream, keys = self.start("upstream"), self.args.keys
        for name in self.chosen(PLAIN + FENCES):
            peer, one = self.start(name, upstream), {**DEFAULT, "body": 64, "keys": 1}
            row = {"idle_kib": peer.memory_kib()}
            self.wrk(peer, {**one, "callers": 256}, self.new_token(), 2)
            row["connections_kib"] = row["full_kib"] = peer.memory_kib()
            if PEERS[name][1]:
                self.wrk(peer, {**one, "keys": keys}, self.token, 300, fill=keys)
                row["full_kib"] = peer.memory_kib()
                row["bytes_key"] = (row["full_kib"] - row["connections_kib"]) * 1024 / keys
            self.record({"workload": "memory", "pin": self.args.pin, "peer": name, "round": 1, "block": self.block,
                         "load_average": os.getloadavg()[0], **row, "valid": self.probe(peer, one, self.token) == 204})
            peer.stop()

    def check(self):
        """What the fences do not guarantee: for marks around 2^31, 2^32 and 2^53, the mark twice, then one below it, then 7."""
        upstream, work = self.start("upstream"), {**DEFAULT, "body": 1}
        rows = []
        try:
            for name in self.chosen(FENCES):
                peer, row = self.start(name, upstream), {"peer": name}
                for bits in (3, 31, 32, 53, 63):
                    mark, at = 2**bits + 1, {**work, "prefix": f"/small/{bits}/"}
                    marks = [self.probe(peer, at, token) for token in (mark, mark, mark - 1, 7)]
                    row[f"2^{bits}"] = "fenced" if marks == [204, 204, 412, 412] else " ".join(map(str, marks))
                rows.append(row)
        finally:
            self.stop()
        print(report.check(rows))
        return rows


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=["check", "run", "all", "report", "list"])
    p.add_argument("workloads", nargs="*")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=int, default=1, help="of each run; many short rounds beat few long ones")
    p.add_argument("--pin", choices=["split", "none"], default="split", help="split: the peer on core 0, load and upstream on core 1")
    p.add_argument("--peers", help="names, separated by commas; without it all that fit")
    p.add_argument("--palisade", default=str(ROOT / "target/release/palisade"))
    p.add_argument("--palisade-b", help="another build of it, to compare with in the same rounds")
    p.add_argument("--rate", type=int, default=3008, help="requests per second of `rate`")
    p.add_argument("--uploads", type=int, default=8, help="of 64 MiB in one run of `stream`")
    p.add_argument("--keys", type=int, default=100_000, help="of `memory`")
    p.add_argument("--results", default="load-results.jsonl", help="appended to")
    p.add_argument("--dir", help="where configurations and states are kept for the while: on a real disk, for raises")
    return p.parse_args()


def main():
    args = arguments()
    if args.command == "list":
        return print(*WORKLOADS, *SPECIAL)
    if args.command == "report":
        return report.write(args.results)
    names = args.workloads if args.command == "run" else [*WORKLOADS, *SPECIAL]
    if unknown := set(names) - set(WORKLOADS) - set(SPECIAL):
        raise SystemExit(f"no such workload: {', '.join(unknown)}")
    load = Load(args)
    try:
        if args.command in ("check", "all"):
            rows = load.check()
            with open(args.results, "a") as file:
                file.writelines(json.dumps({"workload": "check", **row}) + "\n" for row in rows)
        if args.command != "check":
            for name in names:
                load.run(name)
            report.write(args.results)
    finally:
        load.stop()
        shutil.rmtree(load.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
