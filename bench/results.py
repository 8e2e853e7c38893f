"""The results of a run: the machine, the versions, the raw numbers, and what is computed from them."""

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from contestants import CONTESTANTS

FOLDER = Path(__file__).resolve().parent
ROLES = {contestant.name: contestant.role for contestant in CONTESTANTS}


def cpu_model() -> str:
    """The name of the processor, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def commit() -> str:
    argv = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=FOLDER, check=False)
    return done.stdout.strip()


def save(name: str, race: Any, rows: list[dict]) -> Path:
    """Writes the raw results of one run."""
    conditions = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory_bytes(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": commit(),
        "versions": race.versions,
        "left_out": race.absent,
    }
    for row in rows:
        for entry in row["contestants"].values():
            entry["seconds"] = [float(f"{value:.5g}") for value in entry["seconds"]]
            entry["cpu"] = [float(f"{value:.4g}") for value in entry["cpu"]]
    path = FOLDER / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    # One row per line keeps the file small and its history readable.
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(json.dumps(conditions, indent=1)[:-2] + f',\n "rows": [\n{lines}\n]}}\n')
    return path


def load(name: str) -> dict:
    return json.loads((FOLDER / "results" / f"{name}.json").read_text())


def best(row: dict, name: str, key: str = "seconds") -> float | None:
    values = row["contestants"].get(name, {}).get(key)
    return min(values) if values else None


def measured(row: dict, role: str) -> dict[str, float]:
    """Seconds of the contestants of one role, the fastest first."""
    names = [name for name in row["contestants"] if ROLES[name] == role]
    found = {name: seconds for name in names if (seconds := best(row, name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def best_peer(row: dict) -> str | None:
    return next(iter(measured(row, "peer")), None)


def ours(row: dict) -> str | None:
    """The entry of Swath that stands for the row: the package, or the command if the package takes no part."""
    return next((name for name in ("Swath", "Swath command") if best(row, name) is not None), None)


def ratio(row: dict, name: str | None = None, key: str = "seconds") -> float | None:
    """How many times faster Swath is than the best peer. For CPU time: than the same peer."""
    name, peer = name or ours(row), best_peer(row)
    if peer is None or name is None:
        return None
    mine, theirs = best(row, name, key), best(row, peer, key)
    return theirs / mine if mine and theirs else None


def to_limit(row: dict) -> float | None:
    """Swath's speed divided by that of the limit."""
    name = ours(row)
    mine, limit = name and best(row, name), best(row, "limit")
    return limit / mine if mine and limit else None


def speed(row: dict, seconds: float) -> str:
    """In the unit of the row."""
    value = row["amount"] / seconds / (1e6 if row["unit"] == "MB/s" else 1)
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def line(row: dict) -> str:
    """One line for the terminal."""
    everyone = measured(row, "swath") | measured(row, "peer") | measured(row, "limit")
    speeds = ", ".join(f"{name} {speed(row, seconds)}" for name, seconds in everyone.items())
    ratios = f"{number(ratio(row)):>5} (cpu {number(ratio(row, key='cpu')):>5}, limit {number(to_limit(row)):>4})"
    return f"{row['kind']}, {row['title']}, {row['threads']}: {ratios}  {speeds} {row['unit']}"
