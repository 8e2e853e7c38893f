"""Warnings and reports for work that the CPU does instead of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._warn import warn
from ..errors import DeviceError, GeoTIFFFallbackWarning

if TYPE_CHECKING:
    from .._swath import Report


class GPUFallbackWarning(GeoTIFFFallbackWarning, RuntimeWarning):
    """The CPU did work that was requested on a GPU. The message states the reason."""


class MissingGPUError(DeviceError, ImportError):
    """Neither a GPU nor CuPy was found. It is also an ImportError, which callers that test for CuPy expect."""


def with_fallback(report: Report, stage: str, error: Exception) -> Report:
    """Returns a report of work that the CPU did instead of a GPU."""
    entry = {"stage": stage, "reason": str(error), "blocks": report["blocks"]}
    return {**report, "fallbacks": [*report["fallbacks"], entry]}


def warn_of_fallbacks(report: Report) -> None:
    """Warns about each part of a read or write that the CPU did."""
    for entry in report["fallbacks"]:
        blocks = f" ({entry['blocks']} blocks)" if entry["blocks"] else ""
        warn_of_fallback(f"{entry['stage']} was left to the CPU{blocks}: {entry['reason']}")


def warn_of_fallback(message: str) -> None:
    warn(message, GPUFallbackWarning)
