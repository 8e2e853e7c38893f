"""Settings from environment variables: numbers and switches whose names begin with SWATH_."""

from __future__ import annotations

import os


def number(name: str, default: int, *, least: int = 1) -> int:
    """Returns `SWATH_<name>` as a whole number of at most 63 bits, or the default if it is no number or too small."""
    try:
        value = int(os.environ.get(f"SWATH_{name}", ""))
    except ValueError:
        return default
    return min(value, (1 << 63) - 1) if value >= least else default


def workers() -> int:
    """Returns the number of concurrent requests."""
    return number("HTTP_WORKERS", 8)


def seconds(name: str, default: float) -> float:
    """Returns `SWATH_<name>` as a time in seconds, or the default if it is not a positive number."""
    try:
        value = float(os.environ.get(f"SWATH_{name}", ""))
    except ValueError:
        return default
    return value if 0 < value < float("inf") else default


def switched_on(name: str) -> bool:
    """Whether `SWATH_<name>` is 1, true, yes or on."""
    return os.environ.get(f"SWATH_{name}", "").strip().lower() in {"1", "true", "yes", "on"}


def words(name: str) -> tuple[str, ...]:
    """Returns the words of `SWATH_<name>`, which commas separate, in lower case."""
    return tuple(word.strip().lower() for word in os.environ.get(f"SWATH_{name}", "").split(",") if word.strip())


def is_strict() -> bool:
    """Whether SWATH_STRICT turns fallbacks (to the CPU, to holes in mosaics) into errors."""
    return switched_on("STRICT")
