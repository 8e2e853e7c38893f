"""What every benchmark writes down: the machine, the versions, the raw numbers."""

import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import rasterio

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "tests" / "peers"))

from binary import Swath  # noqa: E402  (the tests' runner measures peak memory; the path above leads to it)

RESULTS = FOLDER / "results"


def cpu_model() -> str:
    """The processor's own name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def first_line(argv: list[str]) -> str:
    """The first line a command prints, or nothing."""
    done = subprocess.run(argv, capture_output=True, text=True, cwd=FOLDER, check=False)
    return next(iter(done.stdout.splitlines()), "") if done.returncode == 0 else ""


def conditions(swath: Swath) -> dict[str, object]:
    """What a number needs beside it to mean anything."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "commit": first_line(["git", "rev-parse", "--short", "HEAD"]),
        "versions": {
            "swath": swath.run("--version").stdout.strip(),
            "rasterio": rasterio.__version__,
            "gdal": rasterio.__gdal_version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "GDAL_CACHEMAX": os.environ.get("GDAL_CACHEMAX", "GDAL's default, 5 % of memory"),
    }


def save(name: str, swath: Swath, rows: list[dict]) -> Path:
    """Write the raw results of one run."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(conditions(swath) | {"rows": rows}, indent=1) + "\n")
    return path


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as their widest cell; the first one left, the others right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """The same as the documentation wants it."""
    lines = [f"| {' | '.join(row)} |" for row in [header, *rows]]
    return "\n".join([lines[0], f"|---|{'---:|' * (len(header) - 1)}", *lines[1:]])
