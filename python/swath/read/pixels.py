"""The pixels of a plan as an indexable object, on which dask arrays and xarray's lazy variables are built."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._swath import File, default_threads
from .plan import ReadPlan, Window
from .source import Handle

Key = int | np.integer[Any] | slice | npt.NDArray[np.integer[Any]]


class Pixels:
    """Reads pixels when they are indexed, and only those.

    It works in any thread and process, because its handle can be pickled.
    """

    __slots__ = ("handle", "plan")

    def __init__(self, handle: Handle, plan: ReadPlan) -> None:
        # Overviews may be in a separate file.
        self.handle = handle.with_sidecar(".ovr") if plan.level else handle
        self.plan = plan

    @property
    def shape(self) -> tuple[int, ...]:
        return self.plan.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.plan.dtype

    @property
    def ndim(self) -> int:
        return len(self.plan.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Key | tuple[Key, ...]) -> npt.NDArray[Any]:
        """Accepts integers, slices with any step and one-dimensional index arrays; each applies to its own axis."""
        keys = key if isinstance(key, tuple) else (key,)
        keys += (slice(None),) * (self.ndim - len(keys))
        axes = [_Axis(k, size) for k, size in zip(keys, self.shape, strict=True)]
        counts = tuple(len(axis.indices) for axis in axes)
        if 0 in counts:
            pixels = self.empty(counts)
        else:
            with _share_of_threads(self.plan.threads) as threads:
                pixels = self._read(axes, replace(self.plan, threads=threads))
        return pixels[tuple(0 if axis.is_integer else slice(None) for axis in axes)]

    def _read(self, axes: list[_Axis], plan: ReadPlan) -> npt.NDArray[Any]:
        y, x = plan.axes
        rows, columns = axes[y], axes[x]
        file = self.handle.file()
        if not plan.flat:
            plan = plan.of_bands(axes[2 if plan.bands_last else 0].indices)
        first, last = rows.span
        if last - first <= 2 * len(rows.indices):
            return columns.pick(rows.pick(self._decode(plan, file, plan.part(rows.span, columns.span)), y), x)
        # For rows far apart, reads one row of blocks at a time, so that memory is needed only for the selected rows.
        out = self.empty(tuple(len(axis.indices) for axis in axes))
        for place, near in rows.by_block(plan.window[0], file.levels[plan.level][2]):
            part = self._decode(plan, file, plan.part(near.span, columns.span))
            out[(slice(None),) * y + (place,)] = columns.pick(near.pick(part, y), x)
        return out

    def empty(self, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Returns an uninitialized array for pixels, in the memory where this object puts them."""
        return np.empty(shape, self.dtype)

    def _decode(self, plan: ReadPlan, file: File, window: Window) -> npt.NDArray[Any]:
        """Returns the pixels of a window of the file."""
        return plan.read(file, window)

    def __dask_tokenize__(self) -> object:
        return "swath.Pixels", self.handle.__dask_tokenize__(), repr(self.plan)


class _Axis:
    """The selected indices of one axis, in their order."""

    __slots__ = ("indices", "is_integer")

    def __init__(self, key: Key, size: int) -> None:
        self.is_integer = not isinstance(key, slice | np.ndarray)
        self.indices: Sequence[int]
        if isinstance(key, slice):
            self.indices = range(*key.indices(size))
            return
        wanted = [int(key)] if not isinstance(key, np.ndarray) else key.tolist()
        for index in wanted:
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of range for an axis of {size}")
        self.indices = [index % size for index in wanted]

    @property
    def span(self) -> tuple[int, int]:
        """Returns the shortest range that contains all indices."""
        if isinstance(self.indices, range):
            ends = self.indices[0], self.indices[-1]
            return min(ends), max(ends) + 1
        return min(self.indices), max(self.indices) + 1

    def pick(self, read: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
        """Selects the indices from an array that has the span along an axis.

        A small part is copied, so that the rest can be freed.
        """
        if not isinstance(self.indices, range):
            return read.take([i - self.span[0] for i in self.indices], axis)
        step = self.indices.step if len(self.indices) > 1 else 1
        if step == 1:
            return read
        picked = read[(slice(None),) * axis + (slice(None, None, step),)]
        return picked if step == -1 else picked.copy()

    def by_block(self, start: int, length: int) -> Iterator[tuple[slice, _Axis]]:
        """Splits the indices into pieces within one block each: the positions of a piece in the result, and the
        piece.

        `start` is the first pixel of the axis.
        """
        begin = 0
        for end in range(1, len(self.indices) + 1):
            here = (start + self.indices[begin]) // length
            if end == len(self.indices) or (start + self.indices[end]) // length != here:
                piece = _Axis.__new__(_Axis)
                piece.is_integer, piece.indices = False, self.indices[begin:end]
                yield slice(begin, end), piece
                begin = end


_running = 0
_running_lock = threading.Lock()


@contextmanager
def _share_of_threads(asked: int | None) -> Iterator[int | None]:
    """Returns the number of threads for each of the concurrent reads: schedulers run as many tasks as there are
    cores.

    A read that runs alone gets None, so that the engine chooses by the amount of work.
    """
    global _running
    if asked is not None:
        yield asked
        return
    with _running_lock:
        _running += 1
        share = None if _running == 1 else max(1, default_threads() // _running)
    try:
        yield share
    finally:
        with _running_lock:
            _running -= 1


def _after_fork() -> None:
    global _running, _running_lock
    _running, _running_lock = 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
