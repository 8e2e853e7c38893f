"""The report of a benchmark: the machine, the versions, the raw numbers."""

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
sys.path.insert(0, str(FOLDER.parent / "tests" / "interop" / "support"))

# The runner of the interop tests measures peak memory.
from binary import Swath  # noqa: E402

RESULTS = FOLDER / "results"


def cpu_model() -> str:
    """The name of the processor, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def first_line(argv: list[str]) -> str:
    """The first line that a command prints, or an empty string."""
    done = subprocess.run(argv, capture_output=True, text=True, cwd=FOLDER, check=False)
    return next(iter(done.stdout.splitlines()), "") if done.returncode == 0 else ""


def conditions(swath: Swath) -> dict[str, object]:
    """The conditions of a run, without which its numbers mean nothing."""
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
    """Writes the raw results of one run."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(conditions(swath) | {"rows": rows}, indent=1) + "\n")
    return path


def table(header: list[str], rows: list[list[str]]) -> str:
    """Formats columns as wide as their widest cell; the first column is left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Formats a Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in [header, *rows]]
    return "\n".join([lines[0], f"|---|{'---:|' * (len(header) - 1)}", *lines[1:]])
