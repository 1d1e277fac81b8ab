"""Medians, and ratios to nginx within one round, from the lines that load.py writes."""

import json
import statistics
from pathlib import Path

BASES = ("nginx", "nginx-412")

# What each fence leaves out, to be read beside every number.
GUARANTEES = {
    "nginx": "no fence",
    "haproxy": "no fence",
    "nginx-412": "no fence: refuses everything",
    "haproxy-412": "no fence: refuses everything",
    "nginx-lua": "forgets at a restart; two workers may pass each other; exact to 2^53; no drain, no doubt",
    "nginx-redis": "durable; exact to 2^53; no drain, no doubt",
    "haproxy-stick": "forgets at a restart; two threads may pass each other; exact to 2^31; no drain, no doubt",
    "palisade": "R1 to R12",
    "palisade-b": "R1 to R12",
}
# workload -> columns: (title, field, digits, divisor)
REQUESTS = [("req/CPU-s", "per_cpu_s", 0, 1), ("CPU us", "cpu_us", 1, 1), ("rps", "rps", 0, 1),
            ("core busy", "busy", 2, 1), ("p50 us", "p50_us", 0, 1), ("p99 us", "p99_us", 0, 1), ("Pss MiB", "pss_kib", 1, 1024)]
COLUMNS = {
    "stream": [("MiB/s", "mib_s", 0, 1), ("CPU s/GiB", "cpu_s_gib", 2, 1), ("peak RSS MiB", "peak_kib", 1, 1024), ("Pss MiB", "pss_kib", 1, 1024)],
    "rate": [("p50 us", "p50_us", 0, 1), ("p99 us", "p99_us", 0, 1), ("CPU us", "cpu_us", 1, 1)],
    "memory": [("idle MiB", "idle_kib", 1, 1024), ("256 connections MiB", "connections_kib", 1, 1024),
               ("with keys MiB", "full_kib", 1, 1024), ("bytes a key", "bytes_key", 0, 1)],
}
# workload -> ratios to the base: (title, field)
RATIOS = {"stream": [("x MiB/s", "mib_s"), ("x CPU", "per_cpu_s")], "rate": [("x p50", "p50_us"), ("x p99", "p99_us")], "memory": []}
DEFAULT_RATIOS = [("x CPU", "per_cpu_s"), ("x rps", "rps")]


def median(rows, field):
    values = [row[field] for row in rows if row.get(field) is not None]
    return statistics.median(values) if values else None


def ratio(rows, base, field):
    """The median over rounds of peer / base in that round: the machine's speed drifts from round to round."""
    bases = {(row["block"], row["round"]): row for row in base}
    pairs = [(row, bases.get((row["block"], row["round"]))) for row in rows]
    values = [row[field] / other[field] for row, other in pairs if other and other.get(field) and row.get(field)]
    return statistics.median(values) if values else None


def shown(value, digits=0, divisor=1):
    return "-" if value is None else f"{value / divisor:,.{digits}f}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def check(rows):
    heads = ["fence"] + [f for f in rows[0] if f.startswith("2^")]
    text = table(heads, [[row["peer"]] + [row[f] for f in heads[1:]] for row in rows])
    return f"\nWith the mark at 2^N + 1: the mark twice, one below it, then 7; a fence answers 204 204 412 412.\n\n{text}\n"


def write(results):
    """Markdown on stdout, and the same figures as JSON beside the results."""
    rows = [json.loads(line) for line in Path(results).read_text().splitlines()]
    fences = [row for row in rows if row["workload"] == "check"]
    if fences:
        print(check(list({row["peer"]: row for row in fences}.values())))
    groups, summary = {}, []
    for row in rows:
        if row["workload"] != "check":
            groups.setdefault((row["workload"], row["pin"]), {}).setdefault(row["peer"], []).append(row)
    for (workload, pin), peers in groups.items():
        print(f"\n### {workload} (pin: {pin})\n")
        print(one(workload, pin, peers, summary))
        loads = [row["load_average"] for rows in peers.values() for row in rows]
        print(f"\nload average meanwhile {min(loads):.1f} to {max(loads):.1f}")
    out = Path(results).with_suffix(".summary.json")
    out.write_text("[\n" + ",\n".join(map(json.dumps, summary)) + "\n]\n")


def one(workload, pin, peers, summary):
    base = next((peers[name] for name in BASES if name in peers), None)
    ratios = RATIOS.get(workload, DEFAULT_RATIOS) if base else []
    columns, lines = COLUMNS.get(workload, REQUESTS), []
    for peer, rows in peers.items():
        good = [row for row in rows if row["valid"]]
        ratio_of = {title: ratio(good, base, field) for title, field in ratios}
        figures = {field: median(good, field) for _, field, _, _ in columns}
        summary.append({"workload": workload, "pin": pin, "peer": peer, "rounds": len(rows), "valid": len(good), **ratio_of, **figures})
        lines.append([peer, *(shown(ratio_of[t], 2) for t, _ in ratios), *(shown(figures[f], d, by) for _, f, d, by in columns),
                      f"{len(good)}/{len(rows)}", GUARANTEES[peer]])
    return table(["peer", *(t for t, _ in ratios), *(t for t, _, _, _ in columns), "valid", "what it promises"], lines)
