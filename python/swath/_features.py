"""The table of features and how well each is tested."""

from __future__ import annotations

from . import _swath

#: Features other than codecs. An `experimental` feature has not run on the hardware that it is for.
_OTHERS = {
    "reader.local_file": "stable",
    "reader.windowed": "stable",
    "reader.dask": "stable",
    "reader.local_cog": "stable",
    "reader.sidecar_ovr": "stable",
    "reader.unpack": "stable",
    "reader.allow_rotated": "stable",
    "reader.allow_unparseable_crs": "stable",
    "reader.xarray": "stable",
    "reader.read_windows": "stable",
    "reader.vrt": "advanced",
    "reader.fsspec": "advanced",
    "reader.http": "advanced",
    "reader.http_cog": "advanced",
    "reader.coregister": "experimental",
    "reader.gpu": "experimental",
    "writer.local_file": "stable",
    "writer.cog": "stable",
    "writer.overviews": "stable",
    "writer.bigtiff": "stable",
    "writer.bigtiff_cog": "stable",
    "writer.dask": "stable",
    "writer.dask_cog": "stable",
    "writer.gdal_metadata_xml": "stable",
    "writer.extra_tags": "stable",
    "writer.pack": "stable",
    "writer.vrt": "advanced",
    "writer.fsspec": "advanced",
    "writer.gpu": "experimental",
}


def _tiers() -> dict[str, str]:
    codecs = {
        f"codec.{name}": "stable"
        for codec in _swath.codecs()
        if codec["read"] and codec["write"]
        for name in (codec["name"], *codec["aliases"])
    }
    return codecs | _OTHERS


SUPPORTED_FEATURES: dict[str, str] = _tiers()
"""Each feature and its tier: stable, advanced (depends on servers or file systems), experimental (never run on real
hardware). The codecs are those that the engine can both read and write."""
