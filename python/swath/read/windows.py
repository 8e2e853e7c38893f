"""`read_windows`: reads many small windows of many files into one array, as loaders of training data need."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from .._report import remember
from .._swath import File, default_threads, has_window
from ..errors import VRTUnsupportedError
from .request import check_level_type, is_vrt, threads_of
from .source import Handle, Source, is_remote, local_path, open_source

if TYPE_CHECKING:
    import numpy.typing as npt

Window = tuple[int, int, int, int]
Job = tuple[Source | File | Handle, Sequence[int]] | tuple[Source | File | Handle, Sequence[int], int]
"""A file, a window (row start, column start, row stop, column stop) and optionally a band."""

FAR_THREADS = 8
"""The minimum number of threads for remote files, whose threads mostly wait."""


def read_windows(
    jobs: Iterable[Job],
    out: npt.NDArray[Any] | None = None,
    *,
    band: int = 0,
    overview_level: int | None = None,
    threads: int | None = None,
) -> npt.NDArray[Any]:
    """Read one band of many windows of equal shape in parallel.

    Parameters
    ----------
    jobs : iterable of tuples
        (file, window) or (file, window, band). A file is a path, a URL, bytes or an opened file; a file that occurs in
        several jobs is opened once. A window is (row_start, col_start, row_stop, col_stop) and must lie inside the
        image.
    out : ndarray, optional
        Array (job, y, x) that receives the pixels. Pixels of another type are cast to the type of `out` if that type
        can represent all values of theirs. Without `out` all files must have the same type.
    band : int, default 0
        The band, counted from 0, of the jobs that do not name one.
    overview_level : int, optional
        The level to read, as in `open_geotiff`; windows are in pixels of that level.
    threads : int, optional
        Number of decoding threads. None means the number of cores, and at least 8 for remote files.

    Returns
    -------
    ndarray
        An array (job, y, x); `out` if it was given.

    Examples
    --------
    >>> batch = swath.read_windows([("a.tif", (0, 0, 256, 256)), ("b.tif", (512, 0, 768, 256), 2)])
    """
    check_level_type(overview_level)
    level = int(overview_level or 0)
    jobs = list(jobs)
    threads = threads_of(threads)
    if threads is None and any(_is_far(job) for job in jobs):
        threads = max(FAR_THREADS, default_threads())
    ready = _open_jobs(jobs, band, level)
    if out is None:
        out = np.empty(_shape_of(ready), _type_of(ready))
    elif not isinstance(out, np.ndarray) or out.shape != _shape_of(ready, out.shape):
        raise ValueError(f"out must be an array of shape {_shape_of(ready)}, got {getattr(out, 'shape', out)!r}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    remember(_read(ready, out, level, threads))
    return out


def _is_far(job: Job) -> bool:
    source = job[0] if isinstance(job, tuple) and job else None
    return is_remote(source.source if isinstance(source, Handle) else source)


def _open_jobs(jobs: Iterable[Job], band: int, level: int) -> list[tuple[File, Window, int]]:
    """Opens the files of the jobs and checks that their windows and bands exist."""
    opened: dict[str, File] = {}
    ready: list[tuple[File, Window, int]] = []
    for number, job in enumerate(jobs):
        try:
            source, window, wanted = job if len(job) == 3 else (*job, None)
            wanted = band if wanted is None else wanted
            top, left, bottom, right = map(operator.index, window)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"job {number} is {job!r}: a job is (file, (row start, column start, row stop, column stop)) "
                "or the same with a band"
            ) from None
        if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
            raise TypeError(f"job {number}: band must be an int, got {type(wanted).__name__}: {wanted!r}")
        file = _open(source, opened)
        if not 0 <= level < len(file.levels):
            raise ValueError(
                f"job {number}: overview_level {level} is out of range, the file has {len(file.levels)} levels"
            )
        height, width = file.levels[level][:2]
        if not has_window((top, left, bottom, right), height, width):
            raise ValueError(
                f"job {number}: window={(top, left, bottom, right)} is outside the source extent ({height}x{width}) "
                f"of {_name(source)} or has non-positive size."
            )
        if not 0 <= wanted < file.bands:
            raise IndexError(f"job {number}: band={wanted} is out of range, {_name(source)} has {file.bands} bands")
        if ready and (bottom - top, right - left) != _shape_of(ready)[1:]:
            raise ValueError(
                f"job {number}: window={(top, left, bottom, right)} is {bottom - top}x{right - left}, but the first is "
                "{}x{}: all windows must have one shape".format(*_shape_of(ready)[1:])
            )
        ready.append((file, (top, left, bottom, right), int(wanted)))
    return ready


def _open(source: Source | File | Handle, opened: dict[str, File]) -> File:
    if isinstance(source, File):
        return source
    if isinstance(source, Handle):
        return source.file()
    name = source if isinstance(source, str) else local_path(source)
    if name is None:
        return open_source(source)
    if is_vrt(name):
        raise VRTUnsupportedError(f"read_windows reads TIFF files, and {name} is a mosaic: open it with open_geotiff")
    if name not in opened:
        opened[name] = open_source(source)
    return opened[name]


def _name(source: Source | File | Handle) -> str:
    return source if isinstance(source, str) else repr(source)


def _shape_of(ready: list[tuple[File, Window, int]], default: tuple[int, ...] = (0, 0, 0)) -> tuple[int, ...]:
    if not ready:
        return (0, *default[1:3]) if len(default) == 3 else (0, 0, 0)
    top, left, bottom, right = ready[0][1]
    return len(ready), bottom - top, right - left


def _type_of(ready: list[tuple[File, Window, int]]) -> np.dtype[Any]:
    if not ready:
        raise ValueError("there are no jobs; pass out= to define the shape and type of the result")
    first = ready[0][0].dtype
    for number, (file, _, _) in enumerate(ready):
        if file.dtype != first:
            raise ValueError(
                f"job {number} is of type {file.dtype}, but the first is {first}: pass out= to choose the type"
            )
    return np.dtype(first)


def _read(
    ready: list[tuple[File, Window, int]], out: npt.NDArray[Any], level: int, threads: int | None
) -> _swath.Report:
    by_type: dict[str, list[int]] = {}
    for number, (file, _, _) in enumerate(ready):
        by_type.setdefault(file.dtype, []).append(number)
    for dtype in by_type:
        if not _holds(out.dtype, np.dtype(dtype)):
            number = by_type[dtype][0]
            raise ValueError(
                f"job {number} is of type {dtype}, which cannot be cast to the {out.dtype} of out without loss"
            )
    report: _swath.Report = {}
    for dtype, numbers in by_type.items():
        whole = len(numbers) == len(ready)
        if whole and out.dtype == dtype and out.dtype.isnative and out.flags.c_contiguous:
            return _swath.read_windows(ready, out, level=level, threads=threads)
        part = np.empty((len(numbers), *out.shape[1:]), dtype)
        report = _swath.read_windows([ready[n] for n in numbers], part, level=level, threads=threads)
        _put(part, out, numbers)
    return report


def _holds(target: np.dtype[Any], source: np.dtype[Any]) -> bool:
    """Whether a type can represent all values of another type, possibly with fewer digits."""
    if target.kind not in "fc" or source.kind not in "biu":
        return np.can_cast(source, target, "same_kind" if target.kind in "fc" else "safe")
    return source.kind == "b" or float(np.iinfo(source).max) <= float(np.finfo(target).max)


def _put(part: npt.NDArray[Any], out: npt.NDArray[Any], numbers: list[int]) -> None:
    """Stores pixels at the positions of these jobs.

    Raises ValueError if a float is too large for the type of `out`, because it would become infinite.
    """
    try:
        with np.errstate(over="raise"):
            out[numbers] = part
    except FloatingPointError:
        where = next(n for n, block in zip(numbers, part, strict=True) if _overflows(block, out.dtype))
        raise ValueError(
            f"job {where} has numbers that are too large for the {out.dtype} of out: pass an out of type {part.dtype}"
        ) from None


def _overflows(block: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    with np.errstate(over="ignore"):
        return bool((np.isfinite(block) & ~np.isfinite(block.astype(dtype))).any())
