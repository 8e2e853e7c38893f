"""Limits against hostile files: those of the process and those of one call. docs/limits.md describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from . import _swath


def set_limits(limits: Mapping[str, int] | None) -> dict[str, int]:
    """Set limits for all files that this process opens or reads from now on.

    They replace what an earlier call has set, and override the environment. None removes them. `open_geotiff` has
    `limits=` for a single file.

    Parameters
    ----------
    limits : mapping of str to int, or None
        Names and values, such as {"max_block_memory": 256 << 20}. docs/limits.md lists the names.

    Returns
    -------
    dict
        What the last call has set.

    Examples
    --------
    >>> swath.set_limits({"max_pixels": 100_000_000, "max_block_memory": 64 << 20})
    {}
    """
    before = _swath.set_limits(None if limits is None else dict(limits))
    # Headers that are kept were read with the earlier limits.
    from .read.header import forget

    forget()
    return before


def get_limits() -> dict[str, int]:
    """Return all limits that are in force: the defaults, changed by the environment and by `set_limits`."""
    return dict(_swath.get_limits())


@contextmanager
def limits(**values: int) -> Iterator[None]:
    """Set limits for the process within a `with` block, in addition to those that are set.

    Other threads see them too. What a lazy array reads later has the limits of that time.

    Examples
    --------
    >>> with swath.limits(max_pixels=1_000_000):
    ...     swath.open_geotiff("upload.tif")
    """
    before = set_limits({**_swath.process_limits(), **values})
    try:
        yield
    finally:
        set_limits(before)


def in_force(limits: Mapping[str, int] | None = None) -> tuple[tuple[str, int], ...]:
    """Returns all limits for a file that is opened now: those of the process, changed by those of the call."""
    return tuple(_swath.get_limits(None if limits is None else dict(limits)))


def max_pixels(limits: Mapping[str, int] | None = None) -> int:
    """Returns the limit on the pixels of a read if the call does not set it by `max_pixels=`."""
    return dict(in_force(limits))["max_pixels"]


def limit_of_mosaic(name: str, default: int, limits: Mapping[str, int] | None = None) -> int:
    """Returns a limit for the document of a mosaic, which has a default of its own."""
    return _swath.changed_limits(None if limits is None else dict(limits)).get(name, default)
