"""Mosaics for tests: rasterio writes the sources, the VRTs are hand-written."""

from __future__ import annotations

import numpy as np
import rasterio
from rasterio.transform import from_origin

PLACE = "<SRS>EPSG:32633</SRS><GeoTransform>100,1,0,200,0,-1</GeoTransform>"


def tif(path, pixels, *, nodata=None, crs="EPSG:32633", x=100, **layout):
    """Writes (y, x) or (band, y, x) pixels to a file and returns its name."""
    bands = pixels if pixels.ndim == 3 else pixels[None]
    shape = {"count": bands.shape[0], "height": bands.shape[1], "width": bands.shape[2], "dtype": bands.dtype}
    with rasterio.open(
        path, "w", driver="GTiff", nodata=nodata, crs=crs, transform=from_origin(x, 200, 1, 1), **shape, **layout
    ) as file:
        file.write(bands)
    return path.name


def source(name, src=(0, 0, 4, 4), dst=None, *, kind="SimpleSource", band=1, relative=1, inside="", attributes=""):
    """A source: rectangles are x, y, width, height; `dst` defaults to `src`; both are None for the whole file."""
    rects = "" if src is None else _rect("SrcRect", src) + _rect("DstRect", src if dst is None else dst)
    return (
        f'<{kind}{attributes}><SourceFilename relativeToVRT="{relative}">{name}</SourceFilename>'
        f"<SourceBand>{band}</SourceBand>{rects}{inside}</{kind}>"
    )


def _rect(tag, rect):
    x, y, width, height = rect
    return f'<{tag} xOff="{x}" yOff="{y}" xSize="{width}" ySize="{height}"/>'


def band(sources="", *, dtype="Byte", nodata=None, inside="", attributes=""):
    value = "" if nodata is None else f"<NoDataValue>{nodata}</NoDataValue>"
    return f'<VRTRasterBand dataType="{dtype}"{attributes}>{value}{inside}{sources}</VRTRasterBand>'


def vrt(path, *bands, size=(4, 8), place=PLACE, inside="", attributes=""):
    """Writes a VRT of these bands and returns its path as a str."""
    height, width = size
    head = f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}"{attributes}>{place}{inside}'
    path.write_text(f"{head}{''.join(bands)}</VRTDataset>")
    return str(path)


def as_gdal_reads(path):
    """(y, x) or (y, x, band)"""
    with rasterio.open(path) as file:
        pixels = file.read()
    return pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)
