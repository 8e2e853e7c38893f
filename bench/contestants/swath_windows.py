"""Swath's `read_windows`, which reads many windows in one call."""

from collections.abc import Iterator
from typing import Any

from contestants import swath_package
from contestants.swath_package import swath

version = swath_package.version
ORIGIN = swath_package.ORIGIN


def windows(job: Any) -> Iterator[Any]:
    bands = job.true_pixels.shape[2]
    jobs = [(job.path, tuple(window), band) for window in job.windows for band in range(bands)]
    batch = swath.read_windows(jobs, threads=job.threads)
    yield from batch.reshape(-1, bands, *batch.shape[1:])


def open_window(job: Any) -> Iterator[Any]:
    bands = job.true_pixels.shape[2]
    jobs = [(path, tuple(job.windows[0]), band) for path in job.paths for band in range(bands)]
    batch = swath.read_windows(jobs, threads=job.threads)
    yield from batch.reshape(-1, bands, *batch.shape[1:])


def small_files(job: Any) -> Iterator[Any]:
    window = (0, 0, *job.true_pixels.shape[:2])
    yield from swath.read_windows([(path, window) for path in job.paths], threads=job.threads)
