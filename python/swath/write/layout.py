"""How a file is laid out and encoded: the arguments that say so, checked, in the words of the engine."""

from __future__ import annotations

import numbers
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .raster import Raster

if TYPE_CHECKING:
    from .._swath import Options

CODECS = (
    *("none", "deflate", "lzw", "jpeg", "packbits", "zstd", "lz4", "jpeg2000", "j2k", "lerc"),
    *("lzma", "webp", "lerc_deflate", "lerc_zstd"),
)
RESAMPLING = ("mean", "nearest", "min", "max", "median", "mode", "cubic", "average", "bilinear", "gauss")
_LEVELS = {"deflate": (1, 9), "zstd": (1, 22), "lz4": (0, 16), "lzma": (0, 9)}
_WITH_OWN_MODEL = ("jpeg", "jpeg2000", "webp", "lerc", "lerc_deflate", "lerc_zstd")
_WITH_QUALITY = ("jpeg", "jpeg2000", "webp")
_TILE_SIZE = 256
_STRIP_ROWS = 256


def codec_named(compression: Any) -> str:
    """The engine's name of a codec."""
    if not isinstance(compression, str):
        raise TypeError(f"compression must be a str (in to_geotiff); got {type(compression).__name__}.")
    name = compression.lower()
    if name not in CODECS:
        raise ValueError(f"Unknown compression {compression!r}. Valid options: {list(CODECS)}.")
    return "jpeg2000" if name == "j2k" else name


def codec_options(compression: Any, level: Any, max_z_error: Any, quality: Any) -> Options:
    """The codec and what it is told."""
    codec = codec_named(compression)
    options: Options = {"compression": codec}
    if level is not None:
        if isinstance(level, bool | np.bool_) or not isinstance(level, numbers.Integral):
            raise TypeError(f"compression_level must be an int or None, got {type(level).__name__}: {level!r}")
        if codec in _LEVELS:
            low, high = _LEVELS[codec]
            if not low <= int(level) <= high:
                raise ValueError(f"compression_level={level} out of range for {codec} (valid: {low}-{high})")
            # The engine has one way to write LZ4.
            if codec != "lz4":
                options["level"] = int(level)
    if error := _max_z_error(codec, max_z_error):
        options["max_z_error"] = error
    if quality is not None:
        if codec not in _WITH_QUALITY:
            raise ValueError(f"quality is only valid with compression in {_WITH_QUALITY}, not {codec!r}")
        if isinstance(quality, bool) or not isinstance(quality, numbers.Real) or not 0 <= float(quality) <= 100:
            raise ValueError(f"quality must be a number from 0 to 100, got {quality!r}")
        options["quality"] = float(quality)
    return options


def _max_z_error(codec: str, error: Any) -> float:
    if not isinstance(error, numbers.Real):
        raise TypeError(f"max_z_error must be a number, got {type(error).__name__}: {error!r}")
    if not float(error) >= 0.0 or float(error) == float("inf"):
        raise ValueError(f"max_z_error must be >= 0, got {error!r}; it must be finite")
    if error and not codec.startswith("lerc"):
        raise ValueError("max_z_error is only valid with compression='lerc' ('lerc_deflate', 'lerc_zstd')")
    return float(error)


def predictor_of(predictor: Any, codec: str, dtype: np.dtype[Any]) -> int:
    """The number of the predictor; 0 lets the engine choose by the type."""
    if isinstance(predictor, str) and predictor.lower() == "auto":
        return 0
    if isinstance(predictor, bool | np.bool_):
        number = 2 if predictor else 1
    else:
        known: dict[Any, int] = {0: 1, 1: 1, 2: 2, 3: 3}
        number = known.get(predictor, 0) if isinstance(predictor, numbers.Real) else 0
    if not number:
        raise ValueError(f"predictor must be False/True or 1/2/3 (or 'auto'), got {predictor!r}")
    if number > 1 and codec in _WITH_OWN_MODEL:
        raise ValueError(
            f"predictor={number} is not supported with compression={codec!r}, which models pixels itself. Drop "
            "predictor= (or set predictor=1) for this codec."
        )
    if number == 3 and dtype.kind != "f":
        raise ValueError(f"predictor=3 (floating-point) requires float data, got dtype={dtype}")
    # Readers do not undo it where libtiff has none: the pixels would be wrong everywhere else.
    return 1 if codec in ("none", "packbits") else number


def block_options(tiled: Any, tile_size: Any, cog: Any, interleave: Any) -> Options:
    """Tiles or strips, cloud optimized or plain, bands together or apart."""
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
    """The overviews of a COG; other files have none."""
    if not cog:
        if levels is not None and np.size(levels):
            warnings.warn(
                f"overview_levels={levels} is ignored without cog=True: only a COG has overviews. Pass cog=True, or "
                "drop it.",
                UserWarning,
                stacklevel=3,
            )
        return {"overviews": None}
    if not isinstance(resampling, str) or resampling not in RESAMPLING:
        raise ValueError(f"Unknown overview resampling method: {resampling!r}. Use one of: {RESAMPLING}")
    options: Options = {"overviews": "auto" if levels is None else _factors(levels, raster)}
    # The mean of two classes is a third.
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
