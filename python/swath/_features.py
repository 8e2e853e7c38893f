"""What Swath can do, and how sure one may be of it."""

from __future__ import annotations

from . import _swath

#: Names of codecs beside those of the engine.
_ALIASES = {"jpeg2000": "j2k"}

#: What is not a codec. `experimental` is what has not run on the hardware it is for.
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
    codecs = {}
    for name, can in _swath.features().items():
        if can["read"] and can["write"]:
            codecs[f"codec.{name}"] = "stable"
            if name in _ALIASES:
                codecs[f"codec.{_ALIASES[name]}"] = "stable"
    return codecs | _OTHERS


SUPPORTED_FEATURES: dict[str, str] = _tiers()
"""Each ability and its tier: stable, advanced (what depends on others: servers, file systems), experimental (never
run on real hardware). Codecs are those of the engine that can be both read and written."""
