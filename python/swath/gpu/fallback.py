"""What is warned about and reported when the CPU does the work of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._warn import warn
from ..errors import DeviceError, GeoTIFFFallbackWarning

if TYPE_CHECKING:
    from .._swath import Report


class GPUFallbackWarning(GeoTIFFFallbackWarning, RuntimeWarning):
    """The CPU did what a GPU was asked to do. The message says why."""


class MissingGPUError(DeviceError, ImportError):
    """There is neither a GPU nor CuPy, whose absence is an ImportError to those who look for one."""


def with_fallback(report: Report, stage: str, error: Exception) -> Report:
    """A report of what the CPU did in place of a GPU."""
    entry = {"stage": stage, "reason": str(error), "blocks": report["blocks"]}
    return {**report, "fallbacks": [*report["fallbacks"], entry]}


def warn_of_fallbacks(report: Report) -> None:
    """Say what of a read or write was left to the CPU."""
    for entry in report["fallbacks"]:
        blocks = f" ({entry['blocks']} blocks)" if entry["blocks"] else ""
        warn_of_fallback(f"{entry['stage']} was left to the CPU{blocks}: {entry['reason']}")


def warn_of_fallback(message: str) -> None:
    warn(message, GPUFallbackWarning)
