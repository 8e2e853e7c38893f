"""Nodata, scale and type: what becomes of the samples of a file on their way to the user."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _swath
from ._errors import InvalidIntegerNodataError, MalformedScaleOffsetError, MixedBandMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from ._attrs import Metadata
    from ._swath import BandInfo

Number = int | float


def parse_nodata(text: str | None) -> Number | None:
    """The value of a GDAL_NODATA tag: whole numbers stay exact, other text is a float; None for what is neither."""
    if text is None:
        return None
    text = text.strip(" \t\r\n\0")
    if "#" in text:
        # As the C library of Windows once wrote them: 1.#INF, -1.#INF, 1.#QNAN, -1.#IND.
        text = text.replace("1.#INF", "inf").replace("1.#QNAN", "nan").replace("1.#IND", "nan")
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return None


def matchable(nodata: Number | None, dtype: np.dtype[Any]) -> Number | None:
    """The sentinel as samples of a type can have it; None when no sample can ever equal it."""
    if nodata is None:
        return None
    if dtype.kind in "iu":
        if isinstance(nodata, float):
            if not nodata.is_integer():
                return None
            nodata = int(nodata)
        limits = np.iinfo(dtype)
        return nodata if int(limits.min) <= nodata <= int(limits.max) else None
    try:
        wide = float(nodata)
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        narrow = float(np.float32(wide)) if dtype.char in "fF" else wide
    # Too large for the type is not infinity.
    return narrow if math.isfinite(narrow) or not math.isfinite(wide) else None


def check_integer_nodata(nodata: Number | None, dtype: np.dtype[Any]) -> None:
    """Refuse a sentinel that no integer can have: masking would do nothing, and nobody would see."""
    if not isinstance(nodata, float) or dtype.kind not in "iu" or nodata.is_integer():
        return
    kind = "fractional" if math.isfinite(nodata) else "non-finite"
    raise InvalidIntegerNodataError(
        f"GeoTIFF declares GDAL_NODATA={nodata!r} ({kind}) on a {dtype.name} source: no integer pixel can have that "
        "value, so masking would silently do nothing. Pass allow_invalid_nodata=True to read the pixels as they "
        f"are, or write the file again with a whole number that fits {dtype.name}."
    )


def check_cast(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse a cast that loses what cannot be seen afterwards: fractions, NaN, imaginary parts."""
    lossy = {"f": ("iu", "float", "int", "fractional data"), "c": ("iuf", "complex", "real", "the imaginary part")}
    kinds, from_, to, what = lossy.get(source.kind, ("", "", "", ""))
    if target.kind in kinds:
        raise ValueError(
            f"Cannot cast {from_} ({source.name}) to {to} ({target.name}). This loses {what} and is usually "
            "unintentional. Cast explicitly after reading if you really want this."
        )


@dataclass(frozen=True)
class Finish:
    """The way of samples from the file's type to the result's: sentinel to NaN, scale and offset, then the cast."""

    source: np.dtype[Any]
    """Type of the samples in the file."""
    dtype: np.dtype[Any]
    """Type of the result."""
    sentinel: Number | None = None
    """What a sample can equal to be nodata (see `matchable`), or None."""
    masked: bool = False
    """Whether the sentinel becomes NaN. False where there is none."""
    scale: float = 1.0
    offset: float = 0.0
    by_mask: bool = False
    """Whether what the file's own mask leaves out becomes NaN."""

    @classmethod
    def of(
        cls,
        source: np.dtype[Any],
        nodata: Number | None,
        *,
        masked: bool = False,
        scale: float = 1.0,
        offset: float = 0.0,
        by_mask: bool = False,
        dtype: Any = None,
    ) -> Finish:
        """For samples of a type, a file's nodata value, and what the caller asked for."""
        sentinel = matchable(nodata, source)
        way = cls(source, source, sentinel, masked and sentinel is not None, scale, offset, by_mask)
        if dtype is None:
            return replace(way, dtype=way.work)
        target = np.dtype(dtype)
        check_cast(way.work, target)
        return replace(way, dtype=target)

    @property
    def scaled(self) -> bool:
        return self.scale != 1.0 or self.offset != 0.0

    @property
    def native(self) -> np.dtype[Any]:
        """The type of the result when nothing is asked for: that of the file, but halves are floats."""
        return np.dtype(np.float32) if self.source.char == "e" else self.source

    @property
    def work(self) -> np.dtype[Any]:
        """The type in which masking and scaling happen: integers need float64, for NaN and for their own width."""
        promoted = self.source.kind in "iub" and (self.masked or self.scaled or self.by_mask)
        return np.dtype(np.float64) if promoted else self.native

    def apply(self, raw: npt.NDArray[Any], valid: npt.NDArray[np.uint8] | None = None) -> npt.NDArray[Any]:
        """The result of a block of samples, and of the mask there, 0 where there is nothing. May write into `raw`."""
        return self.apply_and_look(raw, valid)[0]

    def apply_and_look(
        self, raw: npt.NDArray[Any], valid: npt.NDArray[np.uint8] | None = None
    ) -> tuple[npt.NDArray[Any], bool]:
        """As `apply`, and whether the sentinel was there."""
        raw = raw.astype(self.native, copy=False)
        if raw.dtype.kind == "c":
            with np.errstate(invalid="ignore"):
                pixels, hit = self.apply_with(np, raw, valid)
            return pixels, bool(hit)
        replaced = self.masked and not math.isnan(self.sentinel or 0)
        if not replaced:
            seen = self.sentinel is not None and _swath.contains(raw, self.sentinel)
        out = raw
        if replaced or self.scaled or self.work != raw.dtype:
            out = raw if raw.dtype == self.work else np.empty(raw.shape, self.work)
            sentinel = self.sentinel if replaced else None
            hit = _swath.unpack(raw, out, sentinel=sentinel, scale=self.scale, offset=self.offset)
            seen = hit if replaced else seen
        if valid is not None:
            np.copyto(out, math.nan, where=_holes(valid, out.ndim))
        return out.astype(self.dtype, copy=False), seen

    def apply_with(self, xp: Any, raw: Any, valid: Any = None) -> tuple[Any, Any]:
        """As `apply_and_look` with the functions of an array module (cupy): for samples that are not in this memory.

        The second value is a zero-dimensional array of that module.
        """
        raw = raw.astype(self.native, copy=False)
        hit = xp.zeros((), bool) if self.sentinel is None else raw == raw.dtype.type(self.sentinel)
        if self.sentinel is not None and math.isnan(self.sentinel):
            hit = xp.isnan(raw)
        out = raw.astype(self.work, copy=False)
        if self.scaled:
            out = out * out.dtype.type(self.scale) + out.dtype.type(self.offset)
        if self.masked and self.sentinel is not None:
            out = xp.where(hit, out.dtype.type(math.nan), out)
        if valid is not None:
            out = xp.where(xp.asarray(_holes(valid, out.ndim)), out.dtype.type(math.nan), out)
        return out.astype(self.dtype, copy=False), hit.any()


def _holes(valid: Any, ndim: int) -> Any:
    """Where a mask has nothing, in the shape of pixels with or without a band axis."""
    holes = valid == 0
    return holes if ndim == 2 else holes[..., None]


def scaling(metadata: Metadata | None, bands: list[BandInfo], band: int | None) -> tuple[float, float]:
    """SCALE and OFFSET of a band, or of all bands when they agree."""
    if metadata is None:
        raise MalformedScaleOffsetError(
            "GDAL_METADATA XML is malformed and could not be parsed. unpack=True cannot honour the scale / offset "
            "it may declare, so the read is refused rather than returning raw, unscaled pixels."
        )
    chosen = range(len(bands)) if band is None else [band]
    scale, offset = (_agreed(name, metadata, bands, chosen) for name in ("SCALE", "OFFSET"))
    if scale == 0 or not math.isfinite(scale):
        raise MalformedScaleOffsetError(
            f"GDAL_METADATA SCALE is {scale!r}. unpack=True cannot honour a zero or non-finite SCALE: applying it "
            "destroys the data and it has no inverse for pack=True."
        )
    if not math.isfinite(offset):
        raise MalformedScaleOffsetError(
            f"GDAL_METADATA OFFSET is {offset!r}. unpack=True cannot honour a non-finite OFFSET."
        )
    return scale, offset


def _agreed(name: str, metadata: Metadata, bands: list[BandInfo], chosen: Iterable[int]) -> float:
    """The value that all chosen bands have; one for the whole file goes before those of bands."""
    if name in metadata:
        return _factor(name, metadata[name])
    known = [info["scale"] if name == "SCALE" else info["offset"] for info in bands]
    values = []
    for band in chosen:
        text, other = metadata.get((name, band)), known[band]
        plain = 1.0 if name == "SCALE" else 0.0
        tagged = plain if text is None else _factor(name, text)
        # What the engine knows may come from the place of heights or from PAM, which go before the tag.
        values.append(tagged if other is None else other)
    if any(value != values[0] for value in values if not math.isnan(value)):
        raise MixedBandMetadataError(
            f"unpack=True but the source declares distinct per-band {name} values {values}. Applying one band's "
            f"{name} to the whole array would silently corrupt the other bands. Select a single band with band= to "
            f"read it with its own {name}, or drop unpack."
        )
    return values[0]


def _factor(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MalformedScaleOffsetError(
            f"GDAL_METADATA {name} is not a number: {text!r}. unpack=True cannot honour a malformed {name}."
        ) from None
