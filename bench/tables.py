"""Markdown tables of a run: each row against the best peer and the limit, and all contestants."""

from collections.abc import Iterable

from results import best, best_peer, measured, number, ours, ratio, speed, to_limit
from targets import TARGETS


def markdown(header: list[str], lines: Iterable[list[str]], left: int = 1) -> str:
    """A Markdown table whose first columns are aligned to the left and the others to the right."""
    rows = [f"| {' | '.join(line)} |" for line in [header, *lines]]
    return "\n".join([rows[0], "|" + "---|" * left + "---:|" * (len(header) - left), *rows[1:]])


def megabytes(value: float | None) -> str:
    return "" if not value else f"{value / 1e6:.0f}"


def compared(rows: list[dict]) -> str:
    """Swath against the best peer and the limit."""
    header = ["row", "best peer", "threads", "Swath", "best peer", "unit", "ratio", "CPU ratio", "of the limit"]
    lines = []
    for row in rows:
        mine, peer = ours(row), best_peer(row)
        if not (mine and peer):
            continue
        speeds = [speed(row, best(row, mine)), speed(row, best(row, peer)), row["unit"]]
        found = [number(ratio(row)), number(ratio(row, key="cpu")), number(to_limit(row))]
        lines.append([row["title"], peer, str(row["threads"]), *speeds, *found])
    return markdown(header, lines, left=2)


def everyone(rows: list[dict]) -> str:
    """The speed of every contestant. An empty cell means that the contestant does not support the row."""
    names = list(dict.fromkeys(name for row in rows for name, entry in row["contestants"].items() if entry["seconds"]))
    lines = []
    for row in rows:
        seconds = [best(row, name) for name in names]
        cells = [speed(row, value) if value else "" for value in seconds]
        lines.append([row["title"], str(row["threads"]), *cells])
    return markdown([rows[0]["unit"], "threads", *names], lines)


def memories(rows: list[dict]) -> str:
    """Peak memory over the start of every contestant, in MB, and the file size of the writers."""
    names = list(dict.fromkeys(name for row in rows for name in row["contestants"] if name != "limit"))
    lines = []
    for row in rows:
        lines.append([row["title"], *(megabytes(best(row, name, "memory")) for name in names)])
    return markdown(["MB", *names], lines)


def file_sizes(rows: list[dict]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row["contestants"] if name != "limit"))
    lines = []
    for row in rows:
        sizes = [row["contestants"].get(name, {}).get("file_bytes", 0) for name in names]
        lines.append([row["title"], *(f"{size / 1e6:.1f}" if size else "" for size in sizes)])
    return markdown(["MB", *names], lines)


def machine(rows: list[dict]) -> str:
    lines = [[row["title"], str(row["threads"]), speed(row, measured(row, "limit")["limit"])] for row in rows]
    return markdown(["limit", "threads", "MB/s"], lines)


def targets(rows: list[dict]) -> str:
    return markdown(["target", "measured, worst row", ""], [target.check(rows) for target in TARGETS], left=3)


def not_timed(rows: list[dict]) -> list[str]:
    """Contestants whose result was wrong or that failed: the rows, and the first reason."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        for name, entry in row["contestants"].items():
            if entry["note"].startswith(("wrong", "failed")):
                found.setdefault((row["kind"], name), {}).setdefault(row["title"], entry["note"])
    return [
        f"{kind}, {name}: {', '.join(titles)} ({next(iter(titles.values()))[:120]})"
        for (kind, name), titles in found.items()
    ]
