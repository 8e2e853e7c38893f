"""A prepared read: the file, the plan, and the coordinates and attributes of the result."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._limits import max_pixels as default_max_pixels
from .._report import remember
from .._swath import MAX_PIXELS
from ..errors import PixelSafetyLimitError
from ..gpu.read import read_gpu
from ..write.mask import FileMask
from ..xarray.dask import open_lazy
from ..xarray.dataarray import data_array
from ..xarray.state import ReadState
from .attrs import copy_of, encoding_of, nodata_attrs, stands_for_missing
from .crs import warn_of_unknown
from .header import Header, header_of
from .nodata import Finish, check_integer_nodata, scaling
from .plan import ReadPlan
from .request import bands_of, check_max_pixels, coerce, window_of
from .source import Handle, is_remote

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr

    from ..gpu.several import SharedRead
    from .georef import Georef
    from .request import DeviceSettings


@dataclass(frozen=True)
class Prepared:
    """A prepared read, made by `prepare`."""

    source: Any
    header: Header
    plan: ReadPlan
    georef: Georef
    name: str | None
    masked: bool
    unpack: bool
    cast: bool

    @property
    def handle(self) -> Handle:
        """The file for tasks that run later."""
        return self.header.handle or Handle(self.source, self.header.file)

    def attrs(self, seen: bool | None = None) -> dict[str, Any]:
        """Returns the attrs of the result; `seen` is whether nodata occurred, None if unknown."""
        return {
            **copy_of(self.header.attrs),
            **self.georef.attrs(self.plan.window),
            **nodata_attrs(self.plan.finish, self.header.nodata, masked=self.masked, cast=self.cast, seen=seen),
        }

    def state(self) -> ReadState:
        """Returns what the read does to the samples, for a later write."""
        finish, header = self.plan.finish, self.header
        scaling = {
            number: (1.0 if info["scale"] is None else info["scale"], info["offset"] or 0.0)
            for number, info in enumerate(header.description["band_info"])
        }
        if self.unpack:
            count = len(self.plan.bands)
            factors = (np.broadcast_to(part, count).tolist() for part in (finish.scale, finish.offset))
            scaling |= dict(zip(self.plan.bands, zip(*factors, strict=True), strict=True))
        return ReadState(
            dtype=finish.source,
            shape=(self.plan.shape[0], self.plan.shape[1]),
            nodata=header.nodata,
            masked=stands_for_missing(finish, header.nodata, self.masked),
            unpacked=self.unpack,
            scaling={number: pair for number, pair in scaling.items() if pair != (1.0, 0.0)},
            cast=self.cast,
            by_mask=finish.by_mask,
            mask=self._mask(),
            bands=header.bands,
            sample=self.plan.bands[0] if self.plan.flat and header.bands > 1 else None,
        )

    def _mask(self) -> FileMask | None:
        """Returns the mask of a local file that the read does not apply."""
        is_local = isinstance(self.source, str) and not is_remote(self.source)
        if not is_local or not self.header.has_mask or self.plan.finish.by_mask:
            return None
        top, left, bottom, right = self.plan.window
        first, last = (
            self.georef.coords((row, column, row + 1, column + 1))
            for row, column in ((top, left), (bottom - 1, right - 1))
        )
        ends = tuple(float(part[0]) for axis in (0, 1) for part in (first[axis], last[axis]))
        return FileMask(self.handle, self.plan.window, self.plan.level, ends)

    def coords(self, parse: object = True) -> dict[str, npt.NDArray[Any]]:
        """Returns y and x, unless disabled, and the number of each band; a scalar if one of several bands was
        selected.
        """
        coords: dict[str, npt.NDArray[Any]] = {}
        if parse:
            self._check_axes()
            coords["y"], coords["x"] = self.georef.coords(self.plan.window)
        if not self.plan.flat:
            coords["band"] = np.array(self.plan.bands)
        elif self.header.bands > 1:
            coords["band"] = np.array(self.plan.bands[0])
        return coords

    def _check_axes(self) -> None:
        """Limits the size of the coordinates, which are not lazy: two billion columns would take 17 GB."""
        height, width = self.plan.shape[:2]
        if height + width > max(self.plan.max_pixels, MAX_PIXELS):
            raise PixelSafetyLimitError(
                f"The coordinates of {height:,} rows and {width:,} columns alone would take "
                f"~{(height + width) * 8 / 1e9:.2f} GB. Read a part with window= or bbox=, pass "
                "parse_coordinates=False, or pass a larger max_pixels=."
            )

    def pixels(
        self, chunks: Any, gpu: bool, on_gpu_failure: str, report: dict[str, Any], on_device: DeviceSettings
    ) -> tuple[Any, bool | None]:
        """Returns the pixels and whether nodata occurs."""
        plan = self.plan
        if gpu:
            return read_gpu(self.handle, plan, on_gpu_failure, chunks=chunks, report=report, on_device=on_device)
        if chunks is not None:
            return open_lazy(self.handle, plan, chunks), None
        raw, done = plan.read_raw(self.header.file)
        report.update(done)
        remember(report)
        return plan.finish.apply_and_look(raw, plan.valid(self.header.file))

    def array(self, data: Any, seen: bool | None, parse_coordinates: object = True) -> xr.DataArray:
        """Returns the result."""
        plan = self.plan
        axes = self.header.axes(plan.level, self.georef) if parse_coordinates else None
        coords: dict[str, Any] = self.coords(parse_coordinates and axes is None)
        if axes is not None:
            top, left, bottom, right = plan.window
            coords = {"y": axes[0][top:bottom], "x": axes[1][left:right], **coords}
        encoding = encoding_of(self.state(), plan.finish)
        return data_array(data, plan.dims, coords, self.attrs(seen), self.name, encoding)


def prepare(
    source: Any,
    *,
    dtype: npt.DTypeLike | None = None,
    window: Any = None,
    bbox: Any = None,
    overview_level: Any = None,
    band: Any = None,
    default_name: str | None = None,
    max_pixels: Any = None,
    allow_rotated: object = False,
    allow_unparseable_crs: object = False,
    allow_invalid_nodata: object = False,
    masked: object = False,
    unpack: object = False,
    threads: int | None = None,
    remote: dict[str, Any] | None = None,
    limits: dict[str, int] | None = None,
    shared: SharedRead | None = None,
) -> Prepared:
    """Opens a TIFF and plans a read. It reads only headers."""
    source = coerce(source)
    header = header_of(source, limits, **(remote or {}))
    level = header.level_of(overview_level)
    height, width = header.levels[level][:2]
    georef = header.georef(level, allow_unparseable_crs)
    georef.check_rotation(allow_rotated)
    if georef.epsg is not None and georef.wkt is None:
        warn_of_unknown(georef.epsg)
    infos = header.description["band_info"]
    bands, has_axis = bands_of(band, [info["description"] for info in infos])
    whole = window_of(window, height, width) if bbox is None else georef.window_of(bbox, height, width)
    if not allow_invalid_nodata:
        check_integer_nodata(header.nodata, header.dtype)
    mask = bool(masked or unpack)
    finish = Finish.of(
        header.dtype,
        header.nodata,
        masked=mask,
        scaling=scaling(header.description, bands) if unpack else (),
        by_mask=mask and header.has_mask,
        dtype=dtype,
    )
    plan = ReadPlan(
        window=whole,
        level=level,
        bands=bands,
        flat=not has_axis,
        finish=finish,
        samples=header.bands,
        max_pixels=check_max_pixels(max_pixels, default_max_pixels(limits)),
        threads=threads,
        shared=shared,
    )
    return Prepared(
        source,
        header,
        plan,
        georef,
        stem_of(source) if default_name is None else default_name,
        masked=mask,
        unpack=bool(unpack),
        cast=dtype is not None,
    )


def stem_of(source: Any) -> str | None:
    """Returns the name of a file without folders and suffix."""
    if not isinstance(source, str):
        return None
    name: str = source
    if name.lower().startswith(("http://", "https://")):
        # The query part of a URL may be a signature and is not part of the name.
        name = name.partition("?")[0].partition("#")[0]
    return os.path.splitext(os.path.basename(name))[0]
