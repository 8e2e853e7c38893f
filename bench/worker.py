"""The process of one contestant: reads a job per line from stdin, runs it, and prints the measurement as JSON.

`python worker.py CONTESTANT [--pin]`. Imports happen before the first job, so they are not timed. With `--pin` the
process runs on one core: the way to give one thread to a package that has no such option.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from job import Job


def status(name: str) -> int:
    """A size in bytes that Linux reports for this process: VmRSS is the current size, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def difference(found: Any, true: np.ndarray, allowed: float) -> str:
    """How the pixels differ from the true ones, or an empty string. The bands may be the first or the last axis."""
    found = np.asarray(found)
    if found.ndim == 2:
        found = found[..., None]
    elif found.shape[0] == true.shape[2] and found.shape[1:] == true.shape[:2]:
        found = np.moveaxis(found, 0, 2)
    if found.shape != true.shape or found.dtype != true.dtype:
        return f"{found.shape} {found.dtype} instead of {true.shape} {true.dtype}"
    if np.array_equal(found, true):
        return ""
    error = float(np.mean([np.abs(found[i].astype("f8") - true[i]).mean() for i in range(0, len(true), 64)]))
    # Decoders of a lossy codec round differently.
    return "" if allowed and error <= 1.1 * allowed else f"pixels are off by {error:.3g} on average"


def check(job: Job, result: Any) -> str:
    """Compares the result of a read with the source. Writes are compared by the program that started this one."""
    if result is None or isinstance(result, dict):
        return ""
    if not isinstance(result, Iterator):
        return difference(result, job.true_pixels, job.mean_error)
    count = 0
    windows = job.windows or [[0, 0, *job.true_pixels.shape[:2]]] * len(job.paths)
    for count, pixels in enumerate(result, 1):
        if pixels is not None:
            row, col, row_stop, col_stop = windows[(count - 1) % len(windows)]
            wrong = difference(pixels, job.true_pixels[row:row_stop, col:col_stop], job.mean_error)
            if wrong:
                return f"window {count - 1}: {wrong}"
    return "" if count == max(len(job.windows), len(job.paths)) else f"{count} results"


def run(contestant: Any, request: dict) -> dict:
    checked = request.pop("check", False)
    job = Job(**request)
    operation = getattr(contestant, job.op, None)
    if operation is None:
        return {"unsupported": "no such operation"}
    prepare = getattr(contestant, f"prepare_{job.op}", None)
    if prepare:
        prepare(job)
    if checked and not job.target:
        wrong = check(job, operation(job))
        return {"wrong": wrong} if wrong else {}
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before, start, cpu = status("VmRSS"), time.perf_counter(), cpu_seconds()
    result = operation(job)
    if isinstance(result, Iterator):
        for _ in result:
            pass
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    measured = {"seconds": seconds, "cpu": cpu, "memory": status("VmHWM") - before}
    # A contestant that starts a process of its own measures that process.
    return measured | result if isinstance(result, dict) else measured


def main() -> None:
    warnings.simplefilter("ignore")
    if "--pin" in sys.argv:
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    # Libraries print to stdout; only measurements may go to the caller.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        contestant = importlib.import_module(f"contestants.{sys.argv[1]}")
        hello: dict = {"version": contestant.version(), "origin": getattr(contestant, "ORIGIN", "")}
    except ImportError as error:
        hello = {"absent": str(error)}
    print(json.dumps(hello), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = run(contestant, json.loads(line))
        except NotImplementedError as error:
            answer = {"unsupported": str(error)}
        except Exception as error:  # noqa: BLE001 - any failure of a contestant is a result
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
