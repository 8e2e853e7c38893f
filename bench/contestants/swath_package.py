"""Swath's Python package: `open_geotiff` and `to_geotiff`."""

from collections.abc import Iterator
from typing import Any

import xarray  # noqa: F401 - Swath would import it in the first call

import swath
from fresh_process import first_open as in_fresh_process

ORIGIN = swath.__file__
"""Shown in the terminal: a run must not measure another build than the one intended."""


def version() -> str:
    return swath.__version__


def full_read(job: Any) -> Any:
    return swath.open_geotiff(job.path, threads=job.threads).values


def windows(job: Any) -> Iterator[Any]:
    """Swath has no handle that a caller opens. It caches the header of the file between the calls."""
    for window in job.windows:
        yield swath.open_geotiff(job.path, window=tuple(window), threads=job.threads).values


def windows_reopened(job: Any) -> Iterator[Any]:
    return windows(job)


def open_window(job: Any) -> Iterator[Any]:
    window = tuple(job.windows[0])
    for path in job.paths:
        yield swath.open_geotiff(path, window=window, threads=job.threads).values


def headers(job: Any) -> Iterator[None]:
    for path in job.paths:
        yield swath.read_info(path) and None


def small_files(job: Any) -> Iterator[Any]:
    for path in job.paths:
        yield swath.open_geotiff(path).values


def first_open(job: Any) -> dict:
    return in_fresh_process("import swath", "swath.open_geotiff(path).values", job)


def write_options(job: Any) -> dict[str, Any]:
    options = {"compression": job.codec, "predictor": job.predictor, "tile_size": job.tile, "threads": job.threads}
    return options | ({} if job.level is None else {"compression_level": job.level})


def prepare_write(job: Any) -> None:
    job.input = job.data_array(job.array)


def write(job: Any) -> None:
    swath.to_geotiff(job.input, job.target, **write_options(job))


prepare_cog = prepare_write


def cog(job: Any) -> None:
    swath.to_geotiff(job.input, job.target, cog=True, **write_options(job))


def prepare_stream_cog(job: Any) -> None:
    job.input = job.data_array(job.dask_array())


stream_cog = cog
