"""Applies nodata, scale and type to the samples of a file. The engine decides which sample is nodata."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _swath
from ..errors import InvalidIntegerNodataError, MalformedScaleOffsetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from .._swath import Description, UnpackRule
    from .attrs import Metadata

Number = int | float
Factor = float | tuple[float, ...]
"""A scale or an offset: one for all bands, or one per band of the result if they differ."""


def parse_nodata(text: str | None) -> Number | None:
    """Returns the number in a nodata text, as written; None if it has none."""
    return None if text is None else _swath.nodata_number(text)


def matchable(nodata: Number | None, dtype: np.dtype[Any]) -> Number | None:
    """Returns the nodata value as a sample of a type; None if no sample can equal it."""
    return None if nodata is None else _swath.match_nodata(nodata, _name(dtype))[1]


def _name(dtype: np.dtype[Any]) -> str:
    """Returns the engine's name of the type; bool is stored as bytes."""
    return "uint8" if dtype.kind == "b" else dtype.name


def check_integer_nodata(nodata: Number | None, dtype: np.dtype[Any]) -> None:
    """Raises an error for a nodata value that no integer can equal: masking would have no effect without any notice."""
    kind = "value" if nodata is None else _swath.match_nodata(nodata, _name(dtype))[0]
    if kind in ("value", "out of range"):
        return
    raise InvalidIntegerNodataError(
        f"GeoTIFF declares GDAL_NODATA={nodata!r} ({kind}) on a {dtype.name} source: no integer pixel can have that "
        "value, so masking would silently do nothing. Pass allow_invalid_nodata=True to read the pixels as they "
        f"are, or write the file again with a whole number that fits {dtype.name}."
    )


def check_cast(source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Raises an error for a cast that silently loses information: fractions, NaN, imaginary parts."""
    lossy = {"f": ("iu", "float", "int", "fractional data"), "c": ("iuf", "complex", "real", "the imaginary part")}
    kinds, from_, to, what = lossy.get(source.kind, ("", "", "", ""))
    if target.kind in kinds:
        raise ValueError(
            f"Cannot cast {from_} ({source.name}) to {to} ({target.name}). This loses {what} and is usually "
            "unintentional. Cast explicitly after reading if you really want this."
        )


@dataclass(frozen=True)
class Finish:
    """Converts samples from the type of the file to that of the result: nodata to NaN, scale and offset, then the
    cast.
    """

    source: np.dtype[Any]
    """Type of the samples in the file."""
    dtype: np.dtype[Any]
    """Type of the result."""
    sentinel: Number | None = None
    """The sample that means nodata (see `matchable`), or None."""
    masked: bool = False
    """Whether the sentinel becomes NaN; False if there is no sentinel."""
    scale: Factor = 1.0
    offset: Factor = 0.0
    """Both are tuples if either is."""
    by_mask: bool = False
    """Whether pixels that the mask of the file marks as invalid become NaN."""
    promoted: np.dtype[Any] | None = None
    """The type for masking and scaling, even if nothing is masked; None chooses it."""

    @classmethod
    def of(
        cls,
        source: np.dtype[Any],
        nodata: Number | None,
        *,
        masked: bool = False,
        scaling: Sequence[tuple[float, float]] = (),
        by_mask: bool = False,
        dtype: Any = None,
        promoted: np.dtype[Any] | None = None,
    ) -> Finish:
        """Returns the conversion for a sample type, the nodata value of the file, and the options of the caller.

        `scaling` holds the scale and offset of each band of the result; it is empty for no scaling.
        """
        scale, offset = _factors(scaling)
        sentinel = matchable(nodata, source)
        way = cls(source, source, sentinel, masked and sentinel is not None, scale, offset, by_mask, promoted)
        if dtype is None:
            return way if way.work == source else replace(way, dtype=way.work)
        target = np.dtype(dtype)
        check_cast(way.work, target)
        return replace(way, dtype=target)

    @property
    def scaled(self) -> bool:
        return self.scale != 1.0 or self.offset != 0.0

    def of_bands(self, indices: Sequence[int]) -> Finish:
        """Returns the conversion for some of the bands, by their index in the result."""
        if not isinstance(self.scale, tuple) or not isinstance(self.offset, tuple):
            return self
        # Tuples even if the selected bands have equal factors, so that the arithmetic is that of the whole array.
        return replace(self, scale=tuple(self.scale[i] for i in indices), offset=tuple(self.offset[i] for i in indices))

    @property
    def native(self) -> np.dtype[Any]:
        """The type of the result without any conversion: that of the file, except float16, which becomes float32."""
        return np.dtype(np.float32) if self.source.char == "e" else self.source

    @property
    def work(self) -> np.dtype[Any]:
        """The type for masking and scaling: integers need float64, for NaN and for their width."""
        if self.promoted is not None:
            return self.promoted
        promoted = self.source.kind in "iub" and (self.masked or self.scaled or self.by_mask)
        return np.dtype(np.float64) if promoted else self.native

    def apply(
        self,
        raw: npt.NDArray[Any],
        valid: npt.NDArray[Any] | None = None,
        *,
        bands_last: bool = True,
        exempt: Sequence[int] = (),
    ) -> npt.NDArray[Any]:
        """Returns the result for a block of samples and its mask (0 means missing). May write into `raw`.

        Samples are (y, x), (y, x, band) or, with bands_last=False, (band, y, x). The mask is (y, x); it does not
        apply to the bands with the indices `exempt`.
        """
        return self.apply_and_look(raw, valid, bands_last=bands_last, exempt=exempt)[0]

    def apply_and_look(
        self,
        raw: npt.NDArray[Any],
        valid: npt.NDArray[Any] | None = None,
        *,
        bands_last: bool = True,
        exempt: Sequence[int] = (),
    ) -> tuple[npt.NDArray[Any], bool]:
        """Like `apply`; also returns whether nodata occurred."""
        raw = raw.astype(self.native, copy=False)
        if raw.dtype.kind == "c":
            with np.errstate(invalid="ignore"):
                pixels, hit = self.apply_with(np, raw, valid, bands_last=bands_last, exempt=exempt)
            return pixels, bool(hit)
        replaced = self.masked and not math.isnan(self.sentinel or 0)
        if not replaced:
            seen = self.sentinel is not None and _swath.contains(raw, self.sentinel)
        out = raw
        if replaced or self.scaled or self.work != raw.dtype:
            out = raw if raw.dtype == self.work else np.empty(raw.shape, self.work)
            sentinel = self.sentinel if replaced else None
            hit = self._unpack(raw, out, sentinel, bands_last)
            seen = hit if replaced else seen
        if valid is not None:
            np.copyto(out, math.nan, where=_holes(valid, out.shape, bands_last, exempt))
        return out.astype(self.dtype, copy=False), seen

    def _unpack(self, raw: npt.NDArray[Any], out: npt.NDArray[Any], sentinel: Number | None, bands_last: bool) -> bool:
        """Masks and scales `raw` into `out`, which may be the same array; returns whether nodata occurred."""
        scale, offset = self.scale, self.offset
        if not isinstance(scale, tuple) or not isinstance(offset, tuple):
            return _swath.unpack(raw, out, sentinel=sentinel, scale=scale, offset=offset)  # type: ignore[arg-type]
        if not bands_last:
            bands = zip(raw, out, scale, offset, strict=True)
            return any([_swath.unpack(a, b, sentinel=sentinel, scale=s, offset=o) for a, b, s, o in bands])
        seen = _swath.unpack(raw, out, sentinel=sentinel)
        # Repeats the factors for a whole row, so that numpy's inner loops are as long as rows, not as bands.
        rows = out.reshape(out.shape[0], -1)
        width = rows.shape[1] // len(scale)
        rows *= np.tile(np.asarray(scale, out.dtype), width)
        rows += np.tile(np.asarray(offset, out.dtype), width)
        return seen

    @property
    def device_rule(self) -> UnpackRule | None:
        """The part of the conversion that a kernel does during a read to a device: nodata, scale and offset, and the
        result as float32 or float64. None for complex samples, which no kernel converts.
        """
        if self.source.kind == "c":
            return None
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,)
        offsets = self.offset if isinstance(self.offset, tuple) else (self.offset,)
        factors = tuple(zip(scales, offsets, strict=True)) if self.scaled else ()
        # The kernel computes with integers as float64, which would round those of 64 bits twice on the way to float32.
        once = self.work.kind == "f" or self.source.itemsize <= 4 or self.dtype == np.float64
        target = self.dtype if once and self.dtype in (np.float32, np.float64) else self.work
        return self.sentinel, self.masked, factors, _name(target)

    def after_device(self, xp: Any, pixels: Any, valid: Any = None) -> Any:
        """Applies what `device_rule` leaves to an array module (cupy): the mask of the file, and other casts."""
        if valid is not None:
            holes = xp.asarray(_holes(valid, pixels.shape, True, ()))
            pixels = xp.where(holes, pixels.dtype.type(math.nan), pixels)
        return pixels.astype(self.dtype, copy=False)

    def apply_with(
        self, xp: Any, raw: Any, valid: Any = None, *, bands_last: bool = True, exempt: Sequence[int] = ()
    ) -> tuple[Any, Any]:
        """Like `apply_and_look`, with the functions of an array module (cupy), for samples that are not in host
        memory.

        The second value is a zero-dimensional array of that module.
        """
        raw = raw.astype(self.native, copy=False)
        hit = xp.zeros((), bool) if self.sentinel is None else raw == raw.dtype.type(self.sentinel)
        if self.sentinel is not None and math.isnan(self.sentinel):
            hit = xp.isnan(raw)
        out = raw.astype(self.work, copy=False)
        if self.scaled:
            scale, offset = (xp.asarray(factor, dtype=out.dtype) for factor in (self.scale, self.offset))
            if scale.ndim and not bands_last:
                scale, offset = scale[:, None, None], offset[:, None, None]
            out = out * scale + offset
        if self.masked and self.sentinel is not None:
            out = xp.where(hit, out.dtype.type(math.nan), out)
        if valid is not None:
            holes = xp.asarray(_holes(valid, out.shape, bands_last, exempt))
            out = xp.where(holes, out.dtype.type(math.nan), out)
        return out.astype(self.dtype, copy=False), hit.any()


def _holes(valid: Any, shape: tuple[int, ...], bands_last: bool, exempt: Sequence[int]) -> Any:
    """Returns where the mask is 0, in a shape that broadcasts to pixels with or without a band axis."""
    holes = valid == 0
    if len(shape) == 2:
        return holes
    holes = holes[..., None] if bands_last else holes[None]
    if not exempt:
        return holes
    axis = -1 if bands_last else 0
    applies = ~np.isin(np.arange(shape[axis]), exempt)
    return holes & (applies if bands_last else applies[:, None, None])


def _factors(scaling: Sequence[tuple[float, float]]) -> tuple[Factor, Factor]:
    """Returns scales and offsets; single numbers if all bands have the same."""
    if not scaling:
        return 1.0, 0.0
    if all(pair == scaling[0] for pair in scaling):
        return scaling[0]
    return tuple(scale for scale, _ in scaling), tuple(offset for _, offset in scaling)


def scaling(description: Description, chosen: Sequence[int]) -> list[tuple[float, float]]:
    """Returns SCALE and OFFSET of each selected band; 1 and 0 if the file has none."""
    metadata, bands = description["gdal_metadata"], description["band_info"]
    if metadata is None:
        raise MalformedScaleOffsetError(
            "GDAL_METADATA XML is malformed and could not be parsed. unpack=True cannot honour the scale / offset "
            "it may declare, so the read is refused rather than returning raw, unscaled pixels."
        )
    pairs = []
    for band in chosen:
        scale = _of_band("SCALE", metadata, band, bands[band]["scale"], 1.0)
        offset = _of_band("OFFSET", metadata, band, bands[band]["offset"], 0.0)
        if scale == 0 or not math.isfinite(scale):
            raise MalformedScaleOffsetError(
                f"GDAL_METADATA SCALE is {scale!r}. unpack=True cannot honour a zero or non-finite SCALE: applying it "
                "destroys the data and it has no inverse for pack=True."
            )
        if not math.isfinite(offset):
            raise MalformedScaleOffsetError(
                f"GDAL_METADATA OFFSET is {offset!r}. unpack=True cannot honour a non-finite OFFSET."
            )
        pairs.append((scale, offset))
    return pairs


def _of_band(name: str, metadata: Metadata, band: int, known: float | None, plain: float) -> float:
    """Returns the value for a band. A value for the whole file takes precedence."""
    if name in metadata:
        return _factor(name, metadata[name])
    text = metadata.get((name, band))
    tagged = plain if text is None else _factor(name, text)
    # The engine may take the value from the vertical CRS or from PAM, which take precedence over the tag.
    return tagged if known is None else known


def _factor(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MalformedScaleOffsetError(
            f"GDAL_METADATA {name} is not a number: {text!r}. unpack=True cannot honour a malformed {name}."
        ) from None
