"""odc-geo: `write_cog` for arrays, `save_cog_with_dask` for dask arrays."""

from importlib.metadata import version as version_of
from typing import Any

import dask
import odc.geo.xr  # noqa: F401 - adds .odc to DataArray
from odc.geo.cog import save_cog_with_dask, write_cog

from contestants import gdal


def version() -> str:
    return version_of("odc-geo")


def prepare_cog(job: Any) -> None:
    job.input = job.data_array(job.bands_first if job.array.ndim == 3 else job.array).odc.assign_crs("EPSG:32633")


def cog(job: Any) -> None:
    options = gdal.gtiff_options(job)
    for key in ("TILED", "BLOCKXSIZE", "BLOCKYSIZE", "INTERLEAVE"):
        del options[key]
    options = {key.lower(): value for key, value in options.items()}
    write_cog(job.input, job.target, blocksize=job.tile, overview_resampling="average", overwrite=True, **options)


def prepare_stream_cog(job: Any) -> None:
    job.input = job.data_array(job.dask_array()).odc.assign_crs("EPSG:32633")


def stream_cog(job: Any) -> None:
    codec = {"compression": job.codec, "level": job.level, "predictor": job.predictor, "blocksize": [job.tile]}
    task = save_cog_with_dask(job.input, job.target, overview_resampling="average", **codec)
    dask.compute(task, scheduler="threads", num_workers=job.threads)
