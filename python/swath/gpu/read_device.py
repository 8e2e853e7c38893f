"""`read_device`: pixels in the memory of a GPU for any library that takes DLPack."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .._report import remember
from .._settings import is_strict
from ..read.prepare import prepare

if TYPE_CHECKING:
    from .._swath import DeviceArray
    from ..read.request import BandSelection


def read_device(
    source: Any,
    *,
    window: tuple[int, int, int, int] | None = None,
    bbox: tuple[float, float, float, float] | None = None,
    overview_level: int | None = None,
    band: BandSelection | None = None,
    bands_last: bool = True,
    max_pixels: int | None = None,
    device: str | None = None,
    strict: bool = False,
    report: dict[str, Any] | None = None,
) -> DeviceArray:
    """Read pixels into the memory of a GPU, where they stay. CuPy is not needed.

        tensor = torch.from_dlpack(swath.read_device("dem.tif", bands_last=False))

    Parameters
    ----------
    source, window, bbox, overview_level, band, max_pixels
        As for `open_geotiff`. The samples are as the file has them: nodata is not masked.
    bands_last
        (y, x, band), or (band, y, x) if False. One band is (y, x).
    device
        "cuda", "cuda:1", "opencl", "opencl:1"; what SWATH_DEVICE says, or the first CUDA device, if None.
    strict
        Raise DeviceError when the CPU would have to do a part of the work.
    report
        A dict that is filled with what the read did.

    Returns
    -------
    DeviceArray
        An array with `__dlpack__` and `__cuda_array_interface__`. Its memory is given back when it and all arrays made
        of it are gone.

    Raises
    ------
    DeviceError
        When there is no such device, or it fails. A RuntimeError.
    """
    prepared = prepare(
        source, window=window, bbox=bbox, overview_level=overview_level, band=band, max_pixels=max_pixels
    )
    plan = prepared.plan
    plan.check_size(plan.window)
    array, made = prepared.header.file.read_to_device(
        window=plan.window,
        bands=plan.bands,
        level=plan.level,
        bands_last=bands_last,
        max_pixels=int(plan.max_pixels),
        device=device or os.environ.get("SWATH_DEVICE") or "cuda",
        strict=strict or is_strict(),
    )
    report = {} if report is None else report
    report.update(made)
    remember(report)
    return array
