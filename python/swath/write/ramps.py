"""Colour ramps, and the checks of the arguments that select them."""

from __future__ import annotations

import math
from typing import Any

# Nine equidistant colours of matplotlib's colormaps of these names (CC0).
RAMPS: dict[str, tuple[str, ...]] = {
    name: tuple(f"#{color}" for color in colors.split())
    for name, colors in {
        "viridis": "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725",
        "plasma": "0d0887 4c02a1 7e03a8 aa2395 cc4778 e66c5c f89540 fdc527 f0f921",
        "magma": "000004 1d1147 51127c 832681 b73779 e75263 fc8961 fec488 fcfdbf",
        "inferno": "000004 210c4a 57106e 8a226a bc3754 e45a31 f98e09 f9cb35 fcffa4",
        "cividis": "00224e 1a386f 434e6c 61656f 7d7c78 9b9476 bcae6c dec958 fee838",
        "greys": "ffffff f0f0f0 d9d9d9 bdbdbd 959595 727272 515151 242424 000000",
        "spectral": "9e0142 dd4a4c f98e52 fed481 ffffbe d6ee9b 86cfa5 3d95b8 5e4fa2",
        "terrain": "333399 0888ee 01cc66 81e680 fefe98 beac76 815e56 c1b0ac ffffff",
    }.items()
}


def ramp_of(color_ramp: Any) -> str | None:
    """Returns the name of the ramp for `color_ramp=`; True is viridis."""
    if color_ramp is None or color_ramp is False or color_ramp == "":
        return None
    if color_ramp is True:
        return "viridis"
    name = color_ramp.lower() if isinstance(color_ramp, str) else None
    if name not in RAMPS:
        raise ValueError(f"unknown color_ramp {color_ramp!r}; choose from {sorted(RAMPS)}")
    return name


def ramp_range_of(color_ramp_range: Any) -> tuple[float, float] | None:
    """Returns the two numbers of `color_ramp_range=`."""
    if color_ramp_range is None:
        return None
    wrong = f"color_ramp_range must be (lowest, highest), two finite numbers in that order, not {color_ramp_range!r}"
    try:
        low, high = color_ramp_range
    except TypeError:
        raise TypeError(wrong) from None
    except ValueError:
        raise ValueError(wrong) from None
    try:
        low, high = float(low), float(high)
    except (TypeError, ValueError) as error:
        raise type(error)(wrong) from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(wrong)
    return low, high
