"""async-geotiff. It has no option for the number of threads."""

import asyncio
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import async_geotiff
from async_tiff.store import LocalStore

LOOP = asyncio.new_event_loop()


def version() -> str:
    return version_of("async-geotiff")


async def opened(path: str) -> Any:
    where = Path(path)
    return await async_geotiff.GeoTIFF.open(where.name, store=LocalStore(str(where.parent)))


async def read(path: str) -> Any:
    return (await (await opened(path)).read()).data


async def read_window(file: Any, window: list[int]) -> Any:
    row, col, row_stop, col_stop = window
    place = async_geotiff.Window(col_off=col, row_off=row, width=col_stop - col, height=row_stop - row)
    return (await file.read(window=place)).data


def full_read(job: Any) -> Any:
    return LOOP.run_until_complete(read(job.path))


def windows(job: Any) -> Iterator[Any]:
    file = LOOP.run_until_complete(opened(job.path))
    for window in job.windows:
        yield LOOP.run_until_complete(read_window(file, window))


def windows_reopened(job: Any) -> Iterator[Any]:
    for window in job.windows:
        file = LOOP.run_until_complete(opened(job.path))
        yield LOOP.run_until_complete(read_window(file, window))


def open_window(job: Any) -> Iterator[Any]:
    for path in job.paths:
        file = LOOP.run_until_complete(opened(path))
        yield LOOP.run_until_complete(read_window(file, job.windows[0]))


def headers(job: Any) -> Iterator[None]:
    for path in job.paths:
        yield LOOP.run_until_complete(opened(path)).shape and None


def small_files(job: Any) -> Iterator[Any]:
    for path in job.paths:
        yield LOOP.run_until_complete(read(path))
