"""The command `swath`. The time is that of the whole process."""

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "interop" / "support"))

# The runner of the interop tests measures the peak memory of the process alone.
from binary import Swath  # noqa: E402

SWATH = Swath()
ORIGIN = SWATH.binary


def version() -> str:
    return SWATH.run("--version").stdout.strip()


def measured(*arguments: object) -> dict:
    run = SWATH.succeed(*arguments, timeout=900)
    return {"seconds": run.seconds, "cpu": run.cpu_seconds, "memory": run.peak_bytes}


def headers(job: Any) -> dict:
    """One process per file; the answer is their sum."""
    runs = [measured("info", path, "--json") for path in job.paths]
    return {key: sum(run[key] for run in runs) for key in ("seconds", "cpu")} | {"memory": runs[0]["memory"]}


def convert_cog(job: Any) -> dict:
    codec = ["--compression", job.codec, "--predictor", job.predictor, "--compression-level", job.level]
    shape = ["--cog", "--tile", job.tile, "--resampling", "mean", "--threads", job.threads, "--overwrite"]
    return measured("convert", job.path, job.target, *codec, *shape)
