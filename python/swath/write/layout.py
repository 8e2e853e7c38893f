"""Checks the arguments of `to_geotiff` that choose layout and codec, and converts them to options of the engine.

The codecs and their settings come from the engine's table (`_swath.codecs()`).
"""

from __future__ import annotations

import numbers
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from .raster import Raster

if TYPE_CHECKING:
    from .._swath import Codec, Options

# The interface that `to_geotiff` follows fixes these ranges: the engine supports deflate up to level 12 and LZ4 without
# levels.
_FIXED_LEVELS = {"deflate": (1, 9), "lz4": (0, 16)}
_TILE_SIZE = 256
_STRIP_ROWS = 256


@cache
def _codecs() -> dict[str, Codec]:
    """Returns the codecs that can be written, by name and alias."""
    return {name: codec for codec in _swath.codecs() if codec["write"] for name in (codec["name"], *codec["aliases"])}


def _codec_of(compression: Any) -> Codec:
    """Returns the row of a codec in the engine's table."""
    if not isinstance(compression, str):
        raise TypeError(f"compression must be a str (in to_geotiff); got {type(compression).__name__}.")
    codec = _codecs().get(compression.lower())
    if codec is None:
        raise ValueError(f"Unknown compression {compression!r}. Valid options: {list(_codecs())}.")
    return codec


def _names(has: str) -> tuple[str, ...]:
    """Returns the names of the codecs that have a setting."""
    return tuple(name for name, codec in _codecs().items() if codec[has])  # type: ignore[literal-required]


def codec_options(compression: Any, level: Any, max_z_error: Any, quality: Any) -> Options:
    """Returns the options for the codec and its settings."""
    codec = _codec_of(compression)
    name = codec["name"]
    options: Options = {"compression": name}
    if level is not None:
        if isinstance(level, bool | np.bool_) or not isinstance(level, numbers.Integral):
            raise TypeError(f"compression_level must be an int or None, got {type(level).__name__}: {level!r}")
        levels = _FIXED_LEVELS.get(name, codec["levels"])
        if levels is not None and not levels[0] <= int(level) <= levels[1]:
            raise ValueError(f"compression_level={level} out of range for {name} (valid: {levels[0]}-{levels[1]})")
        # `to_geotiff` ignores a compression level if the codec has none.
        if codec["levels"] is not None:
            options["level"] = int(level)
    if error := _max_z_error(codec, max_z_error):
        options["max_z_error"] = error
    if quality is not None:
        options["quality"] = _quality(codec, quality)
    return options


def _quality(codec: Codec, quality: Any) -> float:
    if codec["qualities"] is None:
        raise ValueError(f"quality is only valid with compression in {_names('qualities')}, not {codec['name']!r}")
    low, high = codec["qualities"]
    is_number = isinstance(quality, numbers.Real) and not isinstance(quality, bool)
    if not is_number or not low <= quality <= high or (codec["lowest_quality_excluded"] and quality == low):
        above = "above " if codec["lowest_quality_excluded"] else "from "
        raise ValueError(f"quality must be a number {above}{low:g} to {high:g} for {codec['name']}, got {quality!r}")
    return float(quality)


def _max_z_error(codec: Codec, error: Any) -> float:
    if not isinstance(error, numbers.Real):
        raise TypeError(f"max_z_error must be a number, got {type(error).__name__}: {error!r}")
    if not float(error) >= 0.0 or float(error) == float("inf"):
        raise ValueError(f"max_z_error must be >= 0, got {error!r}; it must be finite")
    if error and not codec["max_z_error"]:
        first, *others = _names("max_z_error")
        raise ValueError(f"max_z_error is only valid with compression={first!r} ({', '.join(map(repr, others))})")
    return float(error)


def predictor_of(predictor: Any, compression: str, dtype: np.dtype[Any]) -> int:
    """Returns the value of the Predictor tag; 0 lets the engine choose by the type."""
    if isinstance(predictor, str) and predictor.lower() == "auto":
        return 0
    if isinstance(predictor, bool | np.bool_):
        number = 2 if predictor else 1
    else:
        known: dict[Any, int] = {0: 1, 1: 1, 2: 2, 3: 3}
        number = known.get(predictor, 0) if isinstance(predictor, numbers.Real) else 0
    if not number:
        raise ValueError(f"predictor must be False/True or 1/2/3 (or 'auto'), got {predictor!r}")
    codec = _codecs()[compression]
    is_supported = number in codec["predictors"]
    # Lossy codecs model pixels themselves.
    if not is_supported and (codec["qualities"] or codec["max_z_error"]):
        raise ValueError(
            f"predictor={number} is not supported with compression={compression!r}, which models pixels itself. Drop "
            "predictor= (or set predictor=1) for this codec."
        )
    if number == 3 and dtype.kind != "f":
        raise ValueError(f"predictor=3 (floating-point) requires float data, got dtype={dtype}")
    # `to_geotiff` ignores the predictor for the other codecs: libtiff would not undo it, and readers would return wrong
    # pixels.
    return number if is_supported else 1


def block_options(tiled: Any, tile_size: Any, cog: Any, interleave: Any) -> Options:
    """Returns the options for tiles or strips, the COG layout and the interleaving of bands."""
    if cog and not tiled:
        raise ValueError("cog=True requires tiled=True: a Cloud Optimized GeoTIFF has tiles. Drop one of the two.")
    if interleave not in ("pixel", "band"):
        raise ValueError(f"interleave must be 'pixel' or 'band', got {interleave!r}")
    options: Options = {"cog": bool(cog), "planar": "separate" if interleave == "band" else "chunky"}
    if tiled:
        options["tile"] = _side(tile_size)
        return options
    if tile_size != _TILE_SIZE:
        warnings.warn(
            f"tile_size={tile_size} is ignored when tiled=False (strip layout). Pass tiled=True to use it, or drop it.",
            UserWarning,
            stacklevel=3,
        )
    options["tile"], options["strip_rows"] = 0, _STRIP_ROWS
    return options


def _side(size: Any) -> int:
    if isinstance(size, bool | np.bool_) or not isinstance(size, numbers.Integral):
        raise ValueError(f"tile_size must be a positive int, got {size!r} (type {type(size).__name__}).")
    side = int(size)
    if side <= 0:
        raise ValueError(f"tile_size must be a positive int, got tile_size={size}.")
    if side >= 1 << 32:
        raise ValueError(f"tile_size={size} does not fit TileWidth and TileLength, which have 32 bits.")
    if side % 16:
        below = side // 16 * 16
        near = f"tile_size={below} or tile_size={below + 16}" if below else "tile_size=16"
        raise ValueError(
            "tile_size must be a positive multiple of 16 (TIFF 6 spec requirement for TileWidth/TileLength), got "
            f"tile_size={size}; try {near}."
        )
    return side


def overview_options(cog: Any, levels: Any, resampling: Any, raster: Raster, has_classes: bool) -> Options:
    """Returns the options for the overviews of a COG. Other files have none."""
    if not cog:
        if levels is not None and np.size(levels):
            warnings.warn(
                f"overview_levels={levels} is ignored without cog=True: only a COG has overviews. Pass cog=True, or "
                "drop it.",
                UserWarning,
                stacklevel=3,
            )
        return {"overviews": None}
    methods = _swath.resampling_methods()
    if not isinstance(resampling, str) or resampling not in methods:
        raise ValueError(f"Unknown overview resampling method: {resampling!r}. Use one of: {methods}")
    options: Options = {"overviews": "auto" if levels is None else _factors(levels, raster)}
    # The mean of two class numbers is the number of another class.
    options["resampling"] = "nearest" if has_classes and resampling == "mean" else resampling
    return options


def _factors(levels: Any, raster: Raster) -> list[int]:
    if not isinstance(levels, list | tuple):
        raise ValueError(f"overview_levels must be a list or tuple of ints, got {type(levels).__name__}.")
    factors: list[int] = []
    for index, level in enumerate(levels):
        if isinstance(level, bool | np.bool_) or not isinstance(level, numbers.Integral):
            raise ValueError(
                f"overview_levels[{index}] must be an int >= 2, got {level!r} (type {type(level).__name__})."
            )
        factor = int(level)
        if factor < 2:
            raise ValueError(f"overview_levels[{index}] must be >= 2 (1 is the full resolution), got {factor}.")
        if factor & (factor - 1):
            raise ValueError(
                f"overview_levels[{index}]={factor} is not a power of two. Only power-of-two decimation factors are "
                "supported (2, 4, 8, 16, ...)."
            )
        if factors and factor <= factors[-1]:
            raise ValueError(
                f"overview_levels must be strictly increasing, got {list(levels)} (entry at index {index} is {factor}, "
                f"previous was {factors[-1]})."
            )
        if factor > min(raster.height, raster.width):
            raise ValueError(
                f"overview_levels[{index}]={factor} is too large for input shape {(raster.height, raster.width)}: a "
                "pixel of it would be larger than the image."
            )
        factors.append(factor)
    return factors
