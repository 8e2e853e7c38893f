"""`open_geotiff` of a `.vrt` file: checks the mosaic and returns its pixels as a DataArray."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from .._limits import in_force
from .._limits import max_pixels as default_max_pixels
from .._report import remember
from .._settings import is_strict
from ..errors import (
    GeoTIFFFallbackWarning,
    MixedBandMetadataError,
    UnparseableCRSError,
)
from ..gpu.arrays import require_gpu, to_device
from ..read.attrs import CONTRACT, encoding_of, nodata_attrs, stands_for_missing
from ..read.crs import WKT_WORD
from ..read.georef import Georef, placed
from ..read.nodata import Finish, Number
from ..read.pixels import Pixels
from ..read.plan import ReadPlan
from ..read.request import bands_of, check_max_pixels, window_of
from ..read.source import Identity, identity_of
from ..xarray.dask import chunk_sizes, dask_array
from ..xarray.dataarray import data_array
from ..xarray.state import ReadState
from ..xarray.structured import Structured
from .canvas import Layer, open_member, other_system
from .document import Rect, Source, Vrt, read_vrt
from .source import Mosaic

if TYPE_CHECKING:
    import dask.array
    import xarray as xr

    from ..xarray.dataarray import Coords

COMPARED = 16
"""The number of sources whose CRS is checked when a mosaic is opened. The others are checked when they are read."""


def open_vrt(
    path: str,
    *,
    window: Any = None,
    bbox: Any = None,
    band: Any = None,
    chunks: Any = None,
    gpu: bool = False,
    max_pixels: Any = None,
    missing_sources: str = "raise",
    band_nodata: str | None = None,
    masked: bool = False,
    dtype: Any = None,
    default_name: str | None = None,
    allow_rotated: object = False,
    allow_unparseable_crs: object = False,
    allow_invalid_nodata: object = False,
    threads: int | None = None,
    report: dict[str, Any] | None = None,
    limits: dict[str, int] | None = None,
) -> xr.DataArray:
    """Reads a mosaic. The arguments are those of `open_geotiff`, which has checked some of them."""
    if gpu:
        require_gpu()
    lenient = missing_sources == "warn"
    vrt = _whole_sources(read_vrt(path, limits), lenient, limits)
    place = _place(vrt, allow_unparseable_crs)
    place.check_rotation(allow_rotated)
    bands, has_axis = _bands(vrt, band)
    nodata = _nodata(vrt, bands, band_nodata)
    system = _system(vrt, place, limits)
    size = vrt.height, vrt.width
    region = window_of(window, *size, "VRT") if bbox is None else place.window_of(bbox, *size)
    mosaic, finish = _masking(Mosaic(vrt, lenient, system, limits), bands, nodata, masked, dtype)
    plan = ReadPlan(
        window=region,
        level=0,
        bands=bands,
        flat=not has_axis,
        finish=finish,
        samples=len(bands),
        max_pixels=check_max_pixels(max_pixels, default_max_pixels(limits)),
        threads=threads,
    )
    data, seen, holes = _pixels(mosaic, plan, chunks, {} if report is None else report)
    if gpu:
        data = _upload(data)
    attrs = {
        "_swath_contract": CONTRACT,
        **({"vrt_holes": Structured(holes)} if holes else {}),
        **({"_swath_bands": len(vrt.bands)} if len(vrt.bands) > 1 else {}),
        **place.attrs(region),
        **nodata_attrs(finish, nodata, masked=masked, cast=dtype is not None, seen=seen),
    }
    state = ReadState(
        dtype=finish.source,
        shape=(plan.shape[0], plan.shape[1]),
        nodata=nodata,
        masked=stands_for_missing(finish, nodata, masked),
        cast=dtype is not None,
        bands=len(vrt.bands),
        sample=bands[0] if plan.flat and len(vrt.bands) > 1 else None,
    )
    return _array(data, plan, place, attrs, default_name, encoding_of(state, finish))


def mosaic_of(path: str) -> Mosaic:
    """Returns a mosaic for `open_rasterio`, with any georeferencing and any nodata values."""
    vrt = _whole_sources(read_vrt(path), False)
    code = None if vrt.srs is None else _swath.epsg_of_wkt(vrt.srs)
    return Mosaic(vrt, False, _system(vrt, Georef(epsg=code)))


def _array(
    data: Any, plan: ReadPlan, place: Georef, attrs: dict[str, Any], name: str | None, encoding: dict[str, Any]
) -> xr.DataArray:
    y, x = place.coords(plan.window)
    coords: Coords = {"y": y, "x": x}
    if not plan.flat:
        coords["band"] = np.array(plan.bands)
    elif "_swath_bands" in attrs:
        coords["band"] = np.array(plan.bands[0])
    return data_array(data, plan.dims, coords, attrs, name, encoding)


def _whole_sources(vrt: Vrt, lenient: bool, limits: dict[str, int] | None = None) -> Vrt:
    """Adds the size of sources that are used whole, which only their headers contain."""
    if all(source.src is not None for band in vrt.bands for source in band.sources):
        return vrt

    def known(source: Source) -> Source:
        if source.src is not None:
            return source
        try:
            file = _swath.File.open(source.path, limits)
            size = Rect(0, 0, file.width, file.height)
        except (OSError, ValueError):
            if not lenient:
                raise
            size = Rect(0, 0, vrt.width, vrt.height)
        return replace(source, src=size, dst=size)

    return replace(vrt, bands=tuple(replace(band, sources=tuple(map(known, band.sources))) for band in vrt.bands))


def _place(vrt: Vrt, allow_unparseable: object) -> Georef:
    epsg, wkt = (None, None) if vrt.srs is None else (_epsg(vrt, vrt.srs, allow_unparseable), vrt.srs)
    place = Georef(point=vrt.raster_type == "point", epsg=epsg, wkt=wkt)
    return placed(place, vrt.transform, f"VRT {vrt.path!r} GeoTransform")


def _epsg(vrt: Vrt, text: str, allow_unparseable: object) -> int | None:
    """Returns the EPSG code of a CRS, or None if it has no code."""
    code = _swath.epsg_of_wkt(text)
    if code is not None:
        return code
    why = "it does not look like WKT"
    try:
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    except ImportError:
        if WKT_WORD.match(text):
            return None
    else:
        try:
            found: int | None = CRS.from_user_input(text).to_epsg()
            return found
        except CRSError as error:
            why = str(error)
    wrong = f"VRT {vrt.path!r} declares a CRS string that pyproj cannot parse: {text!r} ({why})."
    if not allow_unparseable:
        raise UnparseableCRSError(
            f"{wrong} Pass allow_unparseable_crs=True to read the VRT anyway, or re-export it with a WKT-formatted "
            "<SRS>."
        )
    warnings.warn(f"{wrong} attrs['crs_wkt'] has it as it is.", GeoTIFFFallbackWarning, stacklevel=6)
    return None


def _bands(vrt: Vrt, band: Any) -> tuple[tuple[int, ...], bool]:
    """Returns the bands to read and whether the result has a band axis."""
    try:
        bands, has_axis = bands_of(band, [about.description for about in vrt.bands])
    except TypeError as error:
        raise ValueError(str(error)) from None
    except IndexError:
        raise ValueError(f"band index {band} out of range for VRT with {len(vrt.bands)} band(s)") from None
    if len({vrt.bands[number].dtype for number in bands}) > 1:
        names = ", ".join(f"band {number + 1}: {vrt.bands[number].dtype.name}" for number in bands)
        raise MixedBandMetadataError(
            f"VRT {vrt.path!r}: VRT bands declare conflicting dtypes; one dataType is needed for all but there are "
            f"{names}. Select one with band=."
        )
    return bands, has_axis


def _nodata(vrt: Vrt, bands: tuple[int, ...], band_nodata: str | None) -> Number | None:
    """Returns the nodata value for attrs: that of the selected band, or of the first."""
    distinct = {str(about.nodata): about.nodata for about in vrt.bands if about.nodata is not None}
    if len(distinct) > 1 and band_nodata is None:
        raise MixedBandMetadataError(
            f"VRT source declares disagreeing per-band nodata sentinels: {list(distinct.values())}. Flattening to a "
            "single value would silently collide with another band's valid pixels. Pass band_nodata='first' to take "
            "the first band's, or rebuild the VRT with a single shared sentinel."
        )
    return vrt.bands[bands[0]].nodata


def _masking(
    mosaic: Mosaic, bands: tuple[int, ...], nodata: Number | None, masked: bool, dtype: Any
) -> tuple[Mosaic, Finish]:
    """Returns how nodata becomes NaN: with one value for all bands, or in the mosaic if each band has its own."""
    chosen = [mosaic.vrt.bands[band] for band in bands]
    source = chosen[0].dtype
    if not masked or len({str(about.nodata) for about in chosen}) == 1:
        return mosaic, Finish.of(source, nodata, masked=masked, dtype=dtype)
    own = mosaic.masked()
    return own, Finish.of(own.dtype, float("nan"), masked=True, dtype=dtype)


def _system(vrt: Vrt, place: Georef, limits: dict[str, int] | None = None) -> int | None:
    """Returns the EPSG code that all sources must have, after checking some of them."""
    code = place.epsg
    if code is None and vrt.srs is not None:
        return None
    paths = dict.fromkeys(source.path for band in vrt.bands for source in band.sources)
    now = in_force(limits)
    for path in islice(paths, COMPARED):
        try:
            _, own = open_member(path, now)
        except (OSError, ValueError):
            continue  # Reading will report the problem.
        if code is not None and own is not None and own != code:
            raise other_system(path, own, code)
        code = code or own
    return code


def _pixels(
    mosaic: Mosaic, plan: ReadPlan, chunks: Any, report: dict[str, Any]
) -> tuple[Any, bool | None, list[dict[str, Any]]]:
    """Returns the pixels, whether nodata occurs if that is known, and the holes."""
    if chunks is not None:
        layers = mosaic.touching(plan.window, plan.bands)
        identities = [_identity(layer.source.path) for layer in layers]
        missing = [layer for layer, identity in zip(layers, identities, strict=True) if identity is None]
        holes = _holes(mosaic, missing)
        return _lazy(mosaic, plan, chunks, identities), None, holes
    raw, done = plan.read_raw(mosaic)  # type: ignore[arg-type]
    holes = done.pop("holes")
    report.update(done)
    remember(report)
    data, seen = plan.finish.apply_and_look(raw)
    return data, seen, holes


def _identity(path: str) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:
        return None


def _lazy(mosaic: Mosaic, plan: ReadPlan, chunks: Any, identities: list[Identity | None]) -> dask.array.Array:
    sizes = chunk_sizes(chunks, plan, mosaic.levels[0][2:])
    pixels = Pixels(mosaic, plan)  # type: ignore[arg-type]
    vrt = os.path.abspath(mosaic.vrt.path), mosaic.vrt.identity, identities, mosaic.lenient, mosaic.limits
    about = vrt, repr(replace(plan, threads=None)), sizes
    # A mosaic may have a hundred thousand sources, so it is one node of the graph to which all tasks refer.
    return dask_array(pixels, sizes, about, np.empty((0,) * pixels.ndim, plan.dtype), inline=False)


def _holes(mosaic: Mosaic, missing: list[Layer]) -> list[dict[str, Any]]:
    """Returns the holes that are known before the read: missing files."""
    holes = [hole for layer in missing for hole in layer.holes("FileNotFoundError: source file not found")]
    if holes and (is_strict() or not mosaic.lenient):
        some = ", ".join(f"{hole['source']!r} (band {hole['band']})" for hole in holes[:5])
        raise FileNotFoundError(
            f"VRT references missing source file(s) that intersect the requested window: {some}. The chunked VRT read "
            "stops before a partial mosaic can go unnoticed. Pass missing_sources='warn' (without SWATH_STRICT) to "
            f"leave holes, which are listed in attrs['vrt_holes']. {len(holes)} missing source(s) total."
        )
    if not mosaic.lenient:
        return []
    warnings.warn(
        "Chunked VRT read under missing_sources='warn': attrs['vrt_holes'] lists only missing files. A source that "
        "exists but cannot be decoded is found when its chunk is computed, which warns then; it is not in "
        "attrs['vrt_holes'].",
        GeoTIFFFallbackWarning,
        stacklevel=5,
    )
    return holes


def _upload(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        return to_device(data)
    return data.map_blocks(to_device, dtype=data.dtype, meta=to_device(data._meta))
