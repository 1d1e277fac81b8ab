"""Starting, stopping and metering of what is compared. Knows nothing of workloads."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

CONF = Path(__file__).parent / "conf"
WORKERS = 2

# name -> (family, whether it refuses stale tokens). What a family is configured with lies in conf/.
PEERS = {
    "nginx": ("nginx", False),
    "haproxy": ("haproxy", False),
    "nginx-412": ("nginx", False),
    "haproxy-412": ("haproxy", False),
    "nginx-lua": ("nginx", True),
    "nginx-redis": ("nginx", True),
    "haproxy-stick": ("haproxy", True),
    "palisade": ("palisade", True),
    "palisade-b": ("palisade", True),
}
FENCES = [name for name, (_, fences) in PEERS.items() if fences]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def nginx_modules():
    words = subprocess.run(["nginx", "-V"], capture_output=True, text=True, timeout=10).stderr.split()
    return next((w.split("=", 1)[1] for w in words if w.startswith("--modules-path=")), "/usr/lib/nginx/modules")


class Peer:
    """One peer (or the upstream) with all its processes, pinned to `cpus`."""

    def __init__(self, name, folder, cpus, upstream=0, binary=None):
        self.name, self.folder, self.cpus, self.binary = name, folder, cpus, binary
        self.port = free_port()
        self.state = folder / f"{name}.state"
        shutil.rmtree(self.state, ignore_errors=True)
        self.state.mkdir()
        self.values = {
            "NAME": name, "DIR": folder, "STATE": self.state, "PORT": self.port, "ADMIN": free_port(),
            "UPSTREAM": upstream, "WORKERS": WORKERS, "MODULES": nginx_modules(),
        }
        self.processes = []

    def start(self):
        family = "nginx" if self.name == "upstream" else PEERS[self.name][0]
        for command in getattr(self, f"_{family}")():
            with open(self.folder / f"{self.name}.log", "ab") as log:
                command = ["taskset", "-c", self.cpus, *map(str, command)]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.processes.append(process)
        self._wait_for(lambda: self._listens(self.port))
        return self

    def _nginx(self):
        if self.name == "upstream":
            return [self._nginx_command(self._render("upstream.conf.in"))]
        commands, load = [], ""
        if self.name in ("nginx-lua", "nginx-redis"):
            load = "load_module @MODULES@/ndk_http_module.so; load_module @MODULES@/ngx_http_lua_module.so;"
        if self.name == "nginx-redis":
            commands.append(["redis-server", self._render("redis.conf.in")])
        parts = {"LOAD": load, "HTTP": self._part("http"), "LOCATION": self._part("location")}
        commands.append(self._nginx_command(self._render("nginx.conf.in", parts)))
        return commands

    def _nginx_command(self, config):
        return ["nginx", "-p", self.folder, "-e", self.folder / f"{self.name}.err", "-c", config]

    def _haproxy(self):
        parts = {"FRONTEND": self._part("frontend"), "END": self._part("end")}
        return [["haproxy", "-db", "-f", self._render("haproxy.cfg.in", parts)]]

    def _palisade(self):
        return [[self.binary, "serve", "--fresh", "--config", self._render("palisade.toml.in")]]

    def _part(self, kind):
        path = CONF / f"{self.name}.{kind}.in"
        return path.read_text() if path.exists() else ""

    def _render(self, template, parts=None):
        text = (CONF / template).read_text()
        for name, value in {**(parts or {}), **self.values}.items():
            text = text.replace(f"@{name}@", str(value))
        path = self.folder / f"{self.name}-{template.removesuffix('.in')}"
        path.write_text(text)
        return path

    @staticmethod
    def _listens(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def _wait_for(self, ready):
        end = time.monotonic() + 20
        while not ready():
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes):
                log = (self.folder / f"{self.name}.log").read_text(errors="replace")[-2000:]
                self.stop()
                raise SystemExit(f"{self.name} does not start:\n{log}")
            time.sleep(0.05)

    def stop(self):
        """Ends the processes that were started here, and no others."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []

    def tree(self):
        """The processes started here and all their descendants."""
        found, queue = [], [p.pid for p in self.processes]
        while queue:
            pid = queue.pop()
            found.append(pid)
            for task in Path(f"/proc/{pid}/task").glob("*"):
                queue += map(int, self._read(task / "children").split())
        return found

    def cpu_seconds(self, without=None):
        """CPU time of the whole tree so far, by the scheduler's own account in nanoseconds.

        `without`: a thread's name, as of one that only serves who measures."""
        tasks = (t for pid in self.tree() for t in Path(f"/proc/{pid}/task").glob("*"))
        tasks = (t for t in tasks if without is None or self._read(t / "comm").strip() != without)
        return sum(int((self._read(t / "schedstat").split() or [0])[0]) for t in tasks) / 1e9

    def memory_kib(self, field="Pss"):
        """Proportional memory of the tree; with `VmHWM` the sum of its processes' peaks."""
        file = "status" if field == "VmHWM" else "smaps_rollup"
        lines = (line for pid in self.tree() for line in self._read(Path(f"/proc/{pid}/{file}")).splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))

    @staticmethod
    def _read(path):
        try:
            return path.read_text()
        except OSError:
            return ""  # a process or thread that has ended meanwhile
