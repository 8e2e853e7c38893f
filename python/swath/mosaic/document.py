"""Parses a `.vrt` file that is a mosaic of GeoTIFF files. Everything else is refused here, before a pixel is read."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from .._limits import limit_of_mosaic
from .._xml import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse_xml
from ..errors import UnsupportedGeoTIFFFeatureError, VRTUnsupportedError
from ..read.nodata import Number, matchable, parse_nodata
from ..read.source import Identity, identity_of

DTYPES = {
    "Byte": "uint8",
    "Int8": "int8",
    "UInt16": "uint16",
    "Int16": "int16",
    "UInt32": "uint32",
    "Int32": "int32",
    "UInt64": "uint64",
    "Int64": "int64",
    "Float32": "float32",
    "Float64": "float64",
}
_REFUSED_IN_DATASET = ("MaskBand", "GCPList", "GDALWarpOptions", "PansharpeningOptions")
_REFUSED_IN_BAND = (
    "MaskBand",
    "PixelFunctionType",
    "PixelFunctionArguments",
    "PixelFunctionCode",
    "PixelFunctionLanguage",
    "SourceTransferType",
    "KernelFilteredSource",
    "AveragedSource",
    "NoDataFromMaskSource",
)
# Elements that describe a band and do not change its pixels.
_ABOUT_BAND = (
    "CategoryNames",
    "ColorInterp",
    "ColorTable",
    "Description",
    "GDALRasterAttributeTable",
    "HideNoDataValue",
    "Histograms",
    "Metadata",
    "NoDataValue",
    "Offset",
    "Overview",
    "Scale",
    "UnitType",
)
_REFUSED_IN_SOURCE = ("LUT", "Exponent", "ColorTableComponent")
_TRUE = ("1", "yes", "true", "on")
METADATA_DOMAIN, POINT_TRANSFORM = "SWATH", "POINT_TRANSFORM"
"""The metadata item in which a mosaic of points written by Swath stores the transform of the pixel centres."""


MAX_COORDINATE = 1 << 53
"""Larger numbers of pixels are not exact in XML readers that use floats, such as GDAL."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A part of a source or of the mosaic, in pixels; gdalbuildvrt writes fractions if grids differ."""

    x: float
    y: float
    width: float
    height: float

    def __str__(self) -> str:
        return f"(xOff={self.x:g}, yOff={self.y:g}, xSize={self.width:g}, ySize={self.height:g})"


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a band of a file and its position."""

    path: str
    """Absolute, without symbolic links, and inside an allowed folder."""
    band: int
    """Counted from 0."""
    src: Rect | None
    dst: Rect | None
    """Both are None if the whole file lies at the origin."""
    nodata: Number | None = None
    """Pixels of this value leave the pixels of earlier sources unchanged."""
    scale: float | None = None
    """None if values are not scaled."""
    offset: float = 0.0


@dataclass(frozen=True)
class Band:
    """A band of the mosaic: later sources cover earlier ones."""

    dtype: np.dtype[Any]
    nodata: Number | None
    sources: tuple[Source, ...]
    description: str | None = None
    units: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    """The offset and scale that unpack the band's values; reading does not apply them."""
    color: str = "undefined"
    tags: tuple[tuple[str, str], ...] = ()
    """Items of the default metadata domain."""


@dataclass(frozen=True, eq=False)
class Vrt:
    """A mosaic. It may have very many sources, so two mosaics are equal only if they are the same object."""

    path: str
    width: int
    height: int
    srs: str | None
    transform: tuple[float, float, float, float, float, float] | None
    """(a, b, c, d, e, f) as in the tags of a TIFF: for the corner of the first pixel, or its centre for points."""
    raster_type: str
    bands: tuple[Band, ...]
    identity: Identity
    """The identity of the file when it was parsed."""
    corners: tuple[float, float, float, float, float, float] | None = None
    """The transform of pixel corners, also for points, as GDAL reads it."""
    tags: tuple[tuple[str, str], ...] = ()
    """Items of the default metadata domain."""


def read_vrt(path: str, limits: dict[str, int] | None = None) -> Vrt:
    """Parses a mosaic without opening its sources."""
    roots = os.environ.get("SWATH_VRT_ALLOWED_ROOTS", "")
    limit = limit_of_mosaic("max_xml_bytes", 0, limits) or _max_xml_bytes()
    tree = (
        limit_of_mosaic("max_xml_depth", MAX_DEPTH, limits),
        limit_of_mosaic("max_xml_nodes", MAX_NODES, limits),
    )
    identity = identity_of(path)
    parse = _parsed if is_settled(identity) else _parsed.__wrapped__
    return parse(path, identity, os.getcwd(), limit, tree, roots)


def is_settled(identity: Identity) -> bool:
    """Whether a later change of a file would change its time: file times may have a resolution of one second."""
    changed = identity[-1]
    return isinstance(changed, int) and time.time_ns() - changed > 2_000_000_000


@lru_cache(maxsize=4)
def _parsed(path: str, identity: Identity, folder: str, limit: int, tree: tuple[int, int], roots: str) -> Vrt:
    """Caches parsed files, because windows of one mosaic are often read one after the other."""
    with Path(path).open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(
            f"VRT XML at {path!r} exceeds the {limit}-byte cap. "
            "Raise the cap by setting SWATH_VRT_MAX_XML_BYTES if this file is legitimate."
        )
    try:
        root = parse_xml(data, *tree)
    except ValueError as error:
        raise ValueError(f"VRT {path!r}: {error}") from None
    return _Parser(path, roots, identity).dataset(root)


def _max_xml_bytes() -> int:
    text = os.environ.get("SWATH_VRT_MAX_XML_BYTES")
    if text is None:
        return MAX_BYTES
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit <= 0:
        raise ValueError(f"SWATH_VRT_MAX_XML_BYTES must be a positive integer, got {text!r}")
    return limit


class _Parser:
    def __init__(self, path: str, roots: str, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        # Relative sources must be in the folder of the VRT; sources with absolute paths may also be in an allowed root.
        self.folder = os.path.dirname(os.path.realpath(path))
        self.roots = [os.path.realpath(root) for root in roots.split(os.pathsep) if root.strip()]
        self._folders: dict[str, str] = {}

    def dataset(self, root: Element) -> Vrt:
        if root.tag != "VRTDataset":
            raise VRTUnsupportedError(
                f"VRT {self.path!r} has the root element <{root.tag}> where <VRTDataset> belongs."
            )
        if kind := root.get("subClass"):
            raise UnsupportedGeoTIFFFeatureError(
                f"VRTDataset declares subClass={kind!r}, which is not supported: only plain <VRTDataset> mosaics are "
                "read, not warped, pansharpened, processed or derived ones. Materialise it first (gdal_translate, "
                "gdalwarp)."
            )
        for tag in _REFUSED_IN_DATASET:
            if root.find(tag) is not None:
                raise UnsupportedGeoTIFFFeatureError(
                    f"VRTDataset declares a <{tag}> element, which is not supported: only plain mosaics of "
                    "<VRTRasterBand> elements are read."
                )
        size = {axis: self._size(root, axis) for axis in ("rasterXSize", "rasterYSize")}
        bands = [self._band(number, element, size) for number, element in enumerate(root.findall("VRTRasterBand"), 1)]
        if not bands:
            raise VRTUnsupportedError(f"VRT {self.path!r} declares no <VRTRasterBand> elements.")
        # The item that to_geotiff writes for points: the transform of their centres.
        centres = _item(root, METADATA_DOMAIN, POINT_TRANSFORM)
        is_point = centres is not None or (_item(root, "", "AREA_OR_POINT") or "").lower() == "point"
        return Vrt(
            path=self.path,
            width=size["rasterXSize"],
            height=size["rasterYSize"],
            srs=(root.findtext("SRS") or "").strip() or None,
            transform=self._transform(centres or root.findtext("GeoTransform")),
            raster_type="point" if is_point else "area",
            bands=tuple(bands),
            identity=self.identity,
            corners=self._transform(root.findtext("GeoTransform")),
            tags=_items(root),
        )

    def _size(self, root: Element, name: str) -> int:
        text = root.get(name, "0")
        try:
            size = int(text)
        except ValueError:
            raise ValueError(f"VRT {self.path!r}: {name}={text!r} is not a whole number.") from None
        if size <= 0:
            raise VRTUnsupportedError(f"VRT {self.path!r}: {name} must be at least 1, not {size}.")
        return size

    def _transform(self, text: str | None) -> tuple[float, float, float, float, float, float] | None:
        parts = (text or "").split(",")
        if len(parts) != 6:
            return None
        try:
            c, a, b, f, d, e = map(float, parts)
        except ValueError:
            raise ValueError(f"VRT {self.path!r}: GeoTransform {text!r} has something else than numbers.") from None
        if (a == 0 or e == 0) and b == d == 0:
            raise VRTUnsupportedError(
                f"VRT {self.path!r}: GeoTransform declares a zero pixel size (res_x={a}, res_y={e}). "
                "Re-export the VRT with pixels that have a size."
            )
        return a, b, c, d, e, f

    def _band(self, number: int, element: Element, size: dict[str, int]) -> Band:
        if kind := element.get("subClass"):
            raise UnsupportedGeoTIFFFeatureError(
                f"VRTRasterBand band={number} declares subClass={kind!r}, which is not supported: only plain "
                "<VRTRasterBand> mosaics are read, not derived bands with pixel functions."
            )
        name = element.get("dataType", "Byte")
        if name not in DTYPES:
            raise ValueError(
                f"VRTRasterBand band={number} declares dataType={name!r}, which is not supported. "
                f"Supported dataType values: {', '.join(sorted(DTYPES))}. Complex types cannot be read from a VRT."
            )
        dtype = np.dtype(DTYPES[name])
        sources = []
        for child in element:
            if child.tag in ("SimpleSource", "ComplexSource"):
                sources.append(self._source(child, size))
            elif child.tag in _REFUSED_IN_BAND:
                raise UnsupportedGeoTIFFFeatureError(
                    f"VRTRasterBand band={number} contains a <{child.tag}> element, a VRT feature that is not "
                    "supported (filters, derived bands, masks). Only <SimpleSource> and <ComplexSource> are."
                )
            elif child.tag not in _ABOUT_BAND:
                raise UnsupportedGeoTIFFFeatureError(
                    f"VRTRasterBand band={number} contains an unknown <{child.tag}> element, which could change the "
                    "pixels. Only <SimpleSource> and <ComplexSource> are supported."
                )
        return Band(
            dtype,
            _nodata(element.findtext("NoDataValue"), dtype),
            tuple(sources),
            description=element.findtext("Description") or None,
            units=element.findtext("UnitType") or None,
            scale=self._number(element.findtext("Scale") or "1", "Scale", float),
            offset=self._number(element.findtext("Offset") or "0", "Offset", float),
            color=(element.findtext("ColorInterp") or "undefined").strip().lower(),
            tags=_items(element),
        )

    def _source(self, element: Element, size: dict[str, int]) -> Source:
        is_complex = element.tag == "ComplexSource"
        path = self._path(element.find("SourceFilename"))
        band = self._number(element.findtext("SourceBand") or "1", "SourceBand", int)
        about = f"VRT {self.path!r} {element.tag} {path!r} (band {band})"
        if path.lower().endswith(".vrt"):
            raise VRTUnsupportedError(
                f"VRT {self.path!r} references another VRT as a source ({path!r}, band {band}). Nested VRTs are not "
                "supported: materialise the inner one as a GeoTIFF and refer to that."
            )
        if (element.findtext("UseMaskBand") or "").strip().lower() in _TRUE:
            raise VRTUnsupportedError(
                f"{about} declares <UseMaskBand>true</UseMaskBand>. Masks of sources are not applied; use a <NODATA> "
                "value."
            )
        src, dst = (self._rect(element.find(tag), tag, about) for tag in ("SrcRect", "DstRect"))
        self._check_rects(src, dst, size, about)
        if src and dst and (src.width, src.height) != (dst.width, dst.height):
            asked = [element.get("resampling"), element.findtext("ResampleAlg") if is_complex else None]
            for name in filter(None, asked):
                if not name.strip().lower().startswith("near"):
                    raise VRTUnsupportedError(
                        f"{about} requests <ResampleAlg>{name}</ResampleAlg> with differing SrcRect "
                        f"({src.width:g}x{src.height:g}) and DstRect ({dst.width:g}x{dst.height:g}) sizes. "
                        "Only nearest is supported: materialise the mosaic with gdal_translate."
                    )
        if not is_complex:
            return Source(path, band - 1, src, dst)
        for tag in _REFUSED_IN_SOURCE:
            if element.find(tag) is not None:
                raise VRTUnsupportedError(f"{about} has a <{tag}>, which is not supported: only linear scaling is.")
        scale, offset = element.findtext("ScaleRatio"), element.findtext("ScaleOffset")
        return Source(
            path,
            band - 1,
            src,
            dst,
            nodata=parse_nodata(element.findtext("NODATA")),
            scale=None if scale is offset is None else self._number(scale or "1", "ScaleRatio", float),
            offset=self._number(offset or "0", "ScaleOffset", float),
        )

    def _path(self, element: Element | None) -> str:
        """Returns the resolved path of a source and checks that its location is allowed."""
        name = ("" if element is None else element.text or "").strip()
        if element is None or not name:
            raise VRTUnsupportedError(f"VRT {self.path!r} has a source without a <SourceFilename>.")
        relative = element.get("relativeToVRT") == "1"
        path = self._real(os.path.join(self.folder, name) if relative else os.path.abspath(name))
        for root in [self.folder] if relative else [self.folder, *self.roots]:
            if path.startswith(root if root.endswith(os.sep) else root + os.sep):
                return path
        raise ValueError(
            f"VRT SourceFilename {path!r} resolves outside the VRT directory ({self.folder!r}) and is not covered by "
            f"any SWATH_VRT_ALLOWED_ROOTS entry ({self.roots}; they are for absolute names). Refusing to read."
        )

    def _real(self, path: str) -> str:
        """Like os.path.realpath with a cache of folders: a mosaic has many files in few folders."""
        folder, name = os.path.split(path)
        if name in ("", os.curdir, os.pardir):
            return os.path.realpath(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        real = os.path.join(self._folders[folder], name)
        return os.path.realpath(real) if os.path.islink(real) else real

    def _rect(self, element: Element | None, tag: str, about: str) -> Rect | None:
        if element is None:
            return None
        rect = Rect(*(self._number(element.get(name, "0"), tag, float) for name in ("xOff", "yOff", "xSize", "ySize")))
        if max(map(abs, (rect.x, rect.y, rect.width, rect.height))) > MAX_COORDINATE:
            raise VRTUnsupportedError(f"{about} {tag} {rect} is larger than any image.")
        if rect.width < 0 or rect.height < 0:
            raise VRTUnsupportedError(f"{about} {tag} has negative size {rect}; {tag} sizes must be non-negative.")
        if tag == "SrcRect" and (rect.x < 0 or rect.y < 0):
            raise VRTUnsupportedError(
                f"{about} SrcRect has negative offset {rect}; SrcRect offsets must be non-negative."
            )
        return rect

    def _check_rects(self, src: Rect | None, dst: Rect | None, size: dict[str, int], about: str) -> None:
        if (src is None) != (dst is None):
            raise VRTUnsupportedError(f"{about} has only one of SrcRect and DstRect: it needs both, or none.")
        if src is not None and not (src.width and src.height):
            raise VRTUnsupportedError(f"{about} has an empty SrcRect {src}; the source would contribute no pixels.")
        if dst is None:
            return
        width, height = size["rasterXSize"], size["rasterYSize"]
        inside = dst.x < width and dst.y < height and dst.x + dst.width > 0 and dst.y + dst.height > 0
        if not (inside and dst.width and dst.height):
            raise VRTUnsupportedError(
                f"{about} has a DstRect {dst} entirely outside the VRT extent ({height}x{width}); "
                "the source would contribute no pixels."
            )

    def _number(self, text: str, tag: str, kind: type[Any]) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"VRT {self.path!r}: {tag} has {text!r} where a number belongs.")
        return number


def _item(root: Element, domain: str, key: str) -> str | None:
    """Returns an item of the metadata."""
    for metadata in root.findall("Metadata"):
        for item in metadata.findall("MDI"):
            if item.get("key") == key and metadata.get("domain", "") == domain:
                return (item.text or "").strip()
    return None


def _items(element: Element) -> tuple[tuple[str, str], ...]:
    """Returns the items of the default metadata domain by name."""
    plain = [metadata for metadata in element.findall("Metadata") if not metadata.get("domain")]
    return tuple((item.get("key", ""), item.text or "") for metadata in plain for item in metadata.findall("MDI"))


def _nodata(text: str | None, dtype: np.dtype[Any]) -> Number | None:
    """Returns the value in the type of the pixels if a pixel can equal it, else as it was written."""
    nodata = parse_nodata(text)
    found = matchable(nodata, dtype)
    return nodata if found is None else found
