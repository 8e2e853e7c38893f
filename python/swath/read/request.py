"""Checks the arguments of `open_geotiff` before any file is opened."""

from __future__ import annotations

import operator
import os
import warnings
from typing import TYPE_CHECKING, Any, Final, TypedDict, final

import numpy as np

from .._swath import has_window
from ..errors import GeoTIFFFallbackWarning, RemoteStableSourcesOnlyError, VRTStableSourcesOnlyError
from .source import is_file_like, is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence


@final
class Unset:
    """The type of `UNSET`: marks parameters that the caller did not pass, where None or the default has a meaning."""

    def __repr__(self) -> str:
        return "<default>"


UNSET: Final = Unset()

BandSelection = int | str | list[int] | list[str] | list[int | str] | tuple[int | str, ...]
"""The values of `band=`: the number of a band, its name, or a list of these."""

NO_LIMIT = (1 << 63) - 1
"""The number that means no limit on pixels or bytes."""

# Stack frames between a warning here and the caller of open_geotiff.
_CALLER = 3


def coerce(source: Any) -> Any:
    """Returns a path as str, and content and file objects unchanged."""
    if isinstance(source, str) or is_file_like(source) or isinstance(source, bytearray | memoryview):
        return source
    if isinstance(source, bytes) and source[:2] in (b"II", b"MM"):
        return source
    return os.fsdecode(os.fspath(source))


def is_vrt(source: Any) -> bool:
    return isinstance(source, str) and source.lower().endswith(".vrt")


def replaced(new: str, value: Any, old: str, alias: Any, default: Any, why: str) -> Any:
    """Returns the value of a renamed parameter."""
    if isinstance(alias, Unset):
        return value
    if value is not default:
        raise TypeError(f"open_geotiff: pass either {new!r} or the deprecated {old!r} alias, not both.")
    warnings.warn(
        f"open_geotiff(..., {old}=...) is deprecated; use {new}=... instead{why}",
        DeprecationWarning,
        stacklevel=_CALLER,
    )
    return alias


def warn_of_idle(lock: Any, cache: Any) -> None:
    if lock is not None or cache is not True:
        warnings.warn(
            "open_geotiff: 'lock' and 'cache' are accepted for rioxarray open_rasterio compatibility but have no "
            "effect: files are read by any number of threads at once, and pixels are not kept.",
            GeoTIFFFallbackWarning,
            stacklevel=_CALLER,
        )


def check_combination(
    source: Any,
    *,
    overview_level: Any,
    chunks: Any,
    gpu: Any,
    max_cloud_bytes: Any,
    on_gpu_failure: Any,
    missing_sources: Any,
    band_nodata: Any,
    unpack: Any,
    parse_coordinates: Any,
) -> None:
    """Checks types that can be checked without the file, and combinations of parameters."""
    vrt = is_vrt(source)
    if vrt and unpack:
        raise ValueError(
            "unpack=True is not supported for .vrt sources; it is implemented for .tif sources on every backend. "
            "Drop the kwarg."
        )
    if vrt and not parse_coordinates:
        raise ValueError(
            "parse_coordinates=False is not supported for .vrt sources; it is implemented on the CPU eager and dask "
            "paths over .tif sources. Drop the kwarg."
        )
    if gpu and not parse_coordinates:
        raise ValueError(
            "parse_coordinates=False is not supported with gpu=True; it is implemented on the CPU eager and dask "
            "paths. Drop gpu=True or the kwarg."
        )
    check_level_type(overview_level)
    if not isinstance(gpu, bool | np.bool_):
        raise TypeError(f"gpu must be a bool, got {type(gpu).__name__}: {gpu!r}")
    _check_gpu_failure(on_gpu_failure, gpu, vrt)
    _check_vrt_only(vrt, missing_sources, band_nodata)
    if is_file_like(source) or isinstance(source, bytes | bytearray | memoryview):
        for given, what in ((gpu, "gpu=True"), (chunks is not None, "chunks=... (dask)")):
            if given:
                raise ValueError(f"{what} is not supported for file-like sources. Pass a path string instead.")
    if not isinstance(max_cloud_bytes, Unset):
        _check_cloud(gpu, chunks, vrt)


def check_level_type(level: Any) -> None:
    if level is not None and (isinstance(level, bool | np.bool_) or not isinstance(level, int | np.integer)):
        raise TypeError(f"overview_level must be an int or None, got {type(level).__name__}: {level!r}")


def _check_gpu_failure(policy: Any, gpu: Any, vrt: bool) -> None:
    if isinstance(policy, Unset):
        return
    if not gpu:
        raise ValueError(
            "on_gpu_failure only applies when gpu=True. Pass gpu=True to enable the GPU pipeline, or drop "
            "on_gpu_failure to keep the default CPU path."
        )
    if vrt:
        raise ValueError(
            "on_gpu_failure is not supported for VRT sources. VRT reads do not go through the GPU decoder pipeline; "
            "drop the kwarg, or open the underlying .tif source."
        )
    if policy not in ("auto", "strict"):
        raise ValueError(f"on_gpu_failure must be 'auto' or 'strict', got {policy!r}")


class DeviceSettings(TypedDict):
    """How a GPU decodes. None leaves a setting to the environment."""

    decoder: str | None
    storage: str | None
    gpu_memory: int | None
    device: str | None
    stream: Any


def check_device_settings(settings: DeviceSettings, gpu: bool, vrt: bool) -> None:
    """Checks that settings of the GPU are given for reads on it only. The engine checks the values."""
    for name, value in settings.items():
        if value is None:
            continue
        if not gpu:
            raise ValueError(f"{name} only applies when gpu=True.")
        if vrt:
            raise ValueError(f"{name} is not supported for VRT sources, which the GPU does not decode.")


def _check_vrt_only(vrt: bool, missing_sources: Any, band_nodata: Any) -> None:
    if vrt or (band_nodata is None and isinstance(missing_sources, Unset)):
        return
    given_of = {"missing_sources": not isinstance(missing_sources, Unset), "band_nodata": band_nodata is not None}
    for name, given in given_of.items():
        if given:
            raise ValueError(
                f"{name} only applies to VRT sources. Pass a .vrt path to enable the VRT pipeline, or drop {name} to "
                "keep the default GeoTIFF path."
            )


def _check_cloud(gpu: Any, chunks: Any, vrt: bool) -> None:
    reason = (
        ("for VRT sources. The VRT reader does not apply the cloud-byte budget", vrt),
        ("when gpu=True. The GPU reader takes the budget from SWATH_MAX_CLOUD_BYTES only", gpu),
        ("when chunks=... (dask). The dask reader does not apply the cloud-byte budget", chunks is not None),
    )
    for text, given in reason:
        if given:
            raise ValueError(
                f"max_cloud_bytes is not supported {text}; drop the kwarg, or use the eager CPU path of a .tif source."
            )


def check_stable(source: Any) -> None:
    """Raises an error for sources that `stable_only` does not allow."""
    if is_vrt(source):
        raise VRTStableSourcesOnlyError(
            f"VRT source {source!r} cannot be opened under stable_only=True. The VRT reader (reader.vrt) is not of "
            "the stable tier of SUPPORTED_FEATURES. Pass allow_experimental_codecs=True to opt in to the other "
            "tiers, or drop stable_only=True."
        )
    if is_remote(source):
        raise RemoteStableSourcesOnlyError(
            f"Remote source {source!r} cannot be opened under stable_only=True. The HTTP and fsspec readers "
            "(reader.http, reader.fsspec) are not of the stable tier of SUPPORTED_FEATURES. Pass "
            "allow_experimental_codecs=True to opt in to the other tiers, or drop stable_only=True."
        )


def check_vrt_request(overview_level: Any, missing_sources: Any, band_nodata: Any) -> None:
    """Checks the arguments that only mosaics have."""
    if overview_level not in (None, 0):
        raise ValueError(
            "overview_level is not supported for VRT sources. VRT references its own source files; pass "
            "overview_level to open_geotiff on a .tif source, or drop the kwarg."
        )
    if not isinstance(missing_sources, Unset) and missing_sources not in ("raise", "warn"):
        raise ValueError(f"missing_sources must be 'warn' or 'raise', got {missing_sources!r}")
    if band_nodata not in (None, "first"):
        raise ValueError(
            f"band_nodata must be None or 'first', got {band_nodata!r}. Pass band_nodata='first' to take the first "
            "band's sentinel for all, or drop the kwarg to refuse bands that disagree."
        )


def check_max_pixels(max_pixels: Any, default: int) -> float:
    if max_pixels is None:
        return default
    if not isinstance(max_pixels, int | float | np.integer | np.floating):
        raise TypeError(f"max_pixels must be a number or None, got {type(max_pixels).__name__}: {max_pixels!r}")
    if max_pixels != max_pixels:
        raise ValueError("max_pixels must be a number or None, got NaN")
    # The engine counts in 64 bits; infinity and larger numbers mean no limit.
    return min(max_pixels if isinstance(max_pixels, int | float) else float(max_pixels), NO_LIMIT)


def level_of(overview_level: Any, levels: int) -> int:
    """Returns the level; raises ValueError if the file does not have it."""
    check_level_type(overview_level)
    level = 0 if overview_level is None else int(overview_level)
    if level < 0:
        raise ValueError(f"overview_level must be >= 0, got {level}")
    if level >= levels:
        raise ValueError(
            f"overview_level={level} is out of range: TIFF has {levels} pyramid IFDs (1 full-resolution + "
            f"{levels - 1} overviews). Valid overview_level values are 0..{levels - 1}."
        )
    return level


def bands_of(band: Any, names: Sequence[str | None], first: int = 0) -> tuple[tuple[int, ...], bool]:
    """Returns the bands to read, counted from 0, and whether the result has a band axis.

    `names` has one entry per band; `first` is the number that the caller uses for the first band.
    """
    count = len(names)
    if band is None:
        return tuple(range(count)), count > 1
    if not isinstance(band, list | tuple | range | np.ndarray):
        return (_band_of(band, names, first),), False
    bands = tuple(_band_of(one, names, first) for one in band)
    if not bands:
        raise ValueError(f"band={band!r} selects no band.")
    if len(set(bands)) < len(bands):
        raise ValueError(f"band={band!r} selects a band more than once.")
    return bands, True


def _band_of(band: Any, names: Sequence[str | None], first: int) -> int:
    """Returns the number of one band, counted from 0."""
    count = len(names)
    kind = "a non-negative int" if first == 0 else "an int from 1"
    if isinstance(band, bool | np.bool_):
        raise ValueError(f"band must be {kind}, got {band!r}")
    if isinstance(band, str) and any(names):
        return _band_named(band, names, first)
    if not isinstance(band, int | np.integer):
        why = "; the bands of this file have no names" if isinstance(band, str) else ""
        raise TypeError(f"band must be {kind}, a name or a list of these, got {band!r}{why}")
    if not first <= band < first + count:
        one = "requested on a single-band file" if count == 1 else f"out of range for {count}-band file"
        raise IndexError(f"band={band} {one}; the first band is {first}.")
    return int(band) - first


def _band_named(name: str, names: Sequence[str | None], first: int) -> int:
    """Returns the band whose description is `name`."""
    found = [number for number, other in enumerate(names) if other == name]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = [number + first for number in found]
        raise ValueError(f"band={name!r} is the name of bands {numbers}. Select one of them by its number.")
    raise ValueError(f"no band is named {name!r}. The names of the bands are {list(names)}.")


_FOUR_INTEGERS = "window must be four integers (row_start, col_start, row_stop, col_stop)"


def window_of(window: Any, height: int, width: int, what: str = "source") -> tuple[int, int, int, int]:
    """Returns the window as integers; raises an error if it is not inside the image."""
    if window is None:
        return 0, 0, height, width
    try:
        values = tuple(window)
        top, left, bottom, right = map(operator.index, values if len(values) == 4 else (0, 0, 0, 0))
    except TypeError:
        raise TypeError(f"{_FOUR_INTEGERS}, got window={window!r}") from None
    if len(values) != 4:
        raise ValueError(f"{_FOUR_INTEGERS}, got window={window!r}")
    if not has_window((top, left, bottom, right), height, width):
        raise ValueError(f"window={window!r} is outside the {what} extent ({height}x{width}) or has non-positive size.")
    return top, left, bottom, right


def threads_of(threads: Any) -> int | None:
    """Raises TypeError or ValueError for an invalid number of threads."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer):
        raise TypeError(f"threads must be an int or None, got {type(threads).__name__}: {threads!r}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    return int(threads)


def report_of(report: Any) -> dict[str, Any]:
    """Returns the dict to fill; a new one for None."""
    if report is None:
        return {}
    if not isinstance(report, dict):
        raise TypeError(f"report must be a dict to fill or None, got {type(report).__name__}")
    return report
