"""xarray-spatial's geotiff module, used through its public functions. It has no option for the number of threads."""

from collections.abc import Iterator
from importlib.metadata import version as version_of
from typing import Any

from xrspatial.geotiff import open_geotiff, to_geotiff

from fresh_process import first_open as in_fresh_process


def version() -> str:
    return version_of("xarray-spatial")


def full_read(job: Any) -> Any:
    """With the options that it requires for codecs such as JPEG and LERC."""
    return open_geotiff(job.path, allow_experimental_codecs=True, allow_internal_only_jpeg=True).values


def windows_reopened(job: Any) -> Iterator[Any]:
    for window in job.windows:
        yield open_geotiff(job.path, window=tuple(window)).values


def open_window(job: Any) -> Iterator[Any]:
    for path in job.paths:
        yield open_geotiff(path, window=tuple(job.windows[0])).values


def small_files(job: Any) -> Iterator[Any]:
    for path in job.paths:
        yield open_geotiff(path).values


def first_open(job: Any) -> dict:
    return in_fresh_process("from xrspatial.geotiff import open_geotiff", "open_geotiff(path).values", job)


def options(job: Any) -> dict[str, Any]:
    found = {"compression": job.codec, "tile_size": job.tile, "predictor": job.predictor}
    return found | ({} if job.level is None else {"compression_level": job.level})


def prepare_write(job: Any) -> None:
    job.input = job.data_array(job.array)


def write(job: Any) -> None:
    to_geotiff(job.input, job.target, **options(job))


prepare_cog = prepare_write


def cog(job: Any) -> None:
    to_geotiff(job.input, job.target, cog=True, **options(job))


def prepare_stream_cog(job: Any) -> None:
    job.input = job.data_array(job.dask_array())


stream_cog = cog
