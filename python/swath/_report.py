"""What the last read or write of this thread did."""

from __future__ import annotations

import threading
from typing import Any

_of_thread = threading.local()


def remember(report: dict[str, Any]) -> dict[str, Any]:
    """Keep a report for `last_report`."""
    _of_thread.report = report
    return report


def last_report() -> dict[str, Any] | None:
    """What the last read or write that this thread asked for did: device, codec, threads, blocks, bytes, seconds,
    fallbacks.

    None when this thread has read and written nothing yet. Reads of dask chunks happen in the threads of the
    scheduler.
    """
    report: dict[str, Any] | None = getattr(_of_thread, "report", None)
    return report
