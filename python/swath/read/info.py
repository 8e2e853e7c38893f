"""`read_info`: the metadata of a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .request import coerce
from .source import is_remote, open_source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from .._swath import Description


def read_info(
    source: str | os.PathLike[str] | bytes | BinaryIO, *, storage_options: Mapping[str, Any] | None = None
) -> Description:
    """Read the metadata of a GeoTIFF or COG, and no pixels.

    Use it to look at many files: it needs neither xarray nor dask, and takes a fraction of the time of
    `open_geotiff(source, chunks="auto")`.

    Parameters
    ----------
    source : str, os.PathLike, bytes or binary file object
        A path, an http(s) or fsspec URL, the content of a file, or an object with `read`, `seek` and `tell`. A mosaic
        (VRT) has no header of its own and is an error.
    storage_options : mapping, optional
        Options for the fsspec filesystem of a URL.

    Returns
    -------
    dict
        Size (`width`, `height`, `bands`, `dtype`, `levels`), storage (`compression`, `predictor`, `block`, ...),
        georeferencing (`transform`, `epsg`, `wkt`, `gcps`, ...), `nodata`, `metadata`, `band_info`, all `tags`, and
        the `warnings` about the file. Values of sidecars (`.aux.xml`, world files) are included.

    Examples
    --------
    >>> info = swath.read_info("dem.tif")
    >>> info["height"], info["width"], info["epsg"]
    """
    asked = coerce(source)
    remote: dict[str, Any] = {}
    if is_remote(asked):
        # Of a large object only the headers are read.
        remote = {"max_cloud_bytes": None}
        if storage_options is not None:
            remote["storage_options"] = storage_options
    return open_source(asked, **remote).describe()
