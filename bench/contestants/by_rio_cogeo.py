"""rio-cogeo, which calls rasterio."""

from importlib.metadata import version as version_of
from typing import Any

from rasterio.io import MemoryFile
from rio_cogeo.cogeo import cog_translate

from contestants import gdal


def version() -> str:
    return version_of("rio-cogeo")


def translate(source: Any, job: Any) -> None:
    profile = {key.lower(): value for key, value in gdal.gtiff_options(job).items()} | {"driver": "GTiff"}
    cog_translate(source, job.target, profile, overview_resampling="average", in_memory=False, quiet=True)


def convert_cog(job: Any) -> None:
    translate(job.path, job)


def prepare_cog(job: Any) -> None:
    job.bands_first  # noqa: B018 - makes the array before the clock starts


def cog(job: Any) -> None:
    with MemoryFile() as memory, memory.open(driver="GTiff", **gdal.profile(job.bands_first)) as dataset:
        dataset.write(job.bands_first)
        translate(dataset, job)
