#!/usr/bin/env python3
"""What grows with what: keys, waiters, connections, doubts. See README.md.

  growth.py keys               writes, memory and starts beside so many keys in the store
  growth.py waiters            one key, and so many writes that wait for a lower one
  growth.py connections        idle connections; HTTP/2 with many streams or many connections
  growth.py doubt              what keys in doubt cost the others
  growth.py all                all four, one after the other
"""

import argparse
import json
import math
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request

import report
from load import DEFAULT, ROOT, Load
from peers import Peer

PARTS = ["keys", "waiters", "connections", "doubt"]
SIZES = [1000, 100_000, 1_000_000, 10_000_000]
ADMIN = "palisade-admin"  # its thread serves nobody but who measures
TOKEN = 1000


class Palisade(Peer):
    """A palisade that is stopped and started over one store, and asked how it is."""

    def __init__(self, folder, cpus, upstream, binary, **values):
        super().__init__("palisade", folder, cpus, upstream, binary)
        self.values |= values
        self.log = folder / "palisade.log"

    def _palisade(self):
        fresh = [] if self.database().exists() else ["--fresh"]
        return [[self.binary, "serve", *fresh, "--config", self._render("growth.toml.in")]]

    def start_seconds(self):
        """From exec to the line that says that it serves."""
        self.log.write_text("")
        began = time.monotonic()
        with open(self.log, "ab") as log:
            command = ["taskset", "-c", self.cpus, *map(str, self._palisade()[0])]
            self.processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)]
        while not any("listening on" in line and "admin" not in line for line in self.log.read_text().splitlines()):
            if self.processes[0].poll() is not None or time.monotonic() > began + 120:
                raise SystemExit(f"palisade does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.0005)
        return time.monotonic() - began

    def kill(self):
        self.processes[0].kill()
        self.processes[0].wait()

    def standing(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.values['ADMIN']}/v1/status", timeout=10) as answer:
            return json.load(answer)["upstreams"][0]

    def wait_for(self, field, count):
        end = time.monotonic() + 60
        while (found := self.standing()[field]) != count:
            if time.monotonic() > end:
                raise SystemExit(f"{field} is {found} and not {count}")
            time.sleep(0.02)

    def cpu_seconds(self):
        return super().cpu_seconds(without=ADMIN)

    def database(self):
        return self.state / "fences" / "marks.db"


class Growth(Load):
    def palisade(self, pool=64, lifetime="1s"):
        upstream = self.start("upstream")
        peer = Palisade(self.folder, self.cpus("peer"), upstream.port, self.args.palisade,
                        POOL=pool, LIFETIME=lifetime, CACHE=self.args.cache)
        self.running.append(peer)
        peer.start()
        return peer

    def note(self, part, **row):
        self.record({"workload": part, "pin": self.args.pin, "load_average": os.getloadavg()[0], **row})
        return row

    def run(self, part):
        began = time.monotonic()
        try:
            getattr(self, part)()
        finally:
            self.stop()
        print(f"({part}: {time.monotonic() - began:.0f} s, load average now {os.getloadavg()[0]:.1f})\n", flush=True)

    # -- keys -------------------------------------------------------------------------------

    def keys(self):
        """Keys are random: with more of them than the cache holds most of them are cold."""
        lines = []
        for keys in (size for size in SIZES if self.args.least <= size <= self.args.most):
            peer = self.palisade()
            self.fill_store(peer, keys)
            lines.append(self.with_keys(peer, keys))
            self.stop()
        heads = ["keys", *(f"{kind} {unit}" for kind in ("accepted", "refused", "raised") for unit in ("rps", "/CPU-s")),
                 "in memory", "Pss MiB", "marks.db MiB", "log MiB", "start, clean ms", "start, killed ms", "valid"]
        print(f"\n### Keys known to the store, `cache = \"{self.args.cache}\"`\n\n{report.table(heads, lines)}\n")

    def fill_store(self, peer, keys):
        """Rows as a write's own, into the database of a palisade that has stopped."""
        work = {**DEFAULT, "keys": 1}
        if self.probe(peer, work, TOKEN) != 204:
            raise SystemExit("the first write fails")
        peer.stop()
        db = sqlite3.connect(peer.database())
        ((key, token),) = db.execute("SELECT key, token FROM mark").fetchall()
        prefix = key.removesuffix(b"0000000")
        rows = ((b"%b%07d" % (prefix, number), token) for number in range(1, keys))
        with db:
            db.executemany("INSERT INTO mark VALUES (?, ?, 0, NULL)", rows)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()  # the last to close removes the log, which a start after a clean stop does not miss
        peer.start()

    def order(self, keys, run):
        """Another part of the keys for each run, and no neighbours one after the other."""
        stride = max(1, int(keys * 0.618))
        while math.gcd(stride, keys) != 1:
            stride += 1
        return {"STRIDE": stride, "FIRST": run * 7_654_321 % keys, "SEED": run}

    def with_keys(self, peer, keys):
        work, kinds = {**DEFAULT, "keys": keys}, {"accepted": (204, TOKEN), "refused": (412, 1), "raised": (204, None)}
        self.wrk(peer, work, TOKEN, 120, fill=min(keys, 300_000), order=self.order(keys, 0))
        rows, run = {}, 0
        for kind, (status, token) in kinds.items():
            for number in range(1, self.args.rounds + 1):
                run += 1
                sent = {**work, "raise": kind == "raised", "status": status}
                cpu = peer.cpu_seconds()
                got = self.wrk(peer, sent, token or self.new_token(), self.args.seconds, order=self.order(keys, run))
                cpu = peer.cpu_seconds() - cpu
                failed = got["not_2xx_3xx"] if status == 204 else got["requests"] - got["not_2xx_3xx"]
                rows.setdefault(kind, []).append(self.note(
                    "keys", keys=keys, kind=kind, round=number, rps=got["requests"] / got["wall_s"], per_cpu_s=got["requests"] / cpu,
                    p50_us=got["p50_us"], p99_us=got["p99_us"], valid=failed == 0 and got["socket_errors"] == 0))
        standing, pss = peer.standing()["keys_in_memory"], peer.memory_kib()
        file, log = peer.database(), peer.database().with_name("marks.db-wal")
        sizes = {"db_bytes": file.stat().st_size, "log_bytes": log.stat().st_size}
        size = self.note("keys", keys=keys, in_memory=standing, pss_kib=pss, **sizes, **self.starts(peer, keys))
        every = [row["valid"] for kind in rows.values() for row in kind]
        speeds = [report.shown(report.median(rows[kind], field)) for kind in rows for field in ("rps", "per_cpu_s")]
        sizes = [report.shown(size["in_memory"]), report.shown(size["pss_kib"], 1, 1024), report.shown(size["db_bytes"], 1, 1 << 20),
                 report.shown(size["log_bytes"], 1, 1 << 20), report.shown(size["clean_s"] * 1000), report.shown(size["killed_s"] * 1000)]
        return [f"{keys:,}", *speeds, *sizes, f"{sum(every)}/{len(every)}"]

    def starts(self, peer, keys):
        """Three after a clean stop, and three after kill -9 amid raises, whose log the start writes back."""
        took = {"clean_s": [], "killed_s": []}
        for kind in took:
            for run in range(3):
                command, env = self.wrk_command(peer, {**DEFAULT, "keys": keys, "raise": True}, self.new_token(), 2,
                                                order=self.order(keys, 100 + run))
                load = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(1)
                peer.stop() if kind == "clean_s" else peer.kill()
                load.kill()
                load.wait()
                took[kind].append({"s": peer.start_seconds()})
        return {kind: report.median(rows, "s") for kind, rows in took.items()}

    # -- waiters ----------------------------------------------------------------------------

    def waiters(self):
        """A lower write whose body is not whole is in flight; the crowd comes; the body's last byte comes."""
        peer, lines, alone = self.palisade(pool=16384), [], 0
        for count in (0, 1, 100, self.args.crowd):
            self.crowd(peer, count)  # connections to the store are made now, and kept
            rows = []
            for number in range(1, max(self.args.rounds, min(40, 1000 // max(1, count))) + 1):
                rows.append(self.note("waiters", waiters=count, round=number, **self.crowd(peer, count)))
            good = [row for row in rows if row["valid"]]
            last, cpu, pss = (report.median(good, field) for field in ("last_ms", "cpu_us", "pss_kib"))
            alone = alone or cpu
            lines.append([f"{count:,}", report.shown(last, 1), report.shown(cpu and cpu / 1000, 1),
                          report.shown((cpu - alone) / count, 1) if count and cpu else "-", report.shown(pss, 1, 1024), f"{len(good)}/{len(rows)}"])
        heads = ["waiters", "all answered after ms", "CPU ms in all", "CPU us a waiter", "Pss while they wait MiB", "valid"]
        print(f"\n### Writes that wait on one key\n\n{report.table(heads, lines)}\n")
        print("(A waiter's CPU is without what the lower write takes that nobody waits for.)\n")

    def crowd(self, peer, count):
        """The lower write's end, until all who waited for it are answered; `count` may be 0."""
        lower, upper = self.new_token(), self.new_token()
        log = self.folder / "h2load.log"
        log.write_text("")
        with socket.create_connection(("127.0.0.1", peer.port), 60) as writer:
            writer.sendall(f"PUT /large/crowd HTTP/1.1\r\nHost: load.test\r\nFencing-Token: {lower}\r\nContent-Length: 2\r\n\r\nx".encode())
            peer.wait_for("in_flight_writes", 1)
            load = self.gather(peer, count, upper, log)
            try:
                peer.wait_for("waiting_writes", count)
                pss = peer.memory_kib()
                cpu, began = peer.cpu_seconds(), time.time_ns() // 1000
                writer.sendall(b"x")
                first = writer.recv(4096)
                ended = time.time_ns() // 1000
                load.wait(60)
                cpu = peer.cpu_seconds() - cpu
            finally:
                load.kill()
                load.wait()
        rows = [list(map(int, line.split())) for line in log.read_text().splitlines()]
        ended = max([start + took for start, _, took in rows] or [ended])
        valid = len(rows) == count and all(status == 204 for _, status, _ in rows) and b" 204 " in first
        return {"last_ms": (ended - began) / 1000, "cpu_us": cpu * 1e6, "pss_kib": pss, "valid": valid}

    def gather(self, peer, count, token, log):
        """Writes over HTTP/2, so that a crowd needs no file for each at either end."""
        clients = max(1, min(count, 100))
        command = ["taskset", "-c", self.cpus("load"), "h2load", "-t1", f"-c{clients}", f"-m{math.ceil(count / clients)}", f"-n{count}",
                   "-H", ":method: PUT", "-H", f"Fencing-Token: {token}", f"--log-file={log}", f"http://127.0.0.1:{peer.port}/large/crowd"]
        return subprocess.Popen(command if count else ["true"], stdout=subprocess.DEVNULL)

    # -- connections ------------------------------------------------------------------------

    def connections(self):
        self.idle()
        self.stop()
        self.streams()

    def idle(self):
        """Connections of HTTP/1.1 that have sent one PUT each and nothing since."""
        peer, count, work = self.palisade(), self.args.crowd, {**DEFAULT}
        token = self.new_token()
        self.wrk(peer, work, token, 60, fill=work["keys"])
        rows = {"without": self.writes(peer, "connections", "without", work, token)}
        before = peer.memory_kib()
        clients, valid = [], True
        try:
            for _ in range(count):
                client = socket.create_connection(("127.0.0.1", peer.port), 10)
                clients.append(client)
                client.sendall(f"PUT /small/0000000 HTTP/1.1\r\nHost: load.test\r\nFencing-Token: {token}\r\nContent-Length: 1024\r\n\r\n".encode() + b"x" * 1024)
                valid &= b" 204 " in client.recv(4096)
            grown = peer.memory_kib() - before
            rows["with"] = self.writes(peer, "connections", "with", work, token)
            valid &= all(self.open(client) for client in clients)
        finally:
            for client in clients:
                client.close()
        rows["after"] = self.writes(peer, "connections", "after", work, token)
        row = self.note("connections", idle=count, before_kib=before, grown_kib=grown, bytes_each=grown * 1024 / count, valid=valid)
        print(f"\n### {count:,} idle connections\n\n{self.beside(rows, {'without': 'before them', 'with': 'beside them', 'after': 'after them'})}\n")
        print(f"They take {row['bytes_each']:,.0f} bytes each: Pss {before / 1024:.1f} MiB without and {(before + grown) / 1024:.1f} MiB with them"
              f" ({'all' if valid else 'NOT all'} were answered and stayed open).\n")

    @staticmethod
    def open(client):
        client.setblocking(False)
        try:
            return client.recv(1) != b""
        except BlockingIOError:
            return True

    def writes(self, peer, part, when, work, token):
        rows = []
        for number in range(1, self.args.rounds + 1):
            got = self.measure("put", work, peer, token)
            rows.append(self.note(part, when=when, round=number, **got))
        return rows

    @staticmethod
    def beside(rows, words):
        lines = [[words[when], *(report.shown(report.median(found, field), digits, by) for field, digits, by in
                                 (("per_cpu_s", 0, 1), ("rps", 0, 1), ("p50_us", 0, 1), ("p99_us", 0, 1), ("pss_kib", 1, 1024))),
                  f"{sum(row['valid'] for row in found)}/{len(found)}"] for when, found in rows.items()]
        return report.table(["accepted PUT 1 KiB, 1,000 keys", "req/CPU-s", "rps", "p50 us", "p99 us", "Pss MiB", "valid"], lines)

    def streams(self):
        """The same PUTs over HTTP/2 on one connection and on a hundred, and over HTTP/1.1."""
        peer, token = self.palisade(), self.new_token()
        self.wrk(peer, DEFAULT, token, 60, fill=DEFAULT["keys"])
        body, targets = self.folder / "1k.bin", self.folder / "targets"
        body.write_bytes(b"x" * 1024)
        targets.write_text("".join(f"http://127.0.0.1:{peer.port}/small/{key:07}\n" for key in range(DEFAULT["keys"])))
        shapes = {"HTTP/2, 1 connection, 100 streams": ["-c1", "-m100"], "HTTP/2, 100 connections, 1 stream": ["-c100", "-m1"],
                  "HTTP/1.1, 100 connections": ["--h1", "-c100"]}
        rows, count = {shape: [] for shape in shapes}, 20_000
        for number in range(self.args.rounds + 1):
            for shape, words in shapes.items():
                cpu, began = peer.cpu_seconds(), time.monotonic()
                command = ["taskset", "-c", self.cpus("load"), "h2load", "-t1", *words, f"-n{count}", "-i", targets, "-d", body,
                           "-H", ":method: PUT", "-H", f"Fencing-Token: {token}"]
                said = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout
                row = {"per_cpu_s": count / (peer.cpu_seconds() - cpu), "rps": count / (time.monotonic() - began),
                       "pss_kib": peer.memory_kib(), "valid": f"status codes: {count} 2xx" in said}
                if number > 0:  # the first round warms
                    rows[shape].append(self.note("streams", shape=shape, round=number, **row))
        lines = [[shape, *(report.shown(report.median(found, field), digits, by) for field, digits, by in
                           (("per_cpu_s", 0, 1), ("rps", 0, 1), ("pss_kib", 1, 1024))), f"{sum(row['valid'] for row in found)}/{len(found)}"]
                 for shape, found in rows.items()]
        print(f"\n### Connections or streams\n\n{report.table(['accepted PUT 1 KiB, 1,000 keys', 'req/CPU-s', 'rps', 'Pss MiB', 'valid'], lines)}\n")

    # -- doubt ------------------------------------------------------------------------------

    def doubt(self):
        """A store answers 500 to a write of each key, which settles nothing, for an hour."""
        peer, token, count = self.palisade(lifetime="1h"), self.new_token(), self.args.doubts
        self.wrk(peer, DEFAULT, token, 60, fill=DEFAULT["keys"])
        rows = {"without": self.writes(peer, "doubt", "without", DEFAULT, token)}
        before = peer.memory_kib()
        self.wrk(peer, {**DEFAULT, "prefix": "/failing/", "keys": count}, token, 300, fill=count)
        doubted, grown = peer.standing()["in_doubt_keys"], peer.memory_kib() - before
        rows["with"] = self.writes(peer, "doubt", "with", DEFAULT, token)
        kept = peer.standing()["keys_in_memory"] - doubted
        row = self.note("doubt", in_doubt=doubted, others_in_memory=kept, grown_kib=grown, bytes_each=grown * 1024 / max(1, doubted), valid=doubted == count)
        print(f"\n### {doubted:,} keys in doubt\n\n{self.beside(rows, {'without': 'before them', 'with': 'beside them'})}\n")
        print(f"They take {row['bytes_each']:,.0f} bytes each. Of the 1,000 other keys {kept} are in memory at the end.\n")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("part", choices=[*PARTS, "all"])
    p.add_argument("--least", type=int, default=1000, help="keys of `keys`")
    p.add_argument("--most", type=int, default=1_000_000, help="keys of `keys`; 10000000 makes a store of 450 MiB")
    p.add_argument("--crowd", type=int, default=10_000, help="of `waiters` and `connections`; needs `ulimit -n` above it")
    p.add_argument("--doubts", type=int, default=100_000, help="of `doubt`")
    p.add_argument("--cache", default="64MiB", help="of the store")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=int, default=2, help="of each run")
    p.add_argument("--pin", choices=["split", "none"], default="split", help="split: palisade on core 0, load and upstream on core 1")
    p.add_argument("--palisade", default=str(ROOT / "target/release/palisade"))
    p.set_defaults(palisade_b=None, peers=None)
    p.add_argument("--results", default="growth-results.jsonl", help="appended to")
    p.add_argument("--dir", help="where configurations and states are kept for the while: on a real disk, for raises")
    return p.parse_args()


def main():
    args = arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < args.crowd + 1000:
        raise SystemExit(f"files are limited to {hard} (ulimit -n): too few for --crowd {args.crowd}")
    signal.signal(signal.SIGTERM, lambda *_: exit(1))  # so that what was started is ended
    growth = Growth(args)
    try:
        for part in PARTS if args.part == "all" else [args.part]:
            growth.run(part)
    finally:
        growth.stop()
        shutil.rmtree(growth.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
