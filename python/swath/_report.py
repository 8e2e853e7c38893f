"""The report of the last read or write of each thread."""

from __future__ import annotations

import threading
from typing import Any

_of_thread = threading.local()


def remember(report: dict[str, Any]) -> dict[str, Any]:
    """Stores a report for `last_report`."""
    _of_thread.report = report
    return report


def last_report() -> dict[str, Any] | None:
    """Return the report of the last read or write that this thread started.

    The report has the device, codec, threads, blocks, bytes, seconds and fallbacks. It is None if this thread has not
    read or written anything yet. Chunks of dask arrays are read in the threads of the scheduler, so their reports are
    not here.
    """
    report: dict[str, Any] | None = getattr(_of_thread, "report", None)
    return report
