"""A small parent for the processes under test.

Linux counts the memory of the parent, up to the moment of exec, as the child's peak. A parent that holds numpy,
rasterio and a few arrays would hide a child's own peak below some hundred megabytes. This bare interpreter therefore
starts the binary: it reads one JSON request per line and answers with the result of the child.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time


def run(argv: list[str], timeout: float) -> dict:
    """Runs argv to its end, or kills it after `timeout` seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        timer = threading.Timer(timeout, child.kill)
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return {
            "code": child.returncode,
            "seconds": seconds,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_bytes": usage.ru_maxrss * 1024,
            "stdout": out.read().decode("utf-8", "replace"),
            "stderr": err.read().decode("utf-8", "replace"),
        }


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(run(request["argv"], request["timeout"])), flush=True)


if __name__ == "__main__":
    main()
