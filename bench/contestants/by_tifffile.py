"""tifffile with imagecodecs."""

from collections.abc import Iterator
from typing import Any

import imagecodecs
import tifffile
import zarr

from fresh_process import first_open as in_fresh_process


def version() -> str:
    return f"tifffile {tifffile.__version__}, imagecodecs {imagecodecs.__version__}"


def full_read(job: Any) -> Any:
    return tifffile.imread(job.path, maxworkers=job.threads)


def windows(job: Any) -> Iterator[Any]:
    with tifffile.imread(job.path, aszarr=True, maxworkers=job.threads) as store:
        array = zarr.open(store, mode="r")
        for row, col, row_stop, col_stop in job.windows:
            yield array[row:row_stop, col:col_stop]


def headers(job: Any) -> Iterator[None]:
    for path in job.paths:
        with tifffile.TiffFile(path) as file:
            yield file.pages[0].geotiff_tags and None


def small_files(job: Any) -> Iterator[Any]:
    for path in job.paths:
        yield tifffile.imread(path)


def first_open(job: Any) -> dict:
    return in_fresh_process("import tifffile", "tifffile.imread(path)", job)


def prepare_write(job: Any) -> None:
    job.array  # noqa: B018 - loads the array before the clock starts


def write(job: Any) -> None:
    options = {"tile": (job.tile, job.tile), "maxworkers": job.threads, "metadata": None, "photometric": "minisblack"}
    if job.codec != "none":
        options |= {"compression": job.codec, "predictor": None if job.predictor == 1 else job.predictor}
    if job.level is not None:
        options["compressionargs"] = {"level": job.level}
    if job.array.ndim == 3:
        options["planarconfig"] = "contig"
    tifffile.imwrite(job.target, job.array, **options)
